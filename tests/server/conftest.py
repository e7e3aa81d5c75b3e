"""A toy that really translates, made once: it writes digits in reverse order."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.shared import trained


@pytest.fixture(scope="session")
def reverser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder."""
    return trained(tmp_path_factory.mktemp("reverser"), updates=200)
