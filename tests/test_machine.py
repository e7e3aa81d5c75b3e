"""What is asked of the machine."""

from __future__ import annotations

import ctypes

import pytest

from pellucid.machine import keep_freed_memory


@pytest.mark.parametrize("error", [OSError, AttributeError, TypeError])
def test_a_c_library_that_knows_no_mallopt_is_left_alone(monkeypatch, error):
    """musl, macOS, Windows."""

    def refuses(name):
        raise error

    monkeypatch.setattr(ctypes, "CDLL", refuses)
    keep_freed_memory()
