import numpy as np

from trntop.analysis.hold import FORGET_AFTER, Change, Hold

NAN = float("nan")


def run(hold: Hold, values: list[float], start: float = 0.0) -> list[Change]:
    changes = []
    for tick, value in enumerate(values):
        changes += hold.step(start + tick, ("a",), np.array([value]), limit=1.0, clear=0.9)
    return changes


def test_opens_after_the_hold_with_the_time_it_began() -> None:
    hold = Hold(hold=3, clear_hold=2)
    assert run(hold, [0, 2, 2, 2]) == []
    assert run(hold, [2], start=4) == [Change("a", True, 1.0)]


def test_closes_below_the_clear_level_only() -> None:
    hold = Hold(hold=0, clear_hold=2)
    assert run(hold, [2]) == [Change("a", True, 0.0)]
    assert run(hold, [0.95] * 10, start=1) == []
    assert run(hold, [0.5, 0.5, 0.5], start=11) == [Change("a", False, 11.0)]


def test_absent_values_neither_open_nor_close() -> None:
    hold = Hold(hold=3, clear_hold=2)
    assert run(hold, [2, NAN, NAN, NAN]) == []
    assert run(hold, [2], start=4) == [Change("a", True, 0.0)]
    assert run(hold, [NAN] * 100, start=5) == []
    assert run(hold, [0.1, NAN, 0.1], start=105) == [Change("a", False, 105.0)]


def test_flapping_changes_at_most_once_a_hold() -> None:
    hold = Hold(hold=5, clear_hold=5)
    changes = run(hold, [2, 0] * 100)
    assert changes == []


def test_a_subject_that_left_is_closed_at_its_last_word() -> None:
    hold = Hold(hold=0, clear_hold=2)
    run(hold, [2])
    assert hold.step(FORGET_AFTER, (), np.empty(0), 1.0, 0.9) == []
    assert hold.step(FORGET_AFTER + 1, (), np.empty(0), 1.0, 0.9) == [Change("a", False, 0.0)]
