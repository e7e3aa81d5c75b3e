"""Made-up requests that must all be refused: broken JSON, wrong types, wrong bytes, too much, wrong paths, broken HTTP."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

GOOD = {"q": "1 2 3", "source": "en", "target": "de"}
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=XX"


def bad_requests(number: int, seed: int = 1) -> Iterator[tuple[bytes, bytes]]:
    """So many heads and bodies, each wrong in some way, always the same for a seed."""
    draw = random.Random(seed)
    kinds = [
        _value,
        _missing,
        _broken_json,
        _deep,
        _bytes,
        _form,
        _parts,
        _too_much,
        _path,
        _method,
        _kind,
        _deepl,
        _http,
    ]
    for i in range(number):
        yield kinds[i % len(kinds)](draw)


def _request(body: bytes, kind: str = JSON, path: str = "/translate", method: str = "POST") -> tuple[bytes, bytes]:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"  # fmt: skip
    return head.encode("latin-1"), body


def _dumped(value: Any, **options: Any) -> tuple[bytes, bytes]:
    return _request(json.dumps(value).encode(), **options)


def _junk(draw: random.Random) -> Any:
    """A value that no field of text may have."""
    makers: list[Callable[[], Any]] = [
        lambda: draw.randint(1, 10**12), lambda: draw.random() + 0.1, lambda: True, lambda: {"a": draw.randint(0, 9)},
        lambda: [draw.randint(0, 9)], lambda: [None], lambda: [["a"]], lambda: {"q": {}}, lambda: ["a", 1, "b"],
    ]  # fmt: skip
    return draw.choice(makers)()


def _value(draw: random.Random) -> tuple[bytes, bytes]:
    field = draw.choice(["q", "source", "target", "format", "api_key"])
    return _dumped({**GOOD, field: _junk(draw)})


def _missing(draw: random.Random) -> tuple[bytes, bytes]:
    body = {**GOOD}
    for field in draw.sample(sorted(GOOD), draw.randint(1, 3)):
        body[field] = ""
        if draw.random() < 0.5:
            del body[field]
    return _dumped(body)


def _broken_json(draw: random.Random) -> tuple[bytes, bytes]:
    whole = json.dumps(GOOD).encode()
    cut = whole[: draw.randint(0, len(whole) - 1)]
    return _request(
        draw.choice([cut, whole + cut[:1] + b"]", b"[%s]" % whole, whole.replace(b":", b"=", 1), b"null", b"nul"])
    )


def _deep(draw: random.Random) -> tuple[bytes, bytes]:
    depth = draw.choice([10, 100, 990, 5_000, 100_000])
    opened, closed = draw.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return _request(b'{"q": "1", "source": "en", "target": "de", "x": ' + opened * depth + b"1" + closed * depth + b"}")


def _bytes(draw: random.Random) -> tuple[bytes, bytes]:
    junk = bytes(draw.randrange(128, 256) for _ in range(draw.randint(1, 50))) + b"\xff"
    if draw.random() < 0.3:
        return _request(b'{"q": "\\ud83d", "source": "en", "target": "de"}')
    return _request(b'{"q": "' + junk + b'", "source": "en", "target": "de"}')


def _form(draw: random.Random) -> tuple[bytes, bytes]:
    return _request(
        draw.choice([
            b"q=%ff%fe&source=en&target=de", b"q=&source=en&target=de", b"source=en&target=de", b"=&=&=", b"q",
            b"q=1&source=xx&target=de", b"q=1&source=en&target=de&alternatives=" + str(draw.randint(6, 10**9)).encode(),
            b"&".join(b"q%d=1" % i for i in range(600)), b"q=1&source=en&target=de&alternatives=%C2%B2",
        ]),
        FORM,
    )  # fmt: skip


def _parts(draw: random.Random) -> tuple[bytes, bytes]:
    part = b'--XX\r\nContent-Disposition: form-data; name="q"%s\r\n\r\n%s\r\n'
    return _request(
        draw.choice([
            b"--XX", part % (b"", b"1") + b"--XX--", part % (b"", b"\xff") + b"--XX--\r\n", b"\r\n" * draw.randint(1, 99),
            part % (b'; filename="a"', b"1") + b"--XX--\r\n", (part % (b"", b"1")) * 40 + b"--XX--\r\n",
            b"--XX\r\n" + b"A" * draw.randint(1, 9_000) + b": 1\r\n\r\n1\r\n--XX--\r\n", b"--XX\r\n\r\n1\r\n--XX--\r\n",
        ]),
        draw.choice([PARTS, "multipart/form-data", "multipart/form-data; boundary=" + "X" * draw.randint(1, 300)]),
        path=draw.choice(["/translate", "/detect", "/translate_file"]),
    )  # fmt: skip


def _too_much(draw: random.Random) -> tuple[bytes, bytes]:
    return draw.choice([
        lambda: _dumped({**GOOD, "q": "1" * draw.randint(5_001, 20_000)}),
        lambda: _dumped({**GOOD, "q": ["1"] * draw.randint(101, 20_000)}),
        lambda: _dumped({**GOOD, "alternatives": draw.choice([6, 10_000, 10**18, -1, 1.5, "x", [], {}, True])}),
        lambda: _request(b'{"q": "' + b"1" * (2 << 20) + b'"}'),
    ])()  # fmt: skip


def _path(draw: random.Random) -> tuple[bytes, bytes]:
    path = draw.choice([
        "/translate/", "/%2e%2e/etc/passwd", "/../../etc/passwd", "//", "/download_file/../x", "/download_file/%00",
        "/v2/", "/v3/translate", "/" + "a" * draw.randint(1, 2_000), "/translate%20", "/languages/x", "/.git/config",
    ])  # fmt: skip
    return _request(b"", path=path, method=draw.choice(["GET", "POST"]))


def _method(draw: random.Random) -> tuple[bytes, bytes]:
    return _dumped(GOOD, method=draw.choice(["PUT", "DELETE", "PATCH", "GET", "TRACE", "LINK"]))


def _kind(draw: random.Random) -> tuple[bytes, bytes]:
    kind = draw.choice(
        ["text/plain", "text/xml", "application/octet-stream", "image/png", "application/jsonp", "a/b;c"]
    )
    return _request(json.dumps(GOOD).encode(), kind)


def _deepl(draw: random.Random) -> tuple[bytes, bytes]:
    body: dict[str, Any] = {"text": ["1"], "target_lang": "DE"}
    body[draw.choice(["text", "target_lang", "source_lang", "tag_handling"])] = draw.choice(
        [5, {"a": 1}, [1], True, "xx-not-a-code-at-all", 1.5, [["1"]]]
    )
    return _dumped(body, path="/v2/translate")


def _http(draw: random.Random) -> tuple[bytes, bytes]:
    return draw.choice([
        (b"GARBAGE\r\n\r\n", b""), (b"POST /translate HTTP/9.9\r\n\r\n", b""), (b"GET / HTTP/1.1\r\nHost\r\n\r\n", b""),
        (b"POST /translate HTTP/1.1 \r\nContent-Length: x\r\n\r\n", b""), (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", b""),
    ])  # fmt: skip
