import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.reports import monitor_reading, report, runtime
from trntop.core.model import Reading, State, Status, View
from trntop.core.settings import Collect, Settings
from trntop.session import runner
from trntop.session.collector import Sink
from trntop.session.monitor import Monitor
from trntop.session.runner import Playback, Session

UTILIZATION = "node_neuroncore_utilization_mean_ratio"
FAST = Settings(collect=Collect(period=0.1))


def stream(count: int) -> list[Reading]:
    return [monitor_reading(report(runtime()), 1000.0 + t) for t in range(count)]


def wait_for(session: Session, condition: object, seconds: float = 60.0) -> bool:
    """Waits for a view that satisfies `condition`, by its arrival, not by sleeping."""
    assert callable(condition)
    arrived = threading.Event()

    def on_view(view: View) -> None:
        if condition(view):
            arrived.set()

    session.subscribe(on_view)
    on_view(session.view)
    return arrived.wait(seconds)


class Ticking:
    node, source = "n", "neuron-monitor"

    async def run(self, sink: Sink) -> None:
        while True:
            sink.reading(monitor_reading(report(runtime()), sink.now()))
            await asyncio.sleep(0.05)


class Broken:
    node, source = "n", "efa"

    async def run(self, sink: Sink) -> None:
        raise ValueError("a defect")


class Hung:
    node, source = "n", "steps"

    async def run(self, sink: Sink) -> None:
        time.sleep(3)  # noqa: ASYNC251 - blocks the loop, as no collector should


def test_a_stream_plays_to_its_end_at_any_speed() -> None:
    session = Session(Monitor(Settings()), stream=lambda: stream(20), playback=Playback(speed=1000))
    views: list[View] = []
    session.subscribe(views.append)
    session.start()
    assert session.wait(5)
    session.stop()
    assert session.playback is not None
    assert session.playback.ended
    assert session.view.ended
    assert [view.generation for view in views] == list(range(1, len(views) + 1))


def test_pause_holds_a_stream() -> None:
    playback = Playback(speed=1000, paused=True)
    session = Session(Monitor(Settings()), stream=lambda: stream(20), playback=playback)
    session.start()
    assert not session.wait(0.2)
    playback.paused = False
    assert session.wait(5)
    session.stop()


def test_a_loop_goes_on_in_time() -> None:
    session = Session(
        Monitor(Settings()), stream=lambda: stream(3), playback=Playback(speed=1000, loop=True)
    )
    session.start()
    assert wait_for(session, lambda view: "n" in view.cluster.nodes and view.time > 1010)
    session.stop()
    assert session.view.cluster.nodes["n"].frame.value("node_devices") == 1


def test_one_defective_collector_spares_the_others() -> None:
    session = Session(Monitor(FAST), collectors=[Ticking(), Broken()])
    session.start()

    def both(view: View) -> bool:
        node = view.cluster.nodes.get("n")
        states = {source.name: source for source in node.frame.sources} if node else {}
        return (
            len(states) == 2
            and states["neuron-monitor"].state is State.FRESH
            and states["efa"].state is State.DOWN
            and "ValueError" in states["efa"].reason
        )

    assert wait_for(session, both)
    session.stop()


def test_quitting_takes_less_than_half_a_second_while_a_source_hangs() -> None:
    session = Session(Monitor(FAST), collectors=[Hung()])
    session.start()
    started = time.monotonic()
    session.stop()
    assert time.monotonic() - started < 0.5


def test_fault_24_ticks_that_take_too_long_are_skipped_and_their_lag_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Loop(asyncio.SelectorEventLoop):
        worked = 0.0

        def time(self) -> float:
            return super().time() + self.worked

    class Slow(Monitor):
        def tick(self, now: float, lag: float = 0.0) -> View:
            loop.worked += 0.5
            return super().tick(now, lag)

    loop = Loop()
    monkeypatch.setattr(asyncio, "new_event_loop", lambda: loop)
    session = Session(Slow(FAST), collectors=[])
    views: list[View] = []
    session.subscribe(views.append)
    session.start()
    assert wait_for(session, lambda view: view.generation >= 4)
    session.stop()
    # A tick of 0.5 s leaves no time for the four after it.
    assert all(view.lag >= 0.5 for view in views[1:])
    assert loop.worked == pytest.approx(0.5 * len(views))
    assert [view.generation for view in views] == list(range(1, len(views) + 1))


def test_the_tap_sees_every_reading_first() -> None:
    received: list[Reading] = []
    session = Session(
        Monitor(Settings()),
        stream=lambda: stream(5),
        playback=Playback(speed=1000),
        tap=received.append,
    )
    session.start()
    assert session.wait(5)
    assert received == stream(5)


def test_a_session_brings_clocks_together() -> None:
    readings = [
        monitor_reading(report(runtime()), 1000.0 + t + (60.0 if node == "b" else 0.0), node)
        for t in range(20)
        for node in "abc"
    ]
    session = Session(Monitor(FAST), stream=lambda: readings, playback=Playback(speed=1000))
    session.start()
    assert session.wait(5)
    session.stop()
    assert session.view.time < 1030


class Player:
    """A session over a stream in which one may move, and the views that came of it."""

    def __init__(self, count: int = 300, **controls: Any) -> None:
        self.playback = Playback(paused=True, **controls)
        self.adopted: list[float] = []
        self.views: list[View] = []
        self._news = threading.Condition()
        readings = stream(count)

        def stream_from(start: float) -> Iterator[Reading]:
            self.adopted.append(start)
            return (reading for reading in readings if reading.time >= start)

        self.session = Session(
            Monitor(Settings()),
            stream=lambda: readings,
            stream_from=stream_from,
            span=lambda: (readings[0].time, readings[-1].time),
            playback=self.playback,
        )
        self.session.subscribe(self._receive)

    def __enter__(self) -> "Player":
        self.session.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.session.stop()

    def _receive(self, view: View) -> None:
        with self._news:
            self.views.append(view)
            self._news.notify()

    def wait(self, condition: Callable[[View], bool]) -> View:
        """The first view of which `condition` holds; forgets those before it."""
        with self._news:
            assert self._news.wait_for(lambda: any(map(condition, self.views)), 60)
            while not condition(self.views[0]):
                self.views.pop(0)
            return self.views[0]

    def seek(self, time: float) -> bool:
        """Seeks; views of before are forgotten."""
        with self._news:
            self.views.clear()
        return self.session.seek(time)

    def remembered(self, until: float) -> int:
        """Ticks in the history; the next to be shown may be in it already."""
        times, _ = self.session.history.node(UTILIZATION, "n", 500)
        return int((times <= until).sum())

    def shown(self, time: float) -> View:
        return self.wait(lambda view: abs(view.time - time) < 0.01)


def test_a_sought_time_is_the_next_view() -> None:
    with Player() as player:
        player.shown(1001)
        assert player.session.span == (1000, 1299)
        assert player.seek(1200.25)
        view = player.shown(1200.25)
        assert view.cluster.nodes["n"].frame.value(UTILIZATION)
        # Once with little before it, then with all that graphs want.
        assert player.adopted[0] == 1170.25
        player.wait(lambda _: len(player.adopted) == 2 and len(player.views) == 2)
        assert [view.time for view in player.views] == [1200.25, 1200.25]
        assert player.adopted[1] == 900.25
        assert player.remembered(1200.25) == 201
        assert player.seek(1100)
        player.shown(1100)
        assert player.playback.paused


def test_what_is_near_ahead_is_run_through_and_nothing_is_forgotten() -> None:
    with Player() as player:
        player.shown(1001)
        assert not player.seek(1040)
        player.shown(1040)
        assert not player.adopted
        assert player.remembered(1040) == 40


def test_a_held_stream_goes_on_tick_by_tick() -> None:
    with Player() as player:
        player.shown(1001)
        player.session.step()
        player.shown(1002)
        player.session.step()
        player.session.step()
        player.shown(1004)
        assert player.playback.paused


def test_a_stream_goes_on_from_where_it_was_sought() -> None:
    with Player(speed=1000) as player:
        player.shown(1001)
        player.seek(1250)
        player.shown(1250)
        player.playback.paused = False
        player.shown(1252)
        assert player.session.wait(5)
        assert player.playback.ended


def test_one_may_go_back_from_the_end() -> None:
    with Player(20, speed=1000) as player:
        player.shown(1001)
        player.playback.paused = False
        assert player.session.wait(5)
        assert player.playback.ended
        player.playback.paused = True
        player.seek(1010)
        assert not player.shown(1010).ended
        assert not player.playback.ended
        player.playback.paused = False
        assert player.wait(lambda view: view.ended)
        assert player.session.wait(5)


@pytest.mark.parametrize(("sought", "shown"), [(5000.0, 1299.0), (0.0, 1001.0)])
def test_beyond_the_ends_the_ends_are_shown(sought: float, shown: float) -> None:
    with Player() as player:
        player.shown(1001)
        player.seek(1150)
        player.shown(1150)
        player.seek(sought)
        player.shown(shown)


def test_without_a_way_to_move_nothing_is_sought() -> None:
    session = Session(Monitor(Settings()), stream=lambda: stream(5), playback=Playback(speed=1000))
    session.start()
    assert session.wait(5)
    assert not session.seekable
    assert not session.seek(1001)
    session.stop()
    assert session.view.ended


class Remembering:
    """A collector that hands over a past, and has a reading before that."""

    node, source = "n", "neuron-monitor"

    def __init__(self, seconds: int = 0, *, ends: bool = True) -> None:
        self._seconds = seconds
        self._ends = ends
        self._handed = asyncio.Event()

    async def backfilled(self) -> None:
        await self._handed.wait()

    async def run(self, sink: Sink) -> None:
        now = sink.now()
        sink.status(Status("n", "neuron-monitor", State.DOWN, "not yet"))
        sink.status(Status("list", "agent", State.STARTING, "connecting"))
        sink.remove("list")
        sink.reading(monitor_reading(report(runtime()), now))
        if sink.wants_backfill and self._seconds:
            past = range(-self._seconds, 0)
            sink.backfill([monitor_reading(report(runtime()), now + second) for second in past])
        if self._ends:
            self._handed.set()
        await asyncio.Event().wait()


class TestPast:
    def views(self, collector: Remembering, *, backfill: bool = True) -> list[View]:
        """All views up to the first of the present."""
        session = Session(Monitor(FAST, 1.0), collectors=[collector], backfill=backfill)
        views: list[View] = []
        session.subscribe(views.append)
        began = session.clock.now()
        session.start()
        try:
            assert wait_for(session, lambda view: view.time >= began and not session.loading)
        finally:
            session.stop()
        return views

    def test_it_is_played_before_the_first_view_of_the_present(self) -> None:
        views = self.views(Remembering(400))
        assert views[-1].time - views[0].time == pytest.approx(400, abs=6)
        gaps = {round(b.time - a.time) for a, b in itertools.pairwise(views[:-1])}
        assert gaps == {1, 4}
        fresh = [view.cluster.nodes["n"].state for view in views[:-1]]
        assert set(fresh) == {State.FRESH}

    def test_what_arrived_meanwhile_comes_after_it(self) -> None:
        views = self.views(Remembering(30))
        (source,) = views[-1].cluster.nodes["n"].frame.sources
        assert (source.state, source.counts["readings"]) == (State.FRESH, 31)
        # An address whose nodes have names of their own is no node.
        assert views[-1].cluster.names == ("n",)

    def test_without_one_it_begins_at_once(self) -> None:
        assert len(self.views(Remembering())) <= 2
        assert len(self.views(Remembering(400), backfill=False)) <= 2

    def test_missing_history_delays_it_briefly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runner, "BACKFILL_TIMEOUT", (0.05, 0.05, 0.1))
        views = self.views(Remembering(30, ends=False))
        assert views[-1].time - views[0].time == pytest.approx(30, abs=3)
