"""Terms as pieces: what comes out of the pieces is the term, and as a word of its own."""

from __future__ import annotations

import pytest

from pellucid.constrained_search import Phrase
from pellucid.data.tokenizer import Tokenizer
from pellucid.phrases import Phrasebook
from pellucid.text.terms import count

LINES = ["das Licht und die Lichter am Fenster, 12 Mal", "der Lichtschalter im Haus", "这个模型很好。 模型很大"] * 5


@pytest.fixture(scope="module", params=["unigram", "bpe", "char"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(LINES, vocab_size=360, kind=request.param)


@pytest.mark.parametrize("term", ["Licht", "am Fenster", "Größe", "12", "C++", "模型", "模型很好。", "GPU模型", "🙂"])
def test_within_a_sentence_the_term_comes_out_as_it_is_written(tokenizer, term):
    phrase = Phrasebook(tokenizer).phrase(term)
    assert phrase is not None
    around = [*tokenizer.encode("das"), *phrase.tokens, *tokenizer.encode("und")]
    assert count(term, tokenizer.decode(around)) == 1
    assert count(term, tokenizer.decode(phrase.tokens)) == 1


def test_a_script_without_spaces_gets_none(tokenizer):
    phrase = Phrasebook(tokenizer).phrase("模型")
    assert phrase is not None
    assert tokenizer.decode([*tokenizer.encode("这个"), *phrase.tokens]) == "这个模型"
    assert not phrase.not_before


def test_what_would_make_another_word_of_it_may_not_follow(tokenizer):
    """Every piece of the vocabulary behind "Licht": those that are named, and no others, join it."""
    phrase = Phrasebook(tokenizer).phrase("Licht")
    assert phrase is not None and len(phrase.not_before) > 20
    for piece in range(2, tokenizer.pad_id):
        if tokenizer.kind_of(piece) == "piece":
            text = tokenizer.decode([*phrase.tokens, piece])
            assert (count("Licht", text) == 0) == (piece in phrase.not_before), text
    spelt = {i for i in range(tokenizer.pad_id) if tokenizer.kind_of(i) == "byte"}
    letters = {tokenizer.pieces([i])[0] for i in spelt & phrase.not_before}
    assert {"<0x41>", "<0x7A>", "<0x30>", "<0xC3>", "<0xE4>"} <= letters
    assert not {"<0x20>", "<0x2C>", "<0x0A>", "<0x80>"} & letters


def test_a_term_that_ends_with_a_sign_may_be_followed_by_anything(tokenizer):
    phrase = Phrasebook(tokenizer).phrase("C++")
    assert phrase is not None and not phrase.not_before


def test_the_latest_place_is_counted_in_pieces(tokenizer):
    phrase = Phrasebook(tokenizer).phrase("Licht", "das Fenster")
    assert phrase is not None and phrase.latest == len(tokenizer.encode("das Fenster"))
    assert Phrasebook(tokenizer).phrase("Licht", "") == Phrase(phrase.tokens, phrase.not_before, 0)


def test_what_the_pieces_cannot_spell_is_no_phrase():
    """Without bytes a character that was never seen is unknown; nfkc writes another one in its place."""
    plain = Phrasebook(Tokenizer.train(LINES, vocab_size=80, byte_fallback=False))
    assert plain.phrase("Licht") is not None and plain.phrase("Größe") is None and plain.phrase("🙂") is None
    normalizing = Phrasebook(Tokenizer.train(LINES, vocab_size=360, normalization="nfkc"))
    assert normalizing.phrase("①") is None
    words = Phrasebook(Tokenizer.train(LINES, vocab_size=60, kind="word"))
    assert words.phrase("das Licht") is not None and words.phrase("das Dunkel") is None
