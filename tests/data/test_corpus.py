from __future__ import annotations

import gzip
import io
import lzma
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import DataConfig
from pellucid.data.corpus import REASONS, Corpus, CorpusReport, split_valid, why_dropped
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.parallel import check_lengths, first_shifted_line
from pellucid.data.formats.registry import known_suffixes, reader_for
from pellucid.errors import AlignmentError, ConfigError, DataError, EncodingError

CONFIG = DataConfig()


def sides(corpus: Corpus) -> list[tuple[str | None, str | None]]:
    return [(pair.source, pair.target) for pair in corpus]


@pytest.fixture
def tsv(tmp_path: Path):
    def make(content: str | bytes, config: DataConfig = CONFIG, name: str = "pairs.tsv") -> Corpus:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Corpus.from_files([str(path)], [], [], config)

    return make


@pytest.fixture
def two_files(tmp_path: Path):
    def make(source: str | bytes, target: str | bytes, config: DataConfig = CONFIG) -> Corpus:
        paths = tmp_path / "text.en", tmp_path / "text.de"
        for path, content in zip(paths, (source, target), strict=True):
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Corpus.from_files([], [str(paths[0])], [str(paths[1])], config)

    return make


# --- TSV --------------------------------------------------------------------------------------------------------------


def test_a_quotation_mark_at_the_start_of_a_field_swallows_no_rows(tsv):
    rows = [("first", "erste"), ('"second', "zweite"), ('third"', '"dritte'), ('"fourth"', "vierte")]
    assert sides(tsv("".join(f"{a}\t{b}\n" for a, b in rows))) == rows


@pytest.mark.parametrize(
    "cell", ["NA", "nan", "null", "None", "True", "1e5", "007", "1,000", "-", "#N/A", "", "'", '""', "\\t", "# note"]
)
def test_cells_stay_text(tsv, cell):
    assert sides(tsv(f"{cell}\tnothing\nnothing\t{cell}\n")) == [(cell, "nothing"), ("nothing", cell)]


@pytest.mark.parametrize("line, found", [("one column", 1), ("a\tb\tc", 3)])
def test_a_wrong_number_of_columns_is_named_by_file_and_line(tsv, line, found):
    corpus = tsv(f"a\tb\n{line}\n")
    with pytest.raises(DataError, match=f"must have 2 columns.*but this has {found}") as caught:
        list(corpus)
    assert caught.value.line == 2
    assert str(caught.value).startswith(f"{corpus.inputs[0].path}:2: ")
    assert ("--columns" in (caught.value.hint or "")) == (found > 2)


def test_columns_are_chosen_from_one(tsv):
    corpus = tsv("1\tcat\tKatze\tx\n2\tdog\tHund\n", DataConfig(columns=(2, 3)))
    assert sides(corpus) == [("cat", "Katze"), ("dog", "Hund")]
    assert sides(tsv("1\tcat\tKatze\n", DataConfig(columns=(3, 2)))) == [("Katze", "cat")]
    with pytest.raises(DataError, match=r"at least 4 columns \(--columns 1,4\), but this has 3"):
        list(tsv("1\tcat\tKatze\n", DataConfig(columns=(1, 4))))


def test_pairs_know_where_they_stand(tsv):
    corpus = tsv("a\tb\nc\td\n")
    assert [(pair.file, pair.line) for pair in corpus] == [(corpus.inputs[0].path, 1), (corpus.inputs[0].path, 2)]


def test_an_empty_line_of_a_tsv_is_an_empty_pair(tsv):
    assert [why_dropped(pair) for pair in tsv("a\tb\n\n\t\nc\td\n")] == [None, "empty", "empty", None]


@pytest.mark.parametrize("suffix, compress", [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_pairs(tsv, suffix, compress):
    assert sides(tsv(compress(b"a\tb\n"), name="pairs.TSV" + suffix)) == [("a", "b")]


def test_a_text_file_as_pairs_explains_src_and_tgt(tsv):
    with pytest.raises(
        DataError, match=r"must end in .* or \.tsv or .* \(also with .gz or .xz\), but this ends in \.txt"
    ) as caught:
        tsv("a\n", name="text.txt.gz")
    assert "--src FILE --tgt FILE" in (caught.value.hint or "")


def test_a_name_without_suffix_is_refused(tsv):
    with pytest.raises(DataError, match="ends in no suffix"):
        tsv("a\n", name="text")


def test_every_known_suffix_has_a_reader():
    assert ".tsv" in known_suffixes()
    assert all(callable(reader_for("a" + suffix)) for suffix in known_suffixes())
    assert reader_for("-") is reader_for("a.tsv")


# --- two files --------------------------------------------------------------------------------------------------------


def test_two_files_are_paired_line_by_line(two_files):
    corpus = two_files("a\nb\u2028b\n\nd", "A\nB\n\x85\nD\n")
    assert sides(corpus) == [("a", "A"), ("b\u2028b", "B"), ("", "\x85"), ("d", "D")]
    corpus.check_lengths()


def test_a_windows_file_equals_its_twin(two_files):
    here = sides(two_files("a\nb b\n", "A\n\nC\n".replace("\n\n", "\n")))
    there = sides(two_files(b"\xef\xbb\xbfa\r\nb b\r\n", b"\xef\xbb\xbfA\r\nC\r\n"))
    assert here == there


def test_different_lengths_stop_before_training_with_both_counts(two_files):
    corpus = two_files("a\nb\nc\nd\n", "A\nB\nC\n")
    for read in (corpus.check_lengths, lambda: list(corpus)):
        with pytest.raises(AlignmentError, match="must have the same number of lines, but have 4 and 3; ") as caught:
            read()
        assert "text.de" in (caught.value.hint or "")


def test_a_bad_line_does_not_hide_different_lengths(two_files):
    with pytest.raises(AlignmentError, match="have 2 and 1"):
        two_files(b"caf\xe9\nb\n", b"A\n").check_lengths()


def test_the_first_shifted_line_is_named(two_files):
    random = np.random.default_rng(7)
    lengths = random.integers(3, 120, 500)
    source = ["x" * n for n in lengths]
    target = ["y" * round(n * 1.2 + random.normal(0, 2) + 3) for n in lengths]
    del target[299]
    with pytest.raises(AlignmentError) as caught:
        two_files("\n".join(source) + "\n", "\n".join(target) + "\n").check_lengths()
    words = str(caught.value).split("about line ")[1].split()
    assert abs(int(words[0]) - 300) <= 2


def test_a_file_that_ends_early_is_said_to(two_files):
    lengths = np.random.default_rng(7).integers(3, 120, 60)
    source = "".join("x" * n + "\n" for n in lengths)
    with pytest.raises(AlignmentError, match=r"text\.de ends early, the lines before fit"):
        two_files(source, "".join("y" * n + "\n" for n in lengths[:50])).check_lengths()


def test_first_shifted_line_by_hand():
    assert first_shifted_line(np.array([10, 50, 5, 80]), np.array([10, 5, 80])) == 2
    assert first_shifted_line(np.array([10, 5, 80]), np.array([10, 5, 99, 80])) == 3
    assert first_shifted_line(np.array([10, 50]), np.array([10, 50, 9])) == 3
    assert first_shifted_line(np.array([], int), np.array([1])) == 1


def test_checking_lengths_needs_little_memory(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"some words of a line\n" * 200_000)
    assert check_lengths(str(path), str(path)) == 200_000


def test_bad_bytes_stop_or_drop_the_pair(two_files):
    data = b"tea\ncaf\xe9\nmilk\n", b"Tee\nKaffee\nMilch\n"
    with pytest.raises(EncodingError, match=r"text\.en:2: must be UTF-8"):
        list(two_files(*data))
    pairs = list(two_files(*data, DataConfig(skip_bad=True)))
    assert [why_dropped(pair) for pair in pairs] == [None, "bad bytes", None]
    assert pairs[2][:2] == ("milk", "Milch")


# --- both -------------------------------------------------------------------------------------------------------------


def test_inputs_come_in_order_and_again(tsv, two_files):
    first, second = tsv("a\tA\n"), two_files("b\n", "B\n")
    corpus = Corpus(first.inputs + second.inputs, CONFIG)
    assert sides(corpus) == sides(corpus) == [("a", "A"), ("b", "B")]


@pytest.mark.parametrize(
    "blank", ["", " ", "\t\t", "\u00a0", "\u3000", "\u2009 \u2028", "\x85", "\r"], ids=lambda s: ascii(s)
)
def test_a_blank_side_drops_the_pair_and_not_the_line(two_files, blank):
    pairs = list(two_files(f"a\n{blank}\nc\nd\ne\n", f"A\nB\n{blank}\n{blank}\nE\n"))
    assert [why_dropped(pair) for pair in pairs] == [None, "empty source", "empty target", "empty target", None]
    assert pairs[4][:2] == ("e", "E")


@pytest.mark.parametrize("text", ["\u200b", "\U0001f600", "\0", "</s>", ".", "0"])
def test_odd_text_is_not_blank(text):
    assert why_dropped(SentencePair(text, text, "", 1)) is None


def test_a_report_in_words_and_as_values():
    report = CorpusReport(10, Counter({"empty": 3, "too long": 1, "ratio": 0}))
    assert report.lines() == [
        "10 pairs read, 6 kept, 4 dropped",
        "  3 empty: both sides are empty",
        "  1 too long: a side has more pieces than data.max_tokens",
    ]
    assert report.as_dict()["kept"] == 6
    assert CorpusReport.from_dict(report.as_dict()).as_dict() == report.as_dict()
    assert CorpusReport(2).lines() == ["2 pairs read, 2 kept"]
    assert set(report.dropped) <= set(REASONS)


def test_names_are_checked_before_anything_is_read(tmp_path):
    with pytest.raises(ConfigError, match="named equally often, but are named 2 and 1 times"):
        Corpus.from_files([], ["a", "b"], ["a"], CONFIG)
    with pytest.raises(ConfigError, match="must be an input"):
        Corpus.from_files([], [], [], CONFIG)
    with pytest.raises(ConfigError, match="once at most"):
        Corpus.from_files(["-"], ["-"], ["a"], CONFIG)
    with pytest.raises(DataError, match="No such file"):
        Corpus.from_files([str(tmp_path / "absent.tsv")], [], [], CONFIG)
    with pytest.raises(DataError, match="is a folder"):
        Corpus.from_files([], [str(tmp_path)], [str(tmp_path)], CONFIG)


def test_standard_input_can_be_read_again_and_keeps_its_name(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tA\nb\tB\nc\n")))
    corpus = Corpus.from_files(["-"], [], [], CONFIG)
    for _ in range(2):
        pairs = iter(corpus)
        assert next(pairs) == SentencePair("a", "A", "-", 1)
        assert next(pairs)[:2] == ("b", "B")
        with pytest.raises(DataError, match=r"^standard input:3: a line must have 2 columns"):
            next(pairs)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_can_be_read_again(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code = "import sys; open(sys.argv[1], 'wb').write(b'a\\tA\\n')"
    with subprocess.Popen([sys.executable, "-c", code, str(pipe)]):
        corpus = Corpus.from_files([str(pipe)], [], [], CONFIG)
    assert sides(corpus) == sides(corpus) == [("a", "A")]


def test_the_fingerprint_is_of_content_not_of_names(tmp_path, tsv):
    first = tsv("a\tA\n")
    same = tsv("a\tA\n", name="other.tsv")
    assert first.fingerprint() == same.fingerprint()
    before = first.fingerprint()
    changed = tsv("a\tB\n")
    assert changed.inputs == first.inputs
    assert changed.fingerprint() != before
    assert tsv("a\tB\n", DataConfig(columns=(2, 1))).fingerprint() != changed.fingerprint()
    assert tsv("a\tB\n", DataConfig(max_tokens=9)).fingerprint() == changed.fingerprint()


# --- held out ---------------------------------------------------------------------------------------------------------


def test_all_pairs_of_one_source_stay_on_one_side(tsv):
    corpus = tsv("".join(f"{'line' if i % 3 else 'row'} {i // 4}\ttarget {i}\n" for i in range(400)) + "\t\n")
    train, valid = split_valid(corpus, 40)
    assert sorted(sides(train) + sides(valid)) == sorted(sides(corpus))
    assert not {pair.source for pair in train} & {pair.source for pair in valid}
    assert 35 <= len(list(valid)) <= 40
    assert train.fingerprint() != valid.fingerprint() != corpus.fingerprint()


def test_the_same_texts_are_held_out_whatever_the_order(tsv):
    rows = [f"line {i}\tx\n" for i in range(300)]
    one = {pair.source for pair in split_valid(tsv("".join(rows)), 20)[1]}
    other = {pair.source for pair in split_valid(tsv("".join(rows[::-1])), 20)[1]}
    assert one == other
    assert len(one) == 20


def test_a_very_common_source_is_not_held_out(tsv):
    corpus = tsv("yes\tja\n" * 500 + "".join(f"line {i}\tx\n" for i in range(100)))
    _, valid = split_valid(corpus, 10)
    assert len(list(valid)) == 10
    assert all(pair.source != "yes" for pair in valid)


@pytest.mark.parametrize("rows, wanted, got", [(0, 0, 0), (10, 0, 0), (10, 3, 3), (10, 100, 5), (100, 0, 2), (1, 5, 0)])
def test_how_many_are_held_out(tsv, rows, wanted, got):
    train, valid = split_valid(tsv("".join(f"line {i}\tx\n" for i in range(rows))), wanted)
    assert len(list(valid)) == got
    assert len(list(train)) == rows - got


@given(st.lists(st.tuples(st.text("ab ", max_size=3), st.text("xy", max_size=2)), max_size=40), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_splitting_loses_and_doubles_nothing(tmp_path_factory, rows, wanted):
    path = tmp_path_factory.mktemp("split") / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8", newline="\n")
    train, valid = split_valid(Corpus.from_files([str(path)], [], [], CONFIG), wanted)
    assert Counter(sides(train)) + Counter(sides(valid)) == Counter(rows)
