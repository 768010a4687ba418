"""A running monitor: own thread, own event loop, newest view to whoever asks.

Live sources are collectors, ticked by the steady clock. A stream (recording, simulation) is an
iterator of readings, ticked by its own time and paced by `Playback`.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trntop.clock import SteadyClock
from trntop.collection import Collector
from trntop.history import History
from trntop.model import Cluster, Reading, State, Status, View
from trntop.monitor import Monitor, play
from trntop.skew import Skew

log = logging.getLogger(__name__)

STOP_SECONDS = 0.4
"""How long `stop` waits for the collection thread; it is a daemon and holds nobody back."""
SLICE = 0.2
"""Seconds between looks at pause and speed while waiting."""

GAP = 60.0
GAP_SHOWN = 2.0
"""A pause of the stream longer than `GAP` seconds is cut to this when it is played."""

Subscriber = Callable[[View], None]
Tap = Callable[[Reading], None]


@dataclass(slots=True)
class Playback:
    """The controls of a stream; plain attributes, set from any thread."""

    speed: float = 1.0
    paused: bool = False
    loop: bool = False
    catch_up: bool = False
    """Run as fast as possible until the stream's time reaches the present."""
    ended: bool = False


class Session:
    """Runs a monitor over live collectors or over one stream.

    Args:
        monitor: takes the readings and makes the views; used on the session's thread only.
        collectors: live sources.
        stream: makes an iterator of readings; called anew for each round of a loop.
        playback: the stream's controls.
        description: names the source on the screen.
        tap: is handed every reading first (the recorder).
        notes: says what was lost in damaged inputs so far.
    """

    def __init__(
        self,
        monitor: Monitor,
        *,
        collectors: Sequence[Collector] = (),
        stream: Callable[[], Iterable[Reading]] | None = None,
        playback: Playback | None = None,
        description: str = "",
        tap: Tap | None = None,
        notes: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.notes = notes
        self.playback = (playback or Playback()) if stream is not None else None
        self.description = description
        self.clock = SteadyClock()
        self._monitor = monitor
        self._collectors = collectors
        self._stream = stream
        self._tap = tap
        self._view = View(0, self.clock.now(), Cluster(self.clock.now()))
        self._skew = Skew()
        self._subscribers: list[Subscriber] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = threading.Event()
        self._done = threading.Event()
        self.failure = ""
        """Why the session stopped by itself, empty while it runs or after a normal end."""

    @property
    def view(self) -> View:
        """The newest view."""
        return self._view

    @property
    def history(self) -> History:
        """The recent past."""
        return self._monitor.history

    @property
    def clock_offsets(self) -> dict[str, float]:
        """Node → seconds its clock is ahead of the stream's time, for those that are off."""
        return self._skew.offsets

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber` with each new view, on the session's thread: return at once."""
        self._subscribers.append(subscriber)

    def start(self) -> None:
        """Starts the thread."""
        self._thread = threading.Thread(target=self._run, name="collection", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Cancels everything and waits a moment; a hung source cannot hold the caller."""
        self._ready.wait(STOP_SECONDS)
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # already closed
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._done.wait(STOP_SECONDS)

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until a stream has ended or the session has failed."""
        return self._done.wait(seconds)

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            self._loop = loop
            self._task = loop.create_task(self._main())
            self._ready.set()
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(self._task)
        except Exception as error:
            # The thread must not die silently: screens show `failure` and stay usable.
            log.exception("collection stopped")
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self._ready.set()
            self._done.set()
            with contextlib.suppress(Exception):
                loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    async def _main(self) -> None:
        if self._stream is not None:
            assert self.playback is not None
            await self._play(self._stream, self.playback)
        else:
            await self._collect()

    def _publish(self, view: View) -> None:
        self._view = view
        for subscriber in self._subscribers:
            subscriber(view)

    async def _collect(self) -> None:
        sink = _Sink(self._monitor, self.clock, self._tap)
        tasks = [asyncio.create_task(_guarded(one, sink)) for one in self._collectors]
        period = self._monitor.settings.collect.period
        loop = asyncio.get_running_loop()
        planned = due = loop.time()
        try:
            while True:
                lag = loop.time() - planned
                self._publish(self._monitor.tick(self.clock.now(), max(0.0, lag)))
                planned = due = due + period
                if loop.time() > due:
                    # Late ticks are skipped, never queued.
                    due = loop.time() + period
                await asyncio.sleep(max(0.0, due - loop.time()))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _play(self, stream: Callable[[], Iterable[Reading]], playback: Playback) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        shift = 0.0
        while True:
            before: float | None = None
            first: float | None = None
            self._skew = Skew()
            for view in play(self._tapped(stream(), shift), self._monitor, self._skew):
                first = view.time if first is None else first
                if playback.catch_up and view.time >= self.clock.now():
                    playback.catch_up = False
                if before is None or playback.catch_up:
                    due = loop.time()
                    await asyncio.sleep(0)
                else:
                    wait = max(0.0, view.time - before)
                    due = await self._pace(due, wait if wait < GAP else GAP_SHOWN, playback)
                before = view.time
                if not (view.ended and playback.loop):
                    self._publish(view)
            if first is None or before is None:
                return
            if not playback.loop:
                playback.ended = True
                return
            shift += before - first + 1.0
            self._monitor.resume()

    async def _pace(self, due: float, seconds: float, playback: Playback) -> float:
        """Waits for `seconds` of stream time; returns when that wait was over in loop time."""
        loop = asyncio.get_running_loop()
        remaining = seconds
        now = max(due, loop.time() - seconds)
        while remaining > 0:
            step = max(0.0, min(SLICE, remaining / playback.speed) - (loop.time() - now))
            await asyncio.sleep(step)
            passed, now = loop.time() - now, loop.time()
            if not playback.paused:
                remaining -= passed * playback.speed
        # What the last slice overslept is taken off the next wait.
        return now + remaining / playback.speed

    def _tapped(self, readings: Iterable[Reading], shift: float) -> Iterable[Reading]:
        for reading in readings:
            if shift:
                reading = Reading(
                    reading.node,
                    reading.source,
                    reading.time + shift,
                    reading.data,
                    reading.simulated,
                )
            if self._tap is not None:
                self._tap(reading)
            yield reading


class _Sink:
    """What collectors see of the session."""

    def __init__(self, monitor: Monitor, clock: SteadyClock, tap: Tap | None) -> None:
        self._monitor = monitor
        self._clock = clock
        self._tap = tap

    def now(self) -> float:
        return self._clock.now()

    def reading(self, reading: Reading) -> None:
        if self._tap is not None:
            self._tap(reading)
        self._monitor.feed(reading)

    def status(self, status: Status) -> None:
        self._monitor.status(status)


async def _guarded(collector: Collector, sink: _Sink) -> None:
    """Runs a collector; a defect in it takes down its source, not the others."""
    try:
        await collector.run(sink)
    except Exception as error:
        log.exception("collector %s of %s failed", collector.source, collector.node)
        reason = f"internal error: {type(error).__name__}"
        sink.status(Status(collector.node, collector.source, State.DOWN, reason))
