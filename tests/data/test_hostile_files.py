"""Files made to hurt: refused or bounded, in little memory, and never a crash."""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
from shared_formats import tmx_memory, xliff_file

from pellucid.config import DataConfig
from pellucid.data.formats.document import document_reader
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.registry import reader_for
from pellucid.errors import DataError

EN_DE = DataConfig(source_language="en", target_language="de")
MOST_MEGABYTES = 300
UNIT = {
    ".tmx": '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>x</seg></tuv></tu>',
    ".xlf": "<trans-unit id='1'><source>{}</source><target>x</target></trans-unit>",
}


def file_of(suffix: str, text: str, declarations: str = "") -> str:
    unit = UNIT[suffix].format(text)
    whole = tmx_memory(unit) if suffix == ".tmx" else xliff_file(unit)
    root = "tmx" if suffix == ".tmx" else "xliff"
    return whole.replace("?>\n", f"?>\n<!DOCTYPE {root} {declarations}>\n", 1) if declarations else whole


@pytest.fixture
def read(tmp_path: Path):
    def read_file(content: str | bytes, suffix: str) -> list[SentencePair]:
        path = tmp_path / f"hostile{suffix}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(reader_for(str(path))(str(path), EN_DE))

    return read_file


BOMB = "[" + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "ha"}">' for i in range(10)) + "]"


@pytest.mark.parametrize("suffix", UNIT)
@pytest.mark.parametrize(
    "declarations, text",
    [
        (BOMB, "&a9;"),
        ('[<!ENTITY x SYSTEM "file:///etc/hostname">]', "&x;"),
        ('[<!ENTITY x SYSTEM "http://127.0.0.1:9/x">]', "&x;"),
        ('[<!ENTITY % x SYSTEM "file:///etc/hostname"> %x;]', ""),
        ("[<!ENTITY % x \"<!ENTITY y 'z'>\"> %x;]", "&y;"),
    ],
    ids=["bomb", "file", "network", "parameter", "nested"],
)
def test_entity_declarations_are_refused(read, suffix, declarations, text):
    with pytest.raises(DataError, match="must not declare entities") as caught:
        read(file_of(suffix, text, declarations), suffix)
    assert caught.value.line == 2


@pytest.mark.parametrize("suffix", UNIT)
@pytest.mark.parametrize("declarations", ['SYSTEM "/nowhere/x.dtd"', 'PUBLIC "-//x" "http://127.0.0.1:9/x.dtd"', "[]"])
def test_a_document_type_is_allowed_and_never_fetched(read, suffix, declarations):
    pairs = read(file_of(suffix, "tea", declarations), suffix)
    assert [pair[:2] for pair in pairs] == [("tea", "x")]


@pytest.mark.parametrize("suffix", UNIT)
def test_attributes_of_a_document_type_are_not_those_of_the_file(read, suffix):
    many = "".join(f'a{i} CDATA "{"x" * 100}" ' for i in range(200))
    root = {".tmx": "tuv", ".xlf": "source"}[suffix]
    pairs = read(file_of(suffix, "tea", f"[<!ATTLIST {root} {many}>]"), suffix)
    assert pairs[0].source == "tea"


@pytest.mark.parametrize("suffix", UNIT)
@pytest.mark.parametrize("element", ["x", "g", "ph", "tu", "group", "seg"])
def test_nesting_is_bounded(read, suffix, element):
    deep = f"<{element}>" * 10_000 + f"</{element}>" * 10_000
    with pytest.raises(DataError, match="nested more than 200 deep"):
        read(file_of(suffix, deep), suffix)


@pytest.mark.parametrize("suffix", UNIT)
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_file_that_ends_within_a_character_is_an_error(read, suffix, codec):
    whole = ("\ufeff" + file_of(suffix, "tea 😀").strip()).encode(codec)
    for cut in (1, 2, 3, len(whole) // 2, len(whole) - 4):
        with pytest.raises(DataError):
            read(whole[: len(whole) - cut], suffix)
    assert read(whole, suffix)[0].source == "tea 😀"


@pytest.mark.parametrize("suffix", UNIT)
@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"<", b"<?xml version='1.0' encoding='hex'?><a/>",
     b"<?xml version='1.0' encoding='nonesuch'?><a/>", b"<?xml version='1.0' encoding='utf-8'?><a>\xff</a>",
     b"<?xml version='1.0' encoding='idna'?><a>\xff</a>", b"\x1f\x8b\x08\x00", b"<a>\xed\xa0\x80</a>"],
)  # fmt: skip
def test_what_is_no_xml_is_an_error_that_names_the_file(read, suffix, content):
    with pytest.raises(DataError, match=f"hostile\\{suffix}"):
        read(content, suffix)


@pytest.mark.parametrize("suffix", [".tmx", ".xlf", ".po", ".mo", ".csv", ".jsonl"])
@pytest.mark.parametrize("packing", [".gz", ".xz"])
def test_a_broken_archive_is_an_error(read, suffix, packing):
    packed = (gzip if packing == ".gz" else lzma).compress(os.urandom(5000))
    for damaged in (packed[:2000], packed[:-4], b"no archive", packed[:200] + bytes(40) + packed[240:]):
        with pytest.raises(DataError, match=f"hostile\\{suffix}"):
            read(damaged, suffix + packing)


ENDLESS = '''
import io, sys
from pellucid.config import DataConfig
from pellucid.data.formats import lines, xml_stream
from pellucid.data.formats.registry import reader_for
from pellucid.errors import DataError

suffix, size = sys.argv[1], int(float(sys.argv[2]))
head, middle, tail = (part.encode() for part in sys.argv[3:6])


class Endless(io.RawIOBase):
    """head, then `size` bytes of middle, over and over, then tail."""

    def __init__(self):
        self.left, self.rest, self.ended = size, head, False

    def readable(self):
        return True

    def readinto(self, buffer):
        if not self.rest:
            if self.left > 0:
                self.rest = middle * (65536 // len(middle))
                self.left -= len(self.rest)
            elif not self.ended:
                self.rest, self.ended = tail, True
        n = min(len(buffer), len(self.rest))
        buffer[:n], self.rest = self.rest[:n], self.rest[n:]
        return n


for module in (lines, xml_stream):
    module.open_bytes = lambda path: io.BufferedReader(Endless(), 1 << 18)
try:
    config = DataConfig(source_language="en", target_language="de")
    count, first = 0, None
    for count, pair in enumerate(reader_for("x" + suffix)("x" + suffix, config), 1):
        first = first or (pair.source, pair.problem)
    print(count, first)
except DataError as error:
    print(error)
with open("/proc/self/status") as status:  # getrusage would count what the parent had when it started this process
    print(next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024)
'''


def endless(suffix: str, size: float, head: str, middle: str, tail: str) -> tuple[str, int]:
    """What reading says of a file with so many bytes of `middle` in it, and how many MB it took."""
    if not Path("/proc/self/status").exists():
        pytest.skip("memory is read from /proc")
    source = Path(__file__).resolve().parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS, suffix, str(size), head, middle, tail],
        env={**os.environ, "PYTHONPATH": str(source)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said, peak = done.stdout.strip().rsplit("\n", 1)
    return said, int(peak)


def test_a_text_of_a_gigabyte_is_one_broken_unit():
    head, tail = file_of(".tmx", "|").split("|")
    said, peak = endless(".tmx", 1e9, head, "word ", tail)
    assert said == "1 (None, 'a text of more than 1,048,576 characters')"
    assert peak < MOST_MEGABYTES


def test_a_unit_of_a_gigabyte_is_refused():
    head, tail = file_of(".xlf", "|").split("|")
    said, peak = endless(".xlf", 1e9, head, "word ", tail)
    assert said.endswith("must not have a unit of more than 64 MB")
    assert peak < MOST_MEGABYTES


@pytest.mark.parametrize(
    "before, middle, after",
    [("<x a='", "a", "'/>"), ("<!--", "a", "-->"), ("<", "a", "/>"), ("<?x ", "a", "?>")],
    ids=["attribute", "comment", "name", "instruction"],
)
@pytest.mark.parametrize("suffix", UNIT)
def test_a_tag_without_end_is_refused(suffix, before, middle, after):
    head, tail = file_of(suffix, f"{before}|{after}").split("|")
    said, peak = endless(suffix, 2e8, head, middle, tail)
    assert "must not have a tag, comment or declaration of more than 4 MB" in said
    assert peak < MOST_MEGABYTES


@pytest.mark.parametrize("suffix, head", [(".po", 'msgid "'), (".jsonl", '{"source": "'), (".csv", 'source,target\n"')])
def test_a_line_without_end_is_refused(suffix, head):
    said, peak = endless(suffix, 3e8, head, "a", '"')
    assert said.endswith("must not be longer than 16 MB")
    assert peak < MOST_MEGABYTES


def test_an_entry_without_end_is_refused():
    said, peak = endless(".po", 1e9, 'msgid "a"\n', '"a"\n', "")
    assert said.endswith("must not have an entry of more than 8 MB")
    assert peak < MOST_MEGABYTES


@pytest.mark.parametrize("piece", ["[],", "1,", '{"a":', '"\\u0041",'])
def test_a_large_line_of_json_is_broken(piece):
    said, peak = endless(".jsonl", 8e6, '{"source": [', piece, "\n")
    assert said == "1 (None, 'an object of more than 4,194,304 characters')"
    assert peak < MOST_MEGABYTES


def test_a_line_of_tabs_takes_little_memory():
    said, peak = endless(".tsv", 16e6, "", "\t", "")
    assert "must have 2 columns" in said
    assert peak < MOST_MEGABYTES


@pytest.mark.parametrize(
    "head, middle, size, said",
    [
        ('source,target\n"', "word " * 40 + "\n", 3e7, "field larger than field limit (131072)"),
        ("source,target\n", ",", 1.5e7, "more than 1,048,576 characters"),
        ('source,target\n"', 'a\n","', 2.5e6, "more than 1,048,576 characters"),
    ],
    ids=["open quote", "fields of a line", "fields of many lines"],
)
def test_a_record_of_csv_without_end_is_broken(head, middle, size, said):
    told, peak = endless(".csv", size, head, middle, "")
    assert told.endswith(f"(None, 'no record of CSV: {said}')")
    assert peak < 120


def test_a_header_of_csv_without_end_is_refused(read):
    with pytest.raises(DataError, match="must name the columns, but has more than 1,048,576 characters") as caught:
        read("," * 1_100_000, ".csv")
    assert caught.value.line == 1


def test_reading_csv_goes_on_after_a_broken_record(read):
    pairs = read("source,target\na,A\n" + "," * 1_100_000 + '\nb,B\n"c\nd","C"\ne,E\n', ".csv")
    assert [(pair.source, pair.line) for pair in pairs] == [("a", 2), (None, 3), ("b", 4), ("c\nd", 5), ("e", 7)]
    assert pairs[1].problem == "no record of CSV: more than 1,048,576 characters"


def test_many_elements_take_no_memory():
    head, tail = file_of(".tmx", "tea").split("<tu>")
    said, peak = endless(".tmx", 5e7, head, "<x y='z'/>", "<tu>" + tail)
    assert said == "1 ('tea', None)"
    assert peak < 100


@pytest.mark.parametrize("suffix", [".tmx", ".xlf"])
def test_writers_refuse_what_readers_refuse(tmp_path, suffix):
    path = tmp_path / f"bomb{suffix}"
    path.write_text(file_of(suffix, "&a9;", BOMB))
    with pytest.raises(DataError, match="must not declare entities"):
        list(document_reader(str(path))(str(path), EN_DE))
