from __future__ import annotations

import gzip
import io
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.formats.lines import open_bytes, read_lines
from pellucid.errors import DataError, EncodingError


def texts(path: Path, **options: bool) -> list[str | None]:
    return [line.text for line in read_lines(str(path), **options)]


@pytest.fixture
def write(tmp_path: Path):
    def write_bytes(data: bytes, name: str = "text.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write_bytes


@pytest.mark.parametrize(
    "separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r", "\0", "\ufeff"]
)
def test_a_separator_inside_a_line_adds_no_lines(write, separator):
    path = write(f"one\ntw{separator}o\nthree\n".encode())
    assert texts(path) == ["one", f"tw{separator}o", "three"]


@pytest.mark.parametrize(
    "data, lines",
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\n", ["a\r"]),
        (b"a\r", ["a"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\n", [""]),
    ],
)
def test_lines_of_bytes(write, data, lines):
    assert texts(write(data)) == lines


@given(data=st.lists(st.sampled_from([b"\n", b"\r", b"\xef\xbb\xbf", b"a", b"\xc3\xa9", b"\x00", b"\xe2\x80\xa8"])))
@settings(max_examples=200, deadline=None)
def test_lines_agree_with_splitting_the_bytes(tmp_path_factory, data):
    content = b"".join(data)
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes(content)
    whole = content.removeprefix(b"\xef\xbb\xbf")
    expected = whole.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert texts(path) == [line.removesuffix(b"\r").decode() for line in expected]


def test_latin_1_is_named_by_file_line_and_byte(write):
    path = write(b"tea\ncaf\xe9\nmilk\n")
    with pytest.raises(EncodingError) as caught:
        texts(path)
    error = caught.value
    assert (error.file, error.line, error.byte) == (str(path), 2, 3)
    assert str(error).startswith(f"{path}:2: must be UTF-8, but byte 3 of the line (from 0) is 0xe9")
    assert error.hint is not None
    assert "--skip-bad" in error.hint


def test_bad_lines_keep_their_place_when_skipped(write):
    lines = list(read_lines(str(write(b"tea\ncaf\xe9\nmilk\n")), skip_bad=True))
    assert [(line.number, line.text) for line in lines] == [(1, "tea"), (2, None), (3, "milk")]
    assert lines[1].error is not None
    assert lines[1].error.line == 2


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_recognised_in_the_hint(write, encoding):
    with pytest.raises(EncodingError) as caught:
        texts(write(("\ufeff" + "two words\n").encode(encoding)))
    assert "UTF-16" in (caught.value.hint or "")


@pytest.mark.parametrize("bad", [b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc3"])
def test_utf_8_is_strict(write, bad):
    with pytest.raises(EncodingError):
        texts(write(b"a" + bad))


@pytest.mark.parametrize("suffix, compress", [(".gz", gzip.compress), (".xz", lzma.compress), (".GZ", gzip.compress)])
def test_compressed_files_are_read_by_suffix(write, suffix, compress):
    path = write(compress(b"\xef\xbb\xbfone\r\ntw\xe2\x80\xa8o\r\n"), "text" + suffix)
    assert texts(path) == ["one", "tw\u2028o"]


@pytest.mark.parametrize("suffix, compress", [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_broken_archive_is_an_error_that_names_the_file(write, suffix, compress):
    whole = compress(os.urandom(5000).hex().encode())
    for data in (whole[: len(whole) // 2], b"no archive", whole[:200] + b"\xff" * 40 + whole[240:]):
        path = write(data, "text" + suffix)
        with pytest.raises(DataError, match="cannot be read after line") as caught:
            texts(path)
        assert caught.value.file == str(path)


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(DataError, match="No such file") as caught:
        open_bytes(str(tmp_path / "absent"))
    assert str(caught.value).startswith(str(tmp_path / "absent"))


def test_standard_input_streams_and_stays_open(monkeypatch):
    class Slow(io.RawIOBase):
        """Gives one line at a time, and fails the test if asked before the last one was used."""

        def __init__(self) -> None:
            self.given, self.used = 0, 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer) -> int:
            assert self.given == self.used
            if self.given == 3:
                return 0
            self.given += 1
            buffer[:2] = b"a\n"
            return 2

    slow = Slow()
    stdin = io.TextIOWrapper(io.BufferedReader(slow))
    monkeypatch.setattr(sys, "stdin", stdin)
    for line in read_lines("-"):
        assert line.text == "a"
        slow.used += 1
    assert slow.used == 3
    assert not stdin.closed


def test_the_locale_does_not_matter(write):
    path = write("gr\u00fc\u00dfe\n\u4f60\u597d\n".encode())
    code = (
        "import sys\nfrom pellucid.data.formats.lines import read_lines\n"
        "print(ascii([t for _, t, _ in read_lines(sys.argv[1])]), ascii([t for _, t, _ in read_lines('-')]))"
    )
    source = Path(__file__).resolve().parents[2] / "src"
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(source)}
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        input=path.read_bytes(),
        env=environment,
        capture_output=True,
        check=True,
    )
    assert run.stdout.decode().split("] ")[0] + "]" == ascii(["gr\u00fc\u00dfe", "\u4f60\u597d"])
    assert run.stdout.decode().count("u4f60") == 2


def test_no_torch_is_needed_to_read_data():
    code = (
        "import sys, pellucid.data.batching, pellucid.data.corpus; "
        "assert not any(m.split('.')[0] == 'torch' for m in sys.modules)"
    )
    source = Path(__file__).resolve().parents[2] / "src"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(source)}, check=True)
