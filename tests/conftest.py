"""What all tests share."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch is imported; see notes in pellucid/__init__.py
# What is remembered between runs must not come from the user's, nor go there.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="pellucid-tests-")
sys.path.insert(0, str(Path(__file__).parent))

import pytest


@pytest.fixture(scope="session")
def multilingual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model folder of a toy that translates into two languages: see multilingual.py."""
    import torch

    from multilingual import trained

    before = torch.get_num_threads()
    made = trained(tmp_path_factory.mktemp("multilingual"))
    torch.set_num_threads(before)
    return made
