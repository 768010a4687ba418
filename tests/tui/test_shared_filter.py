"""One filter for the nodes, the EFA devices, the ranks and the incidents, and the way out of it."""

from typing import Any, cast

import pytest
from textual.widgets import Input

from tests.builders import make_incident, make_view
from tests.tui.full_run import session
from tests.tui.rank_nodes import nodes_with_ranks
from tests.tui.rank_nodes import view_model_of as node_with_ranks
from tests.tui.sample_run import VICTIM, FakeSession, app_of, make_app
from tests.tui.test_app import picture, press, running
from trntop.tui.app import TrntopApp
from trntop.tui.screens.cluster import ClusterScreen
from trntop.tui.screens.comm import CommScreen
from trntop.tui.screens.efa import EfaScreen
from trntop.tui.screens.filtered import FilteredScreen
from trntop.tui.screens.incidents import IncidentsScreen
from trntop.tui.screens.node import NodeScreen
from trntop.tui.widgets.row_table import RowTable


def at(app: TrntopApp) -> FilteredScreen:
    assert isinstance(app.screen, FilteredScreen)
    return app.screen


def listed(app: TrntopApp) -> list[str]:
    """The keys of the rows."""
    table = cast("RowTable[Any]", at(app).list_table)
    return [table.key(row) for row in table.rows]


async def filtered(pilot: Any, text: str, *keys: str) -> None:
    """Types a filter and keeps it."""
    await press(pilot, "slash")
    pilot.app.screen.query_one(Input).value = text
    await pilot.pause()
    await press(pilot, "enter", *keys)
    await pilot.pause()


async def test_it_stays_from_screen_to_screen() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await filtered(pilot, "node~00[0-2]")
        assert listed(app) == ["trn-000", "trn-001", "trn-002"]
        await press(pilot, "4")
        assert isinstance(app.screen, EfaScreen)
        assert listed(app) == ["trn-000", "trn-001", "trn-002"]
        assert app.screen.node == "trn-000", "the device shown is one of theirs"
        assert "/ node~00[0-2]" in picture(app)
        assert "3 of 16 nodes" in picture(app)
        await press(pilot, "5")
        # That of a job on them, and the past one of trn-002; not that of trn-007.
        assert listed(app) == ["comm-1", "memory-1"]
        assert "incidents · open first · 2 of 3" in picture(app)
        await press(pilot, "1")
        assert listed(app) == ["trn-000", "trn-001", "trn-002"]


async def test_the_efa_map_follows_a_filter_at_once() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "4")
        assert cast(EfaScreen, app.screen).node == VICTIM
        await filtered(pilot, "node=trn-003")
        assert listed(app) == ["trn-003"]
        assert cast(EfaScreen, app.screen).node == "trn-003"
        await filtered(pilot, "node=nobody")
        assert listed(app) == []
        assert "no node matches the filter" in picture(app)
        await press(pilot, "s")
        assert listed(app) == []


@pytest.mark.parametrize("rows", [(), ("m",)])
async def test_ranks_are_those_of_the_nodes(rows: tuple[str, ...]) -> None:
    app = app_of(FakeSession(node_with_ranks(*nodes_with_ranks(3)).view))
    async with running(app) as pilot:
        await press(pilot, "3", *rows)
        everything = listed(app)
        await filtered(pilot, "node=trn-001")
        found = listed(app)
        assert found == [incident for incident in everything if incident in found]
        assert found == (["trn-001"] if rows else ["4", "5", "6", "7"])
        assert cast(CommScreen, app.screen).subject == "trn-001"
        await filtered(pilot, "node=nobody")
        assert listed(app) == []
        assert "no node matches the filter" in picture(app)


async def test_nodes_with_bounds_without_job_telemetry() -> None:
    app = app_of(FakeSession(make_view(4, jobs=())))
    async with running(app) as pilot:
        await press(pilot, "3")
        await filtered(pilot, "node=trn-002")
        assert listed(app) == ["trn-002"]
        await filtered(pilot, "node=nobody")
        assert "no node matches the filter" in picture(app)


async def test_faults_only_is_shared_by_lists_of_nodes() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "4", "f")
        assert listed(app) == [VICTIM, "trn-011"]
        assert "faults only" in picture(app)
        await press(pilot, "5")
        assert len(listed(app)) == 3, "a past incident may be of a healthy node"
        assert "faults only" not in picture(app)
        await press(pilot, "f")
        assert len(listed(app)) == 2, "there f has its own meaning"
        await press(pilot, "1")
        assert listed(app) == [VICTIM, "trn-011"]


async def test_a_filter_typed_among_incidents_leaves_faults_only_as_it_is() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "f", "5")
        await filtered(pilot, "011")
        assert listed(app) == ["comm-1"], "of its job"
        await press(pilot, "1")
        assert listed(app) == ["trn-011"]
        assert "faults only" in picture(app)
        await filtered(pilot, "nobody")
        assert "no node with a fault matches the filter" in picture(app)


async def test_escape_takes_back_what_was_chosen_here_and_then_leads_back() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "4")
        await filtered(pilot, "node=trn-003")
        assert "Esc clear" in picture(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, EfaScreen)
        assert len(listed(app)) == 16
        await press(pilot, "escape")
        assert isinstance(app.screen, ClusterScreen)
        assert len(listed(app)) == 16


@pytest.mark.parametrize(("key", "rows"), [("3", 64), ("4", 16), ("5", 3)])
async def test_escape_takes_back_what_came_along_before_it_leads_back(key: str, rows: int) -> None:
    app = app_of(session("incident"))
    async with running(app) as pilot:
        await filtered(pilot, "node=trn-003")
        await press(pilot, key)
        there = app.screen
        assert "Esc clear" in picture(app)
        await press(pilot, "escape")
        assert app.screen is there
        assert len(listed(app)) == rows
        assert "Esc clear" not in picture(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, ClusterScreen)
        assert len(listed(app)) == 16


async def test_escape_takes_back_the_filter_and_then_faults_only() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "f")
        await filtered(pilot, "trn-011")
        await press(pilot, "4", "escape")
        assert listed(app) == [VICTIM, "trn-011"]
        await press(pilot, "escape")
        assert isinstance(app.screen, EfaScreen)
        assert len(listed(app)) == 16


async def test_what_is_typed_is_taken_back_when_the_screen_is_left() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "4", "slash")
        app.screen.query_one(Input).value = "node~00[0-2]"
        await pilot.pause()
        await pilot.pause()
        assert listed(app) == ["trn-000", "trn-001", "trn-002"]
        await app.run_action("app.incidents")
        await pilot.pause()
        assert isinstance(app.screen, IncidentsScreen)
        assert len(listed(app)) == 3, "it was not kept"
        await filtered(pilot, "node=trn-003")
        await press(pilot, "4")
        assert isinstance(app.screen, EfaScreen)
        assert not app.screen.bar.editing
        assert listed(app) == ["trn-003"]


async def test_the_fleet_clears_wherever_it_was_chosen() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "5")
        await filtered(pilot, "node=trn-003")
        await press(pilot, "1", "escape")
        assert isinstance(app.screen, ClusterScreen)
        assert len(listed(app)) == 16
        await press(pilot, "5")
        assert len(listed(app)) == 3


async def test_escape_while_typing_brings_back_what_held() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await filtered(pilot, "node=trn-003")
        await press(pilot, "4", "slash")
        assert "esc Cancel" in picture(app)
        app.screen.query_one(Input).value = "node=trn-004"
        await pilot.pause()
        await pilot.pause()
        assert listed(app) == ["trn-004"]
        await press(pilot, "escape")
        await pilot.pause()
        assert isinstance(app.screen, EfaScreen)
        assert listed(app) == ["trn-003"]
        assert app.screen.table.has_focus


async def test_escape_closes_the_line_also_where_the_keys_go_to_the_list() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "4", "slash", "0")
        cast(EfaScreen, app.screen).table.focus()
        await press(pilot, "escape")
        await pilot.pause()
        assert isinstance(app.screen, EfaScreen)
        assert not app.screen.bar.editing
        assert len(listed(app)) == 16


async def test_letters_are_letters_while_it_is_typed() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        for key in ("3", "4", "5"):
            await press(pilot, key, "slash", "f", "m", "s")
            assert app.screen.query_one(Input).value == "fms"
            assert "Faults" not in picture(app)
            await press(pilot, "escape")


async def test_an_incident_of_the_whole_cluster_is_always_listed() -> None:
    made = make_view(4, incidents=[make_incident("clocks", node=None, component=None, job=None)])
    app = app_of(FakeSession(made))
    async with running(app) as pilot:
        await press(pilot, "5")
        await filtered(pilot, "node=trn-001")
        assert isinstance(app.screen, IncidentsScreen)
        assert [row.kind for row in app.screen.table.rows] == ["clocks"]


async def test_without_incidents_of_the_nodes_a_note_is_shown() -> None:
    app = app_of(FakeSession(make_view(4, jobs=(), incidents=[make_incident(node="trn-003")])))
    async with running(app) as pilot:
        await press(pilot, "5")
        await filtered(pilot, "node=trn-001")
        assert listed(app) == []
        assert "no incident of the matching nodes" in picture(app)


async def test_the_next_node_is_the_next_of_those_that_are_chosen() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await filtered(pilot, "node~00[25]", "enter")
        assert isinstance(app.screen, NodeScreen)
        nodes = []
        for key in ("n", "n", "p"):
            await press(pilot, key)
            nodes.append(app.screen.node)
        assert nodes == ["trn-005", "trn-002", "trn-005"]
        # The alert leads to one that the filter leaves out; from there to those it lets through.
        await press(pilot, "g", "n")
        assert app.screen.node == "trn-002"
        await press(pilot, "p")
        assert app.screen.node == "trn-005"
