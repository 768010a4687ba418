"""Moving about in time: out of memory, by seeking in a recording, and where neither can be."""

import dataclasses

import pytest

from tests.builders import NOON, make_incident, make_view
from tests.tui.sample_run import FakeSession, app_of
from tests.tui.test_app import picture, press, running, shown
from trntop.core.model import View
from trntop.session.runner import Playback
from trntop.tui.app import TrntopApp
from trntop.tui.view_model import Mode, ViewModel

SPAN = (NOON - 600.0, NOON + 600.0)


def view_model_of(app: TrntopApp) -> ViewModel:
    found = shown(app).view_model
    assert found is not None
    return found


def recording() -> FakeSession:
    session = FakeSession(at(0), playback=Playback())
    session.seekable, session.span = True, SPAN
    return session


def at(second: float) -> View:
    return dataclasses.replace(make_view(nodes=1), time=NOON + second)


@pytest.mark.parametrize(
    ("keys", "second", "mode"),
    [
        (("left",), 94, Mode.HISTORY),
        (("shift+left",), 39, Mode.HISTORY),
        (("shift+left", "shift+right"), 99, Mode.PAUSED),
        (("left", "right"), 99, Mode.PAUSED),
        (("comma", "comma", "full_stop"), 98, Mode.HISTORY),
        (("left", "l"), 99, Mode.PLAYING),
        (("left", "space"), 99, Mode.PLAYING),
        (("space",), 99, Mode.PAUSED),
    ],
)
async def test_keys_move_the_playhead(keys: tuple[str, ...], second: float, mode: Mode) -> None:
    session = recording()
    app = app_of(session)
    async with running(app) as pilot:
        for tick in range(1, 100):
            session.publish(at(tick))
        await pilot.pause()
        await press(pilot, *keys)
        assert view_model_of(app).view.time == NOON + second
        assert view_model_of(app).mode is mode


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


async def test_live_an_evicted_time_is_reported_as_gone() -> None:
    session = FakeSession(at(0))
    app = app_of(session)
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await pilot.pause()
        await press(pilot, "shift+left")
        await pilot.pause()
        assert "before the start of the screen's history" in picture(app)
        assert view_model_of(app).view.time == NOON


async def test_the_position_in_a_recording_is_in_the_header() -> None:
    app = app_of(recording())
    async with running(app) as pilot:
        await pilot.pause()
        assert "12:00:00 10:00 of 20:00" in picture(app).splitlines()[0]
