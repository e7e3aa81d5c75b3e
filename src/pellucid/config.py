"""Settings as frozen records: one home for every default, checks that speak in option names. No torch here.

:class:`TransformerConfig` (Table 3 of the paper), :class:`TrainingConfig` (section 5), :class:`SearchConfig`
(section 6.1), :class:`DataConfig`. ``RunConfig`` holds the last three and the preset; it reads and writes TOML
(TOML and not YAML, because YAML reads the language code ``no`` as False).
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from pellucid.errors import ConfigError
from pellucid.tags import assigned, ordered

T = TypeVar("T")

PRESETS: dict[str, dict[str, Any]] = {
    # Written as differences from TransformerConfig, whose own defaults are the paper's base model.
    "tiny": {
        "d_model": 128, "n_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 4, "d_ff": 256, "dropout": 0.3,
        "share_embeddings": "all",
    },
    "small": {
        "d_model": 256, "n_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 4, "d_ff": 1024, "dropout": 0.2,
        "share_embeddings": "all",
    },
    "base": {"share_embeddings": "all"},
    # Deep encoder, shallow decoder: as many parameters as base, half the work when translating (Kasai et al. 2021).
    "fast": {"num_encoder_layers": 12, "num_decoder_layers": 1, "share_embeddings": "all"},
    "big": {"d_model": 1024, "n_heads": 16, "d_ff": 4096, "dropout": 0.3, "share_embeddings": "all"},
}  # fmt: skip


def _must(condition: bool, name: str, rule: str, found: object) -> None:
    if not condition:
        raise ConfigError(f"`{name}` must be {rule}, but is {found!r}")


@dataclass(frozen=True)
class TransformerConfig:
    """The shape of a model. The defaults are the base model of Table 3."""

    src_vocab: int
    tgt_vocab: int
    d_model: int = 512
    n_heads: int = 8
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    d_ff: int = 2048
    dropout: float = 0.1
    max_len: int = 5000
    """Positions computed in advance; sinusoids grow past it, learned positions cannot."""
    norm: Literal["post", "pre"] = "post"
    """Where layer normalisation stands: after the residual sum (the paper) or before each sub-layer."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    share_embeddings: Literal["none", "decoder", "all"] = "none"
    """Which matrices are one: none; the decoder's input and output; or all three (the paper, section 3.4)."""
    attention_dropout: float = 0.0
    """Dropout on attention weights. The paper has none there; many later programs do."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward network. The paper has none there."""
    pad_id: int | None = None
    """The id of padding, whose embedding is a row of zeros. None: nothing is padding."""
    src_pad_id: int | None = None
    """The source's, where the two sides have different vocabularies. None: `pad_id` for both."""
    eos_id: int = 0
    unk_id: int = 1
    start_id: int | None = None
    """What the decoder is fed first: the padding row, "nothing written yet"."""

    def __post_init__(self) -> None:
        for name in ("src_vocab", "tgt_vocab", "d_model", "n_heads", "d_ff", "max_len"):
            _must(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        for name in ("num_encoder_layers", "num_decoder_layers"):
            _must(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        if self.d_model % self.n_heads:
            raise ConfigError(
                f"`d_model` must be a multiple of `n_heads`, but {self.d_model} is not a multiple of {self.n_heads}",
                hint=f"n_heads that fit {self.d_model}: "
                + ", ".join(str(h) for h in range(1, 33) if self.d_model % h == 0),
            )
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            _must(0.0 <= getattr(self, name) < 1.0, name, "at least 0 and below 1", getattr(self, name))
        _must(self.norm in ("post", "pre"), "norm", "'post' or 'pre'", self.norm)
        _must(self.positions in ("sinusoidal", "learned"), "positions", "'sinusoidal' or 'learned'", self.positions)
        _must(
            self.share_embeddings in ("none", "decoder", "all"),
            "share_embeddings",
            "'none', 'decoder' or 'all'",
            self.share_embeddings,
        )
        if self.share_embeddings == "all" and self.src_vocab != self.tgt_vocab:
            raise ConfigError(
                "`share_embeddings` 'all' needs one vocabulary for both sides, but `src_vocab` is "
                f"{self.src_vocab} and `tgt_vocab` is {self.tgt_vocab}",
                hint="set share_embeddings to 'decoder', or train a joint tokenizer",
            )

        for name, size in (("pad_id", self.tgt_vocab), ("src_pad_id", self.src_vocab), ("start_id", self.tgt_vocab)):
            found = getattr(self, name)
            if found is not None and not 0 <= found < size:
                raise ConfigError(f"`{name}` must be an id of its vocabulary, 0 to {size - 1}, but is {found}")
        if self.share_embeddings == "all" and self.src_pad_id not in (None, self.pad_id):
            raise ConfigError(
                f"`share_embeddings` 'all' needs one padding for both sides, but `src_pad_id` is {self.src_pad_id} and "
                f"`pad_id` is {self.pad_id}"
            )

    @property
    def source_pad(self) -> int | None:
        return self.pad_id if self.src_pad_id is None else self.src_pad_id

    @classmethod
    def preset(cls, name: str, src_vocab: int, tgt_vocab: int, **changes: Any) -> TransformerConfig:
        """The preset `name` (tiny, small, base, big, fast) with `changes`.

        Raises:
            ConfigError: no such preset, or no such field.
        """
        if name not in PRESETS:
            raise ConfigError(f"`preset` must be one of {', '.join(PRESETS)}, but is {name!r}")
        values = {**PRESETS[name], "src_vocab": src_vocab, "tgt_vocab": tgt_vocab, **changes}
        if src_vocab != tgt_vocab and "share_embeddings" not in changes and values["share_embeddings"] == "all":
            values["share_embeddings"] = "decoder"
        return from_mapping(cls, values, "model")


@dataclass(frozen=True)
class DataConfig:
    """Reading, cleaning and cutting text into pieces."""

    columns: tuple[int, int] | None = None
    """Which columns of a pair file are source and target, from 1. None: the only two."""
    skip_bad: bool = False
    """Drop pairs with bytes that are not UTF-8 (and count them) rather than stop."""
    vocab_size: int = 0
    """Pieces of the tokenizer; 0 chooses from the size of the data."""
    tokenizer: Literal["unigram", "bpe", "char", "word"] = "unigram"
    joint: bool = True
    """One tokenizer for both sides."""
    normalization: Literal["identity", "nfc", "nfkc"] = "identity"
    byte_fallback: bool = True
    """Unknown characters become bytes, so that every text can be written back."""
    max_tokens: int = 256
    """Pairs with a longer side (in pieces, with the end mark) are dropped from training, and counted."""
    max_ratio: float = 0.0
    """Pairs whose sides' lengths in pieces differ by more than this factor are dropped; 0 keeps all."""
    source_language: str | None = None
    target_language: str | None = None
    """Of a file with several languages (TMX, XLIFF, PO) also which two are read."""
    fuzzy: bool = False
    """Read also what a catalogue (PO) marks as fuzzy, or XLIFF as to be reviewed or not translated yet."""
    obsolete: bool = False
    """Read also what a catalogue (PO) keeps of texts that are no longer in use."""
    mix: tuple[float, ...] = ()
    """How often an epoch takes the pairs of each input, those of --src and --tgt last; empty: once each."""
    tags: tuple[str, ...] = ()
    """What stands before the sources of an input, as "FILE=TAG,TAG": a target language (2de), a domain (medical)."""
    valid_pairs: int = 0
    """Pairs held out for validation, by source text, where no validation set is given; 0 chooses."""

    def tags_of(self, *files: str) -> tuple[str, ...]:
        """The tags of an input, by the names that its file or its two files were given by."""
        return ordered(tag for file, tags in map(assigned, self.tags) if file in files for tag in tags)

    def __post_init__(self) -> None:
        if self.columns is not None:
            _must(
                len(self.columns) == 2 and all(c >= 1 for c in self.columns) and len(set(self.columns)) == 2,
                "columns",
                "two different column numbers from 1, such as 1,2",
                self.columns,
            )
        _must(self.vocab_size >= 0, "vocab_size", "0 (chosen from the data) or more", self.vocab_size)
        _must(
            self.tokenizer in ("unigram", "bpe", "char", "word"),
            "tokenizer",
            "'unigram', 'bpe', 'char' or 'word'",
            self.tokenizer,
        )
        _must(
            self.normalization in ("identity", "nfc", "nfkc"),
            "normalization",
            "'identity', 'nfc' or 'nfkc'",
            self.normalization,
        )
        _must(self.max_tokens >= 2, "max_tokens", "at least 2", self.max_tokens)
        _must(self.max_ratio == 0 or self.max_ratio >= 1, "max_ratio", "0 or at least 1", self.max_ratio)
        _must(all(weight > 0 for weight in self.mix), "mix", "numbers above 0", self.mix)
        for name, _ in map(assigned, self.tags):
            self.tags_of(name)
        _must(self.valid_pairs >= 0, "valid_pairs", "at least 0", self.valid_pairs)


@dataclass(frozen=True)
class TrainingConfig:
    """Section 5: optimizer, schedule, regularization, and when to look, save and stop."""

    batch_tokens: int = 4096
    """Padded tokens of one batch, counted on its longer side: rows x max(longest source, longest target)."""
    accumulate: int = 1
    """Batches whose gradients make one update."""
    schedule: Literal["inverse_sqrt", "noam"] = "inverse_sqrt"
    """'noam' is equation (3) of the paper; 'inverse_sqrt' the same curve with a given peak."""
    peak_rate: float = 0.0
    """Peak learning rate of 'inverse_sqrt'; 0 chooses that of equation (3) for this width and warm-up (of 1,000 at least)."""
    warmup_steps: int = 0
    """Updates until the peak. 0 chooses the paper's 4000, or less where the data is small: about eight epochs."""
    cooldown_steps: int = 0
    """The last updates before `max_updates`, over which the rate falls linearly to zero; 0: the curve just goes on."""
    optimizer: Literal["adam", "muon"] = "adam"
    """'adam' is the paper's; 'muon' makes other steps for the matrices of the layers (`training/muon.py`). It may learn the
    same in half or a third of the updates, each of which takes a quarter to a third more time on a CPU."""
    adam_beta1: float = 0.9
    adam_beta2: float = 0.98
    adam_epsilon: float = 1e-9
    weight_decay: float = 0.0
    """With 'adam' this times each weight joins its gradient. With 'muon' it is apart from the gradient: this times the
    rate is the share of the layers' matrices that goes at each update, and the other weights have none."""
    label_smoothing: float = 0.1
    subword_regularization: float = 0.0
    """Cut the words of the training pairs in another way each epoch; 0 does not. With 'bpe' the probability that a merge is
    left out (0.05; 0.1 is much), with 'unigram' the exponent of a segmentation's probability (0.2 to 0.5; less is more
    random)."""
    clip_norm: float = 0.0
    """Gradients longer than this are shortened to it; 0 does not clip."""
    ema_decay: float = 0.0
    """Exponential moving average of the weights, used for validation and the final model; 0 does not keep one."""
    max_updates: int = 0
    max_epochs: int = 0
    max_minutes: float = 0.0
    """Limits; 0 is none. With none of the three given the run ends by `patience`."""
    validate_every: int = 0
    """Updates between validations; 0 is once an epoch."""
    validate_bleu: bool = True
    """Translate the validation set (greedily) at each validation, for BLEU and chrF."""
    patience: int = 10
    """Validations without a better `stop_on` before the run ends; 0 never ends early."""
    stop_on: Literal["loss", "chrf"] = "loss"
    save_minutes: float = 5.0
    """Minutes between saves of the state besides those at validations."""
    keep_checkpoints: int = 5
    """How many of the newest validated checkpoints stay; the best always stays."""
    average_checkpoints: int = 0
    """The final model: the mean of so many of the newest checkpoints (section 6.1); 0 takes the best one."""
    seed: int = 1
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the products; all else is float32. auto: bfloat16 on GPUs that multiply it, and on CPUs with AMX from width 256 on."""
    compile: bool = True
    """On a GPU, compile the model's passes (torch.compile): minutes at the start, faster ever after. A CPU never does."""
    threads: int = 0
    """CPU threads; 0 takes the cores that this process may use."""

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "accumulate"):
            _must(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        for name in (
            "peak_rate", "warmup_steps", "cooldown_steps", "weight_decay", "clip_norm", "max_updates", "max_epochs", "max_minutes",
            "validate_every", "patience", "save_minutes", "average_checkpoints", "threads",
        ):  # fmt: skip
            _must(getattr(self, name) >= 0, name, "at least 0", getattr(self, name))
        for name in ("adam_beta1", "adam_beta2", "label_smoothing", "subword_regularization", "ema_decay"):
            _must(0.0 <= getattr(self, name) < 1.0, name, "at least 0 and below 1", getattr(self, name))
        if self.cooldown_steps > self.max_updates:
            raise ConfigError(
                f"`cooldown_steps` are the last of `max_updates`, but {self.cooldown_steps} is more than {self.max_updates}",
                hint="set training.max_updates too, or training.cooldown_steps=0",
            )
        _must(self.adam_epsilon > 0, "adam_epsilon", "above 0", self.adam_epsilon)
        _must(self.keep_checkpoints >= 1, "keep_checkpoints", "at least 1", self.keep_checkpoints)
        _must(self.schedule in ("inverse_sqrt", "noam"), "schedule", "'inverse_sqrt' or 'noam'", self.schedule)
        _must(self.optimizer in ("adam", "muon"), "optimizer", "'adam' or 'muon'", self.optimizer)
        _must(self.stop_on in ("loss", "chrf"), "stop_on", "'loss' or 'chrf'", self.stop_on)
        _must(
            self.precision in ("auto", "float32", "bfloat16"),
            "precision",
            "'auto', 'float32' or 'bfloat16'",
            self.precision,
        )
        if self.stop_on == "chrf" and not self.validate_bleu:
            raise ConfigError("`stop_on` 'chrf' needs `validate_bleu`, which is off")
        if self.average_checkpoints > self.keep_checkpoints:
            raise ConfigError(
                f"`average_checkpoints` must be at most `keep_checkpoints`, but {self.average_checkpoints} is more "
                f"than {self.keep_checkpoints}",
                hint=f"set training.keep_checkpoints={self.average_checkpoints}",
            )


@dataclass(frozen=True)
class SearchConfig:
    """Section 6.1: how a translation is looked for."""

    beam_size: int = 4
    """1 is greedy search."""
    length_penalty: float = 0.6
    """The exponent alpha of Wu et al. 2016, equation (14), which the paper cites: ((5+|Y|)/6)^alpha."""
    n_best: int = 1
    max_length: int = 0
    """Most pieces of a translation; 0 is the source's length + 50 (the paper)."""
    length_ratio: float = 0.0
    """Nor more than this times the source's length + 20; 0: no such bound. A server has 2: a short source that makes a
    model ramble takes less time."""
    min_length: int = 0
    """Fewest pieces before the end mark is allowed."""
    no_repeat_ngram: int = 0
    """No sequence of so many pieces comes twice; 0 allows repeats."""
    sample: bool = False
    """Draw each piece at random rather than search."""
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    batch_tokens: int = 4096
    """Padded source tokens of one batch."""

    def __post_init__(self) -> None:
        for name in ("beam_size", "n_best", "batch_tokens"):
            _must(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        for name in ("length_penalty", "max_length", "length_ratio", "min_length", "no_repeat_ngram", "top_k"):
            _must(getattr(self, name) >= 0, name, "at least 0", getattr(self, name))
        _must(self.temperature > 0, "temperature", "above 0", self.temperature)
        _must(0 < self.top_p <= 1, "top_p", "above 0 and at most 1", self.top_p)
        if not self.sample and self.n_best > self.beam_size:
            raise ConfigError(
                f"`n_best` must be at most `beam_size`, but {self.n_best} is more than {self.beam_size}",
                hint=f"--beam-size {self.n_best}",
            )
        if self.max_length and self.min_length > self.max_length:
            raise ConfigError(
                f"`min_length` must be at most `max_length`, but {self.min_length} is more than {self.max_length}"
            )


@dataclass(frozen=True)
class RunConfig:
    """Everything `pellucid train` needs besides the pairs; TOML tables of the same names."""

    preset: str = "auto"
    """tiny, small, base, big, fast, or auto (from the size of the data)."""
    model: dict[str, Any] = field(default_factory=dict)
    """Differences from the preset: fields of TransformerConfig but for the vocabulary sizes and ids."""
    data: DataConfig = field(default_factory=DataConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        _must(
            self.preset == "auto" or self.preset in PRESETS,
            "preset",
            f"one of auto, {', '.join(PRESETS)}",
            self.preset,
        )
        if self.training.subword_regularization and self.data.tokenizer not in ("bpe", "unigram"):
            raise ConfigError(
                "`training.subword_regularization` needs pieces that can be cut in several ways: `data.tokenizer` must be "
                f"'bpe' or 'unigram', but is {self.data.tokenizer!r}",
                hint="set data.tokenizer=bpe, or training.subword_regularization=0",
            )
        # Raises for unknown names and wrong values; 8 stands for a vocabulary that is not known yet.
        TransformerConfig.preset("base" if self.preset == "auto" else self.preset, 8, 8, **self.model)

    @classmethod
    def from_toml(cls, path: str | Path, overrides: tuple[str, ...] = ()) -> RunConfig:
        """Read `path`, then apply `overrides` such as ``training.warmup_steps=2000`` (values in TOML).

        Raises:
            ConfigError: a file that is not TOML, an unknown key, a value of the wrong type.
        """
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read as TOML: {error}") from error
        return cls.from_mapping(values, overrides, str(path))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], overrides: tuple[str, ...] = (), where: str = "") -> RunConfig:
        """From nested plain values (as `tomllib` gives them) and overrides; see :meth:`from_toml`."""
        tables: dict[str, Any] = {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
        for override in overrides:
            _apply_override(tables, override)
        prefix = f"{where}: " if where else ""
        try:
            parts: dict[str, Any] = {}
            for name, value in tables.items():
                kind = {"data": DataConfig, "training": TrainingConfig, "search": SearchConfig}.get(name)
                if kind is not None or name == "model":
                    _must(isinstance(value, Mapping), name, f"a table [{name}]", value)
                parts[name] = from_mapping(kind, value, name) if kind is not None else value
            return from_mapping(cls, parts, "")
        except ConfigError as error:
            raise ConfigError(prefix + str(error), hint=error.hint) from None

    def to_toml(self) -> str:
        """TOML that gives this very record back."""
        lines = [f"preset = {_toml_value(self.preset)}"]
        tables: list[tuple[str, dict[str, Any]]] = [("model", self.model)]
        tables += [(n, dataclasses.asdict(getattr(self, n))) for n in ("data", "training", "search")]
        for name, values in tables:
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {_toml_value(value)}" for key, value in values.items() if value is not None]
        return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(
            f"\\u{ord(c):04X}" if ord(c) < 32 or ord(c) == 127 else "\\" + c if c in '"\\' else c for c in value
        )
        return f'"{escaped}"'
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_toml_value(v) for v in value) + "]"
    return repr(value)


def _apply_override(tables: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    if not equals:
        raise ConfigError(f"--set must be NAME=VALUE, but is {override!r}", hint="--set training.warmup_steps=2000")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string, so that --set model.norm=pre needs no quotes
    path = name.strip().split(".")
    table = tables
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {override}: `{part}` is not a table")
    table[path[-1]] = value


def from_mapping(kind: type[T], values: Mapping[str, Any], table: str) -> T:
    """An instance of the dataclass `kind` from plain values, with unknown names refused and types checked.

    Raises:
        ConfigError: an unknown name (with the nearest known one), or a value of the wrong type.
    """
    hints = typing.get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    dot = f"{table}." if table else ""
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            raise ConfigError(
                f"unknown setting `{dot}{name}`",
                hint=f"did you mean `{dot}{near[0]}`?" if near else f"known: {', '.join(names)}",
            )
        checked[name] = _coerce(value, hints[name], f"{dot}{name}")
    return kind(**checked)


def _coerce(value: Any, hint: Any, name: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        _must(value in arguments, name, "one of " + ", ".join(repr(a) for a in arguments), value)
        return value
    if type(None) in arguments:
        if value is None:
            return None
        return _coerce(value, next(a for a in arguments if a is not type(None)), name)
    if origin is tuple and arguments[-1] is Ellipsis:
        _must(isinstance(value, (list, tuple)), name, "a list", value)
        return tuple(_coerce(v, arguments[0], name) for v in value)
    if origin is tuple:
        _must(
            isinstance(value, (list, tuple)) and len(value) == len(arguments), name, f"{len(arguments)} values", value
        )
        return tuple(_coerce(v, a, name) for v, a in zip(value, arguments, strict=True))
    if origin is dict or dataclasses.is_dataclass(hint):
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    right = isinstance(value, hint) and not (hint is int and isinstance(value, bool))
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    _must(right, name, words.get(hint, str(hint)), value)
    return value
