"""The screens of the jobs: communication, and how the run gets on."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import pytest
from textual.events import Key
from textual.pilot import Pilot

from tests.builders import make_incident, make_node, make_view, view_of
from tests.tui.rank_nodes import COMPUTE, JOB, constant_history, node_with_ranks, nodes_with_ranks
from tests.tui.sample_run import SETTINGS, FakeSession, app_of
from trntop.core.model import Incident, View
from trntop.core.settings import Settings
from trntop.tui.app import TrntopApp
from trntop.tui.screens.cluster import ClusterScreen
from trntop.tui.screens.comm import CommScreen
from trntop.tui.screens.node import NodeScreen
from trntop.tui.screens.run import RunScreen


@asynccontextmanager
async def running(
    view: View, *keys: str, size: tuple[int, int] = (120, 36), settings: Settings = SETTINGS
) -> AsyncIterator[tuple[Pilot[int], FakeSession]]:
    session = FakeSession(view, constant_history(view))
    app = app_of(session, settings=settings)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await press(pilot, *keys)
        yield pilot, session


async def press(pilot: Pilot[int], *keys: str) -> None:
    for key in keys:
        pilot.app.post_message(Key(key, key if len(key) == 1 else None))
        await pilot.pause()
    await pilot.pause()


def picture(pilot: Pilot[int]) -> str:
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join("".join(part.text for part in strip) for strip in strips)


def comm(pilot: Pilot[int]) -> CommScreen:
    return cast(CommScreen, pilot.app.screen)


SLOW = view_of(*nodes_with_ranks(3, 4, {(1, 2): 3.6}))
BLAMED = make_incident("efa_degraded", job=JOB, node="trn-002", component=None)
SEVERAL = view_of(
    *(node_with_ranks(index, [COMPUTE] * 2, job=job) for index, job in enumerate("abc")),
    incidents=[make_incident("straggler", job="b", node="trn-001", component=None)],
)


class TestComm:
    async def test_the_slowest_is_under_the_cursor_and_opens(self) -> None:
        async with running(SLOW, "3") as (pilot, _):
            assert isinstance(pilot.app.screen, CommScreen)
            assert pilot.app.screen.subject == "trn-001"
            drawn = picture(pilot)
            assert "blocking the job" in drawn
            assert "rank 6 on trn-001" in drawn
            await press(pilot, "enter")
            assert isinstance(pilot.app.screen, NodeScreen)
            assert pilot.app.screen.node == "trn-001"
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, CommScreen)
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, ClusterScreen)

    @pytest.mark.parametrize(
        ("slow", "incidents", "title", "first"),
        [
            ({(1, 2): 3.6}, (), "ranks · slowest compute first", "trn-001"),
            ({}, (), "ranks · within 2.0 %: by name", "trn-000"),
            ({}, (BLAMED,), "ranks · within 2.0 %: incidents first", "trn-002"),
            (
                {(1, 2): 3.6}, (BLAMED,), "ranks · incidents, then slowest compute",
                "trn-002",
            ),
        ],
    )  # fmt: skip
    async def test_the_title_names_the_first_node(
        self,
        slow: dict[tuple[int, int], float],
        incidents: Sequence[Incident],
        title: str,
        first: str,
    ) -> None:
        view = view_of(*nodes_with_ranks(3, 4, slow), incidents=incidents)
        async with running(view, "3") as (pilot, _):
            table = comm(pilot).ranks
            assert str(table.border_title) == title
            assert table.node_of(table.rows[0]) == first

    async def test_ranks_or_nodes(self) -> None:
        async with running(SLOW, "3") as (pilot, _):
            table = comm(pilot).ranks
            assert len(table.rows) == 12
            await press(pilot, "end", "m")
            assert len(table.rows) == 3
            assert comm(pilot).subject == "trn-002", "the cursor stays on its node"
            assert "slowest rank" in picture(pilot)
            await press(pilot, "home")
            assert comm(pilot).subject == "trn-001"
            await press(pilot, "j")
            assert comm(pilot).subject == "trn-000"
            await press(pilot, "m")
            assert len(table.rows) == 12
            assert comm(pilot).subject == "trn-000"

    async def test_many_ranks_are_shown_by_node(self) -> None:
        async with running(view_of(*nodes_with_ranks(5, 16)), "3") as (pilot, _):
            assert len(comm(pilot).ranks.rows) == 5

    async def test_the_cursor_stays_on_its_rank(self) -> None:
        async with running(SLOW, "3", "j") as (pilot, session):
            assert comm(pilot).ranks.cursor == "0"
            session.publish(view_of(*nodes_with_ranks(3, 4, {(2, 1): 3.7})))
            await pilot.pause()
            assert comm(pilot).ranks.cursor == "0"
            assert comm(pilot).subject == "trn-000"

    async def test_the_cursor_chooses_the_job(self) -> None:
        async with running(SEVERAL, "3") as (pilot, _):
            screen = comm(pilot)
            assert screen.job is not None
            assert screen.job.job == "b"
            assert screen.jobs.has_focus
            assert "b · comm share of step" in picture(pilot)
            await press(pilot, "j")
            assert screen.job.job != "b"
            await press(pilot, "enter")
            assert screen.ranks.has_focus

    async def test_one_job_needs_no_list(self) -> None:
        async with running(SLOW, "3") as (pilot, _):
            assert not comm(pilot).jobs.display
            assert comm(pilot).ranks.has_focus

    async def test_a_second_job_brings_the_list(self) -> None:
        async with running(SLOW, "3") as (pilot, session):
            session.publish(SEVERAL)
            await pilot.pause()
            await pilot.pause()
            assert comm(pilot).jobs.has_focus
            session.publish(SLOW)
            await pilot.pause()
            await pilot.pause()
            assert not comm(pilot).jobs.display

    async def test_without_steps_the_nodes_are_shown(self) -> None:
        async with running(make_view(3, jobs=()), "3") as (pilot, _):
            screen = comm(pilot)
            drawn = picture(pilot)
            assert "No job reports its steps" in drawn
            assert "~3-40" in drawn
            assert screen.nodes.display
            assert not screen.ranks.display
            assert screen.subject == "trn-000"
            await press(pilot, "tab", "j", "enter")
            assert cast(NodeScreen, pilot.app.screen).node == "trn-001"

    async def test_the_onset_is_that_of_the_slowest_rank(self) -> None:
        much = make_incident("comm_bound", job=JOB, node=None)
        cause = make_incident("straggler", job=JOB, node="trn-001", opened_at=SLOW.time - 30)
        async with running(view_of(*nodes_with_ranks(), incidents=[much, cause]), "3") as (
            pilot,
            session,
        ):
            assert comm(pilot).incident == cause
            session.publish(view_of(*nodes_with_ranks(), incidents=[much]))
            await pilot.pause()
            assert comm(pilot).incident == much
            session.publish(make_view(jobs=()))
            await pilot.pause()
            assert comm(pilot).incident is None

    @pytest.mark.parametrize("size", [(200, 60), (40, 12)])
    @pytest.mark.parametrize("view", [SLOW, SEVERAL, make_view(jobs=()), make_view(0)])
    async def test_any_size(self, view: View, size: tuple[int, int]) -> None:
        async with running(view, "3", "6", size=size) as (pilot, _):
            assert isinstance(pilot.app.screen, RunScreen)

    async def test_hostile_names_are_text(self) -> None:
        view = view_of(node_with_ranks(0, [COMPUTE], job="[b]x\x1b[31m"), make_node(1, jobs=("y",)))
        async with running(view, "3") as (pilot, _):
            assert "\x1b" not in picture(pilot)
            assert "[b]x" in picture(pilot)
            await press(pilot, "6")
            assert "\x1b" not in picture(pilot)


class TestRun:
    async def test_a_run_in_numbers(self) -> None:
        async with running(make_view(2), "6") as (pilot, _):
            drawn = picture(pilot)
            assert f"{JOB} · last 15 min" in drawn
            assert "training d since 08:48:00" in drawn
            assert cast(RunScreen, pilot.app.screen).subject == "trn-000"

    async def test_it_scrolls_where_not_all_fits(self) -> None:
        async with running(make_view(2), "6", size=(80, 16)) as (pilot, _):
            parts = pilot.app.screen.query_one("#parts")
            await press(pilot, "J")
            assert parts.scroll_offset.y > 0
            await press(pilot, "K")
            assert parts.scroll_offset.y == 0

    async def test_the_cursor_chooses_the_job(self) -> None:
        async with running(SEVERAL, "6") as (pilot, _):
            screen = cast(RunScreen, pilot.app.screen)
            assert screen.subject == "trn-001"
            assert screen.incident is not None
            assert screen.incident.job == "b"
            await press(pilot, "j")
            assert screen.subject != "trn-001"
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, ClusterScreen)

    async def test_without_a_job(self) -> None:
        async with running(make_view(2, jobs=()), "6") as (pilot, _):
            drawn = picture(pilot)
            assert "all nodes · last 15 min" in drawn
            assert "steps.step()" in drawn
            assert cast(RunScreen, pilot.app.screen).subject is None


async def test_numbers_are_explained() -> None:
    async with running(SLOW, "3", "e") as (pilot, _):
        assert not isinstance(pilot.app.screen, CommScreen)
        await press(pilot, "escape", "6", "e")
        assert not isinstance(cast(TrntopApp, pilot.app).screen, RunScreen)
