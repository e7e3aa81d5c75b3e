from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from pellucid.config import DataConfig
from pellucid.data.check import Check, check_corpus
from pellucid.data.cleaning import write_clean
from pellucid.data.corpus import Corpus
from pellucid.data.rules import DROPPED
from pellucid.data.writing import NewFile, tsv_line
from pellucid.errors import DataError


def cleaned(tmp_path: Path, content: bytes, rules=DROPPED, **options):
    """What stays and what is reported (without the heading), as lines."""
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    corpus = Corpus.from_files([str(path)], [], [], DataConfig(skip_bad=True))
    findings = check_corpus(corpus, Check(rules, **options))
    done = write_clean(corpus, findings, rules, tmp_path / "out.tsv", tmp_path / "dropped.tsv")
    kept, dropped = ((tmp_path / name).read_bytes().decode().split("\n")[:-1] for name in ("out.tsv", "dropped.tsv"))
    assert dropped[0] == "rules\tfile\tline\tsource\ttarget"
    assert done.read == len(kept) + len(dropped) - 1
    assert done.kept == len(kept)
    return kept, [line.replace(str(path), "F") for line in dropped[1:]], dict(done.dropped)


def test_what_is_dropped_and_why(tmp_path: Path) -> None:
    content = "Good day\tGuten Tag\nA bell\a\tEine Glocke\n\tnothing\nGood day\tGuten Tag\nLast one\tDer Letzte\n"
    kept, dropped, counts = cleaned(tmp_path, content.encode())
    assert kept == ["Good day\tGuten Tag", "Last one\tDer Letzte"]
    assert dropped == [
        "control\tF\t2\tA bell\a\tEine Glocke",
        "empty\tF\t3\t\tnothing",
        "duplicate\tF\t4\tGood day\tGuten Tag",
    ]
    assert counts == {"control": 1, "empty": 1, "duplicate": 1}


def test_a_pair_with_two_faults_names_both_and_is_dropped_once(tmp_path: Path) -> None:
    kept, dropped, counts = cleaned(tmp_path, b"a b\tA B\na\ac\tA\xc3\x83\xc2\xa4\n", ("control", "mojibake"))
    assert kept == ["a b\tA B"]
    assert dropped[0].startswith("mojibake,control\tF\t2\t")
    assert counts == {"control": 1, "mojibake": 1}


def test_only_the_named_rules_drop(tmp_path: Path) -> None:
    content = b"a b\tA B\na b\tA B\npage 12\tSeite 13\n"
    assert cleaned(tmp_path, content, ("numbers",))[0] == ["a b\tA B", "a b\tA B"]
    assert cleaned(tmp_path, content, ("duplicate",))[0] == ["a b\tA B", "page 12\tSeite 13"]


def test_short_good_phrases_stay(tmp_path: Path) -> None:
    """Language guesses and odd ratios are no reason to lose them."""
    content = "OK\tOK\nSave\tSpeichern\nNo\tNein, danke\nBerlin\tBerlin\nDVD\tДиск\n{n} days\t{n} Tage\n"
    assert cleaned(tmp_path, content.encode())[1] == []


def test_what_stays_is_not_changed(tmp_path: Path) -> None:
    content = '  two  spaces \t\u00a0"quoted\u2028 \r\u3000\n'.encode()
    kept, dropped, _ = cleaned(tmp_path, content)
    assert ("\n".join(kept) + "\n").encode() == content.replace(b"\r", b" ")
    assert dropped == []


def test_bad_bytes_go_whatever_the_rules(tmp_path: Path) -> None:
    kept, dropped, _ = cleaned(tmp_path, b"a\tcaf\xe9\nb\tB\n", ("numbers",))
    assert kept == ["b\tB"]
    assert dropped == ["bad-bytes\tF\t1\t\t"]


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix, opened", [("", open), (".gz", gzip.open), (".xz", lzma.open)])
def test_a_new_file_is_compressed_by_its_suffix(tmp_path: Path, suffix: str, opened) -> None:
    path = tmp_path / f"pairs.tsv{suffix}"
    for _ in range(2):
        with NewFile(path) as file:
            file.write("tä\u2028\n")
    with opened(path, "rb") as file:
        assert file.read() == "tä\u2028\n".encode()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_the_same_text_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with NewFile(tmp_path / name) as file:
            file.write("x" * 1000)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_an_error_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("old")
    with pytest.raises(KeyError), NewFile(path) as file:  # noqa: PT012
        file.write("new")
        raise KeyError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"), NewFile(tmp_path / "absent" / "x.tsv"):
        pass


def test_a_device_stays_one() -> None:
    with NewFile("/dev/null") as file:
        file.write("x")
    assert Path("/dev/null").is_char_device()


def test_fields_cannot_break_a_line() -> None:
    assert tsv_line("a\tb", "c\nd\re", None, "") == "a b\tc d e\t\t\n"
