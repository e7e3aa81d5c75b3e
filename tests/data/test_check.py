from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import DataConfig
from pellucid.data import check as module
from pellucid.data import near
from pellucid.data.check import QUICK, Check, check_corpus, faults_with_examples, places, repeated
from pellucid.data.check_report import CheckReport, shift_ends, shift_places
from pellucid.data.corpus import Corpus
from pellucid.data.formats.pair import SentencePair
from pellucid.data.overlap import EvaluationSets
from pellucid.data.rules import RULES

ALL = tuple(rule for rule in RULES if rule != "language")
VERBS = ["sees", "hears", "likes", "finds", "paints", "draws", "meets", "helps"]
NOUNS = ["dog", "cat", "bird", "horse", "baker", "doctor", "farmer", "sailor", "king", "child"]


def sentences(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Different sentences of a small grammar, in two made-up languages (the second one is the first, turned)."""
    draw = random.Random(seed)
    made: dict[str, str] = {}
    while len(made) < count:
        words = [w for _ in range(draw.randrange(2, 5)) for w in ("the", draw.choice(NOUNS), draw.choice(VERBS))]
        words = [
            *words,
            "at",
            "noon",
            "beside",
            "house",
            *("xyz"[draw.randrange(3)] * draw.randrange(3, 9) for _ in "abcd"),
        ]
        made[" ".join(words).capitalize() + "."] = " ".join(word[::-1] for word in words).capitalize() + "."
    return list(made.items())


def pairs_of(rows: list[tuple[str | None, str | None]], file: str = "f") -> list[SentencePair]:
    return [SentencePair(source, target, file, number) for number, (source, target) in enumerate(rows, 1)]


def found(rows: list[tuple[str | None, str | None]], look_for=ALL, **options) -> dict[str, list[int]]:
    """For each fault the line numbers that have it."""
    check = Check(look_for, **options)
    check.add(pairs_of(rows))
    findings = check.finish()
    return {rule: (findings.which(rule) + 1).tolist() for rule in findings.counts()}


@pytest.fixture
def tsv(tmp_path: Path):
    def make(rows: list[tuple[str, str]], name: str = "pairs.tsv") -> Corpus:
        path = tmp_path / name
        path.write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8", newline="\n")
        return Corpus.from_files([str(path)], [], [], DataConfig(skip_bad=True))

    return make


def test_good_pairs_have_no_faults() -> None:
    assert found(sentences(500), QUICK) == {}


@pytest.mark.parametrize(
    "rule, faulty",
    [
        ("bad-bytes", ("good", None)),
        ("empty", ("something", " \u3000")),
        ("duplicate", None),
        ("duplicate-normalised", None),
        ("same-sides", ("all the same here", "all the same here")),
        ("length-ratio", ("One short sentence of some words.", "Very much longer than that. " * 12)),
        ("too-long", ("long " * 300, "gnol " * 300)),
        ("script", ("We all went home.", "Мы все пошли домой.")),
        ("mixed-script", ("My раypal account.", "My account paypal.")),
        ("mojibake", ("Nice streets", "SchÃ¶ne StraÃŸen")),
        ("control", ("A bell\a", "Eine Glocke")),
        ("invisible", ("A soft\u00adhyphen", "Ein Trennstrich")),
        ("bidi", ("Turned \u202e around", "Umgedreht herum")),
        ("numbers", ("Page 12 of 30", "Seite 12 von 40")),
        ("addresses", ("See https://a.example now", "Siehe https://b.example")),
        ("placeholders", ("Open {file} now", "Jetzt öffnen")),
        ("one-to-many", None),
    ],
)
def test_each_fault_is_found_alone_and_in_its_line(rule: str, faulty: tuple[str, str] | None) -> None:
    rows: list[tuple[str | None, str | None]] = [*sentences(60)]
    source, target = sentences(60)[3]
    rows[40] = (
        faulty
        or {
            "duplicate": (source, target),
            "duplicate-normalised": (source.upper(), target + "!"),
            "one-to-many": (source, "something else again, and as long as that was, more or less"),
        }[rule]
    )
    assert found(rows, QUICK) == {rule: [41]}
    assert found(rows, [r for r in QUICK if r != rule]) == {}


def test_of_equal_pairs_the_first_one_is_good() -> None:
    rows = [("a b c", "A B C"), ("d e", "D E"), ("a b c", "A B C"), ("a, b c", "A B C"), ("a b c", "A B C")]
    assert found(rows, QUICK) == {"duplicate": [3, 5], "duplicate-normalised": [4]}


def test_near_duplicates_are_those_that_are_not_the_same() -> None:
    source, target = (
        "the old dog sleeps all day long in the warm sun",
        "der alte hund schläft tagaus tagein in warmer sonne",
    )
    rows = [
        (source, target),
        (source, target),
        (source.replace("warm", "hot"), target),
        ("quite another one", "ganz anders"),
    ]
    assert found(rows) == {"duplicate": [2], "near-duplicate": [3]}


def test_a_length_ratio_is_judged_by_what_is_usual_and_by_length() -> None:
    """Twice as long throughout is usual; a short text may be off by more."""
    draw = random.Random(1)
    rows = [("x" * n, "y" * (2 * n + draw.randrange(3))) for n in (draw.randrange(10, 90) for _ in range(300))]
    assert found([*rows, ("x" * 60, "y" * 120)], ["length-ratio"]) == {}
    assert found([*rows, ("x" * 60, "y" * 20)], ["length-ratio"]) == {"length-ratio": [301]}
    assert found([*rows, ("xxx", "yy")], ["length-ratio"]) == {}


@pytest.mark.parametrize("characters, fault", [(1000, False), (1001, True)])
def test_too_long_is_more_than_the_limit(characters: int, fault: bool) -> None:
    assert ("too-long" in found([("x" * characters, "y" * characters)])) is fault
    assert ("too-long" in found([("x" * characters, "y")], max_characters=characters)) is False


def test_a_script_is_wrong_where_it_is_unusual_and_most_of_a_text() -> None:
    rows = [(f"word number {i}", "你好世界你好") for i in range(40)]
    assert found([*rows, ("hello there you", "hello there you all")], ["script"]) == {"script": [41]}
    assert found([*rows, ("my DVD", "DVD")], ["script"]) == {}  # short
    assert found([*rows, ("Tom Hunter", "我是 Tom Hunter 的朋友")], ["script"]) == {}  # a name
    half = [("hello there", "hello there you" if i % 2 else "你好世界你好") for i in range(40)]
    assert found(half, ["script"]) == {}  # both are usual


def test_katakana_alone_is_japanese() -> None:
    rows = [("some words here", "これはひらがなです") for _ in range(40)]
    assert found([*rows, ("relax now please", "リラックスリラックス")], ["script"]) == {}


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(3)
    rows = [draw.choice(sentences(30)) for _ in range(200)]
    rows[50], rows[90] = ("a\a", "b"), ("", "x")
    whole = found(rows)
    monkeypatch.setattr(module, "CHUNK", 7)
    assert found(rows) == whole
    assert {"duplicate", "control", "empty"} <= set(whole)


def test_long_pairs_make_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 3)
    monkeypatch.setattr(module, "CHUNK_CHARACTERS", 10)
    pairs = pairs_of([("a", "b")] * 4 + [("x" * 9, "y"), ("x" * 20, None), ("a", "b")])
    assert [len(chunk) for chunk in module.in_chunks(pairs)] == [3, 2, 1, 1]
    assert [pair for chunk in module.in_chunks(pairs) for pair in chunk] == pairs


def test_a_shift_is_reported_with_its_lines(tsv) -> None:
    rows = sentences(400)
    lost = [target for _, target in rows[:200]] + [target for _, target in rows[201:]] + ["At last."]
    corpus = tsv(list(zip((source for source, _ in rows), lost, strict=True)))
    findings = check_corpus(corpus, Check(["shifted"]))
    ((begin, end, by),) = findings.shifts
    assert abs(begin - 200) <= 4 and end >= 396 and by == -1
    (first, last, _), = shift_places(findings, places(corpus, shift_ends(findings)))  # fmt: skip
    assert (first, last) == (f"{corpus.inputs[0].path}:{begin + 1}", f"{corpus.inputs[0].path}:{end}")


def test_files_do_not_slip_into_each_other() -> None:
    """The end of one file and the start of the next are no neighbours."""
    check = Check(["shifted"])
    check.add(pairs_of(sentences(50), "a") + pairs_of(sentences(50, seed=2), "b"))
    assert [file for _, file in check._files] == ["a", "b"]
    assert check.finish().shifts == []


# --- overlap ----------------------------------------------------------------------------------------------------------


def overlap(training: list[str], held: list[str], near: bool = True) -> dict[str, list[int]]:
    sets = EvaluationSets({"test": pairs_of([(text, "x") for text in held])}, near=near)
    return found([(text, "y") for text in training], ("overlap", "overlap-normalised", "overlap-near"), evaluation=sets)


def test_overlap_is_exact_or_but_for_case_or_near() -> None:
    held = ["The old dog sleeps in the sun.", "Another one."]
    training = ["Quite different.", "The old dog sleeps in the sun.", "the OLD dog sleeps in the sun",
                "The old dog sleeps in the shade.", " Another one. "]  # fmt: skip
    assert overlap(training, held) == {"overlap": [2, 5], "overlap-normalised": [3], "overlap-near": [4]}
    assert overlap(training, held, near=False) == {"overlap": [2, 5], "overlap-normalised": [3]}
    assert overlap(training, []) == {}


def test_overlap_counts_the_pairs_of_each_set_once() -> None:
    sets = EvaluationSets({
        "valid": pairs_of([("one two three", "x"), ("never seen before", "x"), ("", "x")]),
        "test": pairs_of([("One two three!", "x"), ("one two three", "x")]),
    })  # fmt: skip
    check = Check(evaluation=sets)
    check.add(pairs_of([("one two three", "y"), ("one two three", "z")], "train"))
    findings = check.finish()
    assert findings.overlaps == {
        "valid": {"overlap": 1, "overlap-normalised": 0, "overlap-near": 0, "pairs": 2},
        "test": {"overlap": 1, "overlap-normalised": 1, "overlap-near": 0, "pairs": 2},
    }
    assert findings.overlap_places == {0: "f:1", 1: "f:1"}


# --- reports ----------------------------------------------------------------------------------------------------------


def report_of(corpus: Corpus, examples: int = 3, look_for: tuple[str, ...] = ALL) -> CheckReport:
    findings = check_corpus(corpus, Check(look_for))
    return CheckReport(("pairs.tsv",), findings, tuple(faults_with_examples(corpus, findings, examples)))


def test_examples_say_where_they_stand_and_what_they_repeat(tsv) -> None:
    corpus = tsv([("a b", "A B"), ("c\a", "C"), ("a b", "A B"), ("d\a", "D"), ("e\a", "E")])
    faults = {fault.rule: fault for fault in report_of(corpus, 2).faults}
    file = corpus.inputs[0].path
    assert [(e.line, e.source) for e in faults["control"].examples] == [(2, "c\a"), (4, "d\a")]
    assert (faults["control"].count, faults["control"].share) == (3, 0.6)
    assert [(e.line, e.like) for e in faults["duplicate"].examples] == [(3, f"{file}:1")]


def test_reports_for_people_and_programs_say_the_same(tsv) -> None:
    report = report_of(tsv([("<b>a</b> &", "A and more"), ("c\a", "C"), ("c\a", "C")]))
    values = json.loads(json.dumps(report.as_dict()))
    assert values["pairs"] == 3
    assert {rule: fault["count"] for rule, fault in values["faults"].items()} == {
        "duplicate": 1, "control": 2, "placeholders": 1,
    }  # fmt: skip
    text, page = "\n".join(report.lines()), report.as_html()
    for rule in values["faults"]:
        assert f"  {rule} " in text and f"<h2 id={rule}>" in page
    assert "c\\u0007" in text and "\a" not in text + page
    assert "&lt;b&gt;a&lt;/b&gt; &amp;" in page and "<b>a" not in page


def test_the_page_needs_nothing_from_elsewhere_and_knows_both_colour_schemes(tsv) -> None:
    page = report_of(tsv(sentences(50)), look_for=QUICK).as_html()
    assert "<script" not in page and "http" not in page and "src=" not in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<svg") == page.count("</svg>") == 2
    assert "nothing found" in page


def test_the_histogram_counts_every_text(tsv) -> None:
    page = report_of(tsv([*sentences(120), ("x" * 5000, "y" * 5000)])).as_html()
    for side in ("source", "target"):
        bars = re.findall(rf"<title>{side}, \d+ to \d+ characters: ([\d,]+)</title>", page)
        assert sum(int(bar.replace(",", "")) for bar in bars) == 121
    cells = re.findall(r"<title>([\d,]+) pairs, source from", page)
    assert sum(int(cell.replace(",", "")) for cell in cells) == 121


def test_no_pairs_at_all(tsv) -> None:
    report = report_of(tsv([]))
    assert report.as_dict()["pairs"] == 0
    assert "nothing found" in report.lines()
    assert "<svg" in report.as_html()


# --- properties -------------------------------------------------------------------------------------------------------

ROWS = st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=25)


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_any_pairs_can_be_checked_and_duplicates_are_counted_right(rows: list[tuple[str, str]]) -> None:
    lines = found(rows)
    stripped = Counter((s.strip(), t.strip()) for s, t in rows if s.strip() and t.strip())
    assert len(lines.get("duplicate", [])) == stripped.total() - len(stripped)
    assert lines.get("empty", []) == [i for i, (s, t) in enumerate(rows, 1) if not s.strip() or not t.strip()]


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=30), st.integers(1, 40))
def test_repeated_by_a_plain_loop(numbers: list[tuple[int, bool]], at_once: int) -> None:
    first: dict[int, int] = {}
    expected = {i: first[n] for i, (n, asked) in enumerate(numbers) if asked and first.setdefault(n, i) != i}
    keys = [
        np.array([n << 61 for n, _ in numbers[begin : begin + 7]], np.uint64) for begin in range(0, len(numbers), 7)
    ]
    with mock.patch.object(near, "_SORTED_AT_ONCE", at_once):  # in parts
        later, earlier = repeated(lambda: keys, np.array([asked for _, asked in numbers], bool))
    assert dict(zip(later.tolist(), earlier.tolist(), strict=True)) == expected
