from hypothesis import given
from hypothesis import strategies as st

from trntop.collectors.backoff import Backoff


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(draw=lambda: 1.0)
    assert [backoff.wait(0) for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_jitter_takes_at_most_half() -> None:
    backoff = Backoff(draw=lambda: 0.0)
    assert [backoff.wait(0) for _ in range(3)] == [0.25, 0.5, 1.0]


def test_a_healthy_minute_resets_the_backoff() -> None:
    backoff = Backoff(draw=lambda: 1.0)
    waits = [backoff.wait(lasted) for lasted in (0, 0, 59.9, 60.0, 0)]
    assert waits == [0.5, 1, 2, 0.5, 1]


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 1.0, 59.9, 60.0])), max_size=60))
def test_never_more_than_ten_starts_a_minute(lives: list[tuple[float, float]]) -> None:
    draws = iter([draw for draw, _ in lives])
    backoff = Backoff(draw=lambda: next(draws))
    now, starts = 0.0, [0.0]
    for _, lasted in lives:
        now += lasted + backoff.wait(lasted)
        starts.append(now)
    for first, eleventh in zip(starts, starts[10:], strict=False):
        assert eleventh - first >= 60.0
