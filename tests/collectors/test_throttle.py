import pytest

from trntop.collectors.throttle import NAP, hold, rest


@pytest.mark.parametrize(("period", "seconds"), [(0.1, 0.025), (1.0, 0.25), (60.0, 0.25)])
def test_hold_stays_below_the_period(period: float, seconds: float) -> None:
    assert hold(period) == seconds


def test_rest_bounds_the_share_of_work() -> None:
    assert rest(0.0) == NAP
    assert rest(0.1) == pytest.approx(0.4)
