"""Section 3.5, and the three reasons for sines and cosines."""

from __future__ import annotations

import math

import pytest
import torch

from pellucid.errors import SearchError
from pellucid.model.positional_encoding import LearnedPositionalEncoding, PositionalEncoding, sinusoids


def test_cells_by_hand():
    """C24: PE(3, 0) = sin 3; PE(3, 1) = cos 3 (the same angle!); PE(3, 4) = sin(3 / 10000^(4/8)) = sin 0.03."""
    table = sinusoids(4, 8)
    assert table[3, 0].item() == pytest.approx(math.sin(3))
    assert table[3, 1].item() == pytest.approx(math.cos(3))
    assert table[3, 4].item() == pytest.approx(math.sin(0.03))
    assert table[3, 5].item() == pytest.approx(math.cos(0.03))
    assert table[0].tolist() == [0, 1, 0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("d_model", [1, 3, 29])
def test_odd_widths(d_model):
    """C23: elsewhere "expanded size 14 must match 15"."""
    table = sinusoids(5, d_model)
    assert table.shape == (5, d_model) and torch.isfinite(table).all()
    torch.testing.assert_close(table, sinusoids(5, d_model + 1)[:, :0].new_tensor(
        [[(math.sin if i % 2 == 0 else math.cos)(pos / 10000 ** ((i - i % 2) / d_model)) for i in range(d_model)]
         for pos in range(5)]))  # fmt: skip


def test_relative_positions_are_rotations():
    """PE(pos + k) is PE(pos) with each pair turned by k / 10000^(2i/d): the same matrix whatever pos is."""
    d, k = 8, 5
    table = sinusoids(60, d)
    rotation = torch.zeros(d, d, dtype=torch.float64)
    for i in range(0, d, 2):
        angle = k / 10000 ** (i / d)
        rotation[i, i], rotation[i, i + 1] = math.cos(angle), math.sin(angle)
        rotation[i + 1, i], rotation[i + 1, i + 1] = -math.sin(angle), math.cos(angle)
    torch.testing.assert_close(table[:-k] @ rotation.T, table[k:])


def test_every_position_is_its_own_and_values_stay_bounded():
    table = sinusoids(5000, 64)
    assert table.abs().max() <= 1
    nearest = torch.cdist(table[::7], table[::7]).fill_diagonal_(float("inf")).min()
    assert nearest > 0.5


def test_late_positions_are_exact():
    """Computed in float64: at position 99,999 a float32 angle would be off by thousandths."""
    expected = math.sin(99_999 / 10000 ** (2 / 16))
    assert PositionalEncoding(16, 1).forward(torch.zeros(1, 1, 16), start=99_999)[0, 0, 2].item() == pytest.approx(
        expected, abs=1e-7
    )


def test_longer_than_max_len_grows_instead_of_crashing():
    """C25: a 12,131-token line in a million must not end a run."""
    encoding = PositionalEncoding(6, max_len=4)
    x = torch.zeros(1, 50, 6)
    torch.testing.assert_close(encoding(x)[0], sinusoids(50, 6).float())
    torch.testing.assert_close(encoding(x[:, :3], start=120)[0], sinusoids(123, 6).float()[120:])


def test_the_table_is_no_weight():
    encoding = PositionalEncoding(6)
    assert list(encoding.parameters()) == [] and list(encoding.state_dict()) == []


def test_learned_positions_say_plainly_where_they_end():
    encoding = LearnedPositionalEncoding(6, max_len=4)
    assert encoding(torch.zeros(2, 4, 6)).shape == (2, 4, 6)
    with pytest.raises(SearchError, match="up to 4 tokens, but the text has 5"):
        encoding(torch.zeros(1, 5, 6))
    with pytest.raises(SearchError):
        encoding(torch.zeros(1, 1, 6), start=4)
    encoding(torch.zeros(1, 4, 6)).sum().backward()
    assert encoding.table.grad is not None
