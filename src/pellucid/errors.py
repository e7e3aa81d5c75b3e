"""Every error that pellucid raises on purpose, one tree:

PellucidError
├── ConfigError             a setting that cannot be: names the option, the rule and what was found
├── DataError               input that cannot be read: names file, line and byte
│   ├── EncodingError       bytes that are not UTF-8
│   └── AlignmentError      two sides that do not have the same number of lines
├── TokenizerError          a tokenizer that cannot be trained or loaded
├── ModelFolderError        a model folder that is missing, damaged or of another version
├── TrainingError           a plan that cannot work, a run that cannot go on
└── SearchError             a search that was asked for the impossible

A message says what must be, what was found and where; ``hint`` says what to type to mend it. The command line prints
``error: <message>`` and ``hint: <hint>`` on stderr and exits with ``exit_code``.
"""

from __future__ import annotations


class PellucidError(Exception):
    """The root of the tree. ``hint`` is one sentence or command that mends the matter, or None."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(PellucidError):
    """A setting that cannot be."""

    exit_code = 2


class DataError(PellucidError):
    """Input that cannot be read. ``file`` and ``line`` (from 1) stand at the front of the message where known."""

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        where = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(where + message, hint=hint)
        self.file = file
        self.line = line


class EncodingError(DataError):
    """Bytes that are not UTF-8. ``byte`` is the offset within the line, from 0."""

    def __init__(self, message: str, *, file: str, line: int, byte: int, hint: str | None = None) -> None:
        super().__init__(message, file=file, line=line, hint=hint)
        self.byte = byte


class AlignmentError(DataError):
    """Two sides that do not have the same number of lines."""


class TokenizerError(PellucidError):
    """A tokenizer that cannot be trained or loaded."""


class ModelFolderError(PellucidError):
    """A model folder that is missing, damaged or of another version."""


class TrainingError(PellucidError):
    """A plan that cannot work, or a run that cannot go on."""


class SearchError(PellucidError):
    """A search that was asked for the impossible."""
