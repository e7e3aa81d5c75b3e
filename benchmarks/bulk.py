"""Translating a large file: is memory flat, and how much of the time is the engine's own?

Lines of a text, over and over, go through `Translator.stream` into a file, as `pellucid translate FILE > OUT` does it.
Every 1,000 lines the resident memory is noted. The share of the engine is the time inside of it over all the time:
reading, cutting into pieces, batching, joining and writing are the rest. A share of 90 % means that the whole runs at
0.9 times the engine's bare rate.
"""

from __future__ import annotations

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch: see pellucid/__init__.py

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

from pellucid.data.formats.lines import read_lines
from pellucid.engines.search_engine import Request
from pellucid.translator import Translator

EVERY = 1000
SETTLED = 5000
"""Lines until memory should have found its level: windows have grown to their largest by then."""


def resident_megabytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--beam-size", type=int, default=1)
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(os.devnull))
    parser.add_argument("--json", type=Path, help="write all numbers here")
    options = parser.parse_args(arguments)
    translator = Translator.load(options.model, engine=options.engine, threads=options.threads)
    config = translator.with_search(beam_size=options.beam_size, n_best=1)
    inside, real = 0.0, translator.engine.search

    def timed(request: Request) -> Any:
        nonlocal inside
        started = time.perf_counter()
        found = real(request)
        inside += time.perf_counter() - started
        return found

    translator.engine.search = timed  # type: ignore[method-assign]

    def lines() -> Any:
        while True:
            for line in read_lines(str(options.text)):
                yield line.text or ""

    memory: list[float] = []
    started = time.perf_counter()
    with options.out.open("w", encoding="utf-8") as out:
        texts = itertools.islice(lines(), options.lines)
        for number, translation in enumerate(translator.stream(texts, config, scores=False), start=1):
            out.write(translation.text + "\n")
            if number % EVERY == 0:
                memory.append(resident_megabytes())
                if number % (10 * EVERY) == 0:
                    rate = number / (time.perf_counter() - started)
                    print(f"{number:,} lines, {rate:,.0f} a second, {memory[-1]:,.0f} MB", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - started
    later = memory[SETTLED // EVERY - 1 :] or memory
    result = {
        "lines": options.lines, "seconds": seconds, "lines_per_second": options.lines / seconds,
        "share_of_engine": inside / seconds, "megabytes": memory, "at_5000_lines": later[0], "lowest_after": min(later),
        "highest_after": max(later), "engine": translator.engine.name, "beam_size": options.beam_size,
    }  # fmt: skip
    print(f"{options.lines:,} lines in {seconds:.1f} s, {options.lines / seconds:,.1f} a second; the engine's share "
          f"{inside / seconds:.1%}; resident {later[0]:,.0f} MB after {SETTLED:,} lines, then "
          f"{min(later):,.0f} to {max(later):,.0f} MB ({min(later) / later[0] - 1:+.1%} to {max(later) / later[0] - 1:+.1%})")  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
