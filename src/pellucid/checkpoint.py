"""A model is a folder that a person can open; weights are safetensors, everything else JSON and text. No pickle.

    config.json          shape of the model, languages, search defaults, kinds of tokenizer, tags
    tokenizer.model      one for both sides, or source.model and target.model
    model.safetensors    the weights; a shared matrix stands once. A quantized folder has its matrices as int8, and for
                         each a factor for every row (`name.scale`)
    README.md            the model card

Every file is written beside its place, flushed to the disk and renamed into it, so that a kill or a full disk leaves
the old file or the new one and never half of one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from pellucid.config import SearchConfig, TransformerConfig, from_mapping
from pellucid.data.tokenizer import Tokenizer
from pellucid.engines.linear import Ranges, quantize_rows
from pellucid.errors import ConfigError, ModelFolderError
from pellucid.model.transformer import Transformer
from pellucid.tags import target_languages
from pellucid.version import __version__

FORMAT = "pellucid-model"
FORMAT_VERSION = 1
"""Raised when an older program could not read the folder any more."""
QUANTIZED_FORMAT_VERSION = 2
"""That of quantized folders, which the first release cannot read."""
TAGGED_FORMAT_VERSION = 3
"""That of folders with tags, whose ids older programs do not know."""
SCALE = ".scale"


@dataclass(frozen=True)
class LoadedModel:
    """A model folder in memory; the model is in evaluation mode."""

    model: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    search: SearchConfig
    source_language: str | None
    target_language: str | None
    directory: Path | None = None
    longest_source: int = 256
    """Tokens (with tags and the end mark) of the longest source it was trained on; a longer text is split."""
    ranges: Ranges | None = None
    """Of a quantized folder, what the inputs of its linear maps were between; None: it is float32. The model in memory
    has float32 weights either way, those of a quantized folder rounded as they are in the file."""


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write `path` so that after any interruption it holds its old content or all of the new one.

    Raises:
        ModelFolderError: the disk is full or the folder cannot be written; the old content is intact.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    path = Path(os.path.realpath(path))  # a link stays a link
    temporary = None
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # /dev/null, a pipe: must not be replaced by a file
            return
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # a temporary file is private; a model is not
        temporary.replace(path)
        fsync_directory(path.parent)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise ModelFolderError(
            f"{path}: cannot be written: {error.strerror or error}; what was there before is intact",
            hint="free space on that disk, or name another folder",
        ) from error


def fsync_directory(path: Path) -> None:
    """Make a rename inside `path` survive a power failure, where the system can say so."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The weights by name; one that stands in several places (tied embeddings) comes once."""
    return {name: weight.detach() for name, weight in model.named_parameters()}


@torch.no_grad()
def set_weights(model: nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Copy `weights` into `model`.

    Raises:
        ModelFolderError: names or shapes that differ; `where` names the file.
    """
    parameters = dict(model.named_parameters())
    if parameters.keys() != weights.keys():
        odd = sorted(parameters.keys() ^ weights.keys())
        raise ModelFolderError(f"{where}: the weights do not fit config.json; they differ in {', '.join(odd[:3])}")
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            raise ModelFolderError(
                f"{where}: `{name}` must be {tuple(parameter.shape)}, but is {tuple(weights[name].shape)}"
            )
        parameter.copy_(weights[name])


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors as safetensors, atomically."""
    cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, safetensors.torch.save(cpu, metadata))


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read safetensors.

    Raises:
        ModelFolderError: missing or damaged.
    """
    try:
        return safetensors.torch.load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise ModelFolderError(f"{path}: cannot be read as safetensors: {error}") from error


def save_model(
    directory: str | Path,
    weights: dict[str, Tensor],
    config: TransformerConfig,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    search: SearchConfig,
    source_language: str | None = None,
    target_language: str | None = None,
    longest_source: int = 256,
    card: str = "",
    ranges: Ranges | None = None,
) -> None:
    """Write a model folder. `config.json` comes last, so that a folder that has it is whole.

    With `ranges` it is a quantized one: see :func:`~pellucid.quantization.quantize_model`.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    joint = source_tokenizer is target_tokenizer
    files = {"source": "tokenizer.model", "target": "tokenizer.model"} if joint else _SEPARATE
    for side, tokenizer in (("source", source_tokenizer), ("target", target_tokenizer)):
        with tempfile.TemporaryDirectory(dir=directory, prefix=".tokenizer.") as folder:
            tokenizer.save(Path(folder) / "new.model")
            write_atomically(directory / files[side], (Path(folder) / "new.model").read_bytes())
    stored = weights if ranges is None else _quantized(weights)
    save_tensors(directory / "model.safetensors", stored, {"format": "pt"})
    if card:
        write_atomically(directory / "README.md", card)
    version = FORMAT_VERSION if ranges is None else QUANTIZED_FORMAT_VERSION
    targets = target_languages(source_tokenizer.tags)  # for whoever reads; here the tokenizer's tags say it
    described = {
        "format": FORMAT,
        "format_version": TAGGED_FORMAT_VERSION if source_tokenizer.tags else version,
        "pellucid_version": __version__,
        "languages": {
            "source": source_language,
            "target": target_language,
            **({"targets": targets} if targets else {}),
        },
        "longest_source": longest_source,
        "model": dataclasses.asdict(config),
        "tokenizers": {
            side: {"file": files[side], **tokenizer.config()}
            for side, tokenizer in (("source", source_tokenizer), ("target", target_tokenizer))
        },
        "search": dataclasses.asdict(search),
        **({} if ranges is None else {"quantization": {"weights": "int8", "ranges": dict(ranges)}}),
    }
    write_atomically(directory / "config.json", json.dumps(described, ensure_ascii=False, indent=2) + "\n")


def _quantized(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Matrices as int8 with a factor a row; what has one dimension, and learned positions, stays as it is."""
    stored: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if weight.dim() == 2 and not name.endswith("positions.table"):
            stored[name], stored[name + SCALE] = quantize_rows(weight.float())
        else:
            stored[name] = weight
    return stored


def _dequantized(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The float32 weights of either kind of file."""
    return {
        name: tensor * stored[name + SCALE][:, None] if name + SCALE in stored else tensor
        for name, tensor in stored.items()
        if not name.endswith(SCALE)
    }


_SEPARATE = {"source": "source.model", "target": "target.model"}


def load_model(directory: str | Path, device: str | torch.device = "cpu") -> LoadedModel:
    """Read a model folder.

    Raises:
        ModelFolderError: no such folder, not a model, damaged, or written by a newer pellucid.
    """
    directory = Path(directory)
    described = read_config(directory)
    try:
        config = from_mapping(TransformerConfig, described["model"], "model")
        search = from_mapping(SearchConfig, described["search"], "search")
        kinds: dict[str, dict[str, Any]] = {side: dict(described["tokenizers"][side]) for side in ("source", "target")}
        files = {side: directory / kinds[side].pop("file") for side in kinds}
        languages = described["languages"]
        quantized = described.get("quantization")
        ranges = None if quantized is None else {n: (float(a), float(b)) for n, (a, b) in quantized["ranges"].items()}
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise ModelFolderError(f"{directory / 'config.json'}: {error}") from error
    for file in files.values():
        if not file.is_file():
            raise ModelFolderError(f"{file}: is missing; a model folder needs its tokenizer")
    source = Tokenizer.load(files["source"], kinds["source"])
    target = source if files["target"] == files["source"] else Tokenizer.load(files["target"], kinds["target"])
    for side, tokenizer, size in (("source", source, config.src_vocab), ("target", target, config.tgt_vocab)):
        if len(tokenizer) != size:
            raise ModelFolderError(
                f"{files[side]}: the {side} tokenizer must have {size} pieces for these weights, but has {len(tokenizer)}"
            )
    model = Transformer.from_config(config)
    weights = _dequantized(load_tensors(directory / "model.safetensors"))
    set_weights(model, weights, str(directory / "model.safetensors"))
    return LoadedModel(
        model.to(device).eval(), source, target, search, languages.get("source"), languages.get("target"), directory,
        int(described["longest_source"]), ranges,
    )  # fmt: skip


def read_config(directory: Path) -> dict[str, Any]:
    """config.json of a model folder, its format checked.

    Raises:
        ModelFolderError: see :func:`load_model`.
    """
    path = directory / "config.json"
    if not directory.is_dir():
        raise ModelFolderError(f"{directory}: no such folder", hint="pellucid train PAIRS --out FOLDER makes one")
    if not path.is_file():
        hint = "pellucid train PAIRS --out FOLDER makes one"
        if (directory / "training").is_dir():
            hint = f"its training has not got as far as a first model; go on with: pellucid train --resume --out {directory}"
        raise ModelFolderError(f"{directory}: is not a model folder: it has no config.json", hint=hint)
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise ModelFolderError(f"{path}: is not a pellucid model: `format` must be {FORMAT!r}")
    if described.get("format_version") not in (FORMAT_VERSION, QUANTIZED_FORMAT_VERSION, TAGGED_FORMAT_VERSION):
        raise ModelFolderError(
            f"{path}: `format_version` must be at most {TAGGED_FORMAT_VERSION}, but is {described.get('format_version')!r}",
            hint="pip install --upgrade pellucid",
        )
    return described


def average_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints (section 6.1), summed in float64.

    Raises:
        ModelFolderError: no file, or weights of different shapes.
    """
    if not files:
        raise ModelFolderError("an average needs at least one checkpoint")
    total: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for file in files:
        weights = load_tensors(file)
        if total and {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in total.items()}:
            raise ModelFolderError(f"{file}: its weights have other names or shapes than those of {files[0]}")
        for name, weight in weights.items():
            kinds[name] = weight.dtype
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (weight / len(files)).to(kinds[name]) for name, weight in total.items()}


def average_models(directories: Iterable[str | Path], out: str | Path) -> None:
    """A model folder `out` whose weights are the mean of those of `directories`, the rest the first one's.

    A directory may be a model folder or a checkpoint inside a training folder.

    Raises:
        ModelFolderError: a folder with no weights, or models of different shape or vocabulary.
    """
    folders = [Path(d) for d in directories]
    first = folders[0] if folders else Path()
    home = next((f for f in (first, *first.parents[:3]) if (f / "config.json").is_file()), first)
    loaded = load_model(home)
    for folder in folders:
        if (folder / "config.json").is_file() and "quantization" in read_config(folder):
            raise ModelFolderError(f"{folder}: is quantized", hint="average float32 models, then: pellucid quantize")
    for folder in folders[1:]:
        if (folder / "config.json").is_file() and read_config(folder)["tokenizers"] != read_config(home)["tokenizers"]:
            raise ModelFolderError(
                f"{folder}: its tokenizer is not that of {home}; an average of the two means nothing"
            )
    weights = average_weights([f / "model.safetensors" for f in folders])
    set_weights(loaded.model, weights, str(first))
    card = f"# Average of {len(folders)} checkpoints\n\n" + "\n".join(f"- {folder}" for folder in folders) + "\n"
    save_model(
        out, weights, loaded.model.config, loaded.source_tokenizer, loaded.target_tokenizer, search=loaded.search,
        source_language=loaded.source_language, target_language=loaded.target_language,
        longest_source=loaded.longest_source, card=card,
    )  # fmt: skip
