"""Moving about in time: out of memory, by seeking in a recording, and where neither can be."""

import dataclasses

import pytest
from textual.events import Key

from tests.builders import NOON, make_incident, make_view
from tests.tui.scenes import FakeSession, app_of
from tests.tui.test_app import picture, press, running, shown
from trntop.core.model import View
from trntop.session.runner import Playback
from trntop.tui.app import TrntopApp
from trntop.tui.screens.time_code import TimeCodeScreen
from trntop.tui.view_model import Mode, ViewModel

SPAN = (NOON - 600.0, NOON + 600.0)


def scene_of(app: TrntopApp) -> ViewModel:
    found = shown(app).view_model
    assert found is not None
    return found


def recording() -> FakeSession:
    session = FakeSession(at(0), playback=Playback())
    session.seekable, session.span = True, SPAN
    return session


def at(second: float) -> View:
    return dataclasses.replace(make_view(nodes=1), time=NOON + second)


async def test_what_is_remembered_is_shown_without_moving_in_the_recording() -> None:
    session = recording()
    app = app_of(session)
    async with running(app) as pilot:
        for second in range(1, 11):
            session.publish(at(second))
            await pilot.pause()
        await press(pilot, "left")
        assert scene_of(app).view.time == NOON + 5
        assert scene_of(app).mode is Mode.PAST
        await press(pilot, "right")
        # At the newest tick the recording stays held.
        assert scene_of(app).mode is Mode.PAUSED
        assert not session.sought
        await press(pilot, "space")
        assert scene_of(app).mode is Mode.PLAYING


async def test_beyond_memory_the_recording_is_moved_in() -> None:
    session = recording()
    app = app_of(session)
    async with running(app) as pilot:
        await press(pilot, "left", "shift+left")
        assert session.sought == [NOON - 5, NOON - 65]
        assert session.playback is not None
        assert session.playback.paused
        session.publish(at(-65))
        await pilot.pause()
        assert scene_of(app).view.time == NOON - 65
        assert scene_of(app).mode is Mode.PAUSED
        await press(pilot, "right")
        assert session.sought[-1] == NOON - 60
        await press(pilot, "l")
        assert not session.playback.paused


async def test_nothing_is_before_the_beginning() -> None:
    session = recording()
    session.span = (NOON - 1, NOON + 100)
    app = app_of(session)
    async with running(app) as pilot:
        await press(pilot, "shift+left")
        assert not session.sought
        assert scene_of(app).view.time == NOON


async def test_tick_by_tick() -> None:
    session = recording()
    app = app_of(session)
    async with running(app) as pilot:
        for second in (1, 2, 3):
            session.publish(at(second))
            await pilot.pause()
        await press(pilot, "comma", "comma")
        assert scene_of(app).view.time == NOON + 1
        await press(pilot, "full_stop")
        assert scene_of(app).view.time == NOON + 2
        await press(pilot, "full_stop")
        assert scene_of(app).mode is Mode.PAUSED
        assert session.steps == 0
        await press(pilot, "full_stop")
        assert session.steps == 1
        session.publish(at(4))
        await pilot.pause()
        assert scene_of(app).view.time == NOON + 4
        assert scene_of(app).mode is Mode.PAUSED


async def test_live_there_is_no_tick_to_go_on_to() -> None:
    session = FakeSession(at(0))
    app = app_of(session)
    async with running(app) as pilot:
        await press(pilot, "full_stop")
        assert session.steps == 0
        assert scene_of(app).mode is Mode.LIVE


@pytest.mark.parametrize("key", [":", "ctrl+g"])
async def test_a_typed_time_is_gone_to(key: str) -> None:
    session = recording()
    app = app_of(session)
    async with running(app) as pilot:
        app.post_message(Key("colon" if key == ":" else key, ":" if key == ":" else None))
        await pilot.pause()
        assert isinstance(app.screen, TimeCodeScreen)
        assert "shown is 12:00:00 UTC, 10:00 of 20:00" in picture(app)
        await pilot.press("minus", "5", "m", "enter")
        await pilot.pause()
        assert session.sought == [NOON - 300]


async def test_no_time_is_no_journey() -> None:
    session = recording()
    app = app_of(session)
    async with running(app) as pilot:
        await press(pilot, "colon", "escape")
        assert not session.sought


async def test_the_onset_of_an_incident_that_is_not_remembered_is_sought() -> None:
    session = recording()
    incident = make_incident(opened_at=NOON - 120)
    session.view = dataclasses.replace(at(0), incidents=(incident,))
    app = app_of(session)
    async with running(app) as pilot:
        await press(pilot, "o")
        assert session.sought == [NOON - 120]


async def test_live_what_is_not_remembered_is_said_to_be_gone() -> None:
    session = FakeSession(at(0))
    app = app_of(session)
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await pilot.pause()
        await press(pilot, "shift+left")
        await pilot.pause()
        assert "further back than this screen remembers" in picture(app)
        assert scene_of(app).view.time == NOON


async def test_the_place_in_a_recording_stands_in_the_header() -> None:
    app = app_of(recording())
    async with running(app) as pilot:
        await pilot.pause()
        assert "12:00:00 10:00 of 20:00" in picture(app).splitlines()[0]
