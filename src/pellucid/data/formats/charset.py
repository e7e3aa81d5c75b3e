"""Names of character sets, as files write them."""

from __future__ import annotations

import codecs


def known_charset(name: str) -> str | None:
    """Python's name of a character set that contains ASCII, or None: a file that names it was read as ASCII so far."""
    try:
        return codecs.lookup(name).name if b'<a"\\'.decode(name) == '<a"\\' else None
    except (LookupError, UnicodeError, ValueError, TypeError):
        return None
