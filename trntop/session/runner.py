"""Runs a monitor in its own thread and event loop; readers get the newest view.

Live sources are collectors, ticked by the steady clock. A stream (recording, simulation) is an
iterator of readings, ticked by its own time and paced by `Playback`.
"""

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from trntop.catalog import INCIDENTS
from trntop.core.model import Cluster, Incident, Reading, State, Status, View
from trntop.pipeline.history import History
from trntop.pipeline.skew import Skew
from trntop.recording.blackbox import BlackBox
from trntop.remote.names import NodeNames
from trntop.session.clock import SteadyClock
from trntop.session.collector import BackfillAware, Collector, FocusAware
from trntop.session.monitor import Monitor, play, play_backfill

log = logging.getLogger(__name__)

STOP_SECONDS = 0.4
"""Seconds that `stop` waits for the collection thread, which is a daemon."""
CONTROL_INTERVAL = 0.2
"""Seconds between checks of pause and speed during a wait."""

SHORT_LEAD = (5, 30, 40)
"""Ticks before a target time at which playback starts: minimum, maximum, and a number to divide by
the nodes, so that the target is shown within a second.
"""
FULL_LEAD = (5, 300, 600)
"""The same for a second run while paused, which gives rules and graphs the data that they need."""
MAX_SKIP = (5, 60, 120)
"""Ticks ahead within which a target is reached by playing on, which keeps all data."""
ROUNDING = 1e-3
"""Seconds by which a tick may miss its time: floats of unix time are coarse."""
MAX_GAP = 60.0
SHORTENED_GAP = 2.0
"""Playback shortens a gap in the stream that is longer than `MAX_GAP` seconds to this."""

BACKFILL_TIMEOUT = (2.0, 1.0, 15.0)
"""Seconds to wait for the first backfill, after each one, and in total."""

Span = tuple[float, float]
Subscriber = Callable[[View], None]
Tap = Callable[[Reading], None]


@dataclass(slots=True)
class Playback:
    """The controls of a stream; plain attributes, set from any thread."""

    speed: float = 1.0
    paused: bool = False
    loop: bool = False
    catch_up: bool = False
    """Whether to run as fast as possible until the stream's time reaches the current time."""
    ended: bool = False


class Session:
    """Runs a monitor over live collectors or over one stream.

    Args:
        monitor: receives the readings and makes the views; used on the session's thread only.
        collectors: live sources.
        stream: returns an iterable of readings; called again for each loop.
        stream_from: the same, starting at a time, for streams that can seek.
        span: returns the times of the stream's first and last reading; None if unknown.
        playback: the stream's controls.
        description: name of the source on the screen.
        tap: receives every reading before the monitor does, to record it.
        black_box: keeps the newest readings of live sources.
        notes: returns messages on damaged input so far.
        aggregator: whether it judges its nodes for other programs.
        backfill: whether to begin with the backfill that agents provide; a recording does not, and
            needs all nodes.
    """

    def __init__(
        self,
        monitor: Monitor,
        *,
        collectors: Sequence[Collector] = (),
        stream: Callable[[], Iterable[Reading]] | None = None,
        stream_from: Callable[[float], Iterable[Reading]] | None = None,
        span: Callable[[], Span | None] = lambda: None,
        playback: Playback | None = None,
        description: str = "",
        tap: Tap | None = None,
        black_box: BlackBox | None = None,
        notes: Callable[[], Sequence[str]] = tuple,
        aggregator: bool = False,
        backfill: bool = False,
    ) -> None:
        self._aggregator = aggregator
        self.notes = notes
        self.playback = (playback or Playback()) if stream is not None else None
        self.description = description
        self.clock = SteadyClock()
        self._monitor = monitor
        self._collectors = collectors
        self._stream = stream
        self._stream_from = stream_from
        self._find_span = span
        self._backfill = backfill
        self._catching_up = False
        """Whether the backfill is loading."""
        self._tap = tap if black_box is None else black_box.append
        self.black_box = black_box
        self.warn: Callable[[str], None] = log.warning
        """Receives messages for the user that are not part of a view; called on any thread."""
        self._view = View(0, self.clock.now(), Cluster(self.clock.now()))
        self._skew = Skew()
        self._subscribers: list[Subscriber] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = threading.Event()
        self._over = threading.Event()
        self._done = threading.Event()
        self._interrupt = asyncio.Event()
        """Ends a wait of the stream early."""
        self._focus: str | None = None
        """The node that the user has selected."""
        self._pending_focus: str | None = None
        """The same, until a collector has delivered more data of it."""
        self._target: _Target | None = None
        """The time to show next."""
        self._steps = 0
        """Number of ticks to show although the stream is paused."""
        self.span: Span | None = None
        """Times of the stream's first and last reading, if known."""
        self.failure = ""
        """Why the session failed; empty while it runs and after a normal end."""

    @property
    def view(self) -> View:
        return self._view

    @property
    def history(self) -> History:
        return self._monitor.history

    @property
    def period(self) -> float:
        return self._monitor.period

    @property
    def seekable(self) -> bool:
        return self._stream_from is not None

    @property
    def loading(self) -> bool:
        """Whether views are not current yet: of a backfill, or catching up."""
        return self._catching_up or (self.playback is not None and self.playback.catch_up)

    def recover(self, incidents: Sequence[Incident], time: float) -> None:
        """Continues an earlier run that ended at `time`; call it before `start`."""
        self._monitor.recover(incidents, time)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber` with each new view, on the session's thread; it must not block."""
        self._subscribers.append(subscriber)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="collection", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Cancels everything; a hung source delays the caller by `STOP_SECONDS` at most."""
        self._ready.wait(STOP_SECONDS)
        if self._task is not None:
            self._call(self._cancel)
        self._done.wait(STOP_SECONDS)

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until a stream has ended or the session has failed."""
        return self._over.wait(seconds)

    def seek(self, time: float) -> bool:
        """Continues at another time of the stream, if it can seek; callable from any thread.

        The next published view is the one at `time`. If `time` is a little ahead, the stream plays
        on to it; otherwise it restarts a little before it. A paused stream stays paused.

        Returns:
            Whether the stream restarts, which resets the monitor.
        """
        if not self.seekable:
            return False
        ahead = time - self._view.time
        restart = not 0 <= ahead <= self._lead(MAX_SKIP) or self._view.ended
        self._call(partial(self._seek, _Target(time, restart)))
        return restart

    def _seek(self, target: "_Target") -> None:
        self._target = target
        self._interrupt.set()

    def set_focus(self, node: str | None) -> None:
        """Sets the selected node, or none, for collectors; callable from any thread."""
        if node != self._focus:
            self._focus = node
            self._call(self._pass_focus)

    def _pass_focus(self) -> None:
        aware = [collector for collector in self._collectors if isinstance(collector, FocusAware)]
        self._pending_focus = self._focus if aware else None
        for collector in aware:
            collector.set_focus(self._focus)

    def _received(self, node: str) -> None:
        """Shows new data of the selected node immediately, not at the next tick."""
        if node == self._pending_focus and not self._catching_up:
            self._pending_focus = None
            # After the collector's messages: one node may need several.
            asyncio.get_running_loop().call_soon(
                lambda: self._publish(self._monitor.view_between_ticks(self.clock.now()))
            )

    def step(self) -> None:
        """Shows the next tick of a paused stream; callable from any thread."""
        self._call(self._step)

    def _step(self) -> None:
        self._steps += 1
        self._interrupt.set()

    def _call(self, function: Callable[[], None]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # already closed
                self._loop.call_soon_threadsafe(function)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

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
            self._over.set()
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
        sink = _Sink(
            self._monitor, self.clock, self._tap, lambda text: self.warn(text), self._received,
            aggregator=self._aggregator, records=not self._backfill,
        )  # fmt: skip
        self._pass_focus()
        backfilling = [
            collector for collector in self._collectors if isinstance(collector, BackfillAware)
        ]
        self._catching_up = sink.wants_backfill = self._backfill and bool(backfilling)
        tasks = [asyncio.create_task(_guarded(collector, sink)) for collector in self._collectors]
        period = self._monitor.settings.collect.period
        loop = asyncio.get_running_loop()
        try:
            if self._catching_up:
                await self._load_backfill(sink, backfilling)
            planned = due = loop.time()
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

    async def _load_backfill(self, sink: "_Sink", backfilling: Sequence[BackfillAware]) -> None:
        """Plays the backfill of all nodes, then what has arrived meanwhile."""
        loop = asyncio.get_running_loop()
        first, each, total = BACKFILL_TIMEOUT
        began = loop.time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(first) as deadline:
                sink.extend = lambda: deadline.reschedule(
                    min(max(began + first, loop.time() + each), began + total)
                )
                await asyncio.gather(*(collector.backfilled() for collector in backfilling))
        views = play_backfill(sink.backfills, self._monitor, self.clock.now(), sink.arrived())
        for view in views:
            self._publish(view)
            await asyncio.sleep(0)
        self._catching_up = sink.wants_backfill = False

    async def _play(self, stream: Callable[[], Iterable[Reading]], playback: Playback) -> None:
        """Plays the stream to its end, repeats it if it loops, and seeks on request."""
        self.span = self._find_span()
        shift = 0.0
        first: float | None = None
        views = play(self._tapped(stream(), shift), self._monitor, self._skew)
        before: float | None = None
        while True:
            begun, last, views = await self._show(views, before, playback)
            first = begun if first is None else first
            if (target := self._target) is not None:
                self._target, self._steps = None, 0
                self._over.clear()
                playback.ended = False
                if target.restart:
                    views = await self._seek_to(target.time - shift, shift, playback)
                elif (view := await self._play_to(views, target.time)) is not None:
                    self._publish(view)
                before = self._view.time
            elif last is None or first is None:
                return
            elif playback.loop:
                shift = last - first + 1.0
                self._monitor.resume()
                self._skew = Skew()
                views = play(self._tapped(stream(), shift), self._monitor, self._skew)
                before = None
            else:
                playback.ended = True
                self._over.set()
                if not self.seekable:
                    return
                await self._sleep(None)
                views, before = iter(()), last

    async def _show(
        self, views: Iterator[View], before: float | None, playback: Playback
    ) -> tuple[float | None, float | None, Iterator[View]]:
        """Publishes views at playback speed until they end or the user seeks.

        Args:
            views: the views.
            before: the time of the last view shown in this iteration of the stream, if any.
            playback: the controls.

        Returns:
            The times of the first and the last view of this iteration, and the remaining views.
        """
        first = before
        due = asyncio.get_running_loop().time()
        for view in views:
            if self._target is not None:
                return first, before, chain([view], views)
            first = view.time if first is None else first
            if playback.catch_up and view.time >= self.clock.now():
                playback.catch_up = False
            if before is None or playback.catch_up:
                due = asyncio.get_running_loop().time()
                await asyncio.sleep(0)
            else:
                wait = max(0.0, view.time - before)
                due = await self._wait(due, wait if wait < MAX_GAP else SHORTENED_GAP, playback)
            if self._target is not None:
                return first, before, chain([view], views)
            before = view.time
            if not (view.ended and playback.loop):
                self._publish(view)
        return first, before, iter(())

    async def _play_to(
        self, views: Iterator[View], time: float, may_continue: Callable[[], bool] = lambda: True
    ) -> View | None:
        """Plays to `time` without waiting; returns that or the last view, None if interrupted."""
        for view in views:
            if self._target is not None or not may_continue():
                return None
            if view.time >= time - ROUNDING or view.ended:
                return view
            await asyncio.sleep(0)
        return None

    async def _seek_to(self, time: float, shift: float, playback: Playback) -> Iterator[View]:
        """Shows the view at `time`; returns the views after it.

        It first plays little data before it, to be fast; then, if paused, as much as rules and
        graphs need.
        """
        if self.span is not None:
            time = min(max(time, self.span[0]), self.span[1])

        def is_paused() -> bool:
            return playback.paused and not self._steps

        short, full = self._lead(SHORT_LEAD), self._lead(FULL_LEAD)
        views = await self._approach(time, short, shift, lambda: True)
        if views is not None and full > short and playback.paused:
            views = await self._approach(time, full, shift, is_paused) or views
        return views or iter(())

    def _lead(self, ticks: tuple[int, int, int]) -> float:
        """The seconds of a lead."""
        least, most, budget = ticks
        nodes = max(1, len(self._view.cluster.nodes))
        return max(least, min(most, budget // nodes)) * self.period

    async def _approach(
        self, time: float, lead: float, shift: float, may_continue: Callable[[], bool]
    ) -> Iterator[View] | None:
        """Plays from `lead` seconds before `time` up to it, and publishes only that view.

        Returns:
            The views after that; None if interrupted, or without data.
        """
        assert self._stream_from is not None
        monitor, skew = self._monitor.blank_copy(), Skew()
        readings = self._tapped(self._stream_from(time - lead), shift)
        views = play(readings, monitor, skew, tick_at=time + shift)
        view = await self._play_to(views, time + shift, may_continue)
        if view is None:
            return None
        self._monitor, self._skew = monitor, skew
        self._publish(view)
        return views

    async def _wait(self, due: float, seconds: float, playback: Playback) -> float:
        """Waits for `seconds` of stream time; returns the loop time at which the wait ended."""
        loop = asyncio.get_running_loop()
        remaining = seconds
        now = max(due, loop.time() - seconds)
        while remaining > 0 and self._target is None:
            if playback.paused and self._steps:
                self._steps -= 1
                return loop.time()
            step = max(0.0, min(CONTROL_INTERVAL, remaining / playback.speed) - (loop.time() - now))
            await self._sleep(step)
            passed, now = loop.time() - now, loop.time()
            if not playback.paused:
                self._steps = 0
                remaining -= passed * playback.speed
        # The next wait is shorter by the excess of the last sleep.
        return now + remaining / playback.speed

    async def _sleep(self, seconds: float | None) -> None:
        """Waits until interrupted, at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._interrupt.wait()
        self._interrupt.clear()

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


@dataclass(frozen=True, slots=True)
class _Target:
    """A time of the stream to seek."""

    time: float
    restart: bool
    """Whether the stream restarts."""


class _Sink:
    """The session's interface for collectors."""

    def __init__(
        self,
        monitor: Monitor,
        clock: SteadyClock,
        tap: Tap | None,
        warn: Callable[[str], None],
        received: Callable[[str], None],
        *,
        aggregator: bool = False,
        records: bool = False,
    ) -> None:
        self.aggregator = aggregator
        self.records = records
        self._monitor = monitor
        self._clock = clock
        self._tap = tap
        self._names = NodeNames()
        self.warn = warn
        self._received = received
        self.wants_backfill = False
        self.backfills: list[Iterable[Reading]] = []
        self.extend: Callable[[], None] = lambda: None
        """Called after each backfill."""
        self._held: deque[Reading | Callable[[], None]] = deque()
        """Readings and removals since the start, while the backfill is loading."""
        self._statuses: dict[tuple[str, str], Status] = {}
        """Node and source → newest status, unless a reading came after it."""

    def backfill(self, readings: Iterable[Reading]) -> None:
        self.backfills.append(readings)
        self.extend()

    def arrived(self) -> Iterator[Reading]:
        """Readings that arrived while the backfill was loading; removals are applied in between."""
        while self._held:
            item = self._held.popleft()
            if isinstance(item, Reading):
                yield item
            else:
                item()
        for status in self._statuses.values():
            self._monitor.status(status)

    def now(self) -> float:
        return self._clock.now()

    def reading(self, reading: Reading) -> None:
        if self._tap is not None:
            self._tap(reading)
        if self.wants_backfill and reading.source != INCIDENTS:
            self._held.append(reading)
            self._statuses.pop((reading.node, reading.source), None)
            return
        self._monitor.feed(reading)
        self._received(reading.node)

    def status(self, status: Status) -> None:
        if self.wants_backfill:
            self._statuses[status.node, status.source] = status
            return
        self._monitor.status(status)

    def register(self, node: str, owner: str, *sources: str) -> str:
        return self._names.register(node, owner, *sources)

    def remove(self, node: str, owner: str = "") -> None:
        left = self._names.drop(node, owner)
        if self.wants_backfill:
            self._held.append(partial(self._monitor.remove, node, left))
            for key in [key for key in self._statuses if key[0] == node]:
                if left is None or key[1] in left:
                    del self._statuses[key]
            return
        self._monitor.remove(node, left)


async def _guarded(collector: Collector, sink: _Sink) -> None:
    """Runs a collector; a bug in it affects only its source."""
    try:
        await collector.run(sink)
    except Exception as error:
        log.exception("collector %s of %s failed", collector.source, collector.node)
        reason = f"internal error: {type(error).__name__}"
        sink.status(Status(collector.node, collector.source, State.DOWN, reason))
