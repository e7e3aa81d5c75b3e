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
