"""`pellucid plot`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from pellucid.cli.common import examples, say


@click.command("plot", epilog=examples("pellucid plot model", "pellucid plot model --out curves.svg"))
@click.argument("model", metavar="DIR")
@click.option("--out", metavar="FILE", help="The SVG to write. [DIR/training/curves.svg]")
def command(model: str, out: str | None) -> None:
    """Draw the curves of a training run: loss, learning rate, BLEU and chrF, as SVG."""
    from pellucid.errors import DataError, PellucidError

    try:
        import matplotlib
    except ImportError:
        raise PellucidError(
            "drawing needs matplotlib, which is not installed", hint="pip install 'pellucid[plot]'"
        ) from None
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    metrics = Path(model) / "training" / "metrics.jsonl"
    if not metrics.is_file():
        raise DataError("there is no such file: no training has been here", file=str(metrics))
    records: list[dict[str, Any]] = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    steps = [r for r in records if r["record"] == "progress"]
    looks = [r for r in records if r["record"] == "validation"]
    if not steps:
        raise DataError("has no update yet", file=str(metrics))
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    axes[0].plot([r["update"] for r in steps], [r["loss"] for r in steps], lw=0.6, label="training")
    axes[0].plot([r["update"] for r in looks], [r["loss"] for r in looks], "o-", ms=3, label="validation")
    axes[0].set(title="loss a target token (label-smoothed)", xlabel="update")
    axes[0].legend()
    axes[1].plot([r["update"] for r in steps], [r["rate"] for r in steps])
    axes[1].set(title="learning rate", xlabel="update")
    for name, label in (("bleu", "BLEU"), ("chrf", "chrF2++")):
        scored = [r for r in looks if r[name] is not None]
        axes[2].plot([r["update"] for r in scored], [r[name] for r in scored], "o-", ms=3, label=label)
    axes[2].set(title="validation, greedy", xlabel="update")
    axes[2].legend()
    target = Path(out) if out else metrics.with_name("curves.svg")
    figure.savefig(target, format="svg")
    plt.close(figure)
    say(str(target))
