import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.render.contexts import CONTEXT, text
from trntop.core.model import Severity
from trntop.tui.render.graph import bar, buckets, chart, sparkline
from trntop.tui.render.line import length

PALETTE = CONTEXT.palette
NAN = float("nan")


def drawn(ratio: float | None, width: int, limit: float | None = None) -> str:
    parts = bar(ratio, width, PALETTE.graph, PALETTE.rule, limit=limit)
    return "".join(part for part, _ in parts)


def test_bar() -> None:
    assert drawn(0.0, 4) == "────"
    assert drawn(1.0, 4) == "━━━━"
    assert drawn(0.5, 4) == "━━──"
    assert drawn(0.375, 4) == "━╸──"
    assert drawn(7.0, 4) == "━━━━"
    assert drawn(-1.0, 4) == "────"
    assert drawn(0.5, 0) == ""


def test_an_absent_bar_is_blank_not_empty() -> None:
    assert drawn(None, 4) == "    "


def test_bar_limit_is_a_tick() -> None:
    assert drawn(0.25, 8, limit=0.5) == "━━──┃───"
    assert drawn(1.0, 8, limit=0.5) == "━━━━┃━━━"


@given(st.none() | st.floats(allow_nan=False), st.integers(0, 50), st.none() | st.floats(0, 1))
def test_bar_takes_exactly_its_cells(ratio: float | None, width: int, limit: float | None) -> None:
    parts = bar(ratio, width, PALETTE.graph, PALETTE.rule, limit=limit)
    assert length(parts) == width


def test_sparkline() -> None:
    assert sparkline(np.array([0, 0.5, 1.0]), 1.0) == "▁▅█"
    assert sparkline(np.array([NAN, 1.0, NAN]), 1.0) == " █ "
    assert sparkline(np.array([])) == ""
    assert sparkline(np.array([NAN])) == " "
    assert sparkline(np.array([0.0, 0.0])) == "▁▁"


def test_a_steady_value_is_a_level_not_a_wall() -> None:
    assert sparkline(np.array([4.3, 4.3])) == "▆▆"


def test_buckets_are_means_and_gaps_stay_gaps() -> None:
    times = np.array([100.0, 101, 102, 103, 108])
    values = np.array([1.0, 3, 5, NAN, 9], np.float32)
    slots = buckets(times, values, now=109, width=5, seconds=2)
    assert np.array_equal(slots, [2.0, 5.0, NAN, NAN, 9.0], equal_nan=True)


def test_buckets_do_not_move_within_a_slot() -> None:
    times = np.arange(100.0, 120.0)
    values = np.arange(20.0)
    before = buckets(times[:-1], values[:-1], now=118.2, width=4, seconds=4)
    after = buckets(times, values, now=119.2, width=4, seconds=4)
    assert np.array_equal(before[:3], after[:3])


def test_buckets_of_nothing() -> None:
    assert np.isnan(buckets(np.empty(0), np.empty(0), 0, 3, 1)).all()


def test_chart() -> None:
    lines = chart(np.array([NAN, 0.0, 0.25, 0.5, 1.0]), 2, CONTEXT, top=1.0)
    assert [line.text for line in lines] == ["    █", " ▁▄██"]


def test_chart_draws_its_limit_behind_the_values() -> None:
    over = CONTEXT.palette.over[Severity.CRITICAL]
    lines = chart(np.array([0.2, 0.9]), 4, CONTEXT, top=1.0, limit=0.5, over=over)
    assert text(lines).splitlines()[1] == "╌█"
    assert list(lines[-1])[-1].style in over
    assert next(iter(lines[-1])).style in CONTEXT.palette.area
