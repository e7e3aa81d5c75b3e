"""One page that needs no server: what happened in a translation, in a file that opens by itself or in a notebook.

The same script and style sheet as the served page, put into the file with the data.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pellucid.checkpoint import write_atomically
from pellucid.config import SearchConfig
from pellucid.errors import PellucidError
from pellucid.inspection import encoding
from pellucid.inspection.flow import flow
from pellucid.inspection.recorder import KINDS, Head
from pellucid.inspection.trace import Trace, trace
from pellucid.translator import Translator

POSITIONS = 64
"""Rows of the table of positions that the file holds."""
FRAME_HEIGHT = 860


def static(name: str) -> str:
    """A file of the page.

    Raises:
        PellucidError: the installation has none.
    """
    try:
        return files("pellucid.server").joinpath("static", name).read_text(encoding="utf-8")
    except (FileNotFoundError, ModuleNotFoundError):
        raise PellucidError(
            f"this installation lacks the page's {name}", hint="install pellucid again; in a checkout: make web"
        ) from None


def inline_json(value: Any) -> str:
    """JSON that can stand inside a script element, whatever texts are in it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


@dataclass(frozen=True)
class Report:
    """A translation that was looked into. In a notebook it shows itself."""

    trace: Trace
    html: str
    """The whole file."""

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        write_atomically(Path(path), self.html)

    def _repr_html_(self) -> str:
        # A frame of its own: the notebook's styles and scripts do not meet the page's.
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="{FRAME_HEIGHT}" '
            f'style="border:0" title="pellucid"></iframe>'
        )


def inspect(
    translator: Translator,
    text: str,
    target: str | None = None,
    config: SearchConfig | None = None,
    *,
    off: Sequence[Head] = (),
    language: str | None = None,
    table: dict[str, Any] | None = None,
) -> Report:
    """Translate `text` and make the page of it.

    Args:
        target, config, off: see :func:`~pellucid.inspection.trace.trace`.
        language: of the page, en or zh; None: the reader's.
        table: measures of the heads to show with it, as `pellucid heads --json` writes them.
    """
    found = trace(translator, text, target, config, off=off)
    directory = translator.loaded.directory
    name = directory.name if directory is not None else "model"
    model = {**encoding.model_json(translator, name), "examples": [], "training": False, "pairs": 0}
    data = {
        "model": model,
        "trace": {"id": "embedded", "seconds": None, **encoding.trace_json(found)},
        "heads": {kind: encoding.float32(found.maps(kind).weights) for kind in KINDS},
        "flow": _flows(translator, found),
        "positions": encoding.positions_json(translator.model, POSITIONS),
        "labs": None,
        "table": table,
        "lang": language,
    }
    return Report(found, one_file(data, f"pellucid · {found.text[:60]}"))


def one_file(data: dict[str, Any], title: str) -> str:
    """The page with its script, its style sheet and `data` in it."""
    page = static("index.html")
    embedded = f'<script type="application/json" id="pellucid-data">{inline_json(data)}</script>'
    script = static("pellucid.js").replace("</script", "<\\/script")
    for pattern, new in (
        (r"<title>.*?</title>", f"<title>{html.escape(title)}</title>"),
        (r'<link rel="stylesheet"[^>]*>', f"<style>{static('pellucid.css')}</style>"),
        (r"<script src=[^>]*></script>", ""),
        (r"</body>", f"{embedded}<script>{script}</script></body>"),
    ):
        page, count = re.subn(pattern, lambda _, new=new: new, page)  # type: ignore[misc]
        assert count == 1, pattern
    return page


def _flows(translator: Translator, found: Trace) -> dict[str, Any]:
    """Of each kind the first and the last layer, first head, at the last position but the end mark: the file stays small."""
    flows = {}
    for kind in KINDS:
        maps = found.maps(kind)
        position = max(0, len(maps.rows) - 2)
        for layer in sorted({0, maps.weights.size(0) - 1}):
            numbers = encoding.flow_json(flow(translator, found, Head(kind, layer, 0), position))
            flows[f"{kind}.{layer}.0"] = numbers
    return flows
