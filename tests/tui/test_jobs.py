"""The screens of the jobs: communication, and how the run gets on."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest
from textual.events import Key
from textual.pilot import Pilot

from tests.builders import make_incident, make_node, make_view, view_of
from tests.tui.crews import COMPUTE, JOB, crew_of, crewed, past_of
from tests.tui.scenes import SETTINGS, FakeSession, app_of
from trntop.core.model import Incident, View
from trntop.core.settings import Settings
from trntop.tui.app import TrntopApp
from trntop.tui.filter import Filter
from trntop.tui.screens.cluster import ClusterScreen
from trntop.tui.screens.comm import CommScreen
from trntop.tui.screens.node import NodeScreen
from trntop.tui.screens.run import RunScreen
from trntop.tui.selection import Selection


@asynccontextmanager
async def running(
    view: View, *keys: str, size: tuple[int, int] = (120, 36), settings: Settings = SETTINGS
) -> AsyncIterator[tuple[Pilot[int], FakeSession]]:
    session = FakeSession(view, past_of(view))
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


SLOW = view_of(*crew_of(3, 4, {(1, 2): 3.6}))
BLAMED = make_incident("efa_degraded", job=JOB, node="trn-002", component=None)
SEVERAL = view_of(
    *(crewed(index, [COMPUTE] * 2, job=job) for index, job in enumerate("abc")),
    incidents=[make_incident("straggler", job="b", node="trn-001", component=None)],
)


class TestComm:
    async def test_the_slowest_is_under_the_cursor_and_opens(self) -> None:
        async with running(SLOW, "3") as (pilot, _):
            assert isinstance(pilot.app.screen, CommScreen)
            assert pilot.app.screen.subject == "trn-001"
            drawn = picture(pilot)
            assert "slowest rank" in drawn
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
            ({(1, 2): 3.6}, (), "ranks · slowest compute first: the others wait for it", "trn-001"),
            ({}, (), "ranks · alike within 2.0 %: by name", "trn-000"),
            ({}, (BLAMED,), "ranks · alike within 2.0 %: those with an incident first", "trn-002"),
            (
                {(1, 2): 3.6}, (BLAMED,), "ranks · those with an incident, then slowest compute",
                "trn-002",
            ),
        ],
    )  # fmt: skip
    async def test_the_title_says_who_is_first(
        self,
        slow: dict[tuple[int, int], float],
        incidents: Sequence[Incident],
        title: str,
        first: str,
    ) -> None:
        view = view_of(*crew_of(3, 4, slow), incidents=incidents)
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
        async with running(view_of(*crew_of(5, 16)), "3") as (pilot, _):
            assert len(comm(pilot).ranks.rows) == 5

    async def test_where_there_is_room_the_ranks_of_the_node_stand_below(self) -> None:
        view = view_of(*crew_of(5, 16, {(1, 3): 5.0}))
        async with running(view, "3", size=(200, 60)) as (pilot, session):
            crew = comm(pilot).crew
            assert crew.display
            assert not crew.can_focus
            assert "trn-001 · 16 ranks · slowest compute first" in picture(pilot)
            assert crew.key(crew.rows[0]) == "19"
            assert {crew.node_of(row) for row in crew.rows} == {"trn-001"}
            await press(pilot, "j")
            assert {crew.node_of(row) for row in crew.rows} == {"trn-000"}
            # Without the user the first row may become another node.
            await press(pilot, "home")
            session.publish(view_of(*crew_of(5, 16, {(3, 0): 5.0})))
            await pilot.pause()
            assert "trn-001 · 16 ranks" in picture(pilot), "the cursor stays on its node"
            await press(pilot, "m")
            assert not crew.display

    async def test_they_follow_a_filter_and_another_job_at_once(self) -> None:
        jobs = [crewed(index, [COMPUTE] * 16, job="ab"[index > 4]) for index in range(10)]
        async with running(view_of(*jobs), "3", size=(200, 60)) as (pilot, _):
            crew = comm(pilot).crew
            assert crew.of == "trn-000"
            await press(pilot, "j")
            assert crew.of == "trn-005", "the first of the other job"
            comm(pilot).choose(Selection(Filter("node~008")))
            await pilot.pause()
            assert crew.of == "trn-008"

    async def test_nobody_works_for_them_where_they_are_not_seen(self) -> None:
        async with running(view_of(*crew_of(5, 16)), "3") as (pilot, _):
            crew = comm(pilot).crew
            assert not crew.rows
            await pilot.resize_terminal(200, 60)
            await pilot.pause()
            assert len(crew.rows) == 16

    @pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 40)])
    async def test_where_there_is_none_they_do_not(self, size: tuple[int, int]) -> None:
        async with running(view_of(*crew_of(5, 16)), "3", size=size) as (pilot, _):
            assert not comm(pilot).crew.display

    async def test_the_cursor_stays_on_its_rank(self) -> None:
        async with running(SLOW, "3", "j") as (pilot, session):
            assert comm(pilot).ranks.cursor == "0"
            session.publish(view_of(*crew_of(3, 4, {(2, 1): 3.7})))
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

    async def test_without_steps_the_bounds_are_shown(self) -> None:
        async with running(make_view(3, jobs=()), "3") as (pilot, _):
            screen = comm(pilot)
            drawn = picture(pilot)
            assert "No job reports its steps" in drawn
            assert "~3-40" in drawn
            assert screen.bounds.display
            assert not screen.ranks.display
            assert screen.subject == "trn-000"
            await press(pilot, "tab", "j", "enter")
            assert cast(NodeScreen, pilot.app.screen).node == "trn-001"

    async def test_the_onset_is_that_of_who_is_waited_for(self) -> None:
        much = make_incident("comm_bound", job=JOB, node=None)
        cause = make_incident("straggler", job=JOB, node="trn-001", opened_at=SLOW.time - 30)
        async with running(view_of(*crew_of(), incidents=[much, cause]), "3") as (pilot, session):
            assert comm(pilot).incident == cause
            session.publish(view_of(*crew_of(), incidents=[much]))
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
        view = view_of(crewed(0, [COMPUTE], job="[b]x\x1b[31m"), make_node(1, jobs=("y",)))
        async with running(view, "3") as (pilot, _):
            assert "\x1b" not in picture(pilot)
            assert "[b]x" in picture(pilot)
            await press(pilot, "6")
            assert "\x1b" not in picture(pilot)


class TestRun:
    async def test_a_run_in_numbers(self) -> None:
        screen = msgspec.structs.replace(SETTINGS.screen, price_per_hour=40.0)
        settings = msgspec.structs.replace(SETTINGS, screen=screen)
        async with running(make_view(2), "6", settings=settings) as (pilot, _):
            drawn = picture(pilot)
            assert f"{JOB} · last 15 min" in drawn
            assert "training d since 08:48:00" in drawn
            assert "per M tokens  $0.0229d" in drawn
            assert "checkpoints   –  none seen: steps.checkpoint()" in drawn
            assert "pauses        0 s d" in drawn
            assert cast(RunScreen, pilot.app.screen).subject == "trn-000"

    async def test_it_scrolls_where_not_all_fits(self) -> None:
        async with running(make_view(2), "6", size=(80, 24)) as (pilot, _):
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
            assert "steps.step(): docs/steps.md" in drawn
            assert cast(RunScreen, pilot.app.screen).subject is None


async def test_numbers_are_explained() -> None:
    async with running(SLOW, "3", "e") as (pilot, _):
        assert not isinstance(pilot.app.screen, CommScreen)
        await press(pilot, "escape", "6", "e")
        assert not isinstance(cast(TrntopApp, pilot.app).screen, RunScreen)
