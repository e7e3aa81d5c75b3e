"""Many at once, slow ones, those who leave, the end of the server, and a document that says what is answered."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli.serve import _listening
from pellucid.server import protocol
from pellucid.server import service as service_module
from pellucid.server.limits import Limits
from server.shared import Client, raw, received, resident_megabytes, serving

GOOD = {"q": "1 2 3", "source": "en", "target": "de"}


@pytest.fixture(scope="module")
def client(reverser) -> Iterator[Client]:
    limits = Limits(body_seconds=1.0, queue_seconds=30.0)
    with serving(f"en:de={reverser}", limits=limits) as client:
        yield client


def ask(client: Client, **fields: Any) -> Any:
    return client.ask("/translate", {**GOOD, **fields}).json["translatedText"]


# --- many at once -----------------------------------------------------------------------------------------------------


def test_two_hundred_at_once_get_what_each_would_get_alone(client):
    draw = random.Random(1)
    texts = [" ".join(draw.choice("0123456789") for _ in range(draw.randint(1, 8))) for _ in range(200)]
    alone = [client.inspector.translator.translate([text])[0].text for text in texts]
    batches = next(iter(client.service.models.values())).batcher.batches
    with ThreadPoolExecutor(200) as pool:
        together = list(pool.map(lambda text: ask(client, q=text), texts))
    assert together == alone
    assert next(iter(client.service.models.values())).batcher.batches - batches < 150  # they were put together


def test_the_page_and_programs_do_not_disturb_each_other(client):
    expected = ask(client)
    with ThreadPoolExecutor(8) as pool:
        page = [pool.submit(client.ask, "/api/translate", {"text": "1 2 3", "off": ["cross.1.1"]}) for _ in range(8)]
        programs = [pool.submit(ask, client) for _ in range(40)]
        assert {p.result() for p in programs} == {expected}
        assert {p.result().status for p in page} == {200}


def test_memory_stays(client):
    """In small; benchmarks/serving.py --memory does it with thousands."""
    for _ in range(200):
        ask(client)
    before = resident_megabytes()
    for i in range(600):
        ask(client, q=[f"{i % 10} {i % 7}"] * (1 + i % 3))
    assert resident_megabytes() < before * 1.1


def test_an_answer_is_not_held_back_for_an_acknowledgement(client):
    """Nagle's algorithm and delayed acknowledgements together cost 40 ms a request on a connection that stays open."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port)
    seconds = []
    for _ in range(60):  # a new connection's first answers are acknowledged at once
        started = time.perf_counter()
        connection.request("POST", "/detect", b"q=1", {"Content-Type": "application/x-www-form-urlencoded"})
        assert connection.getresponse().read()
        seconds.append(time.perf_counter() - started)
    connection.close()
    assert min(seconds[40:]) < 0.03  # each of them would be late


# --- those who leave, and those who dawdle ------------------------------------------------------------------------------


def hold(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, list[list[str]]]:
    """Translating stops until the event is set; and what was translated."""
    go, seen, real = threading.Event(), [], service_module.translate

    def slow(translator: Any, texts: list[str], *rest: Any) -> Any:
        seen.append(list(texts))
        assert go.wait(30)
        return real(translator, texts, *rest)

    monkeypatch.setattr(service_module, "translate", slow)
    return go, seen


def post(body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    return (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(content), content)
    )


def until(condition: Any) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


def test_whose_client_leaves_is_translated_no_more(client, monkeypatch):
    go, seen = hold(monkeypatch)
    batcher = next(iter(client.service.models.values())).batcher
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, client, q="1")
        until(lambda: seen)
        with socket.create_connection(("127.0.0.1", client.port)) as leaving:
            leaving.sendall(post({**GOOD, "q": ["8 8", "9 9"]}))
            until(lambda: batcher.waiting_tokens)
        until(lambda: not batcher.waiting_tokens)
        go.set()
        first.result()
    assert ask(client, q="2") and seen == [["1"], ["2"]]
    assert 'route="/translate",status="499"' in client.ask("/metrics").body.decode()


def test_a_socket_that_is_half_closed_harms_nobody(client):
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", client.port), timeout=5) as half:
            half.sendall(post(GOOD))
            half.shutdown(socket.SHUT_WR)
            half.settimeout(5)
            while half.recv(1000):  # an answer or an end, and no hanging
                pass
    assert ask(client)


def test_slow_clients_are_told_so_and_hold_up_nobody(client, monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 1.0)
    with ExitStack() as opened:
        slow = [
            opened.enter_context(socket.create_connection(("127.0.0.1", client.port), timeout=20)) for _ in range(50)
        ]
        for i, connection in enumerate(slow):
            # Half of them have not even finished the head.
            connection.sendall(post(GOOD)[:-3] if i % 2 else b"POST /translate HTTP/1.1\r\nHost: loc")
        started = time.perf_counter()
        assert ask(client)
        assert time.perf_counter() - started < 5
        told = received(slow[1])
        assert (told.status, told.json) == (408, {"error": "The body came too slowly"})
        assert slow[0].recv(4096) == b""  # without a whole head there is nobody to answer
    assert ask(client)


def test_health_is_answered_while_a_model_works(client, monkeypatch):
    go, seen = hold(monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(ask, client)
        until(lambda: seen)
        assert client.ask("/health").json == {"status": "ok"}
        assert client.ask("/languages").status == 200
        go.set()
        working.result()


def test_what_takes_too_long_is_ended_and_what_finds_no_room_is_told(reverser, monkeypatch):
    limits = Limits(deadline=3.0, queue_seconds=0.1, waiting_tokens=9)
    with serving(f"en:de={reverser}", limits=limits) as client:
        go, seen = hold(monkeypatch)
        with ThreadPoolExecutor(2) as pool:
            late = pool.submit(client.ask, "/translate", GOOD)
            until(lambda: seen)
            waits = pool.submit(client.ask, "/translate", {**GOOD, "q": ["1 2 3"] * 4})
            until(lambda: next(iter(client.service.models.values())).batcher.waiting_tokens)
            refused = client.ask("/translate", GOOD)
            assert (refused.status, refused.headers["retry-after"]) == (429, "10")
            assert late.result().status == 504 and "3 seconds" in late.result().json["error"]
            assert waits.result().status == 504
            go.set()
        assert client.ask("/translate", GOOD).status == 200


# --- a model that is not there (yet) --------------------------------------------------------------------------------------


def test_a_damaged_model_is_told_and_the_others_work(reverser, tmp_path, caplog):
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in reverser.iterdir():
        if file.is_file():
            (broken / file.name).write_bytes(
                file.read_bytes()[:200] if file.suffix == ".safetensors" else file.read_bytes()
            )
    with serving(f"en:de={broken}", f"de:en={reverser}") as client:
        until(lambda: client.service.models["de", "en"].ready)
        answer = client.ask("/translate", GOOD)
        assert answer.status == 503 and "could not be loaded" in answer.json["error"]
        assert client.ask("/ready").status == 503 and client.ask("/ready").json["loading"] == ["broken"]
        assert client.ask("/translate", {**GOOD, "source": "de", "target": "en"}).status == 200
    assert "cannot be loaded" in caplog.text


def test_the_page_asks_about_each_model(reverser, tmp_path):
    other = tmp_path / "other"
    other.symlink_to(reverser)
    with serving(f"en:de={reverser}", f"de:en={reverser}") as client:
        assert [x["name"] for x in client.ask("/api/models").json] == ["model", "model-2"]
        assert client.ask("/api/model?model=model-2").status == 200
        assert client.ask("/api/translate?model=model-2", {"text": "1"}).status == 200
        assert client.ask("/api/model?model=nothing").status == 404


# --- bad input ------------------------------------------------------------------------------------------------------------


def test_bad_requests_are_refused_one_and_all(client, monkeypatch):
    """In small; benchmarks/serving.py --bad does it with thousands."""
    expected = ask(client)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    for i, (head, body) in enumerate(import_module("bad_requests").bad_requests(200, seed=3)):
        answer = raw(client, head + body)
        assert 400 <= answer.status < 500, (head[:100], body[:100], answer)
        assert set(answer.json) in ({"error"}, {"message"}), (head, body[:100])
        if i % 50 == 0:
            assert ask(client) == expected
    assert ask(client) == expected


# --- the process ----------------------------------------------------------------------------------------------------------


class Process:
    """`pellucid serve` as somebody starts it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        command = [
            sys.executable,
            "-m",
            "pellucid",
            "serve",
            f"en:de={folder}",
            "--port",
            str(port),
            "--engine",
            "torch",
        ]
        self.child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        until_connected = time.monotonic() + 60
        while time.monotonic() < until_connected:
            try:
                if self.ask(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").startswith(
                    b"HTTP/1.1 200"
                ):
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError("the server did not start")

    def ask(self, sent: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(sent)
            received = b""
            while part := connection.recv(65536):
                received += part
            return received


def closing(body: dict[str, Any]) -> bytes:
    return post(body).replace(b"Host: localhost", b"Host: localhost\r\nConnection: close")


def test_it_comes_up_again_after_a_kill_and_drains_at_sigterm(reverser):
    with _listening("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    killed = Process(reverser, port)
    killed.child.kill()
    killed.child.communicate()
    server = Process(reverser, port)  # at once, on the same port
    try:
        texts = [f"{i % 10} {i % 9} {i % 8}" for i in range(100)]
        with ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(server.ask, closing({**GOOD, "q": texts})) for _ in range(4)]
            time.sleep(0.05)
            os.kill(server.child.pid, signal.SIGTERM)
            for answer in answers:
                got = answer.result()
                assert got.startswith(b"HTTP/1.1 200"), got[:100]
                assert len(json.loads(got.partition(b"\r\n\r\n")[2])["translatedText"]) == 100
        _, said = server.child.communicate(timeout=60)
        assert server.child.returncode in (0, -signal.SIGTERM)
        assert re.search("translating en to de at http://127.0.0.1", said) and "Traceback" not in said
    finally:
        server.child.kill()
        server.child.wait()
