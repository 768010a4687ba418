"""The moment that the screen shows, on a session without a thread and without an app."""

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from tests.builders import NOON, make_incident, make_view
from tests.tui.sample_run import FakeSession
from trntop.core.model import View
from trntop.pipeline.history import History
from trntop.session.runner import Playback, Session
from trntop.tui.playhead import SPEEDS, Playhead
from trntop.tui.view_history import HistoryUntil
from trntop.tui.view_model import Mode


def at(second: float, **changes: object) -> View:
    return dataclasses.replace(make_view(nodes=1), time=NOON + second, **changes)  # type: ignore[arg-type]


class Screen:
    """A playhead and what it draws, as the app does: at once, unless the view is pinned."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.warnings: list[str] = []
        self.playhead = Playhead(cast(Session, session), self.draw, self.warnings.append)
        session.subscribe(self.receive)
        session.start()

    def receive(self, view: View) -> None:
        self.playhead.receive(view)
        self.playhead.update()
        if not self.playhead.pinned:
            self.draw()

    def draw(self) -> None:
        self.playhead.shown = self.playhead.view

    def run(self, *seconds: float) -> None:
        for second in seconds:
            self.session.publish(at(second))

    @property
    def second(self) -> float:
        assert self.playhead.shown is not None
        return self.playhead.shown.time - NOON

    @property
    def mode(self) -> Mode:
        assert self.playhead.shown is not None
        return self.playhead.mode(self.playhead.shown)


def live() -> Screen:
    return Screen(FakeSession(at(0)))


def recording(first: float = -600, last: float = 600) -> Screen:
    session = FakeSession(at(0), playback=Playback())
    session.seekable, session.span = True, (NOON + first, NOON + last)
    return Screen(session)


def playback_of(screen: Screen) -> Playback:
    assert screen.session.playback is not None
    return screen.session.playback


def test_it_follows_the_session() -> None:
    screen = live()
    screen.run(1, 2)
    assert (screen.second, screen.mode) == (2, Mode.LIVE)
    assert screen.playhead.behind(screen.session.view) == 0


def test_a_paused_view_stays_until_it_resumes() -> None:
    screen = live()
    screen.playhead.toggle_pause()
    assert screen.mode is Mode.PAUSED
    screen.run(60)
    assert (screen.second, screen.mode) == (0, Mode.HISTORY)
    screen.playhead.toggle_pause()
    assert (screen.second, screen.mode) == (60, Mode.LIVE)


def test_a_recording_pauses_with_the_screen() -> None:
    screen = recording()
    assert screen.mode is Mode.PLAYING
    screen.playhead.toggle_pause()
    assert playback_of(screen).paused
    assert screen.mode is Mode.PAUSED
    screen.playhead.resume()
    assert not playback_of(screen).paused


@pytest.mark.parametrize(
    ("steps", "seconds"), [((-5,), 5), ((-60, 5), 55), ((-5, -5, 5), 5), ((-60, -60), 99)]
)
def test_it_travels_through_the_history(steps: tuple[int, ...], seconds: float) -> None:
    screen = live()
    screen.run(*range(1, 100))
    for step in steps:
        screen.playhead.travel(step)
    assert (99 - screen.second, screen.mode) == (seconds, Mode.HISTORY)
    assert screen.playhead.shown is not None
    assert screen.playhead.behind(screen.playhead.shown) == seconds


def test_it_travels_at_least_to_the_next_view() -> None:
    screen = live()
    screen.run(20, 40, 41)
    seconds = []
    for step in (-5, -5, 5, 5, 5):
        screen.playhead.travel(step)
        seconds.append(screen.second)
    assert seconds == [40, 20, 40, 41, 41]


def test_it_travels_between_the_views_of_a_sparse_history() -> None:
    screen = live()
    screen.run(9, 18, 27, 36, 40)

    def after(move: Callable[[int], None], step: int, times: int) -> list[float]:
        seconds = []
        for _ in range(times):
            move(step)
            seconds.append(screen.second)
        return seconds

    assert after(screen.playhead.travel, -5, 3) == [36, 27, 18]
    assert after(screen.playhead.step, -1, 2) == [9, 0]
    assert after(screen.playhead.step, 1, 2) == [9, 18]
    assert after(screen.playhead.travel, 5, 3) == [27, 36, 40]


def test_a_paused_view_stays() -> None:
    screen = live()
    screen.run(*range(1, 5))
    screen.playhead.toggle_pause()
    paused = screen.playhead.shown
    screen.run(*range(5, 8))
    assert screen.playhead.view is paused


def test_it_returns_to_live_at_the_newest_view() -> None:
    screen = live()
    screen.run(*range(1, 30))
    screen.playhead.travel(-5)
    screen.playhead.travel(5)
    assert (screen.second, screen.mode) == (29, Mode.LIVE)


def test_a_time_before_the_history_shows_its_start_and_warns() -> None:
    screen = live()
    screen.run(1, 2)
    screen.playhead.go_to(NOON - 60)
    assert screen.second == 0
    assert screen.warnings == ["that time is before the start of the screen's history"]


def test_the_history_of_a_recording_needs_no_seek() -> None:
    screen = recording()
    screen.run(*range(1, 11))
    screen.playhead.travel(-5)
    assert (screen.second, screen.mode) == (5, Mode.HISTORY)
    screen.playhead.travel(5)
    assert screen.mode is Mode.PAUSED, "a recording stays paused at its newest view"
    assert not screen.session.sought


def test_a_recording_seeks_beyond_the_history() -> None:
    screen = recording()
    screen.playhead.travel(-5)
    screen.playhead.travel(-60)
    assert screen.session.sought == [NOON - 5, NOON - 65], "each moves on from the pending target"
    assert playback_of(screen).paused
    assert screen.second == 0, "the old view stays until the new one arrives"
    screen.run(-65)
    assert (screen.second, screen.mode) == (-65, Mode.PAUSED)
    screen.playhead.travel(5)
    assert screen.session.sought[-1] == NOON - 60
    screen.playhead.resume()
    assert not playback_of(screen).paused


def test_update_reports_the_end_of_a_seek_once() -> None:
    screen = recording()
    screen.playhead.go_to(NOON - 100)
    screen.playhead.receive(at(-100))
    assert screen.playhead.update()
    assert not screen.playhead.update()


def test_a_seek_stops_at_the_start_of_the_recording() -> None:
    screen = recording(first=-1, last=100)
    screen.playhead.travel(-60)
    assert not screen.session.sought
    assert screen.second == 0
    screen = recording(first=-50)
    screen.playhead.go_to(NOON - 900)
    assert screen.session.sought == [NOON - 49], "one tick after the first reading"


def test_it_steps_tick_by_tick() -> None:
    screen = recording()
    screen.run(1, 2, 3)
    seconds = []
    for direction in (-1, -1, 1, 1):
        screen.playhead.step(direction)
        seconds.append(screen.second)
    assert seconds == [2, 1, 2, 3]
    assert (screen.mode, screen.session.steps) == (Mode.PAUSED, 0)
    screen.playhead.step(1)
    assert screen.session.steps == 1
    screen.run(4)
    assert (screen.second, screen.mode) == (4, Mode.PAUSED)


def test_a_live_session_has_no_tick_after_the_newest() -> None:
    screen = live()
    screen.playhead.step(1)
    assert (screen.session.steps, screen.mode) == (0, Mode.LIVE)


def test_pause_keeps_the_view_on_the_screen_though_a_newer_one_arrived() -> None:
    screen = live()
    old = screen.playhead.shown
    screen.session.view = at(3)  # the terminal was busy
    screen.playhead.toggle_pause()
    assert screen.playhead.view is old


@pytest.mark.parametrize(
    ("steps", "speed"), [((1, 1), 4.0), ((1, 1, -1, -1, -1), 0.5), ((-1,) * 9, SPEEDS[0])]
)
def test_the_speed_of_a_recording(steps: tuple[int, ...], speed: float) -> None:
    screen = recording()
    for step in steps:
        screen.playhead.change_speed(step)
    assert screen.playhead.speed == playback_of(screen).speed == speed


def test_a_live_session_has_no_speed() -> None:
    screen = live()
    screen.playhead.change_speed(1)
    assert screen.playhead.speed == 1.0


def test_series_end_at_an_earlier_view() -> None:
    screen = live()
    screen.run(*range(1, 30))
    assert isinstance(screen.playhead.series(screen.session.view), History)
    screen.playhead.travel(-5)
    assert screen.playhead.shown is not None
    assert isinstance(screen.playhead.series(screen.playhead.shown), HistoryUntil)


def test_incidents_that_opened_after_an_earlier_view() -> None:
    screen = live()
    screen.run(*range(1, 10))
    incident = make_incident(opened_at=NOON + 10)
    screen.session.publish(at(10, incidents=(incident,)))
    screen.playhead.travel(-5)
    assert screen.playhead.shown is not None
    assert screen.playhead.later_incidents(screen.playhead.shown) == (incident,)
    screen.playhead.resume()
    assert screen.playhead.later_incidents(screen.session.view) == ()


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({"ended": True}, Mode.ENDED),
        ({"cluster": dataclasses.replace(at(0).cluster, nodes={})}, Mode.WAITING),
    ],
)
def test_modes_of_a_view(changes: dict[str, object], mode: Mode) -> None:
    screen = Screen(FakeSession(at(0, **changes)))
    assert screen.mode is mode
    screen.session.failure = "KeyError"
    assert screen.mode is Mode.FAILED


def test_how_much_a_stream_has_caught_up() -> None:
    screen = Screen(FakeSession(at(0), playback=Playback(catch_up=True)))
    screen.session.clock = SimpleNamespace(now=lambda: NOON + 100)  # type: ignore[attr-defined]
    screen.run(40)
    assert screen.playhead.loaded(screen.session.view) == pytest.approx(0.4)
    playback_of(screen).catch_up = False
    assert screen.playhead.loaded(screen.session.view) is None
