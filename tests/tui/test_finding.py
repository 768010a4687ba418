"""The node list: filter, faults only, sort order, columns."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

import trntop.tui
from tests.builders import make_node, view_of
from tests.tui.render.contexts import text
from tests.tui.sample_run import SETTINGS, VICTIM, FakeSession, view_model
from trntop.core.settings import Analysis, Settings
from trntop.pipeline.history import History
from trntop.session.runner import Session
from trntop.tui.app import TrntopApp
from trntop.tui.screens.cluster import ClusterScreen
from trntop.tui.view_model import ViewModel
from trntop.tui.widgets.filter_bar import FilterLine

FILTERED = "incident | state=stale"


class Fleet(TrntopApp):
    """The dashboard with the fleet that is shown."""

    CSS_PATH = Path(trntop.tui.__file__).parent / "screens" / "base.tcss"

    def __init__(self, shown: ViewModel, settings: Settings = SETTINGS) -> None:
        session = FakeSession(shown.view, cast(History, shown.history))
        super().__init__(cast(Session, session), settings=settings, utc=True)

    @property
    def cluster(self) -> ClusterScreen:
        return next(screen for screen in self.screen_stack if isinstance(screen, ClusterScreen))

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.cluster.table.rows]

    @property
    def line(self) -> str:
        """The text in the bar under what is typed."""
        return text(self.cluster.bar._line.draw(100, 0))


TROUBLE = view_model(trouble=True)


@asynccontextmanager
async def running(
    shown: ViewModel = TROUBLE,
    settings: Settings = SETTINGS,
    size: tuple[int, int] = (120, 36),
) -> AsyncIterator[tuple[Fleet, Pilot[int]]]:
    app = Fleet(shown, settings)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


async def typed(pilot: Pilot[int], what: str) -> None:
    """Types into the open bar at once."""
    pilot.app.screen.query_one(Input).value = what
    await pilot.pause()
    await pilot.pause()


async def test_a_filter_is_typed_kept_changed_and_cleared() -> None:
    async with running() as (app, pilot):
        await pilot.press("slash")
        await pilot.press("0", "0", "7")
        await pilot.pause()
        assert app.names == [VICTIM]
        assert app.line.strip() == "1 of 16 nodes"
        await pilot.press("enter")
        await pilot.pause()
        assert not app.cluster.query(Input)
        assert app.focused is app.cluster.table
        assert app.line.startswith(" / 007")
        assert "nodes · worst first · 1 of 16" in str(app.cluster.table.border_title)
        assert app.cluster.node == VICTIM
        await pilot.press("slash")
        assert app.cluster.query_one(Input).value == "007"
        await typed(pilot, FILTERED)
        assert app.names == [VICTIM, "trn-011"]
        await pilot.press("enter", "escape")
        await pilot.pause()
        assert len(app.names) == 16
        assert app.line == ""
        assert app.cluster.bar.size.height == 0


async def test_escape_while_typing_shows_all_again() -> None:
    async with running() as (app, pilot):
        await pilot.press("slash")
        await typed(pilot, "007")
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.names) == 16
        assert app.focused is app.cluster.table


async def test_an_error_appears_at_its_position_and_is_not_kept() -> None:
    async with running() as (app, pilot):
        await pilot.press("slash")
        await typed(pilot, "007")
        await typed(pilot, "utl<3 & a")
        assert app.line == "   ▴ unknown field utl; did you mean util?"
        assert app.names == [VICTIM]
        await pilot.press("enter")
        await pilot.pause()
        assert app.cluster.bar.editing
        assert app.line == "   ▴ invalid filter: unknown field utl; did you mean util?"
        await typed(pilot, "util<")
        assert "invalid filter" not in app.line
        await pilot.press("enter")
        await pilot.pause()
        assert "invalid filter" in app.line
        await typed(pilot, "  ")
        assert len(app.names) == 16
        await pilot.press("enter")
        await pilot.pause()
        assert not app.cluster.bar.editing
        assert not app.cluster.selection.narrow


async def test_rows_stay_while_a_name_is_typed_but_an_empty_find_may_be_kept() -> None:
    async with running() as (app, pilot):
        await pilot.press("slash")
        await typed(pilot, "uti")
        assert len(app.names) == 16
        assert app.line == "   0 of 16 nodes   Tab util"
        await typed(pilot, "util<1")
        await pilot.press("enter")
        await pilot.pause()
        assert app.names == []
        assert "no node matches the filter" in text(app.cluster.table.draw(80, 10))
        assert app.cluster.node is None


async def test_names_are_completed() -> None:
    async with running() as (app, pilot):
        await pilot.press("slash")
        await pilot.press("u", "t")
        await app.workers.wait_for_complete()
        await pilot.pause()
        await pilot.press("tab")
        assert app.cluster.query_one(Input).value == "util"


async def test_the_filter_follows_the_ticks() -> None:
    async with running() as (app, pilot):
        await pilot.press("slash")
        await typed(pilot, "incident")
        await pilot.press("enter")
        app.cluster.view_model = view_model()
        await pilot.pause()
        assert app.names == []
        app.cluster.view_model = TROUBLE
        await pilot.pause()
        assert app.names == [VICTIM]


async def test_without_a_filter_a_tick_lays_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (app, pilot):
        refreshed: list[object] = []
        monkeypatch.setattr(FilterLine, "refresh", lambda *_, **given: refreshed.append(given))
        app.cluster.view_model = view_model()
        await pilot.pause()
        assert not refreshed


async def test_faults_only() -> None:
    async with running() as (app, pilot):
        await pilot.press("f")
        await pilot.pause()
        assert app.names == [VICTIM, "trn-011"]
        assert app.line.startswith(" faults only")
        await pilot.press("slash")
        await typed(pilot, "011")
        await pilot.press("enter")
        await pilot.pause()
        assert app.names == ["trn-011"]
        await pilot.press("escape")
        await pilot.pause()
        assert app.names == [VICTIM, "trn-011"]
        app.cluster.view_model = view_model()
        await pilot.pause()
        assert "no node has an open incident" in text(app.cluster.table.draw(80, 10))
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.names) == 16


async def test_a_click_on_what_holds_opens_it() -> None:
    async with running() as (app, pilot):
        await pilot.press("f")
        await pilot.pause()
        await pilot.click(app.cluster.bar)
        await pilot.pause()
        assert app.cluster.bar.editing


async def test_sorting_by_keys() -> None:
    nodes = [
        make_node(0),
        make_node(1),
        make_node(2, columns={"efa_tx_bytes_per_second": [9e10, 9e10]}),
    ]
    shown = ViewModel(view_of(*nodes), History(10), Analysis())
    async with running(shown, size=(200, 36)) as (app, pilot):
        table = app.cluster.table
        screens = {}
        for _ in range(1 + len(table.fitting())):
            await pilot.press("s")
            screens[table.sorted_by] = app.names
        assert table.sorted_by == "worst"
        assert list(screens)[:4] == ["node", "util", "te", "hbm"]
        assert screens["efa_tx"][0] == "trn-002"
        assert set(screens) == {"worst", *table.fitting()}
        await pilot.press("S")
        assert app.names == ["trn-000", "trn-001", "trn-002"]
        await pilot.press("s", "S")
        assert app.names == ["trn-002", "trn-001", "trn-000"]
        assert str(table.border_title) == "nodes · by node, reversed"


async def test_sorting_by_clicks_on_titles() -> None:
    async with running() as (app, pilot):
        table = app.cluster.table
        header = text(table.draw(table.size.width, 2)[:1])
        column = header.index("retx") + table.gutter.left
        await pilot.click(table, offset=(column, table.gutter.top))
        assert (table.sorted_by, table.reverse) == ("retx", False)
        assert app.names[0] == VICTIM
        await pilot.click(table, offset=(column, table.gutter.top))
        assert (table.sorted_by, table.reverse) == ("retx", True)
        assert app.names[-2:] == [VICTIM, "trn-011"]
        await pilot.click(table, offset=(table.gutter.left, table.gutter.top))
        assert table.sorted_by == "retx"


async def test_settings_set_columns_and_order() -> None:
    screen = msgspec.structs.replace(
        SETTINGS.screen, sort="retx", columns=("retx", "cpu", "nonsense")
    )
    settings = msgspec.structs.replace(SETTINGS, screen=screen)
    async with running(settings=settings) as (app, _):
        table = app.cluster.table
        assert [column.id for column in table.columns()] == ["node", "retx", "cpu"]
        assert app.names[0] == VICTIM
        (warning,) = [notification.message for notification in app._notifications]
        assert warning.startswith("unknown column nonsense; use one of worst, node, util")
