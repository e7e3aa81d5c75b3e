"""The fastest engine is found by measuring, once."""

from __future__ import annotations

import json
import time

import pytest

from pellucid.engines import choice
from pellucid.engines.choice import cache_folder, fastest
from pellucid.errors import ConfigError


class Slow:
    """Takes so many milliseconds a call, and counts them."""

    def __init__(self, name: str, *milliseconds: float) -> None:
        self.name, self.rows = name, []
        self._milliseconds = dict(zip(choice.WORKLOADS, milliseconds, strict=True))

    def search(self, request):
        sources = request.sources
        assert all(row[-1] == 0 and 0 not in row[:-1] for row in sources)
        self.rows.append(len(sources))
        time.sleep(self._milliseconds[len(sources)] / 1000)
        return []


@pytest.fixture(autouse=True)
def both_installed(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.0")


def test_the_quickest_over_both_workloads_is_taken_and_remembered(loaded, tmp_path):
    """a: 4 x 9 ms; b: 2 x 30 ms. b is quicker with one sentence, a over all."""
    memory = tmp_path / "deep" / "engines.json"
    engines = {"a": Slow("a", 4, 9), "b": Slow("b", 2, 30)}
    candidates = {name: lambda name=name: engines[name] for name in engines}
    assert fastest(candidates, loaded.model, False, memory).name == "a"
    assert engines["a"].rows == [1] * 3 + [16] * 3
    assert list(json.loads(memory.read_text()).values()) == ["a"]
    assert fastest(candidates, loaded.model, False, memory).name == "a"
    assert len(engines["a"].rows) == 6 and len(engines["b"].rows) == 6  # not measured again
    fastest(candidates, loaded.model, True, memory)  # another kind of model
    assert len(engines["a"].rows) == 12 and len(json.loads(memory.read_text())) == 2


@pytest.mark.parametrize("content", ["", "[1]", '{"x": 3}', b"\xff"])
def test_a_damaged_memory_is_measured_anew(loaded, tmp_path, content):
    memory = tmp_path / "engines.json"
    memory.write_bytes(content if isinstance(content, bytes) else content.encode())
    made = {"a": lambda: Slow("a", 0, 0), "b": lambda: Slow("b", 5, 5)}
    assert fastest(made, loaded.model, False, memory).name == "a"
    assert "a" in json.loads(memory.read_text()).values()


def test_where_nothing_can_be_remembered_it_goes_on(loaded, tmp_path):
    (tmp_path / "file").write_text("")
    made = {"a": lambda: Slow("a", 0, 0), "b": lambda: Slow("b", 5, 5)}
    assert fastest(made, loaded.model, False, tmp_path / "file" / "engines.json").name == "a"


def test_one_that_cannot_be_made_is_left_out(loaded, tmp_path):
    """Not even if it was the fastest the last time."""
    memory = tmp_path / "engines.json"
    made = {"a": lambda: Slow("a", 5, 5), "b": lambda: Slow("b", 0, 0)}
    assert fastest(made, loaded.model, False, memory).name == "b"

    def broken():
        raise ConfigError("CTranslate2 is not installed")

    assert fastest({**made, "b": broken}, loaded.model, False, memory).name == "a"
    with pytest.raises(ConfigError):
        fastest({"a": broken}, loaded.model, False, tmp_path / "other.json")


def test_the_cache_folder_is_where_the_user_has_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "pellucid"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert str(cache_folder()) == "/home/someone/.cache/pellucid"
