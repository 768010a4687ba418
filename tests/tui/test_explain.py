"""The panel that explains the numbers of a screen, and the line that asks for a time."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from textual.app import App
from textual.pilot import Pilot

from tests.builders import NOON
from tests.tui.sample_run import VICTIM, FakeSession, app_of, history, make_app, view, view_model
from tests.tui.test_app import picture, press, running
from trntop.core.model import Incident
from trntop.tui.app import TrntopApp
from trntop.tui.screens.base import BaseScreen
from trntop.tui.screens.cluster import ClusterScreen
from trntop.tui.screens.explain import ExplainScreen
from trntop.tui.screens.node import NodeScreen
from trntop.tui.screens.time_code import TimeCodeScreen


def panel(app: TrntopApp) -> ExplainScreen:
    assert isinstance(app.screen, ExplainScreen)
    return app.screen


@pytest.mark.parametrize(
    ("closing", "size"), [("escape", (80, 24)), ("e", (120, 36)), ("q", (200, 60))]
)
async def test_a_key_opens_it_and_the_same_closes_it(closing: str, size: tuple[int, int]) -> None:
    app = make_app(trouble=True)
    async with running(app, size) as pilot:
        await press(pilot, "e")
        shown = picture(app)
        assert f"explain · {VICTIM}" in shown
        assert "Share of the step in which a collective ran" not in shown
        assert "max of efa_retransmit_ratio" in shown
        await press(pilot, closing)
        assert isinstance(app.screen, ClusterScreen)


async def test_it_begins_with_what_the_incident_is_about() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "e")
        assert panel(app)._text.subject == "node_efa_retransmit_max_ratio"
        await press(pilot, "down")
        assert panel(app)._text.subject == "job_comm_share_ratio"
        assert "Share of the step in which a collective ran" in picture(app)
        await press(pilot, "home")
        assert panel(app)._text.subject == BaseScreen.QUANTITIES[0]


async def test_without_an_incident_it_begins_at_the_top() -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "e")
        assert panel(app)._text.subject == BaseScreen.QUANTITIES[0]


async def test_the_numbers_move_on_while_it_is_open() -> None:
    session = FakeSession(view(trouble=True, time=NOON), history(trouble=True))
    app = app_of(session)
    async with running(app) as pilot:
        await press(pilot, "e")
        assert "12:00:00" in picture(app).splitlines()[-2]
        session.publish(view(trouble=True, time=NOON + 5))
        await pilot.pause()
        assert "12:00:05" in picture(app).splitlines()[-2]


async def test_the_node_screen_explains_its_own() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "enter")
        assert isinstance(app.screen, NodeScreen)
        await press(pilot, "e", "end")
        assert panel(app)._text.subject == NodeScreen.QUANTITIES[-1]
        assert panel(app).subject == VICTIM
        await press(pilot, "escape")
        assert isinstance(app.screen, NodeScreen)


async def test_the_explanation_scrolls_and_a_new_one_begins_at_its_top() -> None:
    app = make_app(trouble=True)
    async with running(app, (80, 24)) as pilot:
        await press(pilot, "e", "home", "J")
        page = panel(app).page
        await pilot.pause()
        assert page.scroll_y == 3
        await press(pilot, "K", "J", "J")
        await pilot.pause()
        assert page.scroll_y == 6
        await press(pilot, "down")
        await pilot.pause()
        assert page.scroll_y == 0


async def test_there_is_nothing_to_open_in_it() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "e", "enter")
        panel(app)
        assert "Open" not in picture(app).splitlines()[-1]


async def test_a_fleet_without_a_node_under_the_cursor_is_explained_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ClusterScreen, "subject", None)
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "e")
        assert "explain · all nodes" in picture(app)
        assert "mean of 15 of 16 nodes" in picture(app)


async def test_a_name_is_no_markup() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        app.push_screen(ExplainScreen(BaseScreen.QUANTITIES, "[red]\x1b[2Jevil[/]"))
        await pilot.pause()
        shown = picture(app)
        assert "[red]\ufffd[2Jevil[/]" in shown
        assert "this node is gone" in shown


async def test_an_incident_of_an_unknown_quantity_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: Incident = dataclasses.replace(view(trouble=True).incidents[0], evidence=())
    monkeypatch.setattr(ClusterScreen, "incident", found)
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "e")
        assert panel(app)._text.subject == BaseScreen.QUANTITIES[0]


class Asking(App[None]):
    """Asks for a time over nothing."""

    answers: list[float | None]

    def on_mount(self) -> None:
        self.answers = []
        shown = dataclasses.replace(view_model(), span=(NOON - 600, NOON + 3000))
        self.push_screen(TimeCodeScreen(shown), self.answers.append)


@asynccontextmanager
async def app_with_help() -> AsyncIterator[tuple[Asking, Pilot[None]]]:
    app = Asking()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        yield app, pilot


@pytest.mark.parametrize(
    ("typed", "answer"), [("+5m", NOON + 300), ("-30s", NOON - 30), ("11:59", NOON - 60)]
)
async def test_a_time_may_be_typed(typed: str, answer: float) -> None:
    async with app_with_help() as (app, pilot):
        assert "now at 12:00:00 UTC, 10:00 of 1:00:00" in str(asking(app).note.content)
        await pilot.press(*(_key(char) for char in typed), "enter")
        await pilot.pause()
        assert app.answers == [answer]


async def test_an_invalid_time_is_refused_in_place() -> None:
    async with app_with_help() as (app, pilot):
        await pilot.press("x", "enter")
        screen = asking(app)
        assert "enter a time such as 14:03:12, +5m or -30s" in str(screen.note.content)
        assert screen.note.has_class("-wrong")
        await pilot.press("y")
        assert not screen.note.has_class("-wrong")
        await pilot.press("escape")
        assert app.answers == [None]


def asking(app: Asking) -> TimeCodeScreen:
    return cast(TimeCodeScreen, app.screen)


def _key(char: str) -> str:
    return {"+": "plus", "-": "minus", ":": "colon"}.get(char, char)
