"""What the page is told is what the trace holds."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
import torch

from inspection.shared import TEXTS, random_translator
from pellucid.config import SearchConfig
from pellucid.inspection import encoding
from pellucid.inspection.flow import flow
from pellucid.inspection.recorder import KINDS, Head
from pellucid.inspection.trace import trace
from pellucid.model.positional_encoding import sinusoids

BEAM = SearchConfig(beam_size=3, max_length=9, n_best=2)


def decoded(text: str, kind: str, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), kind).reshape(shape).copy())


def test_maps_are_bytes_for_the_eye_and_floats_for_the_reader():
    found = trace(random_translator(), TEXTS[0], config=BEAM)
    told = json.loads(json.dumps(encoding.trace_json(found), allow_nan=False))
    for kind in KINDS:
        weights = found.maps(kind).weights
        maps = told["attention"][kind]
        shape = (maps["layers"], maps["heads"], maps["rows"], maps["columns"])
        assert shape == weights.shape
        assert (decoded(maps["weights"], "u1", *shape) / 255 - weights).abs().max() <= 0.5 / 255 + 1e-6
        head = encoding.head_json(found.maps(kind), 1, 2)
        assert torch.equal(decoded(head["weights"], "<f4", *shape[2:]), weights[1, 2])
        assert torch.equal(decoded(head["norms"], "<f4", *shape[2:]), found.maps(kind).norms[1, 2])
    assert told["target"]["log_probs"] == pytest.approx(found.log_probs, rel=1e-5)
    assert [t["text"] for t in told["source"]["tokens"]] == [t.text for t in found.source.tokens]
    assert told["alternatives"][0]["text"] == found.translation
    assert told["beam"]["best"] == list(found.beam.best)


def test_a_text_that_looks_like_a_script_s_end_is_a_text():
    from pellucid.inspection.report import inline_json

    found = trace(random_translator(), "</script> is text", config=BEAM)
    written = inline_json(encoding.trace_json(found))
    assert "<" not in written
    assert json.loads(written)["text"] == "</script> is text"


def test_the_flow_has_six_digits_and_nothing_that_json_does_not_know():
    translator = random_translator()
    found = trace(translator, TEXTS[0], config=BEAM)
    numbers = flow(translator, found, Head("decoder", 1, 1), 2)
    told = json.loads(json.dumps(encoding.flow_json(numbers), allow_nan=False))
    assert told["scores"] == pytest.approx(numbers.scores.tolist(), rel=1e-5)
    assert np.array(told["k"]).shape == tuple(numbers.k.shape)
    assert told["masked"] == [True, True, True] + [False] * (len(told["scores"]) - 3)
    assert len(told["next"]) == 10 and told["normed"] is None
    assert encoding.rounded(float("nan")) is None and encoding.rounded(0.123456789) == 0.123457


def test_positions_are_the_model_s_own_table():
    translator = random_translator()
    told = encoding.positions_json(translator.model, 20)
    assert torch.allclose(decoded(told["table"], "<f4", 20, 32), sinusoids(20, 32).float())
    learned = random_translator(positions="learned", max_len=12).model
    told = encoding.positions_json(learned, 64)
    assert told["kind"] == "learned" and told["length"] == 12
    assert torch.equal(decoded(told["table"], "<f4", 12, 32), learned.src_positions.table.detach())


@pytest.mark.parametrize("code, expected", [("ar", True), ("he-IL", True), ("fa", True), ("zh", False), (None, False)])
def test_which_languages_run_from_right_to_left(code, expected):
    import dataclasses

    translator = random_translator()
    translator.loaded = dataclasses.replace(translator.loaded, source_language=code)
    told = encoding.model_json(translator, "m")
    assert told["rightToLeft"] == {"source": expected, "target": False}
    assert told["parameters"] == sum(p.numel() for p in translator.model.parameters())
