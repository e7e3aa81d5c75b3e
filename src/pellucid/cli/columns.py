"""The option that says which columns of a file of pairs are meant."""

from __future__ import annotations

from typing import Any

import click


class Columns(click.ParamType):
    """Two column numbers: 1,2."""

    name = "A,B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        parts = str(value).split(",")
        if len(parts) != 2 or not all(p.strip().isdigit() for p in parts):
            self.fail(f"{value!r} must be two column numbers, such as 1,2", param, ctx)
        return int(parts[0]), int(parts[1])
