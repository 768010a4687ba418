from collections.abc import Callable, Hashable, Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from trntop.analysis import windows
from trntop.analysis.axis import Axis
from trntop.analysis.windows import RECOMPUTE_EVERY, SLACK, Ewma, Window
from trntop.model import Column

VALUES = (
    st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e308, -1e9, 1e9, 0.0])
    | st.floats(-1e6, 1e6)
    | st.floats(0, 1)
)
TICK = st.tuples(
    st.sampled_from([0.0, 0.1, 1.0, 1.0, 1.0, 3.7, 60.0, -5.0]),
    st.sets(st.sampled_from("abc")),
    st.lists(VALUES, min_size=3, max_size=3),
)


TINY = 1e-36
"""What float32 cannot tell from 0 with all its digits."""


class Past:
    """The values of each member since it joined, `(time, value)`; the plain way."""

    def __init__(self, length: float) -> None:
        self.length = length
        self.time = -np.inf
        self.values: dict[Hashable, list[tuple[float, float]]] = {}
        """Of two windows."""

    def push(self, time: float, names: Sequence[Hashable], values: Column) -> None:
        if time < self.time:
            self.values = {}
        self.time = time
        self.values = {name: self.values.get(name, []) for name in names}
        for name, value in zip(names, values.tolist(), strict=True):
            if abs(value) < 1e300:
                self.values[name].append((time, value))
            past = self.values[name]
            while past and past[0][0] <= time - 2 * self.length + SLACK:
                del past[0]

    def known(self) -> list[tuple[Column, float]]:
        """Of each member the values of the window, and the span of those of two windows."""
        start = self.time - self.length + SLACK
        return [
            (
                np.array([value for time, value in past if time > start]),
                float(np.ptp([value for _, value in past])) if past else 0.0,
            )
            for past in self.values.values()
        ]


def test_equal_to_a_plain_recomputation() -> None:
    @settings(deadline=None, max_examples=300, derandomize=True)
    @given(st.sampled_from([1.0, 5.0, 20.0]), st.lists(TICK, max_size=40))
    def check(length: float, ticks: list[tuple[float, set[str], list[float]]]) -> None:
        window, past, time = Window(length), Past(length), 1.7e9
        axis = Axis()
        for step, chosen, numbers in ticks:
            time += step
            names = tuple(sorted(chosen))
            if names != axis.keys:
                axis = Axis(names)
            values = np.array([dict(zip("abc", numbers, strict=True))[name] for name in names])
            window.push(time, axis, values)
            past.push(time, names, values)
            compare(window, past)

    check()


def compare(window: Window, past: Past) -> None:
    expected = past.known()
    mean, variance, count, total = window.mean, window.variance, window.count, window.sum
    median = window.quantile(0.5, np.arange(len(expected)))
    for place, (known, span) in enumerate(expected):
        assert count[place] == len(known)
        if not len(known):
            assert np.isnan([mean[place], variance[place], total[place], median[place]]).all()
            continue
        level = 1e-12 * np.abs(known).max() + TINY
        margin = 1e-6 * span + level
        assert mean[place] == pytest.approx(known.mean(), rel=0, abs=margin)
        assert median[place] == pytest.approx(np.median(known), rel=0, abs=margin)
        assert total[place] == pytest.approx(known.sum(), rel=1e-12, abs=len(known) * margin)
        assert variance[place] == pytest.approx(
            known.var(), rel=1e-6, abs=1e-6 * span**2 + level**2
        )


def test_100_000_ticks_with_gaps_joins_leaves_and_clock_steps() -> None:
    rng = np.random.default_rng(1)
    ticks, names = 100_000, "abcdefgh"
    steps = rng.choice([0.25, 1.0, 1.0, 1.5], ticks)
    steps[rng.random(ticks) < 0.001] = 600.0
    steps[rng.random(ticks) < 0.001] = -3600.0
    table = 1e3 + rng.normal(0, 1.0, (ticks, len(names)))
    table[rng.random(ticks) < 0.001] *= 1e9
    table[rng.random(table.shape) < 0.05] = np.nan
    for bad in (np.inf, -np.inf, 1e308, -1e301):
        table[rng.random(table.shape) < 0.003] = bad
    joining = rng.random(ticks) < 0.01
    window, past, time, axis = Window(20.0), Past(20.0), 1.7e9, Axis(names)
    places = np.arange(len(names))
    for tick, (step, row) in enumerate(zip(steps.tolist(), table, strict=True)):
        time += step
        if joining[tick]:
            places = np.flatnonzero(rng.random(len(names)) < 0.8)
            axis = Axis([names[place] for place in places])
        values = row[places]
        window.push(time, axis, values)
        past.push(time, axis.keys, values)
        if tick % 200 == 0:
            compare(window, past)
    assert ticks > RECOMPUTE_EVERY


def pushed(
    window: Window, rows: Sequence[Column], start: float = 0.0, axis: Axis | None = None
) -> Window:
    axis = axis or Axis(range(len(rows[0])))
    for tick, row in enumerate(rows):
        window.push(start + tick, axis, row)
    return window


@pytest.mark.parametrize("level", [1e-3, 1.0, 1e9, 1e15])
def test_the_variance_of_large_nearly_constant_values(level: float) -> None:
    rng = np.random.default_rng(2)
    rows = level + level * 1e-9 * rng.normal(0, 1, (2000, 16))
    window = pushed(Window(20.0), rows)
    np.testing.assert_allclose(window.variance, rows[-20:].var(axis=0), rtol=1e-5)
    np.testing.assert_allclose(window.mean, rows[-20:].mean(axis=0), rtol=1e-12)


def test_a_shift_of_the_level_keeps_the_variance() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(0, 1, (200, 64))
    rows[60:] += 1e9
    rows[130:] -= 1e9
    rows[::7] = np.nan
    for end in (85, 90, 155, 200):
        window = pushed(Window(20.0), rows[:end])
        np.testing.assert_allclose(
            window.variance, np.nanvar(rows[end - 20 : end], axis=0), rtol=1e-5
        )


def test_a_huge_value_spoils_nothing_beyond_its_stay() -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(0.5, 0.1, (60, 4))
    rows[30] = 1e29
    axis = Axis(range(4))
    window = pushed(Window(20.0), rows[:40], 0.0, axis)
    assert window.mean[0] == pytest.approx(1e29 / 20, rel=1e-6)
    pushed(window, rows[40:], 40.0, axis)
    np.testing.assert_allclose(window.mean, rows[40:].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(window.variance, rows[40:].var(axis=0), rtol=1e-6)


def test_what_counts_is_time_not_ticks() -> None:
    window, axis = Window(10.0), Axis("a")
    for tick in range(100):
        window.push(0.1 * tick, axis, np.array([float(tick)]))
    assert window.count[0] == 100
    window.push(14.95, axis, np.array([0.0]))
    assert window.count[0] == 51
    window.push(600.0, axis, np.array([7.0]))
    assert (window.count[0], window.mean[0], window.variance[0]) == (1, 7.0, 0.0)


def test_time_that_goes_back_starts_anew() -> None:
    window, axis = Window(10.0), Axis("a")
    window.push(100.0, axis, np.array([1.0]))
    window.push(50.0, axis, np.array([3.0]))
    assert (window.count[0], window.mean[0]) == (1, 3.0)


def test_a_window_keeps_so_many_ticks_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MAX_TICKS", 8)
    window, axis = Window(1e9), Axis("a")
    for tick in range(20):
        window.push(float(tick), axis, np.array([float(tick)]))
    assert (window.count[0], window.mean[0]) == (8, 15.5)


def test_quantiles_of_chosen_members() -> None:
    rows = np.random.default_rng(5).normal(100, 5, (15, 6))
    rows[3:9, 2] = np.nan
    window = pushed(Window(20.0), rows)
    for q in (0.0, 0.1, 0.5, 0.95, 1.0):
        np.testing.assert_allclose(
            window.quantile(q, np.array([4, 2])), np.nanquantile(rows[:, [4, 2]], q, axis=0), 1e-6
        )


@pytest.mark.parametrize("make", [Window, Ewma])
def test_empty_and_cleared(make: Callable[[float], Window | Ewma]) -> None:
    window, axis = make(10.0), Axis("ab")
    assert window.mean.shape == (0,)
    window.push(0.0, Axis(), np.empty(0))
    window.push(1.0, axis, np.array([1.0, np.nan]))
    np.testing.assert_array_equal(window.mean, [1.0, np.nan])
    np.testing.assert_array_equal(window.variance, [0.0, np.nan])
    window.clear()
    assert window.mean.shape == (0,)
    window.push(0.0, axis, np.array([np.nan, 2.0]))
    np.testing.assert_array_equal(window.mean, [np.nan, 2.0])


def test_columns_longer_than_a_piece() -> None:
    rng = np.random.default_rng(6)
    rows = rng.normal(10, 1, (30, 40_000))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    window = pushed(Window(20.0), rows)
    np.testing.assert_allclose(window.mean, np.nanmean(rows[10:], axis=0), rtol=1e-6)
    np.testing.assert_allclose(window.variance, np.nanvar(rows[10:], axis=0), rtol=1e-5)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.sampled_from([2.0, 30.0]), st.lists(TICK, max_size=40))
def test_ewma_is_equal_to_a_plain_recomputation(
    half_life: float, ticks: list[tuple[float, set[str], list[float]]]
) -> None:
    ewma, past, time, axis = Ewma(half_life), Past(1e9), 1.7e9, Axis()
    for step, chosen, numbers in ticks:
        time += step
        names = tuple(sorted(chosen))
        if names != axis.keys:
            axis = Axis(names)
        values = np.array([dict(zip("abc", numbers, strict=True))[name] for name in names])
        ewma.push(time, axis, values)
        past.push(time, names, values)
        mean, variance = ewma.mean, ewma.variance
        for place, name in enumerate(names):
            table = np.array(past.values[name]).reshape(-1, 2)
            weight = 0.5 ** ((time - table[:, 0]) / half_life)
            if not len(table) or weight.max() < 2.0**-39:
                continue
            expected = np.average(table[:, 1], weights=weight)
            spread = np.average((table[:, 1] - expected) ** 2, weights=weight)
            span = np.ptp(table[:, 1])
            level = 1e-12 * np.abs(table[:, 1]).max() + TINY
            assert mean[place] == pytest.approx(expected, rel=1e-6, abs=1e-6 * span + TINY)
            assert variance[place] == pytest.approx(spread, rel=1e-6, abs=1e-6 * span**2 + level**2)


def test_ewma_over_100_000_ticks_does_not_drift() -> None:
    rng = np.random.default_rng(7)
    ewma, axis, time = Ewma(30.0), Axis(range(4)), 0.0
    times, rows = np.cumsum(rng.choice([0.5, 1.0, 4.0], 100_000)), rng.normal(1e9, 1, (100_000, 4))
    rows[rng.random(rows.shape) < 0.05] = np.nan
    for time, row in zip(times.tolist(), rows, strict=True):
        ewma.push(time, axis, row)
    recent = slice(-2000, None)
    weight = 0.5 ** ((time - times[recent]) / 30.0)
    for member in range(4):
        values = rows[recent, member]
        known = ~np.isnan(values)
        mean = np.average(values[known], weights=weight[known])
        spread = np.average((values[known] - mean) ** 2, weights=weight[known])
        assert ewma.mean[member] == pytest.approx(mean, rel=1e-12)
        assert ewma.variance[member] == pytest.approx(spread, rel=1e-6)


def test_ewma_forgets_the_silent_and_counts_seconds_of_data() -> None:
    ewma, axis = Ewma(10.0), Axis("ab")
    for tick in range(31):
        ewma.push(float(tick), axis, np.array([5.0, 1.0 if tick < 10 else np.nan]))
    np.testing.assert_allclose(ewma.age, [30.0, 9.0])
    np.testing.assert_allclose(ewma.mean, [5.0, 1.0])
    ewma.push(1000.0, axis, np.array([6.0, np.nan]))
    np.testing.assert_allclose(ewma.mean, [6.0, np.nan])
    np.testing.assert_allclose(ewma.age, [0.0, 0.0])
    ewma.push(1001.0, axis, np.array([6.0, 2.0]))
    np.testing.assert_allclose(ewma.mean, [6.0, 2.0])
    np.testing.assert_allclose(ewma.age, [1.0, 0.0])


@pytest.mark.parametrize("make", [Window, Ewma])
def test_who_leaves_and_returns_starts_anew(make: Callable[[float], Window | Ewma]) -> None:
    window, both = make(100.0), Axis("ab")
    window.push(0.0, both, np.array([1.0, 1.0]))
    window.push(1.0, Axis("b"), np.array([1.0]))
    window.push(2.0, both, np.array([5.0, 1.0]))
    np.testing.assert_allclose(window.mean, [5.0, 1.0])
