"""A small model of random weights to look into: what it says makes no sense, but it is definite."""

from __future__ import annotations

import torch

from pellucid.checkpoint import LoadedModel
from pellucid.config import SearchConfig, TransformerConfig
from pellucid.data.tokenizer import Tokenizer
from pellucid.model.transformer import Transformer
from pellucid.translator import Translator

TEXTS = [
    "two dogs run over the grass near the old mill",
    "a man reads",
    "</script> is text & not a mark",
    "the <s> bridge",
    "x",
]


def random_translator(engine: str = "torch", **shape: object) -> Translator:
    """Two layers of four heads; every text can be spelled."""
    torch.manual_seed(3)
    tokenizer = Tokenizer.train([*TEXTS, "we see the river from there", "he reads two books"] * 3, vocab_size=330)
    size = len(tokenizer)
    values = {"d_model": 32, "n_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 64, **shape}
    config = TransformerConfig(size, size, pad_id=tokenizer.pad_id, start_id=tokenizer.pad_id, **values)
    search = SearchConfig(beam_size=3, max_length=12)
    loaded = LoadedModel(Transformer.from_config(config).eval(), tokenizer, tokenizer, search, "en", "en", None, 40)
    return Translator(loaded, engine)
