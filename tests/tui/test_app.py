"""The whole dashboard over a fake session: every key, and every way in and out."""

import asyncio
import contextlib
import dataclasses
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Markdown

from tests.builders import NOON, make_incident, make_node, make_view, view_of
from tests.tui import full_run
from tests.tui.render.contexts import text
from tests.tui.sample_run import (
    COMM_INCIDENT,
    EFA_INCIDENT,
    SETTINGS,
    VICTIM,
    FakeSession,
    app_of,
    make_app,
    view,
)
from trntop.collectors.simulator import Simulation, simulate
from trntop.core.model import Evidence, Severity, State, View
from trntop.core.settings import Settings
from trntop.session.monitor import Monitor
from trntop.session.runner import Playback, Session
from trntop.sources import DEVICE_SOURCES
from trntop.tui.app import TrntopApp, run
from trntop.tui.messages import ViewChanged
from trntop.tui.screens.base import BaseScreen
from trntop.tui.screens.cluster import ClusterScreen
from trntop.tui.screens.help import HelpScreen, KeyList
from trntop.tui.screens.incidents import IncidentsScreen
from trntop.tui.screens.node import NodeScreen
from trntop.tui.screens.time_code import TimeCodeScreen
from trntop.tui.widgets.drawn import Panel
from trntop.tui.widgets.overview import FleetMap


@asynccontextmanager
async def running(app: TrntopApp, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot


async def press(pilot: Pilot[int], *keys: str) -> None:
    """Presses keys; `Pilot.press` waits twice as long for each."""
    for key in keys:
        pilot.app.post_message(Key(key, key if len(key) == 1 else None))
        await pilot.pause()


def with_screen(**changes: object) -> Settings:
    screen = msgspec.structs.replace(SETTINGS.screen, **changes)
    return msgspec.structs.replace(SETTINGS, screen=screen)


def shown(app: TrntopApp) -> BaseScreen:
    return cast(BaseScreen, app.screen)


def picture(app: TrntopApp) -> str:
    """The text on the screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(part.text for part in strip) for strip in strips)


def session_of(made: View, *, playback: Playback | None = None) -> FakeSession:
    return FakeSession(made, playback=playback)


async def test_the_session_starts_and_its_view_is_shown() -> None:
    session = session_of(make_view())
    async with running(app_of(session)) as pilot:
        assert session.started
        assert "trn-001" in picture(cast(TrntopApp, pilot.app))


async def test_indices() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        assert isinstance(app.screen, ClusterScreen)
        await press(pilot, "enter")
        assert isinstance(app.screen, NodeScreen)
        assert app.screen.node == VICTIM
        await press(pilot, "escape")
        assert isinstance(app.screen, ClusterScreen)
        await press(pilot, "j", "2")
        assert isinstance(app.screen, NodeScreen)
        assert app.screen.node == "trn-011"
        await press(pilot, "5")
        assert isinstance(app.screen, IncidentsScreen)
        await press(pilot, "enter")
        assert isinstance(app.screen, NodeScreen)
        assert app.screen.node == VICTIM
        await press(pilot, "escape")
        assert isinstance(app.screen, IncidentsScreen)
        await press(pilot, "1")
        assert isinstance(app.screen, ClusterScreen)
        assert app.screen.table.cursor == "trn-011"
        await press(pilot, "i", "i")
        assert isinstance(app.screen, IncidentsScreen)
        await press(pilot, "g")
        assert isinstance(app.screen, NodeScreen)


async def test_the_last_focused_node_is_kept() -> None:
    app = app_of(full_run.session("incident"))
    async with running(app) as pilot:
        await press(pilot, "4")
        assert shown(app).subject == VICTIM, "by default the worst"
        await press(pilot, "1", "2", "n", "n")
        assert shown(app).subject == "trn-009"
        for key in ("3", "4", "6", "1"):
            await press(pilot, key)
            await pilot.pause()
            assert shown(app).subject == "trn-009", key
        await press(pilot, "4", "home", "down")
        moved = shown(app).subject
        assert moved != "trn-009"
        await press(pilot, "1")
        assert shown(app).subject == moved
        await press(pilot, "6", "2")
        assert cast(NodeScreen, app.screen).node == moved
        await press(pilot, "3", "m")
        assert shown(app).subject == moved, "ranks or nodes"


async def test_moving_about() -> None:
    app = make_app(nodes=40)
    async with running(app, (80, 24)) as pilot:
        table = cast(ClusterScreen, app.screen).table
        await press(pilot, "j", "j", "k", "down", "up")
        assert table.cursor == "trn-001"
        await press(pilot, "end")
        assert table.cursor == "trn-039"
        assert "trn-039" in picture(app)
        await press(pilot, "pageup")
        assert table.position < 39 - 5
        await press(pilot, "pagedown", "home")
        assert table.cursor == "trn-000"
        assert table.scroll_offset.y == 0
        await press(pilot, "up")
        assert table.position == 0


async def test_next_and_previous_node() -> None:
    app = make_app(nodes=3)
    async with running(app) as pilot:
        await press(pilot, "2", "n")
        assert cast(NodeScreen, app.screen).node == "trn-001"
        await press(pilot, "n", "n")
        assert cast(NodeScreen, app.screen).node == "trn-000"
        await press(pilot, "p", "p")
        assert cast(NodeScreen, app.screen).node == "trn-001"
        assert " trn-001  trn2.48xlarge" in picture(app)
        await press(pilot, "j", "k")


async def test_the_first_row_follows_the_trouble_until_the_user_moves() -> None:
    app = make_app()
    session = cast(FakeSession, app.session)
    async with running(app) as pilot:
        screen = cast(ClusterScreen, app.screen)
        assert screen.subject == "trn-000"
        session.publish(view(trouble=True))
        await pilot.pause()
        assert screen.subject == VICTIM
        await press(pilot, "down", "up")
        session.publish(view())
        await pilot.pause()
        assert screen.subject == VICTIM
        assert screen.table.position == 7


async def test_a_node_that_is_gone_leaves_the_cursor() -> None:
    app = make_app(nodes=3)
    session = cast(FakeSession, app.session)
    async with running(app) as pilot:
        await press(pilot, "end")
        session.publish(view(nodes=2))
        await pilot.pause()
        assert cast(ClusterScreen, app.screen).subject == "trn-000"


async def test_the_map_is_colored_by_other_quantities() -> None:
    app = make_app()
    async with running(app) as pilot:
        assert "fleet · utilization, 2 devices each" in picture(app)
        before = app.export_screenshot()
        await press(pilot, "m")
        assert "fleet · tensor engines (TE), 2 devices each" in picture(app)
        assert app.export_screenshot() != before
        for title in ("retransmits", "comm share, each node", "HBM", "utilization"):
            await press(pilot, "m")
            assert f"fleet · {title}" in picture(app)


async def test_the_map_names_the_quantity_of_its_colours() -> None:
    app = make_app(nodes=64)
    async with running(app):
        assert "fleet · utilization, each node" in picture(app)


async def test_the_wait_for_one_screen_does_not_end_that_for_the_next() -> None:
    app = make_app()
    async with running(app):
        app.delay_update(0.05)
        app.end_transition()
        app.delay_update(5.0)
        await asyncio.sleep(0.1)
        assert app._transition is not None
        app.end_transition()


async def test_pause_holds_the_picture_of_a_live_source() -> None:
    session = session_of(make_view(time=NOON))
    app = app_of(session)
    async with running(app) as pilot:
        await press(pilot, "space")
        assert "PAUSED 12:00:00" in picture(app)
        session.publish(make_view(time=NOON + 60, generation=2))
        await pilot.pause()
        assert "PAUSED 12:00:00" in picture(app)
        await press(pilot, "space")
        assert "LIVE 12:01:00" in picture(app)


async def test_pause_and_speed_of_a_recording() -> None:
    playback = Playback()
    app = app_of(session_of(make_view(), playback=playback))
    async with running(app) as pilot:
        assert "PLAY ×1" in picture(app)
        await press(pilot, "plus", "equals_sign")
        await pilot.pause()
        assert "PLAY ×4" in picture(app)
        await press(pilot, "minus")
        assert playback.speed == 2
        await press(pilot, "space")
        assert playback.paused
        assert "PAUSED" in picture(app)
        await press(pilot, "space")
        assert not playback.paused


async def test_speed_means_nothing_to_a_live_source() -> None:
    app = make_app(nodes=1)
    async with running(app) as pilot:
        await press(pilot, "plus", "minus")
        assert app.check_action("speed", (1,)) is False


async def test_the_end_of_a_recording() -> None:
    session = session_of(make_view(), playback=Playback())
    app = app_of(session)
    async with running(app) as pilot:
        session.publish(make_view(ended=True, state=State.ENDED, generation=2))
        await pilot.pause()
        assert "■ ENDED" in picture(app)
        assert "■ ended" in picture(app)


async def test_a_stopped_collection_is_shown() -> None:
    session = session_of(make_view())
    app = app_of(session)
    async with running(app) as pilot:
        session.failure = "KeyError: 'x'"
        session.publish(make_view(generation=2))
        await pilot.pause()
        assert "✕ STOPPED" in picture(app)
        assert "collection stopped: KeyError: 'x'" in picture(app)


def reading(app: TrntopApp) -> str:
    return app.screen.query_one("#reading", Markdown).source


async def test_help() -> None:
    app = make_app(nodes=1)
    async with running(app) as pilot:
        await press(pilot, "question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        assert "Keys on this screen" in picture(app)
        assert re.search(r"\*\*trntop itself\*\* uses [<\d.]+ % of a CPU core", reading(app))
        assert "j Down k Up" in picture(app).splitlines()[-1]
        keys = text(app.screen.query_one(KeyList).draw(100, 0))
        assert "Quit trntop" in keys
        assert "Sort by the next column" in keys
        assert "Copy selected" not in keys
        for spelled in ("/ ", ", ", ". ", ":, ctrl+g ", "← ", "→ ", "shift+← ", "S "):
            assert any(line.startswith(spelled) for line in keys.splitlines()), spelled
        narrow = text(app.screen.query_one(KeyList).draw(60, 0)).splitlines()
        index = next(index for index, line in enumerate(narrow) if line.startswith(":, ctrl+g "))
        indent = narrow[index].index("Go to a time")
        assert narrow[index + 1][:indent].isspace()
        assert not narrow[index + 1][indent].isspace()
        for key in ("question_mark", "escape", "q"):
            assert isinstance(app.screen, HelpScreen)
            await press(pilot, key)
            await pilot.pause()
            assert isinstance(app.screen, ClusterScreen)
            await press(pilot, "question_mark")
            await pilot.pause()


async def test_the_screen_behind_help_is_updated() -> None:
    session = session_of(make_view(time=NOON))
    async with running(app_of(session)) as pilot:
        app = cast(TrntopApp, pilot.app)
        await press(pilot, "question_mark")
        await pilot.pause()
        session.publish(make_view(time=NOON + 60, generation=2))
        async with asyncio.timeout(30):
            while "LIVE 12:01:00" not in picture(app):
                await pilot.pause()
                await asyncio.sleep(0)
        assert isinstance(app.screen, HelpScreen)


async def test_help_knows_the_arrows_to_the_sides_on_every_screen() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        for key in ("2", "3", "4", "5", "6"):
            await press(pilot, key, "question_mark")
            lines = text(app.screen.query_one(KeyList).draw(100, 0)).splitlines()
            assert any(line.startswith("← ") and "5 s" in line for line in lines), key
            await press(pilot, "escape")


async def test_keys_that_only_move_are_the_last_of_help() -> None:
    app = make_app(nodes=1)
    async with running(app) as pilot:
        await press(pilot, "question_mark")
        await pilot.pause()
        words = [
            line.split("  ")[0]
            for line in text(app.screen.query_one(KeyList).draw(100, 0)).splitlines()
        ]
        assert words[0] == "⏎"
        assert words[-6:] == ["↑, k", "↓, j", "pgup", "pgdn", "home", "end"]


async def test_keys_of_help_are_above_the_text_or_next_to_it() -> None:
    app = make_app(nodes=1)
    for width, beside in ((80, False), (120, False), (200, True)):
        async with running(app, (width, 36)) as pilot:
            await press(pilot, "question_mark")
            await pilot.pause()
            await pilot.pause()
            heads = [line for line in picture(app).splitlines() if "Keys on this screen" in line]
            assert ["Reading the screen" in line for line in heads] == [beside]
        app = make_app(nodes=1)


async def test_the_way_back_to_the_present_is_on_screen() -> None:
    app = make_app(trouble=True)
    async with running(app, (80, 24)) as pilot:
        for key in ("1", "3", "4", "5", "6"):
            await press(pilot, key)
            bar = picture(app).splitlines()[-1]
            assert "l Live" not in bar, key
            assert "Resume" not in bar, key
            await press(pilot, "space")
            bar = picture(app).splitlines()[-1]
            assert "space Resume" in bar, key
            assert "l Live" in bar, key
            await press(pilot, "l")
            assert "l Live" not in picture(app).splitlines()[-1], key


async def test_themes() -> None:
    app = make_app(nodes=1)
    async with running(app) as pilot:
        assert app.theme == "trntop-dark"
        themes = []
        for _ in range(5):
            await press(pilot, "t")
            await pilot.pause()
            themes.append(app.theme)
        assert themes == [
            "trntop-deuteranopia", "trntop-light", "trntop-contrast", "trntop-ansi", "trntop-dark",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "colors", "theme"),
    [
        ("auto", "truecolor", "trntop-dark"),
        ("auto", "standard", "trntop-ansi"),
        ("trntop-light", "standard", "trntop-light"),
    ],
)
def test_the_theme_follows_the_terminal_unless_set(
    monkeypatch: pytest.MonkeyPatch, setting: str, colors: str, theme: str
) -> None:
    app = make_app(nodes=1, settings=with_screen(theme=setting))
    monkeypatch.setattr(type(app.console), "color_system", colors)
    app.adapt()
    assert app.theme == theme


async def test_copying_what_the_cursor_is_on() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "down", "y")
        assert app.clipboard == "trn-011"
        await press(pilot, "5", "y")
        copied = app.clipboard
        assert copied.startswith(
            f"**critical: EFA degraded** {EFA_INCIDENT.summary}\n\n- location: "
        )
        assert "\n- cost: step +21 %\n- next: Probe the node" in copied
        assert f"\n- evidence: {EFA_INCIDENT.evidence[0].located}" in copied
        await press(pilot, "question_mark", "y")
        assert app.clipboard == copied


async def test_a_picture_of_the_screen(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(
        SETTINGS, blackbox=msgspec.structs.replace(SETTINGS.blackbox, folder=str(tmp_path))
    )
    app = make_app(settings=settings)
    async with running(app) as pilot:
        await press(pilot, "x")
        await asyncio.to_thread(app._files.wait)
        await pilot.pause()
        (path,) = await asyncio.to_thread(lambda: list(tmp_path.iterdir()))
        assert path.suffix == ".svg"
        assert "trn-001" in path.read_text()


class TestASlowLine:
    @staticmethod
    async def published(app: TrntopApp, pilot: Pilot[int], second: int) -> float:
        """Publishes a view; the time of the one that is shown then."""
        cast(FakeSession, app.session).publish(view(time=NOON + second))
        await pilot.pause()
        view_model = app.latest()
        assert view_model is not None
        return view_model.view.time - NOON

    async def test_pictures_are_skipped_and_the_newest_is_shown_in_the_end(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        busy = False
        monkeypatch.setattr(TrntopApp, "terminal_busy", property(lambda _: busy))
        app = make_app()
        async with running(app, (200, 60)) as pilot:
            assert await self.published(app, pilot, 1) == 1
            for round_ in range(1, 5):
                busy = True
                for second in range(3):
                    assert await self.published(app, pilot, 10 * round_ + second) < 10 * round_
                busy = False
                app.terminal_ready()
                await pilot.pause()
                view_model = app.latest()
                assert view_model is not None
                assert view_model.view.time == NOON + 10 * round_ + 2

    async def test_the_history_on_screen_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        app = make_app()
        async with running(app) as pilot:
            await press(pilot, "space")
            assert await self.published(app, pilot, 5) == 0
            app.terminal_ready()
            await pilot.pause()
            assert await self.published(app, pilot, 6) == 0


async def test_catching_up_with_history_shows_its_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trntop.tui.app.LOADING_SECONDS", 60.0)
    playback = Playback(catch_up=True)
    app = make_app(playback=playback)
    session = cast(FakeSession, app.session)
    session.clock = SimpleNamespace(now=lambda: NOON + 100)  # type: ignore[attr-defined]
    async with running(app) as pilot:
        assert "LOADING 0 %" in picture(app)
        app._drawn_at = 0.0
        session.publish(view(time=NOON + 40))
        await pilot.pause()
        assert "LOADING 40 %" in picture(app)
        session.publish(view(time=NOON + 41))
        await pilot.pause()
        assert "LOADING 40 %" in picture(app), "few pictures, to be done soon"
        playback.catch_up = False
        session.publish(view(time=NOON + 100))
        await pilot.pause()
        assert "LOADING" not in picture(app)


async def test_theme_of_the_settings() -> None:
    app = make_app(nodes=1, settings=with_screen(theme="nord"))
    async with running(app) as pilot:
        assert app.theme == "nord"
        await press(pilot, "t")
        assert app.theme == "trntop-dark"


async def test_an_unknown_theme_is_no_disaster() -> None:
    app = make_app(nodes=1, settings=with_screen(theme="[red]nope"))
    async with running(app):
        assert app.theme == "trntop-dark"


@pytest.mark.parametrize(("key", "rows"), [("1", 3), ("4", 3), ("5", 1)])
async def test_on_a_tiny_terminal_the_table_has_the_rows(key: str, rows: int) -> None:
    app = make_app(trouble=True)
    async with running(app, (40, 10)) as pilot:
        await press(pilot, key)
        await pilot.pause()
        lines = picture(app).splitlines()
        assert "1 2 3 4 5 6" in lines[-1]
        assert "trn-007" in lines[1], "the alert stays"
        first = next(index for index, line in enumerate(lines) if line.startswith("▸ ●"))
        assert sum("trn-" in line for line in lines[first:]) >= rows


async def test_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = make_app(trouble=True)
    async with running(app):
        assert app.no_color
        assert "● CRITICAL" in picture(app)
        styles = app.screen.query_one(FleetMap).context.palette
        assert styles.critical.color == styles.text.color
        assert styles.critical.bold
        assert styles.fill(Severity.CRITICAL).bgcolor == styles.text.color


async def test_keys_on_an_empty_cluster() -> None:
    app = app_of(session_of(make_view(nodes=0)))
    async with running(app) as pilot:
        assert "waiting for the first reading" in picture(app)
        for screen in ("1", "5"):
            await press(pilot, screen)
            await press(
                pilot, "2", "g", "s", "S", "j", "k", "enter", "n", "end", "home", "pagedown"
            )
        assert app.is_running


async def test_an_incident_of_the_whole_job_leads_to_no_node() -> None:
    app = app_of(session_of(make_view(incidents=[COMM_INCIDENT])))
    async with running(app) as pilot:
        await press(pilot, "5", "2", "g")
        assert isinstance(app.screen, IncidentsScreen)


async def test_all_evidence_can_be_reached_on_a_small_screen() -> None:
    evidence = tuple(Evidence(f"piece {number}") for number in range(20))
    found = [
        dataclasses.replace(make_incident(f"kind_{number}"), evidence=evidence)
        for number in range(3)
    ]
    app = app_of(session_of(make_view(incidents=found)))
    async with running(app, (80, 24)) as pilot:
        await press(pilot, "5")
        await pilot.pause()
        assert "piece 0" in picture(app), "the table takes no more than it needs"
        await press(pilot, *"JJJJJ")
        await pilot.pause()
        assert "piece 19" in picture(app)
        await press(pilot, "K", "down")
        await pilot.pause()
        assert "kind_1" in picture(app).partition("evidence and runbook")[2], "from its beginning"


async def test_the_evidence_follows_the_cursor() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "5", "end")
        await pilot.pause()
        assert "92.2 GiB of 96 GiB used" in picture(app)


async def test_views_that_pile_up_are_one() -> None:
    """Only the newest of the views that came while the screen was busy is drawn."""
    session = session_of(make_view())
    app = app_of(session)
    handled = []
    async with app.run_test(
        size=(80, 24),
        message_hook=lambda message: (
            handled.append(message) if isinstance(message, ViewChanged) else None
        ),
    ) as pilot:
        await pilot.pause()
        handled.clear()
        for generation in range(2, 102):
            session.publish(make_view(generation=generation))
        await pilot.pause()
        view_model = app.latest()
        assert view_model is not None
        assert view_model.view.generation == 101
    distinct = {message.view.generation for message in handled}
    assert len(distinct) < 5


async def test_hidden_screens_are_left_alone() -> None:
    app = make_app()
    session = cast(FakeSession, app.session)
    async with running(app) as pilot:
        cluster = shown(app)
        await press(pilot, "5")
        before = cluster.view_model
        session.publish(view(time=NOON + 1))
        await pilot.pause()
        assert cluster.view_model is before
        await press(pilot, "1")
        await pilot.pause()
        assert cluster.view_model is not None
        assert cluster.view_model.view.time == NOON + 1


async def test_what_does_not_fit_is_not_drawn() -> None:
    app = make_app()
    session = cast(FakeSession, app.session)
    async with running(app, (200, 60)) as pilot:
        peek = app.screen.query_one("#node-efa", Panel)
        assert peek.size
        await pilot.resize_terminal(80, 24)
        await pilot.pause(0.1)  # Textual puts resizing off by a timer
        drawn: list[int] = []
        peek.draw = lambda width, height: drawn.append(width) or ()  # type: ignore[func-returns-value,method-assign]
        session.publish(view(time=NOON + 1))
        await pilot.pause()
        assert drawn == []
        await pilot.resize_terminal(200, 60)
        await pilot.pause(0.1)
        assert drawn


async def test_an_unchanged_picture_is_not_painted_again() -> None:
    app = make_app()
    session = cast(FakeSession, app.session)
    async with running(app) as pilot:
        table = cast(ClusterScreen, app.screen).table
        session.publish(dataclasses.replace(session.view))
        await pilot.pause()
        painted = []
        table.refresh = lambda *regions, **_: painted.append(regions)  # type: ignore[assignment]
        session.publish(dataclasses.replace(session.view, generation=2))
        await pilot.pause()
        assert painted == []


async def test_any_size() -> None:
    app = make_app(trouble=True)
    async with running(app, (1, 1)) as pilot:
        for key in ("1", "2", "5"):
            await press(pilot, key)
            for size in ((20, 5), (2, 50), (250, 3)):
                await pilot.resize_terminal(*size)
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert VICTIM in picture(app)


async def test_mouse() -> None:
    app = make_app(nodes=5)
    async with running(app) as pilot:
        table = cast(ClusterScreen, app.screen).table
        await pilot.click(table, offset=(10, 4))
        assert table.cursor == "trn-002"
        await pilot.click(table, offset=(10, 4), times=2)
        await pilot.pause()
        assert isinstance(app.screen, NodeScreen)


async def test_without_devices_it_offers_the_demo() -> None:
    made = make_node(
        0, 0, 0, 0, jobs=(), runtimes=0, reason="not installed",
        states=dict.fromkeys(DEVICE_SOURCES, State.DOWN),
    )  # fmt: skip
    async with running(app_of(session_of(view_of(made)))) as pilot:
        drawn = picture(cast(TrntopApp, pilot.app))
        assert "not installed" in drawn
        assert "trntop demo shows a simulated run" in drawn


async def test_a_source_that_fell_silent_is_no_all_clear() -> None:
    down = make_node(0, state=State.DOWN, reason="exited with code 7")
    app = TrntopApp(cast(Session, FakeSession(view_of(down))), settings=SETTINGS)
    async with running(app):
        assert "exited with code 7" in picture(app)
        assert "no incidents" not in picture(app)


async def test_a_damaged_recording_is_reported() -> None:
    session = FakeSession(make_view(nodes=2), playback=Playback())
    session.lost = ("run.jsonl: 3 damaged lines skipped",)
    app = TrntopApp(cast(Session, session), settings=SETTINGS)
    async with running(app):
        assert "damaged recording" in picture(app)
        assert "3 damaged lines skipped" in picture(app)


class TestPalette:
    async def test_jump_to_a_node(self) -> None:
        app = make_app(trouble=True)
        async with running(app) as pilot:
            await press(pilot, "ctrl+p")
            await press(pilot, *"013")
            await pilot.pause(0.2)
            await press(pilot, "down", "enter")
            await pilot.pause()
            assert isinstance(app.screen, NodeScreen)
            assert app.screen.node == "trn-013"

    @pytest.mark.parametrize(
        ("typed", "shown"),
        [("incidents", "trntop ▸ incidents"), ("pause", "PAUSED"), ("light", "trntop ▸ cluster")],
    )
    async def test_verbs_run_commands(self, typed: str, shown: str) -> None:
        app = make_app(trouble=True)
        async with running(app) as pilot:
            await press(pilot, "ctrl+p", *typed)
            await pilot.pause(0.2)
            await press(pilot, "enter")
            await pilot.pause()
            assert shown in picture(app)
            assert (app.theme == "trntop-light") is (typed == "light")

    async def test_screens_are_first_with_their_keys(self) -> None:
        app = make_app(trouble=True)
        async with running(app) as pilot:
            await press(pilot, "ctrl+p")
            await pilot.pause(0.2)
            lines = [row.split() for row in picture(app).splitlines() if "Cluster " in row]
            assert lines[0] == ["Cluster", "All", "nodes", "1"]


@pytest.mark.parametrize("modal", ["question_mark", "e"])
async def test_keys_of_screens_close_a_dialog_and_go(modal: str) -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, modal, "4")
        await pilot.pause()
        assert "trntop ▸ efa" in picture(app)
        await press(pilot, modal, "colon")
        await pilot.pause()
        assert isinstance(app.screen, TimeCodeScreen)


HOSTILE = (
    "[/red]",
    "[bold]x",
    "\x1b[31mred",
    "\x9b2J",
    "節点一",
    "a\u0301b",
    "[@click=app.quit]",
)


async def test_hostile_names_are_text() -> None:
    found = [
        make_incident(node=name, summary=f"{name} is slow", component=f"efa:{name}")
        for name in HOSTILE
    ]
    made = [
        make_node(0, name=name, jobs=(name,), reason=name, states={"efa": State.STALE})
        for name in HOSTILE
    ]
    app = app_of(session_of(view_of(*made, incidents=found)))
    async with running(app, (160, 50)) as pilot:
        for key in ("1", "5", "1", "2", "n", "n", "n", "n", "n", "n"):
            await press(pilot, key)
            drawn = picture(app)
            assert all(char.isprintable() for char in drawn.replace("\n", ""))
            if key == "5":
                assert all(name in drawn for name in HOSTILE if name.isprintable())
        await press(pilot, "ctrl+p", "r")
        await pilot.pause(0.2)
        assert app.is_running


async def test_quitting_does_not_wait_for_a_hung_source() -> None:
    app = make_app(nodes=1)
    session = cast(FakeSession, app.session)
    hung = threading.Event()
    session.stop = lambda: cast(None, hung.wait(10))  # type: ignore[method-assign]
    async with running(app) as pilot:
        await press(pilot, "q")
    assert not app.is_running
    hung.set()
    app.join_session()


@pytest.mark.parametrize("failure", [None, RuntimeError("no terminal")])
def test_run_stops_the_session(monkeypatch: pytest.MonkeyPatch, failure: Exception | None) -> None:
    session = session_of(make_view())

    def no_terminal(app: TrntopApp, **_: object) -> None:
        if failure is not None:
            raise failure

    monkeypatch.setattr(TrntopApp, "run", no_terminal)
    with pytest.raises(RuntimeError) if failure else contextlib.nullcontext():
        assert run(cast(Session, session), settings=SETTINGS) == 0
    assert session.stopped


async def test_a_real_session() -> None:
    """The simulator, the decoders, the monitor and its thread behind the real screen."""
    simulation = Simulation("healthy", nodes=2, instance_type="trn1.2xlarge", minutes=0.2)
    session = Session(
        Monitor(SETTINGS),
        stream=lambda: simulate(simulation, NOON),
        playback=Playback(speed=1000.0),
        description="sim:healthy",
    )
    app = TrntopApp(session, settings=SETTINGS)
    async with running(app) as pilot:
        assert await asyncio.to_thread(session.wait, 10)
        await pilot.pause()
        drawn = picture(app)
        assert "SIMULATED" in drawn
        assert "■ ENDED" in drawn
        assert "trn-001" in drawn
        await press(pilot, "q")
    app.join_session()
