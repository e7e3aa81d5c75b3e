"""Language tags, as files write them: `de`, `de-DE`, `DE_at`. What counts is the first subtag, in any case."""

from __future__ import annotations


def normalized(tag: str) -> str:
    """`De_at` is `de-at`."""
    return tag.strip().replace("_", "-").lower()


def primary(tag: str) -> str:
    """The first subtag: of `zh-Hans-CN` it is `zh`."""
    return normalized(tag).partition("-")[0]


def is_language(found: str, wanted: str) -> bool:
    """Whether text marked `found` serves who wants `wanted`: their first subtags are the same."""
    return primary(found) == primary(wanted)


def same_direction(found: tuple[str, str], wanted: tuple[str | None, str | None]) -> bool | None:
    """Whether a file's (source, target) is the direction that is wanted. None: only when it is turned round.

    What is not said on either side ("" or None) fits.

    Raises:
        ValueError: neither way round.
    """
    source, target = wanted
    if _fits(found[0], source) and _fits(found[1], target):
        return True
    if _fits(found[1], source) and _fits(found[0], target):
        return None
    raise ValueError(f"{found[0] or '?'} to {found[1] or '?'}, not {source or '?'} to {target or '?'}")


def _fits(found: str, wanted: str | None) -> bool:
    return not found or not wanted or is_language(found, wanted)
