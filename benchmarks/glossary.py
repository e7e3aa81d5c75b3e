"""Terms that the model would not have said: how many come out, how good the rest of the sentence is, and what it costs.

    python benchmarks/glossary.py model --src test.en --ref test.de --train-src train.en --train-ref train.de

A term is put into a translation by search, and what search cannot do by alignment: the words that say the source's word are
replaced. Alignment alone is what was done before there was a search. Lines are translated one by one: each has a glossary of
its own, made from the data and kept nowhere.

reference   a noun of the reference that the plain translation lacks, for the source's word that most probably means it (IBM
            Model 1, of the training pairs): a term as a translator would want it. BLEU and chrF against the references.
foreign     100 of the commonest nouns, each with *another* noun of the same gender, a rare one that no plain translation has:
            a term that means something else. Against the references with the usual noun replaced by it, which is hard on
            whoever changes more than the noun; only those that have the usual noun.

Nouns of German: what stands between an article and one of the commonest words or signs, at least every third time.
"""

from __future__ import annotations

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch: see pellucid/__init__.py

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np
import sacrebleu

from pellucid.handling import Handler
from pellucid.shortlist import model_1
from pellucid.text.options import TextOptions
from pellucid.text.terms import Terms, count, missing
from pellucid.translation import Translation
from pellucid.translator import Translator

WORD = re.compile(r"\w+")
TOKEN = re.compile(r"\w+|[^\w\s]")
ARTICLES = {"ein": "mn", "eine": "f", "einer": "f", "einen": "m", "einem": "mn"}
COMMON = 40
RARE = (2, 15)
"""Times that a rare noun stands in the training pairs."""
PROBABLE = 0.05
"""What a word must mean with this probability."""


@dataclass
class Line:
    """A line to translate, with what it must say."""

    source: str
    reference: str | None
    """None: there is none that says the same."""
    terms: dict[str, str] = field(default_factory=dict)


def lines(path: Path, most: int | None = None) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1][:most]


def genders(targets: Sequence[str]) -> dict[str, str]:
    """Of each noun, by the articles before it: f, m or n."""
    texts = [TOKEN.findall(text) for text in targets]
    counts = Counter(token for text in texts for token in text)
    common = {token for token, _ in counts.most_common(COMMON)}
    before: dict[str, Counter[str]] = {}
    for text in texts:
        for article, noun, after in zip(text, text[1:], text[2:], strict=False):
            if article.lower() in ARTICLES and after in common and noun.isalpha() and len(noun) > 3:
                before.setdefault(noun, Counter())[ARTICLES[article.lower()]] += 1
    nouns = {noun: own for noun, own in before.items() if 3 * own.total() >= counts[noun]}
    return {noun: next(iter({"m", "f"} & {*own}), "n") for noun, own in nouns.items() if not {"m", "f"} <= {*own}}


def meanings(sources: Sequence[str], targets: Sequence[str]) -> dict[str, dict[str, float]]:
    """For each source word in small letters, the probable target words."""
    texts = [[WORD.findall(text.lower()) for text in sources], [WORD.findall(text) for text in targets]]
    words = [list(dict.fromkeys(word for text in side for word in text)) for side in texts]
    numbers = [{word: i for i, word in enumerate(own)} for own in words]
    ids = [[np.array([own[w] for w in t], np.int64) for t in side] for side, own in zip(texts, numbers, strict=True)]
    links, probability = model_1(*ids, len(words[1]))
    found: dict[str, dict[str, float]] = {}
    for link, p in zip(links.tolist(), probability.tolist(), strict=True):
        source, target = divmod(link, len(words[1]))
        if p >= PROBABLE:
            found.setdefault(words[0][source], {})[words[1][target]] = p
    return found


def of_the_reference(
    sources: Sequence[str],
    references: Sequence[str],
    plain: Sequence[str],
    meant: dict[str, dict[str, float]],
    nouns: set[str],
) -> list[Line]:
    found = []
    for source, reference, translation in zip(sources, references, plain, strict=True):
        line = Line(source, reference)
        words = [word for word in WORD.findall(source.lower()) if word in meant]
        for noun in sorted({*WORD.findall(reference)} & nouns - {*WORD.findall(translation)}):
            best = max(words, key=lambda word: meant[word].get(noun, 0.0), default=None)
            if best is not None and noun in meant[best] and words.count(best) == 1:
                line.terms[best] = noun
        found.append(line)
    return found


def foreign(
    sources: Sequence[str],
    references: Sequence[str],
    plain: Sequence[str],
    meant: dict[str, dict[str, float]],
    gender: dict[str, str],
    targets: Sequence[str],
) -> list[Line]:
    counts = Counter(word for text in targets for word in WORD.findall(text))
    said = {word for text in plain for word in WORD.findall(text)}
    rare = {which: [n for n in sorted(gender) if gender[n] == which and RARE[0] <= counts[n] <= RARE[1] and n not in said]
            for which in "fmn"}  # fmt: skip
    drawn = random.Random(1)
    chosen: dict[str, tuple[str, str]] = {}
    for word, _ in Counter(word for text in sources for word in WORD.findall(text.lower())).most_common():
        usual = max(meant.get(word, {"": 0.0}).items(), key=lambda item: item[1])[0]
        if len(chosen) < 100 and usual in gender and rare[gender[usual]]:
            own = rare[gender[usual]]
            chosen[word] = usual, own.pop(drawn.randrange(len(own)))
    found = []
    for source, reference in zip(sources, references, strict=True):
        line = Line(source, reference)
        for word, times in Counter(WORD.findall(source.lower())).items():
            if word in chosen:
                usual, line.terms[word] = chosen[word]
                if line.reference is not None and count(usual, line.reference) == times:
                    line.reference = re.sub(rf"\b{usual}\b", line.terms[word], line.reference)
                else:
                    line.reference = None
        found.append(line)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    for name in ("src", "ref", "train-src", "train-ref"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--foreign", type=int, default=300, help="of the lines, for the terms of the second kind")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="lines of each kind to print")
    options = parser.parse_args(arguments)
    translator = Translator.load(options.model, engine=options.engine, threads=options.threads)
    config = translator.with_search(beam_size=options.beam_size, n_best=1)
    sources, references = lines(options.src, options.lines), lines(options.ref, options.lines)
    training = lines(options.train_src), lines(options.train_ref)
    plain = [t.text for t in translator.translate(sources, config)]
    meant, gender = meanings(*training), genders(training[1])
    kinds = {
        "reference": of_the_reference(sources, references, plain, meant, {*gender}),
        "foreign": foreign(
            *(side[: options.foreign] for side in (sources, references, plain)), meant, gender, training[1]
        ),
    }
    ways = {
        "no glossary": nullcontext(),
        "alignment": patch.object(Handler, "_insist", lambda self, work: None),
        "search": nullcontext(),
    }
    print(
        "| terms | lines | with | said exactly | by alignment | `glossary` | `low-confidence` | BLEU | chrF | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind, every in kinds.items():
        some = [line for line in every if line.terms]
        spans = [Terms(line.terms).find(line.source) for line in some]
        wanted = sum(map(len, spans))
        shown: list[list[Translation]] = []
        for way, context in ways.items():
            glossaries = [None if way == "no glossary" else Terms(line.terms) for line in some]
            with context:
                started = time.process_time()
                own = [
                    translator.translate([line.source], config, text=TextOptions(terms=terms))[0]
                    for line, terms in zip(some, glossaries, strict=True)
                ]
                seconds = time.process_time() - started
            shown.append(own)
            said = wanted - sum(len(missing(s, t.text)) for s, t in zip(spans, own, strict=True))
            flags = [sum(flag in t.flags for t in own) for flag in ("placed", "glossary", "low-confidence")]
            pairs = [(t.text, line.reference) for t, line in zip(own, some, strict=True) if line.reference is not None]
            hypotheses, asked = [one for one, _ in pairs] or [""], [[other for _, other in pairs] or [""]]
            bleu = sacrebleu.corpus_bleu(hypotheses, asked, force=True).score  # Multi30k's text is tokenized
            chrf = sacrebleu.corpus_chrf(hypotheses, asked).score
            print(
                f"| {kind}: {wanted} | {len(some)} | {way} | {said / max(1, wanted):.1%} | {flags[0]} | {flags[1]} "
                f"| {flags[2]} | {bleu:.1f} | {chrf:.1f} | {seconds:.1f} |"
            )
        for n, line in enumerate(some[: options.show]):
            print(f"\n{line.source}\n{line.terms}\n{line.reference}")
            for translations in shown:
                print(f"    {translations[n].text} {translations[n].flags or ''}")


if __name__ == "__main__":
    main()
