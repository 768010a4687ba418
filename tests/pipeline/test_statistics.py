"""Accumulators along axes whose members come and go."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from trntop.pipeline.axis import Axis, PartAxis, realigned
from trntop.pipeline.statistics import Cusum, Ewma, Growth, Mean, RollingMean, Sums, median

NAN = float("nan")
AXIS = Axis(("a", "b"))


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


def test_new_members_begin_at_zero_and_others_continue() -> None:
    sums = Sums(10.0)
    sums.push(0.0, Axis("ab"), row(1.0, 2.0))
    assert sums.push(1.0, Axis("bc"), row(1.0, 1.0)).tolist() == [[3.0, 1.0]]


def test_a_clock_that_goes_back_resets() -> None:
    sums, axis = Sums(10.0), Axis("a")
    sums.push(5.0, axis, row(1.0))
    assert sums.push(1.0, axis, row(2.0)).tolist() == [[2.0]]


def test_the_mean_of_some_ticks() -> None:
    block = Mean(3)
    assert np.isnan(block.mean).all()
    for tick in ([1.0, 2.0, 3.0], [3.0, 4.0, np.nan], [5.0, 6.0, 7.0]):
        block.add(np.array(tick), np.array([False, tick[0] == 5.0, False]))
    assert block.mean.tolist() == [3.0, 3.0, 5.0]
    block.clear()
    block.add(np.array([1.0, 1.0, 1.0]))
    block.add(np.array([2.0, 2.0, 2.0]))
    assert block.mean.tolist() == [1.5] * 3


def test_equal_to_a_weighted_mean_of_the_whole_past() -> None:
    rng = np.random.default_rng(7)
    ewma, axis = Ewma(30.0), Axis("ab")
    times = np.cumsum(rng.choice([0.5, 1.0, 4.0, 90.0], 500))
    rows = rng.normal(1e9, 1, (500, 2))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    for time, row in zip(times.tolist(), rows, strict=True):
        ewma.push(time, axis, row)
    weight = 0.5 ** ((times[-1] - times) / 30.0)
    for member, mean in enumerate(ewma.mean):
        known = ~np.isnan(rows[:, member])
        expected = np.average(rows[known, member], weights=weight[known])
        assert mean == pytest.approx(expected, rel=1e-12)


def test_it_forgets_the_silent_and_counts_seconds_of_data() -> None:
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


@pytest.mark.parametrize("damage", [np.inf, -np.inf, 1e308, -1e301])
def test_damage_counts_as_absent(damage: float) -> None:
    ewma, axis = Ewma(10.0), Axis("ab")
    ewma.push(0.0, axis, np.array([damage, 2.0]))
    ewma.push(1.0, axis, np.array([1.0, damage]))
    np.testing.assert_allclose(ewma.mean, [1.0, 2.0])


def test_a_member_that_leaves_and_returns_starts_over() -> None:
    ewma, both = Ewma(100.0), Axis("ab")
    ewma.push(0.0, both, np.array([1.0, 1.0]))
    ewma.push(1.0, Axis("b"), np.array([1.0]))
    ewma.push(2.0, both, np.array([5.0, 1.0]))
    np.testing.assert_allclose(ewma.mean, [5.0, 1.0])


def test_time_that_goes_back_starts_over() -> None:
    ewma, axis = Ewma(10.0), Axis("a")
    ewma.push(100.0, axis, np.array([1.0]))
    ewma.push(50.0, axis, np.array([3.0]))
    assert (ewma.mean[0], ewma.age[0]) == (3.0, 0.0)


def test_the_first_sight_is_no_growth_and_absence_forgets_nothing() -> None:
    growth, axis = Growth(), Axis("ab")
    assert_array_equal(growth.push(axis, np.array([7.0, NAN])), [0, NAN])
    assert_array_equal(growth.push(axis, np.array([NAN, 3.0])), [NAN, 0])
    assert_array_equal(growth.push(axis, np.array([9.0, 3.0])), [2, 0])


def test_a_count_that_went_back_is_what_it_shows() -> None:
    growth, axis = Growth(), Axis("ab")
    growth.push(axis, np.array([7.0, 7.0]))
    assert_array_equal(growth.push(axis, np.array([2.0, 0.0])), [2, 0])


def test_members_keep_their_counts_when_others_come_and_go() -> None:
    growth = Growth()
    growth.push(Axis("ab"), np.array([[1.0, 2.0], [10.0, 20.0]]))
    grown = growth.push(Axis("bc"), np.array([[5.0, 9.0], [20.0, 9.0]]))
    assert_array_equal(grown, [[3, 0], [0, 0]])
    growth.clear()
    assert_array_equal(growth.push(Axis("b"), np.array([99.0])), [0])


def test_parts_are_carried_by_their_keys() -> None:
    old = PartAxis(Axis("ab"), [(0, 1), (0,)])
    new = PartAxis(Axis("ab"), [(1, 2), (0,)])
    assert_array_equal(realigned(np.array([1.0, 2.0, 3.0]), old, new), [2, NAN, 3])


def run(cusum: Cusum, *rows: tuple[float, float]) -> list[list[float]]:
    return [
        cusum.step(time, AXIS, np.array(row)).tolist() for time, row in enumerate(rows, start=10)
    ]


def test_it_sums_what_exceeds_the_allowance() -> None:
    cusum = Cusum(allowance=1.0, ceiling=10.0)
    assert run(cusum, (0, 0), (3, 1), (2.5, -5), (0.5, 4)) == [[0, 0], [2, 0], [3.5, 0], [3, 3]]
    assert cusum.since.tolist() == [11, 13]


def test_it_forgets_the_onset_at_0_and_finds_the_next() -> None:
    cusum = Cusum(allowance=1.0, ceiling=10.0)
    run(cusum, (3, 0), (-9, 0))
    assert np.isnan(cusum.since).all()
    assert cusum.step(20.0, AXIS, np.array([2.0, 0.0])).tolist() == [1, 0]
    assert cusum.since[0] == 20


def test_absent_values_change_nothing() -> None:
    cusum = Cusum(allowance=1.0, ceiling=10.0)
    nan = float("nan")
    assert run(cusum, (3, nan), (nan, nan), (nan, 3)) == [[2, 0], [2, 0], [2, 2]]
    assert cusum.since.tolist() == [10, 12]


def test_the_ceiling_bounds_the_way_back() -> None:
    cusum = Cusum(allowance=1.0, ceiling=4.0)
    assert run(cusum, (99, np.inf), (0, 0))[-1] == [3, 3]
    assert cusum.since.tolist() == [10, 10]


def test_members_come_and_go() -> None:
    cusum = Cusum(allowance=1.0, ceiling=10.0)
    run(cusum, (3, 4))
    other = Axis(("b", "c"))
    assert cusum.step(11.0, other, np.array([1.0, 2.0])).tolist() == [3, 1]
    assert cusum.since.tolist() == [10, 11]


def test_chosen_members_are_set_back() -> None:
    cusum = Cusum(allowance=1.0, ceiling=10.0)
    run(cusum, (3, 4))
    cusum.reset(np.array([True, False]))
    assert (cusum.score.tolist(), cusum.since[1]) == ([0, 3], 10)
    cusum.clear()
    assert run(cusum, (0, 2)) == [[0, 1]]


@pytest.mark.parametrize(("shift", "longest"), [(1.0, 40), (2.0, 12), (4.0, 5)])
def test_a_shift_is_found_and_noise_is_not(shift: float, longest: int) -> None:
    """A limit of 8 with half a deviation allowed: a false alarm in some 10^4 values."""
    rng = np.random.default_rng(3)
    axis, cusum = Axis(range(50)), Cusum(allowance=0.5, ceiling=20.0)
    calm = [cusum.step(time, axis, rng.normal(size=50)).max() for time in range(200)]
    assert max(calm) < 8
    scores = [cusum.step(200 + time, axis, rng.normal(shift, size=50)) for time in range(longest)]
    assert (scores[-1] > 8).all()
    assert np.median(cusum.since) <= 202


def test_a_rolling_mean_of_the_newest_seconds() -> None:
    mean = RollingMean(4.0)
    assert mean.push(0.0, np.array([1.0, NAN])).tolist()[0] == 1.0
    assert_array_equal(mean.push(2.0, np.array([3.0, 5.0])), [2, 5])
    assert mean.known.tolist() == [1.0, 0.5]
    assert mean.seconds == 2.0
    assert_array_equal(mean.push(4.0, np.array([5.0, NAN])), [4, 5])
    assert_array_equal(mean.push(5.0, np.array([9.0])), [9]), "other members start over"
    assert_array_equal(mean.push(1.0, np.array([2.0])), [2]), "time went back"


def test_fault_33_a_rolling_mean_is_that_of_the_rows_in_its_span() -> None:
    rng = np.random.default_rng(4)
    mean, times = RollingMean(20.0), np.cumsum(rng.choice([0.5, 1.0, 3.0, 30.0], 300))
    rows = np.where(rng.random((300, 4)) < 0.2, NAN, rng.lognormal(10, 8, (300, 4)))
    for index, time in enumerate(times):
        found = mean.push(time, rows[index])
        chosen = rows[: index + 1][times[: index + 1] > time - 20.0]
        known = ~np.isnan(chosen)
        assert_allclose(mean.known, known.mean(axis=0))
        assert mean.seconds == time - times[: index + 1][times[: index + 1] > time - 20.0][0]
        expected = [np.mean(column[there]) if there.any() else NAN
                    for column, there in zip(chosen.T, known.T, strict=True)]  # fmt: skip
        assert_allclose(found, expected, rtol=1e-12)


def test_nothing_remains_of_what_a_rolling_mean_has_left() -> None:
    mean = RollingMean(3.0)
    found = [mean.push(time, np.array([1e15 / 3 if time < 9 else 0.0])) for time in range(20)]
    assert found[11:] == [0.0] * 9


def test_a_rolling_mean_follows_its_axis() -> None:
    mean = RollingMean(9.0)
    mean.push(0.0, np.array([1.0, 2.0]), Axis("ab"))
    assert_array_equal(mean.push(1.0, np.array([4.0, 7.0]), Axis("bc")), [3, 7])
    assert_array_equal(mean.push(9.5, np.array([6.0, 1.0]), Axis("cb")), [6.5, 2.5])
    assert_array_equal(mean.push(11.0, np.array([1.0, 1.0]), Axis("bd")), [1, 1])


@pytest.mark.parametrize("values", [[4.0], [1.0, 2.0], [3.0, np.nan, 1.0, 2.0, 7.0], [2, 1, 9]])
def test_the_median_of_known_values_is_that_of_numpy(values: list[float]) -> None:
    assert median(values) == np.nanmedian(values)


def test_without_known_values_there_is_no_median() -> None:
    assert np.isnan(median([])) and np.isnan(median([np.nan]))
