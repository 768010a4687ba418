import pytest

from trntop.collectors.throttle import MIN_PAUSE, pause_after, report_interval


@pytest.mark.parametrize(("period", "seconds"), [(0.1, 0.025), (1.0, 0.25), (60.0, 0.25)])
def test_the_interval_stays_below_the_period(period: float, seconds: float) -> None:
    assert report_interval(period) == seconds


def test_the_pause_bounds_the_share_of_work() -> None:
    assert pause_after(0.0) == MIN_PAUSE
    assert pause_after(0.1) == pytest.approx(0.4)
