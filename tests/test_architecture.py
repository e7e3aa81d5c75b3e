"""Imports only point down the ladder, so that each file can be read without the ones above it; and torch stays out of
what must answer at once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "pellucid"

LADDER = """
    version errors terminal machine
    tags
    config demo_data data.characters data.shift data.writing
    config demo_data calibration translation data.characters data.shift data.writing
    text.spans text.sentences text.loops text.markup
    text.html
    data.formats.pair data.formats.lines data.formats.languages data.formats.inline data.formats.charset data.near data.rules
    data.overlap data.language
    data.formats.registry data.formats.columns data.formats.xml_stream data.formats.gettext
    data.formats.document
    data.formats.text
    data.formats.*
    data.formats.tmx_document data.formats.xliff_document data.formats.po_document
    text.bare text.terms
    text.options text.placement
    data.corpus
    data.check
    data.check_report data.cleaning data.splitting
    data.memory
    data.tokenizer
    insisting
    handling
    data.store
    data.batching
    data.segmentation
    data.subword_regularization
    model.masks model.dropout model.cache
    model.attention model.feed_forward model.embeddings model.positional_encoding
    model.stacks
    model.transformer
    interop.ctranslate2
    search
    constrained_search
    phrases
    engines.linear
    checkpoint
    shortlist
    engines.executor engines.search_engine
    engines.choice engines.ctranslate2 engines.shortlist_engine engines.static_cache
    engines.engine
    alignment
    translator
    inspection.words inspection.recorder inspection.svg
    inspection.gates
    inspection.trace
    inspection.flow
    inspection.measures inspection.forcing
    inspection.roles
    inspection.encoding
    inspection.report
    training.muon
    training.records training.loss training.optimizer training.evaluation
    training.run_folder training.replicas training.bfloat16
    quantization training.trainer
    inspection.labs.base
    inspection.labs.toy inspection.labs.trained
    inspection.labs.*
    inspection.labs.catalogue inspection.labs.page
    exporting distillation shortlisting inspection.ablation inspection.alignment calibrating
    inspection.heads
    inspection.heads_page
    server.inspector server.protocol server.refusal server.languages server.detection server.metrics
    server.limits server.reading server.batcher server.translating server.page
    server.service
    server.endpoint server.documents server.openapi
    server.libretranslate
    server.deepl server.plain
    server.app
    training.run
    cli.common cli.columns cli.progress cli.workers cli.drawing
    cli.main cli.checking
    cli.train cli.serve
    cli.*
    __main__ __init__
"""
"""From the ground up, a rung a line; a file may import only from lower rungs."""

TORCH = {
    "model",
    "interop",
    "search",
    "constrained_search",
    "engines",
    "checkpoint",
    "translator",
    "alignment",
    "calibrating",
    "training",
    "exporting",
    "distillation",
    "shortlisting",
    "inspection",
    "server",
}
"""Where torch may be imported when a file is loaded. Elsewhere only inside a function."""
TORCHLESS = {"training.records", "training.evaluation", "inspection.svg"}


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "__init__.py" or path.parent == SOURCE
    }


def rung(module: str) -> int:
    for number, line in enumerate(LADDER.split("\n")):
        if module in line.split():
            return number
    for number, line in enumerate(LADDER.split("\n")):
        if f"{module.rpartition('.')[0]}.*" in line.split():
            return number
    raise AssertionError(f"{module} stands on no rung of the ladder: give it one")


def imports(tree: ast.AST, *, top_level: bool = False) -> Iterator[str]:
    """Names of imported modules; with `top_level` only what is imported when the file is loaded."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports inside the package are absolute"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue  # for the type checker only
        elif not (top_level and isinstance(node, ast.FunctionDef)):
            yield from imports(node, top_level=top_level)


@pytest.mark.parametrize("module", modules())
def test_imports_point_down(module: str) -> None:
    known = modules()
    for name in imports(ast.parse(known[module].read_text(encoding="utf-8"))):
        inside = name.removeprefix("pellucid.")
        if name.startswith("pellucid.") and inside in known and inside != module:
            assert rung(inside) < rung(module), f"{module} imports {inside}, which does not stand below it"


@pytest.mark.parametrize("module", modules())
def test_torch_is_imported_only_where_it_is_at_home(module: str) -> None:
    if module.split(".")[0] in TORCH and module not in TORCHLESS:
        return
    loaded = {name.split(".")[0] for name in imports(ast.parse(modules()[module].read_text("utf-8")), top_level=True)}
    assert "torch" not in loaded


@pytest.mark.parametrize(
    "package", ["model", "data", "data/formats", "training", "cli", "inspection", "inspection/labs", "server", "text"]
)
def test_subpackages_hold_a_docstring_and_nothing_else(package: str) -> None:
    """Rings of imports come from packages that re-export what is in them."""
    body = ast.parse((SOURCE / package / "__init__.py").read_text(encoding="utf-8")).body
    assert len(body) == 1
    assert isinstance(body[0], ast.Expr)


@pytest.mark.parametrize(
    "code",
    [
        "import pellucid",
        "import pellucid.config, pellucid.data.corpus, pellucid.data.tokenizer, pellucid.data.batching, pellucid.demo_data",
        "from pellucid import TransformerConfig, RunConfig, PellucidError, __version__",
        "from importlib import import_module; from pellucid.cli.main import VERBS\n"
        "for verb in VERBS: import_module(f'pellucid.cli.{verb}')",
    ],
)
def test_torch_is_not_loaded_before_it_is_needed(code: str) -> None:
    after = "import sys; assert 'torch' not in sys.modules, 'torch'"
    done = subprocess.run([sys.executable, "-W", "error", "-c", f"{code}\n{after}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_file_uses_pickle() -> None:
    for module, path in modules().items():
        names = set(imports(ast.parse(path.read_text(encoding="utf-8"))))
        assert not names & {"pickle", "shelve", "marshal", "dill"}, module
        assert not re.search(r"(?<!safetensors\.)\btorch\.(load|save)\(", path.read_text(encoding="utf-8")), module


def test_public_names_are_all_there_and_sorted() -> None:
    import pellucid

    assert list(pellucid.__all__) == sorted(pellucid.__all__)
    for name in pellucid.__all__:
        assert getattr(pellucid, name) is not None
    assert set(pellucid.__all__) == set(dir(pellucid))
    with pytest.raises(AttributeError, match="no attribute 'Transfomer'"):
        _ = pellucid.Transfomer
