"""Words cut in ways drawn at random: as often as the papers say, the same for the same seed in any process."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.segmentation import segmenter
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import TokenizerError

LINES = [
    "The lamp on the desk is green.",
    "A small boat waits at the bridge; the bridge waits for no boat.",
    "Sie liest die letzte Seite zweimal, und dann noch die erste.",
    "\u96e8\u843d\u5728\u5b89\u9759\u7684\u8857\u4e0a\u3002",
    "\u0414\u043e\u0436\u0434\u044c \u0438\u0434\u0451\u0442.",
    "a  b\u00a0c \u2009 d e\u0301 \u00e9 \ufb01 \uff21",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 </s> <unk> <2de> <0x41> \u2581 \u2585 \ue0f01 \u2047",
]


@cache
def made(kind: str) -> Tokenizer:
    return Tokenizer.train(LINES, vocab_size=420, kind=kind, tags=["2de", "old"])


def cuts(tokenizer: Tokenizer, text: str, alpha: float, draws: int, seed: int = 1) -> Counter[tuple[str, ...]]:
    words, ids = segmenter(tokenizer, alpha, seed), tokenizer.encode(text)
    return Counter(tuple(tokenizer.pieces(words.cut(ids))) for _ in range(draws))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(text=st.one_of(st.text(), st.sampled_from(LINES)), alpha=st.floats(0.01, 0.99), seed=st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_any_text_comes_back(kind, text, alpha, seed):
    tokenizer = made(kind)
    plain = [*tokenizer.tag_ids(["2de", "old"]), *tokenizer.encode(text), tokenizer.eos_id]
    found = segmenter(tokenizer, alpha, seed).cut(plain)
    assert tokenizer.decode(found) == text
    assert found[:2] == plain[:2] and found[-1] == tokenizer.eos_id
    assert not {tokenizer.eos_id, tokenizer.unk_id, tokenizer.pad_id, *plain[:2]} & set(found[2:-1])


@pytest.mark.parametrize(("kind", "alpha"), [("bpe", 1e-12), ("unigram", 1000.0)])
def test_with_no_chance_left_the_pieces_are_the_usual_ones(kind, alpha):
    tokenizer = made(kind)
    words = segmenter(tokenizer, alpha, 1)
    for line in LINES:
        ids = tokenizer.encode(line)
        assert tokenizer.pieces(words.cut(ids)) == tokenizer.pieces(ids)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_other_seeds_draw_other_cuts_and_draws_go_on(kind):
    tokenizer = made(kind)
    ids = tokenizer.encode(" ".join(LINES))

    def drawn(seed: int) -> list[list[int]]:
        words = segmenter(tokenizer, 0.3, seed)
        return [words.cut(ids), words.cut(ids)]

    assert drawn(1) == drawn(1) and drawn(1)[0] != drawn(1)[1]
    assert drawn(1) != drawn(2)


def test_what_is_drawn_does_not_depend_on_how_much_is_kept(monkeypatch):
    tokenizer = made("unigram")
    drawn = []
    for kept in (1, 300_000):
        monkeypatch.setattr("pellucid.data.segmentation.CHARACTERS_KEPT", kept)
        words = segmenter(tokenizer, 0.1, 1)
        drawn.append([words.cut(tokenizer.encode(line)) for line in LINES * 2])
        assert len(words._lattices) == 1 if kept == 1 else len(words._lattices) > 20
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_same_seed_draws_the_same_in_another_process(kind, tmp_path):
    """SentencePiece 0.2.3 itself does not: what it draws depends on the process as well."""
    tokenizer = made(kind)
    tokenizer.save(tmp_path / "a.model")
    program = (
        "import sys; from pellucid.data.tokenizer import Tokenizer; from pellucid.data.segmentation import segmenter\n"
        f"t = Tokenizer.load(sys.argv[1], {{'kind': {kind!r}, 'normalization': 'identity'}})\n"
        f"words = segmenter(t, 0.3, (7, 1)); print([words.cut(t.encode(line)) for line in {LINES[:4]!a}])"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "a.model")]
    found = {subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() for _ in range(2)}
    words = segmenter(tokenizer, 0.3, (7, 1))
    assert found == {repr([words.cut(tokenizer.encode(line)) for line in LINES[:4]])}


def test_a_merge_is_left_out_as_often_as_alpha_says():
    """ab is learnt first, then it with the space before it: three pieces, two or one."""
    tokenizer = Tokenizer.train(["ab ab ab cab cab"], vocab_size=9, kind="bpe", byte_fallback=False)
    assert tokenizer.pieces(range(2, 4)) == ["ab", "\u2581ab"]
    draws, alpha = 20_000, 0.1
    found = Counter({len(cut): count for cut, count in cuts(tokenizer, "ab", alpha, draws).items()})
    expected = {3: alpha, 2: (1 - alpha) * alpha, 1: (1 - alpha) ** 2}
    assert found.keys() == expected.keys()
    for pieces, share in expected.items():
        assert found[pieces] / draws == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / draws))


@pytest.mark.parametrize("alpha", [0.2, 0.9])
def test_a_segmentation_is_drawn_as_often_as_its_probability_to_the_power_of_alpha(alpha):
    """Against all segmentations, written down by brute force."""
    lines = ["banana ban ana nana bana an na anan"] * 3
    tokenizer = Tokenizer.train(lines, vocab_size=16, kind="unigram", byte_fallback=False)
    scores = {text: score for text, (_, score) in tokenizer.scored_pieces().items()}

    def all_cuts(rest: str) -> list[tuple[str, ...]]:
        heads = [rest[:n] for n in range(1, len(rest) + 1) if rest[:n] in scores]
        return [(head, *tail) for head in heads for tail in all_cuts(rest[len(head) :])] if rest else [()]

    weights = {cut: math.exp(alpha * sum(scores[piece] for piece in cut)) for cut in all_cuts("\u2581banana")}
    assert len(weights) >= 8
    draws = 5000
    found = cuts(tokenizer, "banana", alpha, draws)
    assert found.keys() <= weights.keys()
    for cut, weight in weights.items():
        share = weight / sum(weights.values())
        assert found[cut] / draws == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / draws) + 1e-3)


@pytest.mark.parametrize(("kind", "alpha"), [("bpe", 0.1), ("bpe", 0.5), ("unigram", 0.1)])
def test_cuts_are_drawn_as_often_as_by_sentencepiece(kind, alpha):
    tokenizer = made(kind)
    draws, text = 4000, "bridge waits"
    ours = cuts(tokenizer, text, alpha, draws)
    theirs = Counter(
        tuple(tokenizer._sp.encode(text, out_type=str, enable_sampling=True, alpha=alpha, nbest_size=-1))
        for _ in range(draws)
    )
    assert len(ours) > 5
    for cut in ours.keys() | theirs.keys():
        both = (ours[cut] + theirs[cut]) / (2 * draws)
        off = abs(ours[cut] - theirs[cut]) / draws
        assert off <= 6 * math.sqrt(2 * both * (1 - both) / draws), cut


def test_an_unknown_character_stays_where_it_is_and_the_rest_is_cut():
    tokenizer = Tokenizer.train(LINES[:3], vocab_size=120, kind="bpe", byte_fallback=False)
    ids = tokenizer.encode("The la\u96e8mp \u96e8 is green. The bridge waits")
    words = segmenter(tokenizer, 0.5, 1)
    for _ in range(10):
        found = words.cut(ids)
        assert found != ids and found.count(tokenizer.unk_id) == ids.count(tokenizer.unk_id) == 2
        assert tokenizer.decode(found) == tokenizer.decode(ids)


@pytest.mark.parametrize("kind", ["char", "word"])
def test_kinds_that_cut_in_one_way_only_say_so(kind):
    tokenizer = Tokenizer.train(LINES, vocab_size=500, kind=kind)
    with pytest.raises(TokenizerError, match=f"'{kind}' cuts a text in one way only"):
        segmenter(tokenizer, 0.1, 1)
