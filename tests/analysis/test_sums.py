"""Sums over the newest seconds."""

import numpy as np

from trntop.analysis.axis import Axis
from trntop.analysis.sums import Mean, Sums


def row(*values: float) -> np.ndarray:
    return np.array([values])


def test_what_is_older_than_the_span_is_left_out() -> None:
    sums, axis = Sums(4.0), Axis("ab")
    found = [sums.push(2.0 * time, axis, row(1.0, time)).tolist() for time in range(5)]
    assert found == [[[1, 0]], [[2, 1]], [[2, 3]], [[2, 5]], [[2, 7]]]


def test_after_a_gap_only_the_newest_counts() -> None:
    sums, axis = Sums(4.0), Axis("a")
    sums.push(0.0, axis, row(5.0))
    assert sums.push(100.0, axis, row(1.0)).tolist() == [[1.0]]


def test_who_is_new_begins_at_nothing_and_others_go_on() -> None:
    sums = Sums(10.0)
    sums.push(0.0, Axis("ab"), row(1.0, 2.0))
    assert sums.push(1.0, Axis("bc"), row(1.0, 1.0)).tolist() == [[3.0, 1.0]]


def test_a_clock_that_goes_back_begins_anew() -> None:
    sums, axis = Sums(10.0), Axis("a")
    sums.push(5.0, axis, row(1.0))
    assert sums.push(1.0, axis, row(2.0)).tolist() == [[2.0]]


def test_the_mean_of_some_ticks() -> None:
    block = Mean(3)
    assert np.isnan(block.mean).all()
    for tick in ([1.0, 2.0, 3.0], [3.0, 4.0, np.nan], [5.0, 6.0, 7.0]):
        block.add(np.array(tick), np.array([False, tick[0] == 5.0, False]))
    assert block.mean.tolist() == [3.0, 3.0, 5.0]
    assert block.counts.tolist() == [3.0, 2.0, 2.0]
    block.clear()
    block.add(np.array([1.0, 1.0, 1.0]))
    block.add(np.array([2.0, 2.0, 2.0]))
    assert block.mean.tolist() == [1.5] * 3
    assert block.total.tolist() == [3.0] * 3
