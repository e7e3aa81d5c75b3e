"""How fast is a translation memory read, and in how much memory? Beside expat alone, and translate-toolkit.

A memory is made up and read by each reader in a process of its own, one after the other, from a file that is in the
system's cache. `expat alone` parses the file with handlers that do nothing: what no reader in Python can be faster
than. translate-toolkit holds the whole file, so it is given a smaller one; name a Python that has it:

    python -m venv toolkit; toolkit/bin/pip install translate-toolkit
    python benchmarks/tmx.py --toolkit toolkit/bin/python
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"

READERS = {
    "pellucid": """
from pellucid.config import DataConfig
from pellucid.data.formats.tmx import read_tmx
def units(path):
    return sum(1 for pair in read_tmx(path, DataConfig(source_language="en", target_language="de")) if pair.target)
""",
    "expat alone": """
from xml.parsers import expat
def units(path):
    found = 0
    def start(name, attributes):
        nonlocal found
        found += name == "tu"
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, lambda name: None
    with open(path, "rb") as file:
        parser.ParseFile(file)
    return found
""",
    "translate-toolkit": """
from translate.storage.tmx import tmxfile
def units(path):
    with open(path, "rb") as file:
        memory = tmxfile(file, sourcelanguage="en-US", targetlanguage="de-DE")
    return sum(1 for unit in memory.units if unit.source and unit.target)
""",
}
MEASURE = """
import json, resource, sys, time
wall, processor = time.perf_counter(), time.process_time()
found = units(sys.argv[1])
wall, processor = time.perf_counter() - wall, time.process_time() - processor
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"units": found, "wall": wall, "processor": processor, "peak": peak / 1024}))
"""


@dataclass
class Row:
    """One reader's rounds over one file."""

    name: str
    megabytes: float
    units: int
    wall: list[float]
    processor: list[float]
    peak: float
    """MB resident at most, Python itself included."""

    def cells(self) -> list[str]:
        rates = [f"{self.units / statistics.median(seconds):,.0f}" for seconds in (self.processor, self.wall)]
        slowest = f"{self.units / max(self.processor):,.0f}"
        return [self.name, f"{self.megabytes:,.0f}", f"{self.units:,}", *rates, slowest, f"{self.peak:,.0f}"]


def make_memory(path: Path, megabytes: float) -> int:
    """A memory of about this size in English and German; returns the number of units."""
    number = written = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header creationtool="benchmark" ')
        file.write('creationtoolversion="1" segtype="sentence" o-tmf="x" adminlang="en" srclang="en-US" ')
        file.write('datatype="plaintext"/>\n<body>\n')
        while written < megabytes * 1e6:
            number += 1
            unit = (
                f'<tu tuid="{number}" creationdate="20260101T000000Z">\n'
                f'  <tuv xml:lang="en-US"><seg>The {number} green boats wait near the old harbour wall.</seg></tuv>\n'
                f'  <tuv xml:lang="de-DE"><seg>An der alten Hafenmauer &amp; dort warten {number} grüne Boote.</seg></tuv>\n'
                "</tu>\n"
            )
            written += len(unit.encode())
            file.write(unit)
        file.write("</body>\n</tmx>\n")
    return number


def measure(name: str, python: str, path: Path, rounds: int) -> Row:
    row = Row(name, path.stat().st_size / 1e6, 0, [], [], 0)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    for _ in range(rounds):
        done = subprocess.run(
            [python, "-c", READERS[name] + MEASURE, str(path)],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found = json.loads(done.stdout)
        row.units = found["units"]
        row.wall.append(found["wall"])
        row.processor.append(found["processor"])
        row.peak = max(row.peak, found["peak"])
    return row


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=1000, help="size of the memory [1000]")
    parser.add_argument("--rounds", type=int, default=3, help="how often each reader reads it [3]")
    parser.add_argument("--toolkit", metavar="PYTHON", help="a Python that has translate-toolkit")
    parser.add_argument("--toolkit-megabytes", type=float, default=100, help="size of the memory it is given [100]")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder, "large.tmx"), Path(folder, "small.tmx")
        made = make_memory(large, options.megabytes)
        rows = [measure(name, sys.executable, large, options.rounds) for name in ("pellucid", "expat alone")]
        if options.toolkit:
            make_memory(small, options.toolkit_megabytes)
            rows.append(measure("pellucid", sys.executable, small, options.rounds))
            rows.append(measure("translate-toolkit", options.toolkit, small, 1))
    assert all(row.units == made for row in rows[:2])
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}; load of the machine {load:.1f} at the end; {options.rounds} rounds\n")
    print(
        "| reader | MB | units | units a second of processor time (median) | by the clock | slowest round | MB resident |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row.cells())} |")


if __name__ == "__main__":
    main()
