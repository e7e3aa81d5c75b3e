"""Translations that are already there: used where a text is exactly the same, before a model is asked."""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.config import DataConfig
from pellucid.data.corpus import why_dropped
from pellucid.data.formats.registry import reader_for


def read_memory(paths: Sequence[str], config: DataConfig) -> dict[str, str]:
    """The translation of each text in files of pairs of any format, white space around both taken away.

    Of several translations the first one stays. Broken units are left out.

    Raises:
        DataError: a file that cannot be read, or of no known format.
    """
    memory: dict[str, str] = {}
    for path in paths:
        for pair in reader_for(path)(path, config):
            if why_dropped(pair) is None and pair.source is not None and pair.target is not None:
                memory.setdefault(pair.source.strip(), pair.target.strip())
    return memory
