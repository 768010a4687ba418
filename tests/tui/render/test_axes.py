"""Charts whose values and times can be read."""

import numpy as np
import pytest

from tests.builders import NOON
from tests.tui.render.contexts import CONTEXT, text
from trntop.tui.render import axes
from trntop.tui.render.graph import chart


@pytest.mark.parametrize(
    ("value", "top"),
    [
        (4.31, 5.0),
        (5.0, 5.0),
        (0.41, 0.5),
        (971e3, 1e6),
        (0.116, 0.12),
        (1.0, 1.0),
        (0.0, 1.0),
        (-1.0, 1.0),
    ],
)
def test_round_numbers(value: float, top: float) -> None:
    assert axes.round_up(value) == pytest.approx(top)


def test_a_range_around_values() -> None:
    low, top = axes.bounds(np.array([2.31, np.nan, 2.34]))
    assert low < 2.31 < 2.34 < top
    assert top - low < 0.2
    assert axes.bounds(np.array([np.nan])) == (0.0, 1.0)
    low, top = axes.bounds(np.zeros(3))
    assert low < 0 < top


def test_values_are_next_to_their_heights() -> None:
    body = chart(np.full(30, 1.0), 4, CONTEXT, top=2.0)
    drawn = axes.with_axes(body, [(0.5, "25 %"), (1.0, "50 %"), (0.0, "0 %")], 10, NOON, 6, CONTEXT)
    rows = text(drawn).splitlines()
    assert [row[:6] for row in rows] == [" 50 %┤", " 25 %┤", "     │", "  0 %┤", "      "]
    assert rows[-1].endswith("now")
    assert all(strip.cell_length == 36 for strip in drawn)


def test_times_before_now() -> None:
    axis = axes.time_axis(60, 5.0, NOON, CONTEXT).text
    assert len(axis) == 60
    assert axis.endswith(" now")
    assert axis.index("-4 min") == 60 - 1 - 48
    assert axis.index("-2 min") == 60 - 1 - 24


def test_a_time_is_marked_and_no_label_hides_it() -> None:
    mark = axes.Mark(NOON - 61, "!", CONTEXT.palette.critical)
    assert axes.time_axis(60, 5.0, NOON, CONTEXT, [mark]).text[60 - 1 - 13] == "!"
    at_now = axes.Mark(NOON, "!", CONTEXT.palette.accent)
    assert axes.time_axis(60, 5.0, NOON, CONTEXT, [at_now]).text.endswith("─!")
    gone = axes.Mark(NOON - 9000, "!", CONTEXT.palette.critical)
    assert "!" not in axes.time_axis(60, 5.0, NOON, CONTEXT, [gone]).text


@pytest.mark.parametrize("width", [0, 1, 3, 12])
def test_an_axis_may_be_too_short_for_words(width: int) -> None:
    assert axes.time_axis(width, 60.0, NOON, CONTEXT).cell_length == width


def test_slots_are_whole_seconds() -> None:
    assert axes.slot_seconds(100, 300) == 3
    assert axes.slot_seconds(110, 300) == 3
    assert axes.slot_seconds(1000, 300) == 1
