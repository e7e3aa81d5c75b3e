"""What the tests of several engines share: a model, a walk along two states, searches of every kind."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor, nn

from pellucid.checkpoint import LoadedModel
from pellucid.config import SearchConfig, TransformerConfig
from pellucid.data.tokenizer import Tokenizer
from pellucid.model.transformer import Transformer
from pellucid.search import SearchState
from pellucid.translator import Translation

VOCAB, PAD = 40, 39
OPTIONS = {
    "as in the paper": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned"},
    "nothing shared": {"share_embeddings": "none"},
    "two vocabularies": {"share_embeddings": "decoder", "src_vocab": 23, "src_pad_id": 22},
}


def model(src_vocab: int = VOCAB, max_len: int = 64, **options: object) -> Transformer:
    torch.manual_seed(0)
    made = Transformer(
        src_vocab, VOCAB, 32, 4, 2, 3, 48, 0.1, max_len, pad_id=PAD, start_id=PAD,
        **{"share_embeddings": "all", **options},
    ).eval()  # fmt: skip
    for parameter in made.parameters():  # biases and norms are 0 and 1 at first, which would hide a mistake
        if parameter.dim() == 1:
            nn.init.normal_(parameter, std=0.3)
    return made


def sources(pad: int = PAD, vocab: int = 22) -> Tensor:
    """Three sentences of 7, 4 and 1 tokens."""
    src = torch.randint(0, vocab, (3, 7))
    src[1, 4:] = pad
    src[2, 1:] = pad
    return src


@torch.inference_mode()
def walk(one: SearchState, other: SearchState, steps: int, tolerance: float) -> None:
    """Both along the same path: more rows a sentence, rows in another order, sentences that leave."""
    tokens = torch.full((3,), PAD)
    for step in range(steps):
        expected, found = one.step(tokens), other.step(tokens)
        assert found.shape == expected.shape
        assert (found - expected).abs().max() <= tolerance
        rows, left = torch.arange(len(expected)), None
        if step in (0, 4):
            rows = rows.repeat_interleave(2)
        elif step == 6:  # of three sentences of four rows, the first leaves; the others' rows change places
            rows, left = torch.tensor([5, 4, 4, 7, 11, 8, 9, 9]), torch.tensor([1, 2])
        if step in (0, 4, 6):
            one.reorder(rows, left)
            other.reorder(rows, left)
        tokens = expected[rows].argmax(-1)


WORDS = ["red", "green", "blue", "one", "two", "three", "four", "five.", "six,", "seven!", "eight?", "nine"]


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    """A model of random weights, drawn wide apart: so different things come of different texts, and ties are rare."""
    torch.manual_seed(3)
    tokenizer = Tokenizer.train([" ".join(WORDS)] * 3, vocab_size=300)
    size, pad = len(tokenizer), tokenizer.pad_id
    config = TransformerConfig(size, size, 32, 4, 2, 2, 64, pad_id=pad, start_id=pad)
    model = Transformer.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return LoadedModel(model, tokenizer, tokenizer, SearchConfig(beam_size=3, max_length=15), "en", "en", None, 60)


def texts(count: int) -> list[str]:
    drawn = random.Random(1)
    return ["", "red", "é 漢 🙂", *(" ".join(drawn.choices(WORDS, k=drawn.randint(1, 14))) for _ in range(count))]


def assert_same(found: list[Translation], expected: list[Translation]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert [a.tokens for a in one.alternatives] == [a.tokens for a in other.alternatives]
        assert [a.score for a in one.alternatives] == pytest.approx([a.score for a in other.alternatives], abs=1e-4)
        assert one.flags == other.flags


SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4},
    "n best": {"beam_size": 4, "n_best": 4, "length_penalty": 1.3},
    "one piece": {"max_length": 1},
    "least length": {"min_length": 12, "beam_size": 2},
    "no repeated pairs": {"no_repeat_ngram": 2, "beam_size": 2},
    "drawn": {"sample": True, "n_best": 2, "top_k": 20, "top_p": 0.9},
    "one line a batch": {"batch_tokens": 1},
    "seven or so": {"batch_tokens": 120},
}
