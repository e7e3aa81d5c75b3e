"""A model folder for CTranslate2, verified: what was written is loaded with that program and must translate as ours does."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pellucid.checkpoint import LoadedModel, load_model, write_atomically
from pellucid.data.tokenizer import Tokenizer
from pellucid.engines.search_engine import Request
from pellucid.errors import ConfigError, DataError, ModelFolderError
from pellucid.interop.ctranslate2 import write_ctranslate2
from pellucid.quantization import tagged_validation_pairs
from pellucid.tags import chosen, target_languages
from pellucid.translator import Translator

SENTENCES = 20
MOST_DIFFERENCE = 1e-3
"""Between the log-probabilities, in nats, of a token in float32."""
MOST_MEAN_DIFFERENCE_INT8 = 0.1

CARD = """# {name} for CTranslate2

Written by pellucid from the model folder `{name}`. {languages}

```python
import ctranslate2
import sentencepiece

source = sentencepiece.SentencePieceProcessor(model_file="source.model")
target = sentencepiece.SentencePieceProcessor(model_file="target.model")
translator = ctranslate2.Translator(".")
pieces = {tags}source.encode("...", out_type=str)
result = translator.translate_batch([pieces], beam_size={beam_size}, length_penalty={length_penalty}, disable_unk=True,
    min_decoding_length=0)[0]
print(target.decode(result.hypotheses[0]))
```

pellucid besides writes U+2581 and a few other characters that SentencePiece keeps for itself as codes, splits texts that
are longer than any it was trained on ({longest_source} pieces), and normalizes text: {normalization}.
"""

TAGS = """
Before the pieces of a source stand tags. It knows {tags}.
"""


@dataclass(frozen=True)
class Exported:
    """What the comparison gave."""

    sentences: int
    same: int
    """Sentences whose greedy translation is the same in both programs."""
    largest_difference: float
    """Between the log-probabilities, in nats, that both give a token of the same translation."""
    mean_difference: float


def export_model(
    directory: str | Path, out: str | Path, *, int8: bool = False, sources: Sequence[str] | None = None
) -> Exported:
    """Write the model folder `directory` as the CTranslate2 folder `out`, and translate with both.

    Args:
        int8: store int8 weights.
        sources: text to verify with, into every target language; None: the run's own validation pairs, with all tags.

    Raises:
        ConfigError: ctranslate2 is not installed, or the two do not agree; then `out` is not kept.
        DataError: no text to verify with.
        ModelFolderError: no model, or an `out` that is in use.
    """
    directory, out = Path(directory), Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ModelFolderError(f"{out}: is in use", hint="name a new folder")
    loaded = load_model(directory)
    known = loaded.source_tokenizer.tags
    if sources is None:
        given = {tags: texts for tags, (texts, _) in tagged_validation_pairs(loaded).items()}
    else:
        languages: list[str | None] = [*target_languages(known)] or [None]
        given = {chosen(known, language): list(sources) for language in languages}
    some = {
        tags: [text for text in texts if text.strip()][: max(1, SENTENCES // len(given))]
        for tags, texts in given.items()
    }
    if not any(some.values()):
        raise DataError("there is no text to verify with", hint="--src FILE")
    translator = Translator(loaded, "reference", tags=next(iter(some)))
    source, target = loaded.source_tokenizer, loaded.target_tokenizer
    existed = out.exists()
    try:
        write_ctranslate2(
            loaded.model, out, _pieces(source), _pieces(target), translator.vocabulary.start_id,
            translator.vocabulary.forbidden,
            quantization="int8" if int8 else "float32",
        )  # fmt: skip
        for name, tokenizer in (("source.model", source), ("target.model", target)):
            write_atomically(out / name, tokenizer.model_bytes)
        write_atomically(out / "README.md", _card(directory, loaded))
        report = _compare(translator, out, [(tags, text) for tags, texts in some.items() for text in texts])
        if int8:
            good = report.mean_difference <= MOST_MEAN_DIFFERENCE_INT8
        else:
            good = report.largest_difference <= MOST_DIFFERENCE and report.same == report.sentences
        if not good:
            raise ConfigError(
                f"CTranslate2 does not translate with {out} as pellucid does: {report.same} of {report.sentences} "
                f"sentences are the same, and log-probabilities differ by {report.mean_difference:.2g} nats a token "
                f"(up to {report.largest_difference:.2g}); it was not kept"
            )
    except BaseException:
        if existed:
            for file in out.iterdir():
                file.unlink()
        else:
            shutil.rmtree(out, ignore_errors=True)
        raise
    return report


@torch.inference_mode()
def _compare(translator: Translator, folder: Path, sources: Sequence[tuple[tuple[str, ...], str]]) -> Exported:
    import ctranslate2

    source, names = translator.source_tokenizer, _pieces(translator.target_tokenizer)
    ids = [
        [*source.tag_ids(tags), *source.encode(text.strip())[: translator.tagged(tags=tags).longest_source]]
        for tags, text in sources
    ]
    greedy = translator.with_search(beam_size=1, n_best=1)
    ours = [translator.engine.search(Request([[*row, source.eos_id]], [len(row) + 50], greedy))[0][0] for row in ids]
    theirs = ctranslate2.Translator(str(folder), intra_threads=1)
    source_names = _pieces(source)
    pieces = [[source_names[i] for i in row] for row in ids]
    written = [[names[i] for i in h.tokens] for h in ours]
    found: list[Any] = theirs.translate_batch(
        pieces, beam_size=1, disable_unk=True, min_decoding_length=0, max_decoding_length=1 + max(map(len, ids)) + 50
    )
    same = sum(
        # One that ours broke off at its greatest length goes on in theirs.
        (r.hypotheses[0] if h.finished else r.hypotheses[0][: len(h.tokens)]) == own
        for r, h, own in zip(found, ours, written, strict=True)
    )
    scored: list[Any] = theirs.score_batch(pieces, written)
    differences = [
        abs(a - b)
        for s, h in zip(scored, ours, strict=True)
        for a, b in zip(s.log_probs, h.token_log_probs, strict=False)  # an unfinished one has no end mark
    ]
    return Exported(len(sources), same, max(differences), sum(differences) / len(differences))


def _pieces(tokenizer: Tokenizer) -> list[str]:
    """One for each id. Those of tags and of the padding must not be such as text can have."""
    pieces = tokenizer.pieces(range(len(tokenizer)))
    for i in [*tokenizer.tag_ids(tokenizer.tags), tokenizer.pad_id]:
        while pieces[i] in pieces[:i]:
            pieces[i] += "_"
    return pieces


def _card(directory: Path, loaded: LoadedModel) -> str:
    pair = [loaded.source_language, loaded.target_language]
    names = _pieces(loaded.source_tokenizer)
    tags = [names[i] for i in loaded.source_tokenizer.tag_ids(loaded.source_tokenizer.tags)]
    return CARD.format(
        name=directory.resolve().name,
        languages=f"It translates from {pair[0]} to {pair[1]}." if all(pair) else "",
        beam_size=loaded.search.beam_size,
        length_penalty=loaded.search.length_penalty,
        longest_source=loaded.longest_source,
        normalization=loaded.source_tokenizer.config()["normalization"],
        tags=f'["{tags[0]}"] + ' if tags else "",
    ) + (TAGS.format(tags=", ".join(f"`{tag}`" for tag in tags)) if tags else "")
