import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from trntop.tui.render.line import fit, flow, line, printable, side_by_side

A, B = Style(bold=True), Style(italic=True)


@pytest.mark.parametrize(
    ("given_", "width", "align", "expected"),
    [
        ("ab", 4, "left", "ab  "),
        ("ab", 4, "right", "  ab"),
        ("abcdef", 4, "left", "abc…"),
        ("abcdef", 1, "left", "…"),
        ("abc", 0, "left", ""),
        ("節点", 4, "left", "節点"),
        ("節点一", 4, "left", "節 …"),
    ],
)
def test_fit(given_: str, width: int, align: str, expected: str) -> None:
    assert fit(given_, width, align) == expected  # type: ignore[arg-type]


@given(st.text(), st.integers(0, 40))
def test_fit_takes_exactly_its_cells(given_: str, width: int) -> None:
    shown = fit(given_, width)
    assert cell_len(shown) == width
    assert shown.isprintable()


def test_nothing_a_terminal_obeys_gets_through() -> None:
    assert printable("\x1b[2Jx\x9b1m\x00") == "�[2Jx�1m�"
    assert line([("a\x1b]0;b\x07", A)], 9).text == "a�]0;b�  "


def test_line_is_as_wide_as_asked() -> None:
    assert line([("abc", A), ("def", B)], 4).text == "abcd"
    assert line([("abc", A)], 5).text == "abc  "


def test_markup_is_text() -> None:
    assert line([("[red]x[/red]", A)], 12).text == "[red]x[/red]"


def test_blanks_join_their_neighbour() -> None:
    assert len(list(line([("a", A), ("  ", B), ("b", A), ("c", A)], 5))) == 1


def test_a_coloured_blank_stays_apart() -> None:
    ground = Style(bgcolor="red")
    assert len(list(line([("a", A), ("  ", ground)], 3))) == 2


def test_flow_drops_the_least_important() -> None:
    groups = [(90, [("first", A)]), (10, [("least", A)]), (50, [("last", A)])]
    assert flow(groups, 30, (" ", B)).text.split() == ["first", "least", "last"]
    assert flow(groups, 10, (" ", B)).text == "first last"
    assert flow(groups, 5, (" ", B)).text == "first"
    assert flow(groups, 3, (" ", B)).text == "fir"


def test_flow_keeps_to_the_right() -> None:
    drawn = flow([(90, [("left", A)])], 12, (" ", B), right=[(80, [("right", A)])])
    assert drawn.text == "left   right"


def test_side_by_side_fills_shorter_blocks() -> None:
    rows = side_by_side([([line([("a", A)], 1)], 2), ([line([("b", A)], 1)] * 2, 1)], gap=1)
    assert [row.text for row in rows] == ["a  b", "   b"]
