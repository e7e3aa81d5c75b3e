"""Pairs without those that named rules drop; and a list of what was dropped, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pellucid.data.check import Findings
from pellucid.data.corpus import Corpus
from pellucid.data.rules import BIT, RULES, UNWRITABLE
from pellucid.data.writing import NewFile, tsv_line


@dataclass(frozen=True)
class Cleaned:
    """How many pairs were read and kept, and how many of the others each rule is to blame for (a pair may have several)."""

    read: int
    kept: int
    dropped: Counter[str]


def write_clean(
    corpus: Corpus, findings: Findings, rules: Sequence[str], out: str | Path, report: str | Path
) -> Cleaned:
    """Write the pairs without the faults `rules` as TSV to `out`, in order; and the others to `report`.

    The report is TSV too: the rules (with commas between them), file, line, source, target.

    Raises:
        DataError: a file cannot be written.
    """
    bits = np.uint32(sum(BIT[rule] for rule in set(rules)))
    reasons = (findings.faults & bits).tolist()
    names = {bit: rule for rule, bit in BIT.items()}
    dropped: Counter[str] = Counter()
    kept = 0
    with NewFile(out) as good, NewFile(report) as bad:
        bad.write(tsv_line("rules", "file", "line", "source", "target"))
        for pair, reason in zip(corpus, reasons, strict=True):
            if pair.source is None or pair.target is None:
                reason |= BIT[UNWRITABLE]
            if not reason:
                kept += 1
                good.write(tsv_line(pair.source, pair.target))
                continue
            blamed = [names[1 << number] for number in range(len(RULES)) if reason >> number & 1]
            dropped.update(blamed)
            bad.write(tsv_line(",".join(blamed), pair.file, str(pair.line), pair.source, pair.target))
    return Cleaned(len(reasons), kept, dropped)
