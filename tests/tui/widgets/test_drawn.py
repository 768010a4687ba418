import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from trntop.tui.widgets.drawn import changed_cells

STYLES = (Style(bold=True), Style(italic=True))


def strip(*texts: str) -> Strip:
    return Strip([Segment(text, STYLES[0]) for text in texts])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (strip("ab", "cd", "ef"), strip("ab", "xy", "ef"), (2, 4)),
        (strip("ab", "cd"), strip("xy", "cd"), (0, 2)),
        (strip("ab", "cd"), strip("ab", "xy"), (2, 4)),
        (strip("節", "cd", "e"), strip("節", "xy", "e"), (2, 4)),
        (strip("ab"), strip("abc"), (0, 9)),
        (None, strip("ab"), (0, 9)),
        (strip("ab"), None, (0, 9)),
    ],
)
def test_changed_cells(old: Strip | None, new: Strip | None, expected: tuple[int, int]) -> None:
    assert changed_cells(old, new, 9) == expected


SEGMENTS = st.lists(
    st.tuples(st.text("ab", min_size=1, max_size=3), st.sampled_from(STYLES)).map(
        lambda pair: Segment(*pair)
    ),
    max_size=5,
)


@given(SEGMENTS, SEGMENTS)
def test_outside_of_the_changed_cells_nothing_changed(
    before: list[Segment], after: list[Segment]
) -> None:
    old, new = Strip(before), Strip(after)
    if old.cell_length != new.cell_length or old == new:
        return
    start, end = changed_cells(old, new, new.cell_length)
    assert 0 <= start < end <= new.cell_length

    def cells(line: Strip) -> list[tuple[str, Style | None]]:
        return [(char, segment.style) for segment in line for char in segment.text]

    assert cells(old)[:start] == cells(new)[:start]
    assert cells(old)[end:] == cells(new)[end:]
