"""Real text for measuring lies beside the repository, not in it; tests that want it are skipped where it is absent."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def shared_data(name: str) -> Path:
    """The folder `name` of the shared data, or the test is skipped."""
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"needs ../shared/data/{name} beside the repository, which is not there")
    return folder
