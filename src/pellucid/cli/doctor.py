"""`pellucid doctor`."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import sys
from typing import Any

import click

from pellucid.cli.common import examples
from pellucid.version import __version__

OPTIONAL = {
    "matplotlib": ("plot", "drawing curves"),
    "ctranslate2": ("ct2", "--engine ctranslate2, pellucid export"),
    "starlette": ("serve", "pellucid serve"),
    "uvicorn": ("serve", "pellucid serve"),
    "python-multipart": ("serve", "forms and files sent to pellucid serve"),
    "py3langid": ("detect", "finding out the language of a text"),
    "tensorboard": ("tensorboard", "TensorBoard logs"),
    "hsg": ("demo", "pellucid demo"),
    "hsk-sentences-audio": ("demo", "pellucid demo --task pinyin"),
}
NEEDED = ("torch", "numpy", "sentencepiece", "safetensors", "sacrebleu", "click", "rich")


@click.command("doctor", epilog=examples("pellucid doctor", "pellucid doctor --json"))
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(as_json: bool) -> None:
    """Look at this machine and installation; say what is missing and the command that mends it."""
    found = examine()
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for name, value in found["facts"].items():
            click.echo(f"{name:22} {value}")
        for problem in found["problems"]:
            click.echo(f"problem: {problem['what']}\n  hint: {problem['mend']}")
        for missing in found["missing"]:
            click.echo(f"not installed: {missing['what']} ({missing['use']})\n  hint: {missing['mend']}")
        if not found["problems"]:
            click.echo("all that is needed is here")
    sys.exit(1 if found["problems"] else 0)


def examine() -> dict[str, Any]:
    """Facts, problems (with what mends them) and optional parts that are missing."""
    from pellucid.machine import available_cores, available_memory

    facts: dict[str, Any] = {
        "pellucid": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    problems: list[dict[str, str]] = []
    for name in NEEDED:
        version = _version(name)
        facts[name] = version or "missing"
        if version is None:
            problems.append({"what": f"{name} is not installed", "mend": f"pip install {name}"})
    if _version("torch"):
        import torch

        facts["torch build"] = (
            f"{torch.__version__}, CUDA {torch.version.cuda or 'none'}, MKL {torch.backends.mkl.is_available()}"
        )
        facts["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
        facts["cpu capability"] = torch.backends.cpu.get_cpu_capability()
    memory = available_memory()
    facts["cores"] = f"{available_cores()} of {os.cpu_count()}"
    facts["memory free"] = "unknown" if memory is None else f"{memory / 1e9:.1f} GB"
    disk = shutil.disk_usage(".")
    facts["disk free here"] = f"{disk.free / 1e9:.1f} GB"
    facts["GOMP_SPINCOUNT"] = os.environ.get("GOMP_SPINCOUNT", "not set")
    facts["stdout encoding"] = sys.stdout.encoding
    if disk.free < 1e9:
        problems.append({"what": f"{disk.free / 1e6:.0f} MB of disk are free here", "mend": "free some space"})
    if memory is not None and memory < 1e9:
        problems.append({"what": f"{memory / 1e6:.0f} MB of memory are free", "mend": "close other programs"})
    missing = [
        {"what": name, "use": use, "mend": f"pip install 'pellucid[{extra}]'"}
        for name, (extra, use) in OPTIONAL.items()
        if _version(name) is None
    ]
    return {"facts": facts, "problems": problems, "missing": missing}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
