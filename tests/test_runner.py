import asyncio
import threading
import time

import pytest

from tests.reports import monitor_reading, report, runtime
from trntop.collection import Sink
from trntop.model import Reading, State, View
from trntop.monitor import Monitor
from trntop.runner import Playback, Session
from trntop.settings import Collect, Settings

FAST = Settings(collect=Collect(period=0.1))


def stream(count: int) -> list[Reading]:
    return [monitor_reading(report(runtime()), 1000.0 + t) for t in range(count)]


def wait_for(session: Session, condition: object, seconds: float = 5.0) -> bool:
    """Waits for a view that satisfies `condition`, by its arrival, not by sleeping."""
    assert callable(condition)
    arrived = threading.Event()

    def look(view: View) -> None:
        if condition(view):
            arrived.set()

    session.subscribe(look)
    look(session.view)
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


def test_ticks_that_take_too_long_are_skipped_and_their_lag_shows(
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
    seen: list[Reading] = []
    session = Session(
        Monitor(Settings()),
        stream=lambda: stream(5),
        playback=Playback(speed=1000),
        tap=seen.append,
    )
    session.start()
    assert session.wait(5)
    assert seen == stream(5)


def test_a_session_tells_whose_clock_is_off() -> None:
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
    assert list(session.clock_offsets) == ["b"]
