import numpy as np
import pytest

from trntop.analysis.axis import Axis
from trntop.analysis.cusum import Cusum

AXIS = Axis(("a", "b"))


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
    cusum.reset()
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
