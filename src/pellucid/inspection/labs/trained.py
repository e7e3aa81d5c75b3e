"""What labs share that can look at a trained translator."""

from __future__ import annotations

import dataclasses

from pellucid.inspection.labs.base import Parameter, Text
from pellucid.model.transformer import Transformer
from pellucid.translator import Translator

TEXT = Parameter("text", "", Text("sentence for your model (if one is given)", "给你的模型翻译的句子（如果有模型）"))

SAMPLES = {
    "en": "A man is reading a book in the park.",
    "de": "Ein Mann liest ein Buch im Park.",
    "fr": "Un homme lit un livre dans le parc.",
    "zh": "他每天早上都在公园里看书。",
}
"""By the model's source language, where the reader has given no sentence."""


def sample(translator: Translator, text: str) -> str:
    """`text`, or a sentence in the language that the model translates from."""
    return text.strip() or SAMPLES.get(translator.loaded.source_language or "", SAMPLES["en"])


def changed(translator: Translator, model: Transformer) -> Translator:
    """The same translator with another model. The readable engine searches: the others would copy its weights first."""
    return Translator(dataclasses.replace(translator.loaded, model=model), "reference", tags=translator.tags)
