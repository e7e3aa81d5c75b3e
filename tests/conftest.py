"""What all tests share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch is imported; see notes in pellucid/__init__.py
sys.path.insert(0, str(Path(__file__).parent))
