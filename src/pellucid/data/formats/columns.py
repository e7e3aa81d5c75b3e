"""Which named columns (of CSV, or keys of JSON) are source and target."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pellucid.config import DataConfig
from pellucid.data.formats.languages import is_language, primary

NAMES = (("source", "target"), ("src", "tgt"))
LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")


def named_columns(names: Iterable[str], config: DataConfig) -> tuple[str, str] | None:
    """The names of source and target among `names`, or None if it cannot be told.

    `source` and `target`, `src` and `tgt`, the two languages that are wanted, or the only two languages there are.
    """
    names = list(names)
    plain = {name.strip().lower(): name for name in names}
    for source, target in NAMES:
        if source in plain and target in plain:
            return plain[source], plain[target]
    languages = [name for name in names if LANGUAGE.fullmatch(name.strip())]
    if config.source_language and config.target_language:
        sources = [name for name in languages if is_language(name, config.source_language)]
        targets = [name for name in languages if is_language(name, config.target_language)]
        return (sources[0], targets[0]) if len(sources) == len(targets) == 1 and sources != targets else None
    if len(names) == len(languages) == 2 and primary(names[0]) != primary(names[1]):
        return names[0], names[1]
    return None
