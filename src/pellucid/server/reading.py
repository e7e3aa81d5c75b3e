"""What a request says, from wherever its client puts it: JSON, a form, several parts, or the query string.

The size is checked while the body comes in, before anything is parsed; then its depth and its types.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from pellucid.server.refusal import Refusal

FORM = "application/x-www-form-urlencoded"
DEEPEST = 8
"""Arrays and objects inside each other in JSON; none of the dialects has more than two."""
MOST_DISCARDED = 32 << 20
"""Bytes of a body too large that are read all the same."""
MOST_FIELDS = 16
MOST_FORM_TEXTS = 512
"""Fields of an urlencoded form, which says an array by naming a field again."""


@dataclass
class Fields:
    """The fields of a request. What comes in a form is text; in JSON it has a type."""

    values: dict[str, Any] = field(default_factory=dict)
    repeated: dict[str, list[str]] = field(default_factory=dict)
    """All values of each field of a form or query string."""
    file: tuple[str, bytes] | None = None
    """Its name, as the client has it, and what is in it."""
    is_json: bool = False

    def text(self, name: str, *others: str) -> str | None:
        """The text called `name` (or one of `others`), None if it is not there.

        Raises:
            Refusal: it is no text.
        """
        for key in (name, *others):
            value = self.values.get(key)
            if value is not None:
                if not isinstance(value, str):
                    raise Refusal(f"Invalid request: {key} must be a string")
                return value
        return None

    def texts(self, name: str) -> list[str] | str | None:
        """A text or an array of texts.

        Raises:
            Refusal: neither.
        """
        value = self.values.get(name)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
        if value is None or isinstance(value, str):
            return value
        raise Refusal(f"Invalid request: {name} must be a string or an array of strings")

    def number(self, name: str, default: int) -> int:
        """A whole number, also as text.

        Raises:
            Refusal: none.
        """
        value = self.values.get(name)
        if value is None or value == "":
            return default
        digits = value.strip() if isinstance(value, str) else str(value) if type(value) is int else ""
        if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
            raise Refusal(f"Invalid request: {name} parameter is not a number")
        return int(digits)


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """The body, of at most `limit` bytes, within so many seconds.

    One that is somewhat larger is read to its end and thrown away: most clients look for an answer only when they have
    sent everything.

    Raises:
        Refusal: it is larger (413) or comes too slowly (408).
    """
    said = request.headers.get("content-length", "")
    size = int(said[:18]) if said.isdigit() else 0
    too_large = Refusal(f"The body must have at most {limit} bytes", 413)
    if size > MOST_DISCARDED + limit or (size > limit and "expect" in request.headers):  # that client waits for a word
        raise too_large
    body = bytearray()
    length = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                length += len(part)
                if length <= limit:
                    body += part
                elif length > MOST_DISCARDED + limit:
                    raise too_large
                else:
                    body.clear()
    except TimeoutError:
        raise Refusal("The body came too slowly", 408) from None
    except ClientDisconnect:
        raise Refusal("The client has left", 499) from None
    if length > limit:
        raise too_large
    return bytes(body)


async def read_fields(request: Request, limit: int, seconds: float, *, file: bool = False) -> Fields:
    """The fields of the query string and the body; the body's count where both have one.

    Args:
        file: one may be among them.

    Raises:
        Refusal: what cannot be read, or is too large.
    """
    fields = Fields()
    _add_form(fields, request.scope["query_string"])
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "GET" and kind != FORM:  # DeepL's library sends a form with GET
        return fields
    body = await read_body(request, limit, seconds)
    if kind == "application/json" or kind.endswith("+json"):
        fields.values |= _json(body)
        fields.is_json = True
    elif kind == "multipart/form-data":
        await _add_parts(fields, request.headers, body, file)
    elif kind == FORM or not kind:
        _add_form(fields, body)
    elif body:
        raise Refusal(
            "The body must be application/json, application/x-www-form-urlencoded or multipart/form-data", 415
        )
    return fields


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Refusal("Invalid JSON format") from None
    if not isinstance(value, dict):
        raise Refusal("Invalid JSON format: it must be an object")
    layer: list[Any] = [value]
    for _ in range(DEEPEST):
        layer = [x for some in layer for x in (some.values() if isinstance(some, dict) else some) if _holds(x)]
        if not layer:
            return value
    raise Refusal("Invalid JSON format: too deep")


def _holds(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _add_form(fields: Fields, content: bytes) -> None:
    try:
        # `&` alone separates; a text may hold `;`.
        pairs = parse_qsl(
            content.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FORM_TEXTS
        )
    except ValueError:
        raise Refusal("Invalid request: the form is not UTF-8, or has too many fields") from None
    own: dict[str, list[str]] = {}
    for name, value in pairs:
        own.setdefault(name, []).append(value.replace("\r\n", "\n"))  # browsers write all line ends so
    fields.repeated |= own
    fields.values |= {name: values[0] for name, values in own.items()}


class _InMemory(MultiPartParser):
    """Nothing that a client sends is written to a disk. The size of all is checked before."""

    spool_max_size = 1 << 40


async def _add_parts(fields: Fields, headers: Mapping[str, str], body: bytes, file: bool) -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield body
        yield b""

    if not file:
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            raise Refusal("Invalid request: the form is not UTF-8") from None
    parser = _InMemory(
        headers,  # type: ignore[arg-type]
        stream(),  # type: ignore[arg-type]
        max_files=int(file), max_fields=MOST_FIELDS, max_part_size=len(body) + 1,
    )  # fmt: skip
    try:
        form = await parser.parse()
    except (MultiPartException, ValueError, KeyError, LookupError):
        raise Refusal("Invalid request: the form cannot be read") from None
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            fields.file = value.filename or "", await value.read()
            await value.close()
        else:
            fields.values[name] = value.replace("\r\n", "\n")
