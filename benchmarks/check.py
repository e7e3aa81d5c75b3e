"""Faults of every kind are planted into sentence pairs; how many does `pellucid check` find, and how much else?

    python benchmarks/check.py                              # 100,000 made-up pairs, 500 of each fault
    python benchmarks/check.py --base text.tsv              # the same in real text, which has faults of its own
    python benchmarks/check.py --curve 10000,100000,1000000 # near-duplicates: time and memory

Recall is the share of the planted pairs that are reported. Precision is planted / (planted + innocent) among the pairs
that are reported: innocent is a pair into which nothing was planted. A pair with another planted fault counts neither
way (a shifted line has other numbers too); how many those are is a column of its own. Some made-up pairs carry numbers,
placeholders and addresses that do agree, so that there is something to be wrong about.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import synthetic
from pellucid.config import DataConfig
from pellucid.data.characters import tables
from pellucid.data.check import QUICK, Check, check_corpus, in_chunks
from pellucid.data.corpus import Corpus
from pellucid.data.overlap import EvaluationSets
from pellucid.data.rules import RULES

Pair = tuple[str, str]
SHIFTED_AT_ONCE = 50
NEAR_WORDS = 8
"""A word of so many at least is changed where a near-duplicate is planted."""
CYRILLIC = str.maketrans("abdefghiklmnoprstuvwzäöü", "абдефгхиклмнопрстувшзэёю")
NOT_PLANTED = ("language", "overlap", "overlap-normalised", "overlap-near", "shifted")
"""language: made-up languages have none. The others need more than one pair, and are planted apart."""


def decorated(pairs: Iterator[Pair], draw: random.Random) -> Iterator[Pair]:
    """Some pairs get a number, a placeholder, an address or a question mark, on both sides alike."""
    for source, target in pairs:
        kind, end = draw.random(), "."
        if kind < 0.12:
            number = f"{draw.randrange(3, 20000):,}"
            source, target = f"{number} {source}", f"{target} {number.replace(',', '.')}"
        elif kind < 0.17:
            mark = draw.choice(["%s", "%1$d", "{name}", "<b>", "${path}"])
            source, target = f"{source} {mark}", f"{mark} {target}"
        elif kind < 0.20:
            address = f"https://example.org/{draw.randrange(10**6)}"
            source, target = f"{source} {address}", f"{target} ({address})"
        elif kind < 0.30:
            end = "?"
        yield source.capitalize() + end, target.capitalize() + end


def words_changed(text: str, draw: random.Random, count: int) -> str:
    words = text.split()
    for place in draw.sample(range(len(words)), min(count, len(words))):
        words[place] = "ny" + "".join(draw.choices("aeiou", k=4))
    return " ".join(words)


def planters(draw: random.Random) -> dict[str, Callable[[Pair, Pair], Pair | None]]:
    """For each fault what makes it of a pair (and of an earlier pair); None where that pair cannot have it."""

    def inside(text: str, what: str) -> str:
        place = draw.randrange(1, len(text))
        return text[:place] + what + text[place:]

    def normalised(pair: Pair, earlier: Pair) -> Pair:
        source, target = earlier
        return draw.choice([(source.upper(), target), (source + "!", target), (source, target.replace(" ", "  ", 1))])

    def near(pair: Pair, earlier: Pair) -> Pair | None:
        if min(len(side.split()) for side in earlier) < NEAR_WORDS:
            return None
        return words_changed(earlier[0], draw, 1), words_changed(earlier[1], draw, draw.randrange(2))

    def ratio(pair: Pair, earlier: Pair) -> Pair | None:
        source, target = pair
        if len(source) < 40 or len(target) < 40:
            return None
        return draw.choice([(source, target[: len(target) // 5]), (source, f"{target} {target} {earlier[1]} {target}")])

    def homoglyph(pair: Pair, earlier: Pair) -> Pair | None:
        letter = draw.choice([c for c in "aeo" if f"{c}" in pair[1][1:-1]] or [""])
        return (pair[0], pair[1][0] + pair[1][1:].replace(letter, CYRILLIC_TWIN[letter], 1)) if letter else None

    def garbled(pair: Pair, earlier: Pair) -> Pair | None:
        if pair[1].isascii():
            return None
        return pair[0], pair[1].encode().decode("cp1252", errors="replace")

    def number(pair: Pair, earlier: Pair) -> Pair:
        lost = str(draw.randrange(100, 10**5))
        changed = str((int(lost[0]) % 9) + 1) + lost[1:]
        return draw.choice([(f"{pair[0]} {lost}", pair[1]), (f"{pair[0]} {lost}", f"{pair[1]} {changed}")])

    def address(pair: Pair, earlier: Pair) -> Pair:
        one, other = (f"https://example.org/p{draw.randrange(10**6)}" for _ in range(2))
        return draw.choice([(f"{pair[0]} {one}", f"{pair[1]} {other}"), (f"{pair[0]} info@{one[20:]}.org", pair[1])])

    def placeholder(pair: Pair, earlier: Pair) -> Pair:
        one, other = draw.sample(["%s", "%d", "{user}", "{0}", "<i>", "%(count)d"], 2)
        return draw.choice([(f"{pair[0]} {one}", f"{pair[1]} {other}"), (f"{pair[0]} {one}", pair[1])])

    def long(pair: Pair, earlier: Pair) -> Pair:
        times = 1100 // min(map(len, pair)) + 1
        return " ".join([pair[0]] * times), " ".join([pair[1]] * times)

    return {
        "bad-bytes": lambda pair, earlier: (pair[0], inside(pair[1], "\udce9")),
        "empty": lambda pair, earlier: draw.choice([("", pair[1]), (pair[0], " ")]),
        "duplicate": lambda pair, earlier: earlier,
        "duplicate-normalised": normalised,
        "near-duplicate": near,
        "same-sides": lambda pair, earlier: (pair[0], pair[0]),
        "length-ratio": ratio,
        "too-long": long,
        "script": lambda pair, earlier: (pair[0], pair[1].lower().translate(CYRILLIC)),
        "mixed-script": homoglyph,
        "mojibake": garbled,
        "control": lambda pair, earlier: (pair[0], inside(pair[1], draw.choice("\a\b\x0b\x7f"))),
        "invisible": lambda pair, earlier: (pair[0], inside(pair[1], draw.choice("\u00ad\u200b\ufeff\u2028"))),
        "bidi": lambda pair, earlier: (inside(pair[0], draw.choice("\u202e\u202a\u2067")), pair[1]),
        "numbers": number,
        "addresses": address,
        "placeholders": placeholder,
        "one-to-many": lambda pair, earlier: (earlier[0], pair[1]),
    }


CYRILLIC_TWIN = {"a": "а", "e": "е", "o": "о"}


def plant(pairs: list[Pair], each: int, draw: random.Random) -> tuple[list[Pair], list[str], list[Pair]]:
    """Pairs with faults, what was planted into each ("" for nothing), and an evaluation set to overlap with."""
    pairs, planted = list(pairs), [""] * len(pairs)
    long_enough = [i for i in range(len(pairs) // 3, len(pairs)) if len(pairs[i][0].split()) >= NEAR_WORDS][: 3 * each]
    held = [pairs[i] for i in long_enough]
    taken = set(long_enough)
    pairs = [pair for i, pair in enumerate(pairs) if i not in taken]
    del planted[len(pairs) :]
    free = list(range(len(pairs) // 3, len(pairs)))  # what is repeated stands in the first third, untouched
    draw.shuffle(free)
    for begin in range(each // SHIFTED_AT_ONCE):  # a target lost: the next ones move up, until one stands twice
        start = len(pairs) // 3 + begin * (len(pairs) // 2 // max(1, each // SHIFTED_AT_ONCE)) + 7
        stretch = range(start, start + SHIFTED_AT_ONCE)
        for i in stretch:
            planted[i] = "shifted"
        moved = [pairs[i + 1][1] for i in stretch]
        for i, target in zip(stretch, moved, strict=True):
            pairs[i] = pairs[i][0], target
    free = [i for i in free if not planted[i]]
    repeated = draw.sample(range(len(pairs) // 3), len(pairs) // 3)
    for rule, make in planters(draw).items():
        left = each
        while left:
            number = free.pop()
            made = make(pairs[number], pairs[repeated.pop()])
            if made is not None:
                pairs[number], planted[number] = made, rule
                left -= 1
    for kind, change in (
        ("overlap", lambda text: text),
        ("overlap-normalised", lambda text: text.upper()),
        ("overlap-near", lambda text: words_changed(text, draw, 1)),
    ):
        for _ in range(each):
            source = held.pop()[0]
            number = free.pop()
            pairs[number], planted[number] = (change(source), pairs[number][1]), kind
            held.insert(0, (source, ""))
    return pairs, planted, [(source, "x") for source, _ in held]


def write(path: Path, pairs: list[Pair]) -> None:
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        file.writelines(f"{source}\t{target}\n" for source, target in pairs)


def corpus_of(path: Path) -> Corpus:
    return Corpus.from_files([str(path)], [], [], DataConfig(skip_bad=True))


def measure(path: Path, held: Path | None, look_for: tuple[str, ...]) -> tuple[Any, float, float]:
    """What is found, the seconds of this process that it took, and those of the reading alone."""
    tables()
    started = time.process_time()
    count = sum(len(pairs) for pairs in in_chunks(corpus_of(path)))
    reading = time.process_time() - started
    started = time.process_time()
    evaluation = EvaluationSets({"test": corpus_of(held)}, near="overlap-near" in look_for) if held else None
    findings = check_corpus(corpus_of(path), Check(look_for, evaluation=evaluation))
    assert len(findings) == count
    return findings, time.process_time() - started, reading


def benchmark(options: argparse.Namespace) -> dict[str, Any]:
    draw = random.Random(options.seed)
    if options.base:
        base = [(p.source.strip(), p.target.strip()) for p in corpus_of(options.base) if p.source and p.target]
        base = [pair for pair in dict.fromkeys(base) if min(len(side.split()) for side in pair) >= 4][: options.pairs]
        draw.shuffle(base)
    else:
        base = list(decorated(synthetic.pairs(options.pairs, options.seed), draw))
        base = list({"".join(pair): pair for pair in base}.values())  # short ones come twice
    pairs, planted, held = plant(base, options.each, draw)
    with tempfile.TemporaryDirectory() as folder:
        path, test = Path(folder) / "pairs.tsv", Path(folder) / "test.tsv"
        write(path, pairs)
        write(test, held)
        # The best of three: other work on the machine can only make it slower.
        quick, reading = min(measure(path, None, QUICK)[1:] for _ in range(3))
        findings, full, _ = measure(path, test, tuple(rule for rule in RULES if rule != "language"))
    rows = {}
    for rule in RULES:
        reported = [planted[i] for i in findings.which(rule).tolist()]
        hits, innocent = reported.count(rule), reported.count("")
        total = planted.count(rule)
        if total:
            rows[rule] = {
                "planted": total, "found": hits, "recall": hits / total, "innocent": innocent,
                "precision": hits / max(1, hits + innocent), "other": len(reported) - hits - innocent,
            }  # fmt: skip
    return {
        "pairs": len(pairs), "rules": rows, "reading_seconds": reading, "quick_seconds": quick, "full_seconds": full,
        "quick_pairs_per_second": len(pairs) / quick, "full_pairs_per_second": len(pairs) / full,
    }  # fmt: skip


def curve(sizes: list[int], seed: int) -> list[dict[str, float]]:
    """Near-duplicates alone: seconds of this process and its largest memory, for more and more pairs (ascending)."""
    points = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pairs.tsv"
            synthetic.write_tsv(path, size, seed)
            _, quick, reading = measure(path, None, QUICK)
            findings, seconds, _ = measure(path, None, (*QUICK, "near-duplicate"))
        points.append({
            "pairs": size, "reading": reading, "quick": quick, "with_near": seconds,
            "near_duplicates": findings.count("near-duplicate"),
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        })  # fmt: skip
        print(points[-1], file=sys.stderr, flush=True)
    return points


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--each", type=int, default=500)
    parser.add_argument("--base", type=Path, help="a pair file to plant into, instead of made-up pairs")
    parser.add_argument("--curve", type=lambda text: [int(n) for n in text.split(",")], help="numbers of pairs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write all numbers here")
    options = parser.parse_args(arguments)
    if options.curve:
        result: Any = curve(options.curve, options.seed)
        print(
            "| pairs | reading s | quick rules s | with near-duplicates s | µs a pair | peak MB |\n|---|---|---|---|---|---|"
        )
        for p in result:
            print(f"| {p['pairs']:,} | {p['reading']:.1f} | {p['quick']:.1f} | {p['with_near']:.1f} "
                  f"| {p['with_near'] / p['pairs'] * 1e6:.1f} | {p['megabytes']:,.0f} |")  # fmt: skip
    else:
        result = benchmark(options)
        print("| fault | planted | found | recall | innocent reported | precision | with another planted fault |")
        print("|---|---|---|---|---|---|---|")
        for rule, row in result["rules"].items():
            print(f"| {rule} | {row['planted']} | {row['found']} | {row['recall']:.1%} | {row['innocent']} "
                  f"| {row['precision']:.1%} | {row['other']} |")  # fmt: skip
        print(f"\n{result['pairs']:,} pairs; the quick rules {result['quick_pairs_per_second']:,.0f} pairs a second of one "
              f"core, reading included; with near-duplicates and overlap {result['full_pairs_per_second']:,.0f}.")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
