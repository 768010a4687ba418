"""The line of the filter, and what it dims in the map."""

import numpy as np
import pytest

from tests.tui.render.contexts import CONTEXT, text
from tests.tui.sample_run import view_model
from trntop.tui.filter import Filter
from trntop.tui.render import filter as drawing
from trntop.tui.render import fleet_map, glyphs
from trntop.tui.selection import ALL, Selection


def test_what_holds() -> None:
    both = Selection(Filter("util<30"), faults=True)
    line = drawing.active(both, 12, 1000, 100, CONTEXT).text
    assert line.startswith(" / util<30   faults only")
    assert line.rstrip().endswith("12 of 1,000 nodes   / edit  Esc clear")
    alone = drawing.active(Selection(faults=True), 1, 1, 60, CONTEXT).text
    assert alone.startswith(" faults only")
    assert alone.rstrip().endswith("Esc clear")
    assert "1 of 1 node " in alone


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_long_filter_leaves_room_for_the_count(width: int) -> None:
    line = drawing.active(Selection(Filter("x" * 300)), 3, 16, width, CONTEXT)
    assert line.cell_length == width
    assert "3 of 16 nodes" in line.text or width < 30


def test_names_are_offered() -> None:
    assert drawing.hint(3, 16, ["hbm", "hbm_bw"], 80, CONTEXT).text.split() == [
        "3", "of", "16", "nodes", "Tab", "hbm", "hbm_bw",
    ]  # fmt: skip
    assert "Tab" not in drawing.hint(3, 16, [], 80, CONTEXT).text


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (4, "       ▴ it makes no sense"),
        (60, " " * 45 + "it makes no sense ▴"),
        (500, " " * 61 + "it makes no sense ▴"),
    ],
)
def test_a_mistake_is_pointed_at(at: int, shown: str) -> None:
    line = drawing.problem("it makes no sense", at, False, 80, CONTEXT)
    assert line.text.rstrip() == shown
    assert line.cell_length == 80
    assert next(iter(line)).style is CONTEXT.palette.warning
    assert next(iter(drawing.problem("more", 4, True, 80, CONTEXT))).style is CONTEXT.palette.muted


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("at", [0, 10, 30, 70, 110])
def test_a_long_message_is_cut_on_the_side_with_more_room(at: int, width: int) -> None:
    message = "unknown name bogus; known are " + ", ".join(f"name{index}" for index in range(20))
    line = drawing.problem(message, at, False, width, CONTEXT)
    assert line.cell_length == width
    left, _, right = line.text.partition(glyphs.UP)
    left_text = max(left.strip(), right.strip(), key=len)
    assert left_text.startswith("unknown name bog")
    assert left_text.endswith("…")
    assert len(left_text) >= width // 2 - 2


class TestMap:
    @pytest.mark.parametrize("size", [(118, 6), (40, 6), (4, 2)])
    def test_others_are_dimmed(self, size: tuple[int, int]) -> None:
        shown = view_model(trouble=True)
        plain = fleet_map.draw(shown, *size, CONTEXT)
        chosen = Filter("007 | 011").mask(shown)
        dimmed = fleet_map.draw(shown, *size, CONTEXT, selected=chosen)
        assert text(dimmed) == text(plain) or size == (4, 2)
        assert dimmed != plain
        everybody = np.ones(16, np.bool_)
        assert fleet_map.draw(shown, *size, CONTEXT, selected=everybody) == plain

    def test_what_is_wrong_keeps_its_sign(self) -> None:
        shown = view_model(trouble=True)
        unused = np.zeros(16, np.bool_)
        for size in ((118, 6), (40, 6)):
            lines = fleet_map.draw(shown, *size, CONTEXT, selected=unused)
            styles = {part.text: part.style for line in lines for part in line}
            assert any(CONTEXT.palette.critical is style for style in styles.values())


class TestSelection:
    def test_all_is_no_choice(self) -> None:
        assert not ALL.narrow
        assert ALL.count(view_model()) == 16

    def test_filter_and_faults_both_hold(self) -> None:
        shown = view_model(trouble=True)
        assert Selection(faults=True).count(shown) == 2
        assert Selection(Filter("state=stale"), faults=True).count(shown) == 1
        assert Selection(Filter("000"), faults=True).count(shown) == 0

    def test_a_view_model_is_evaluated_once(self) -> None:
        shown = view_model(trouble=True)
        choice = Selection(Filter("incident"))
        assert choice.mask(shown) is choice.mask(shown)
        assert choice.mask(view_model()) is not choice.mask(shown)
