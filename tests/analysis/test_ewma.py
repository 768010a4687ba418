import numpy as np
import pytest

from trntop.analysis.axis import Axis
from trntop.analysis.ewma import Ewma


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
