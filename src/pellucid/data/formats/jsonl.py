"""One JSON object a line: `{"source": "...", "target": "..."}`, or with `src` and `tgt`, or languages as keys.

The object that holds the two may stand under `translation`, as in many published data sets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pellucid.config import DataConfig
from pellucid.data.formats.columns import named_columns
from pellucid.data.formats.document import Block, Filling, Pieces, register_document
from pellucid.data.formats.languages import is_language
from pellucid.data.formats.lines import read_lines
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.registry import register
from pellucid.data.formats.text import document_lines

MOST_OBJECT = 1 << 22
"""Characters of one object, at most: numbers in brackets take many times the memory of their text."""
SOURCE_KEYS = ("source", "src", "text")


@register(".jsonl", ".ndjson")
def read_jsonl(path: str, config: DataConfig) -> Iterator[SentencePair]:
    """The pairs of a file. A line without the two texts is a pair without text that says why; an empty one is left out.

    Raises:
        EncodingError: bytes that are not UTF-8, unless `config.skip_bad`.
    """
    for number, text, _ in read_lines(path, skip_bad=config.skip_bad):
        if text is None:
            yield SentencePair(None, None, path, number)
        elif text.strip():
            try:
                values = json_object(text)
                values = values["translation"] if isinstance(values.get("translation"), dict) else values
                names = named_columns(values, config)
                if names is None:
                    raise ValueError(f"no keys of source and target among {', '.join(values) or 'none'}")
                source, target = (json_text(values, name) for name in names)
                yield SentencePair(source, target, path, number)
            except ValueError as error:
                yield SentencePair(None, None, path, number, problem=str(error))


@register_document(".jsonl", ".ndjson")
def jsonl_document(path: str, config: DataConfig) -> Pieces:
    """The text under `source`, `src`, `text` or the source language is translated into a new key `translation`.

    Where a memory is used, `origin` says where it is from: `memory` or `model`. Lines without such a text, or with a
    translation, stay as they are.

    Raises:
        EncodingError: bytes that are not UTF-8.
    """
    for number, text, end, raw in document_lines(path):
        try:
            values = json_object(text)
            found = json_text(values, _source_key(values, config))
        except ValueError:
            found, values = "", {}

        def write(fillings: Sequence[Filling], text: str = text, end: bytes = end) -> bytes:
            named = zip(("translation", "origin"), fillings[0], strict=True)
            added = "".join(f", {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in named if v)
            return (text.rstrip().removesuffix("}") + added + "}").encode() + end

        yield Block((found,), number, raw, write) if found.strip() and "translation" not in values else raw


def _source_key(values: dict[str, Any], config: DataConfig) -> str:
    """The key of the text that is to be translated, or "" if there is none."""
    language = config.source_language
    own = [key for key in values if language and is_language(key, language)]
    return next((key for key in (*SOURCE_KEYS, *own) if key in values), "")


def json_object(line: str) -> dict[str, Any]:
    """The object of one line.

    Raises:
        ValueError: not JSON, not an object, or a very large one.
    """
    if len(line) > MOST_OBJECT:
        raise ValueError(f"an object of more than {MOST_OBJECT:,} characters")
    try:
        values = json.loads(line)
    except RecursionError:
        raise ValueError("JSON that is nested too deep") from None
    if not isinstance(values, dict):
        raise ValueError(f"no JSON object, but {type(values).__name__}")
    return values


def json_text(values: dict[str, Any], name: str) -> str:
    """The text under `name`; null is no text ("").

    Raises:
        ValueError: something else than text, or half a character.
    """
    text = values.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise ValueError(f"{name!r} is no text, but {type(text).__name__}")
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError(f"{name!r} has half a character (a lone surrogate)")
    return text
