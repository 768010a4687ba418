from itertools import pairwise

import numpy as np
import pytest

from trntop.analysis.debouncer import FORGET_AFTER, GAP, Change, Debouncer
from trntop.analysis.detector import Signal
from trntop.pipeline.axis import Axis

NAN = float("nan")
ONE = Axis(["a"])


def signal(values: list[float], axis: Axis = ONE) -> Signal:
    return Signal(axis, np.array(values, np.float64), limit=1.0, clear=0.9)


def run(hold: Debouncer, values: list[float], start: float = 0.0) -> list[Change]:
    changes = []
    for tick, value in enumerate(values):
        changes += hold.step(start + tick, signal([value]))
    return changes


def test_opens_after_the_hold_with_the_time_it_began() -> None:
    hold = Debouncer(hold=3, clear_hold=2)
    assert run(hold, [0, 2, 2, 2]) == []
    assert run(hold, [2], start=4) == [Change("a", True, 1.0)]


def test_closes_below_the_clear_level_only() -> None:
    hold = Debouncer(hold=0, clear_hold=2)
    assert run(hold, [2]) == [Change("a", True, 0.0)]
    assert run(hold, [0.95] * 10, start=1) == []
    assert run(hold, [0.5, 0.5, 0.5], start=11) == [Change("a", False, 11.0)]


def test_the_limit_itself_is_not_above_and_the_clear_level_is_below() -> None:
    hold = Debouncer(hold=0, clear_hold=0)
    assert run(hold, [1.0] * 5) == []
    assert run(hold, [1.01], start=5) == [Change("a", True, 5.0)]
    assert run(hold, [0.9], start=6) == [Change("a", False, 6.0)]


def test_fault_58_absent_values_neither_open_nor_close() -> None:
    hold = Debouncer(hold=3, clear_hold=2)
    assert run(hold, [2, NAN, NAN, NAN]) == []
    assert run(hold, [2], start=4) == [Change("a", True, 0.0)]
    assert run(hold, [NAN] * 100, start=5) == []
    assert run(hold, [0.1, NAN, 0.1], start=105) == [Change("a", False, 105.0)]


def test_a_pending_subject_that_is_long_unknown_starts_over() -> None:
    hold = Debouncer(hold=3, clear_hold=2)
    assert run(hold, [2, *[NAN] * int(GAP + 1), 2, 2, 2]) == []
    assert run(hold, [2], start=GAP + 5) == [Change("a", True, GAP + 2)]


def test_a_hold_longer_than_any_gap_outlives_gaps() -> None:
    hold = Debouncer(hold=60, clear_hold=2)
    values = [2 if t % 20 == 0 else NAN for t in range(62)]
    assert run(hold, values) == [Change("a", True, 0.0)]


def test_fault_56_flapping_changes_at_most_once_a_hold() -> None:
    hold = Debouncer(hold=5, clear_hold=5)
    changes = run(hold, [2, 0] * 100)
    assert changes == []


@pytest.mark.parametrize(("noise", "seed"), [(0.02, 0), (0.2, 1), (1.0, 2)])
def test_noise_around_the_limit(seed: int, noise: float) -> None:
    """At most one transition per hold, whatever the values do."""
    random = np.random.default_rng(seed)
    values = 1.0 + noise * random.standard_normal(600)
    values[random.random(600) < 0.1] = np.nan
    hold = Debouncer(hold=5, clear_hold=5)
    times = []
    opened = False
    for tick, value in enumerate(values):
        for change in hold.step(float(tick), signal([value])):
            assert change.opened is not opened, "it opens what is open, or closes what is closed"
            assert change.time <= tick - 5
            opened = change.opened
            times.append(tick)
    assert all(b - a >= 5 for a, b in pairwise(times))
    assert len(times) <= 600 / 5


def test_a_subject_that_left_is_closed_at_its_last_word() -> None:
    hold = Debouncer(hold=0, clear_hold=2)
    run(hold, [2])
    assert hold.step(FORGET_AFTER, signal([], Axis())) == []
    assert hold.step(FORGET_AFTER + 1, signal([], Axis())) == [Change("a", False, 0.0)]
    assert hold.step(FORGET_AFTER + 2, signal([], Axis())) == []


def test_a_pending_subject_that_left_is_forgotten_without_a_word() -> None:
    hold = Debouncer(hold=5, clear_hold=2)
    run(hold, [2, 2])
    assert hold.step(FORGET_AFTER + 5, signal([], Axis())) == []
    assert hold.step(FORGET_AFTER + 6, signal([2])) == []


def test_subjects_are_held_apart() -> None:
    hold = Debouncer(hold=2, clear_hold=1)
    axis = Axis(["a", "b", "c"])
    assert hold.step(0.0, signal([2, 0, 0], axis)) == []
    assert hold.step(1.0, signal([2, 2, 0], axis)) == []
    assert hold.step(2.0, signal([2, 2, 0], axis)) == [Change("a", True, 0.0)]
    # Another axis: who stays is known by its key.
    less = Axis(["b", "c"])
    assert hold.step(3.0, signal([2, 0], less)) == [Change("b", True, 1.0)]
    assert hold.step(4.0, signal([0, 0, 0], axis)) == []
    assert set(hold.step(5.0, signal([0, 0, 0], axis))) == {
        Change("a", False, 4.0), Change("b", False, 4.0),
    }  # fmt: skip


def test_reset_names_what_was_open() -> None:
    hold = Debouncer(hold=1, clear_hold=1)
    axis = Axis(["a", "b"])
    hold.step(0.0, signal([2, 0], axis))
    hold.step(1.0, signal([2, 2], axis))
    assert hold.reset() == ["a"]
    assert hold.reset() == []
    assert hold.step(2.0, signal([2, 2], axis)) == []
