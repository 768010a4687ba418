"""The fleet's screen: the heading of its map."""

import pytest

from tests.tui.sample_run import make_app
from trntop.tui.render import glyphs
from trntop.tui.render.fleet_map import SCALE_CELLS
from trntop.tui.widgets.overview import FleetMap


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_the_map_has_a_heading_and_a_scale(size: tuple[int, int]) -> None:
    app = make_app(trouble=True)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        heat = app.screen.query_one(FleetMap)
        assert str(heat.border_title).startswith("fleet · retransmits, ")
        assert str(heat.border_title).endswith(" 2 %")
        assert heat.styles.border_top[0], "which has the heading"
        assert heat.size.height >= 2


async def test_another_theme_has_another_scale() -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        heat = app.screen.query_one(FleetMap)
        before = str(heat.border_title)
        app.theme = "trntop-light"
        await pilot.pause()
        after = str(heat.border_title)
        assert after != before
        assert after.count(glyphs.CELL) == before.count(glyphs.CELL) == SCALE_CELLS
