from __future__ import annotations

import numpy as np
import pytest

from pellucid.data.shift import FEWEST_LINES, Shift, find_shifts


def made(lines: int, seed: int = 1) -> tuple[np.ndarray, ...]:
    """Lengths of pairs: targets are about 1.2 times as long; one line in five has a number."""
    random = np.random.default_rng(seed)
    source = random.integers(20, 150, lines)
    target = np.rint(source * 1.2 * np.exp(random.normal(0, 0.15, lines))).astype(int)
    marks = np.where(random.random(lines) < 0.2, random.integers(1, 200, lines), 0)
    return source, target, marks, marks.copy()


def moved(values: np.ndarray, begin: int, end: int, by: int) -> np.ndarray:
    """Line i of the stretch has what belongs to line i - `by`."""
    changed = values.copy()
    changed[begin:end] = values[begin - by : end - by]
    return changed


@pytest.mark.parametrize("by", [1, -1, 2, -3])
def test_a_shifted_stretch_is_found_with_its_lines(by: int) -> None:
    source, target, marks, target_marks = made(1000)
    target, target_marks = (moved(values, 400, 460, by) for values in (target, target_marks))
    (shift,) = find_shifts(source, target, marks, target_marks)
    assert shift.by == by
    assert abs(shift.begin - 400) <= 4
    assert abs(shift.end - 460) <= 4


def test_two_stretches_are_two() -> None:
    source, target, marks, target_marks = made(2000)
    for begin, by in ((300, 1), (1500, -2)):
        target, target_marks = (moved(values, begin, begin + 80, by) for values in (target, target_marks))
    assert [shift.by for shift in find_shifts(source, target, marks, target_marks)] == [1, -2]


@pytest.mark.parametrize("begin", [0, 300, 900])
def test_a_shift_to_the_end_of_the_file_wherever_it_begins(begin: int) -> None:
    """A line was lost: all later targets stand one line early. Even if that is so for most lines, or for all."""
    source, target, marks, target_marks = made(1200)
    lost = [np.delete(np.append(values, 50), begin) for values in (target, target_marks)]
    shifts = find_shifts(source, lost[0], marks, lost[1])
    assert {shift.by for shift in shifts} == {-1}
    assert abs(shifts[0].begin - begin) <= 4
    assert abs(shifts[-1].end - 1200) <= 4


@pytest.mark.parametrize("seed", range(20))
def test_good_pairs_are_not_shifted(seed: int) -> None:
    assert find_shifts(*made(3000, seed)) == []


@pytest.mark.parametrize("seed", range(5))
def test_sides_that_have_nothing_to_do_with_each_other_are_not_shifted(seed: int) -> None:
    random = np.random.default_rng(seed)
    lengths = random.integers(5, 200, (2, 3000))
    assert find_shifts(*lengths, np.zeros(3000, int), np.zeros(3000, int)) == []


def test_equal_lengths_alone_say_nothing() -> None:
    same = np.full(500, 40)
    assert find_shifts(same, same, same * 0, same * 0) == []


def test_numbers_alone_are_enough() -> None:
    same = np.full(500, 40)
    marks = np.random.default_rng(1).integers(1, 200, 500)
    (shift,) = find_shifts(same, same, marks, moved(marks, 100, 160, 1))
    assert shift == Shift(100, 160, 1) or abs(shift.begin - 100) + abs(shift.end - 160) <= 2


@pytest.mark.parametrize("lines", [0, 1, FEWEST_LINES - 1, FEWEST_LINES])
def test_few_lines(lines: int) -> None:
    assert find_shifts(*(values[:lines] for values in made(20))) == []
