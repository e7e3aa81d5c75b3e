"""Tags: names that stand before a source and say what is wanted of its translation.

A target language (Johnson et al. 2017, https://arxiv.org/abs/1611.04558, section 3) or a domain (Kobus et al. 2017,
https://arxiv.org/abs/1612.06140): one token of the model's own, shown as `<2de>` or `<medical>`, whose embedding is learnt
with all others. It is an id outside SentencePiece's, so that no text can have it: see :mod:`pellucid.data.tokenizer`.

A tag that begins with 2 and a code of BCP 47 (`2de`, `2pt-br`) names a target language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pellucid.errors import ConfigError

NAME = re.compile(r"[a-z0-9-]+")
TARGET = re.compile(r"2([a-z]{2,8}(?:-[a-z0-9]{1,8})*)")


def shown(tags: Iterable[str]) -> str:
    """For people.

    >>> shown(["2de", "medical"])
    '<2de> <medical>'
    """
    return " ".join(f"<{tag}>" for tag in tags)


def target_languages(tags: Iterable[str]) -> list[str]:
    """The codes of the target languages among `tags`, in their order.

    >>> target_languages(["medical", "2de", "2pt-br", "24h"])
    ['de', 'pt-br']
    """
    return [match[1] for tag in tags if (match := TARGET.fullmatch(tag))]


def ordered(tags: Iterable[str]) -> tuple[str, ...]:
    """`tags` as they stand before a source: the target language first, then the others by name, each once.

    Raises:
        ConfigError: what is no name of a tag, or two target languages.
    """
    names = dict.fromkeys(tags)
    for name in names:
        if not NAME.fullmatch(name):
            raise ConfigError(f"a tag must be of the letters a to z, digits and hyphens, but is {name!r}")
    if len(languages := target_languages(names)) > 1:
        raise ConfigError(f"there must be one target language at a time, but there are {', '.join(languages)}")
    return tuple(sorted(names, key=lambda name: (TARGET.fullmatch(name) is None, name)))


def assigned(text: str) -> tuple[str, tuple[str, ...]]:
    """A file and its tags, from `FILE=TAG[,TAG]...`.

    >>> assigned("med.tsv=medical,2de")
    ('med.tsv', ('2de', 'medical'))

    Raises:
        ConfigError: what is not of that form.
    """
    file, _, names = text.rpartition("=")
    if not file:
        raise ConfigError(f"tags must be given as FILE=TAG or FILE=TAG,TAG, but are {text!r}", hint="--tag de.tsv=2de")
    return file, ordered(names.split(","))


def chosen(known: Sequence[str], to: str | None = None, tags: Iterable[str] = ()) -> tuple[str, ...]:
    """The tags that stand before the sources of a model that knows `known`.

    Args:
        to: the code of a target language. Where the model has exactly one, it is taken without being named.
        tags: others, or all.

    Raises:
        ConfigError: a tag or language that the model does not know, or several languages and none named.
    """
    languages = target_languages(known)
    there = ", ".join(languages)
    found = list(tags)
    if to is not None:
        code = to.lower().replace("_", "-")
        if code not in languages:
            raise ConfigError(
                f"the model has no target language {to!r}; it has {there}"
                if languages
                else f"the model has no target languages to choose from, but {to!r} was named",
                hint=f"--to {languages[0]}" if languages else "leave --to out",
            )
        found.append(f"2{code}")
    for tag in found:
        if tag not in known:
            raise ConfigError(
                f"the model has no tag {tag!r}; it has {', '.join(known) or 'none'}",
                hint="tags are learnt in training: pellucid train --tag FILE=TAG",
            )
    if languages and not target_languages(found):
        if len(languages) > 1:
            raise ConfigError(
                f"a target language must be named, since the model has several: {there}", hint=f"--to {languages[0]}"
            )
        found.append(f"2{languages[0]}")
    return ordered(found)
