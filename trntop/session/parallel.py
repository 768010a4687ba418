"""An analysis by several processes: one reads, some follow nodes, this one judges them together.

Nodes are independent until the cluster is judged, and decoding them is most of the work. Each
process follows the nodes that are its share, and sends what it makes of a tick through a pipe.
It is the same path as in one process: the stream goes through `play`, readings and ticks through
a monitor's `feed` and `look`, clusters through its `judge`.
"""

import fcntl
import gc
import logging
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate, pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from trntop.core.errors import RecordingError, TrntopError
from trntop.core.model import (
    Cluster,
    Column,
    Frame,
    Inventory,
    NeffProfile,
    NodeView,
    Reading,
    SourceState,
    State,
    View,
)
from trntop.core.settings import Settings
from trntop.session.monitor import Monitor, SparsePast, play

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess

WORTHWHILE = 64 << 20
"""Bytes of readings from which several processes are faster than one."""
PACKED = 10
"""Times that a compressed recording is larger than its file, about."""
MAX_WORKERS = 8
"""More would wait for the one that reads."""
COLLECTED = 100_000
"""New objects after which Python looks for garbage in cycles, of which there is hardly any."""
BATCH = 1 << 20
"""Bytes of readings sent at once, about; also what a pipe shall hold."""

Layout = tuple[tuple[str, ...], tuple[int, ...]]
"""Names and lengths of a frame's columns, in order."""
Word = tuple[str, tuple[Any, ...]]
"""What a process that follows nodes is told to do, and with what."""

log = logging.getLogger(__name__)


def workers_for(paths: Iterable[str]) -> int:
    """How many processes shall follow the nodes of these recordings; 1 for this one alone."""
    if sys.platform != "linux":  # elsewhere a process that forks may not be safe to go on
        return 1
    size = sum(
        Path(path).stat().st_size * (PACKED if path.endswith((".gz", ".zst")) else 1)
        for path in paths
    )
    return min(len(os.sched_getaffinity(0)), MAX_WORKERS) if size >= WORTHWHILE else 1


class Shares:
    """The views of recordings, made by several processes; iterated once.

    Args:
        readings: starts the stream; called once, in the process that reads.
        notes: what was lost in it, once it has been read.
        settings: the settings in force.
        profiles: NEFF profiles known on this machine.
        workers: number of processes that follow nodes.
        wanted: the quantities that the views are read for, if not all.
    """

    def __init__(
        self,
        readings: Callable[[], Iterable[Reading]],
        notes: Callable[[], list[str]],
        settings: Settings,
        profiles: tuple[NeffProfile, ...],
        workers: int,
        wanted: frozenset[str] | None = None,
    ) -> None:
        self._readings = readings
        self._notes = notes
        self._workers = workers
        self._lost: list[str] = []
        self._monitor = Monitor(settings, profiles=profiles, wanted=wanted)
        """Each process that follows nodes has a copy of its own; this one judges."""

    def notes(self) -> list[str]:
        """What was lost in the recordings, known after the last view."""
        return self._lost

    def __iter__(self) -> Iterator[View]:
        """One view per tick.

        Raises:
            RecordingError: a recording can no longer be read.
            TrntopError: a process died.
        """
        # Loaded only here: most commands have no need of it.
        from multiprocessing import get_context

        context = get_context("fork")
        processes: list[ForkProcess] = []
        pipes: list[Connection] = []
        feeds = [_pipe() for _ in range(self._workers)]

        def start(work: Callable[..., None], *args: Any) -> None:
            process = context.Process(target=_run, args=(work, *args), daemon=True)
            process.start()
            processes.append(process)

        try:
            start(self._read, feeds)
            for place in range(self._workers):
                here, there = context.Pipe(duplex=False)
                _widen(there.fileno())
                pipes.append(here)
                start(self._follow, place, feeds, there, pipes)
                there.close()
            _close(feeds)
            yield from self._join([_Share(pipe) for pipe in pipes])
        finally:
            _close(feeds)
            for pipe in pipes:
                pipe.close()
            for process in processes:
                process.terminate()
                process.join()

    def _join(self, shares: list["_Share"]) -> Iterator[View]:
        """The clusters of all shares together, judged."""
        first = shares[0]
        while True:
            for share in shares:
                share.next()
            if first.over:
                break
            views = {view.name: view for share in shares for view in share.views}
            self._monitor.ended = first.ended
            cluster = Cluster(first.time, {name: views[name] for name in sorted(views)})
            yield self._monitor.judge(cluster)
        self._lost = first.notes

    def _read(self, feeds: list["_Feed"]) -> None:
        """What the process does that reads."""
        for source, _ in feeds:
            source.close()
        dealer = _Dealer([sink for _, sink in feeds], self._monitor.period)
        try:
            try:
                for _ in play(self._readings(), dealer):
                    pass
                dealer.tell("over", self._notes())
            except TrntopError as error:
                dealer.tell("fail", RecordingError(str(error)))
            except BrokenPipeError:
                raise
            except Exception as error:
                log.exception("reading")
                dealer.tell("fail", TrntopError(f"{type(error).__name__}: {error}"))
            dealer.flush()
        except BrokenPipeError:
            pass

    def _follow(
        self, place: int, feeds: list["_Feed"], pipe: Connection, others: list[Connection]
    ) -> None:
        """What each process does that follows nodes."""
        for other in others:
            other.close()
        for at, (source, sink) in enumerate(feeds):
            sink.close()
            if at != place:
                source.close()
        monitor, sender = self._monitor, _Sender(pipe)
        todo: dict[str, Callable[..., None]] = {
            "feed": lambda *reading: monitor.feed(Reading(*reading)),
            "tick": lambda now: sender.send(monitor.look(now), monitor.ended),
            "restart": monitor.restart,
            "end": monitor.end,
            "over": sender.end,
            "fail": sender.fail,
        }
        try:
            for word, args in _words(feeds[place][0]):
                todo[word](*args)
        except BrokenPipeError:
            pass
        except Exception as error:
            log.exception("following share %d", place)
            sender.fail(TrntopError(f"{type(error).__name__}: {error}"))


def _run(work: Callable[..., None], *args: Any) -> None:
    """Does the work of a process that is not the first."""
    # Ctrl-C is for the first process, at whose end the pipes break.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What was there before it will stay.
    gc.freeze()
    gc.set_threshold(COLLECTED)
    work(*args)


_Feed = tuple[BinaryIO, BinaryIO]
"""Both ends of a pipe, the one to read from first."""


def _pipe() -> _Feed:
    source, sink = os.pipe()
    _widen(sink)
    return os.fdopen(source, "rb", BATCH), os.fdopen(sink, "wb", 0)


def _widen(pipe: int) -> None:
    """Lets a pipe hold so much that nobody waits for who reads it."""
    with suppress(OSError):  # a user may have too many already
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, BATCH)


def _close(feeds: list[_Feed]) -> None:
    for source, sink in feeds:
        source.close()
        sink.close()


def _words(source: BinaryIO) -> Iterator[Word]:
    """What the reading process says, until it has ended."""
    with suppress(EOFError, pickle.UnpicklingError):  # it died, as will be seen
        while True:
            yield from pickle.load(source)


class _Dealer:
    """Takes a stream in the place of a monitor, and hands each node to one of several.

    Args:
        sinks: the pipes to them.
        period: seconds between ticks.
    """

    def __init__(self, sinks: list[BinaryIO], period: float) -> None:
        self.period = period
        self.sparse: SparsePast | None = None
        self._sinks = sinks
        self._batches: list[list[Word]] = [[] for _ in sinks]
        self._sizes = [0] * len(sinks)
        self._turn: dict[str, int] = {}

    def feed(self, one: Reading) -> None:
        """Nodes take turns as they are first seen."""
        place = self._turn.setdefault(one.node, len(self._turn)) % len(self._sinks)
        self._batches[place].append(
            ("feed", (one.node, one.source, one.time, one.data, one.simulated))
        )
        self._sizes[place] += len(one.data)
        if self._sizes[place] >= BATCH:
            self._send(place)

    def restart(self) -> None:
        """The stream's clock was set back."""
        self.tell("restart")

    def end(self, now: float) -> None:
        """The stream is over."""
        self.tell("end", now)

    def tick(self, now: float) -> None:
        """Lets all look at their nodes; at once, since the one that judges waits for all."""
        self.tell("tick", now)
        self.flush()

    def tell(self, word: str, *args: Any) -> None:
        """Says a word to all."""
        for batch in self._batches:
            batch.append((word, args))

    def flush(self) -> None:
        """Sends what is still to be sent."""
        for place in range(len(self._sinks)):
            self._send(place)

    def _send(self, place: int) -> None:
        data = pickle.dumps(self._batches[place], pickle.HIGHEST_PROTOCOL)
        left = memoryview(data)
        while left:
            left = left[self._sinks[place].write(left) :]
        self._batches[place], self._sizes[place] = [], 0


class _Sender:
    """Puts views into a pipe: what seldom changes once, columns as one array."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._layouts: dict[Layout, int] = {}
        self._inventories: dict[str, Inventory] = {}

    def send(self, cluster: Cluster, ended: bool) -> None:
        """One tick."""
        layouts: list[Layout] = []
        nodes: list[tuple[Any, ...]] = []
        columns: list[Column] = []
        for name, node in cluster.nodes.items():
            frame = node.frame
            layout = tuple(frame.columns), tuple(map(len, frame.columns.values()))
            if layout not in self._layouts:
                self._layouts[layout] = len(self._layouts)
                layouts.append(layout)
            columns += frame.columns.values()
            fresh = self._inventories.get(name) is not node.inventory
            self._inventories[name] = node.inventory
            nodes.append(
                (
                    name,
                    node.inventory if fresh else None,
                    self._layouts[layout],
                    [
                        (one.name, str(one.state), one.reason, one.time, one.period, one.counts)
                        for one in frame.sources
                    ],
                    frame.simulated,
                    frame.reasons,
                    frame.phase,
                )
            )
        self._put((cluster.time, ended, layouts, nodes))
        self._pipe.send_bytes(np.concatenate([*columns, np.empty(0)]).data)

    def end(self, notes: list[str]) -> None:
        """The stream is over."""
        self._put(notes)

    def fail(self, error: TrntopError) -> None:
        """The stream cannot go on."""
        self._put(error)

    def _put(self, message: object) -> None:
        self._pipe.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


class _Share:
    """What one process has sent."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._places: list[dict[str, slice]] = []
        self._widths: list[int] = []
        self._inventories: dict[str, Inventory] = {}
        self.time = 0.0
        self.ended = False
        self.over = False
        """Whether there is no further tick."""
        self.views: list[NodeView] = []
        self.notes: list[str] = []
        """What was lost, known after the last tick."""

    def next(self) -> None:
        """Takes one tick, or the word that there is none any more.

        Raises:
            TrntopError: the process failed or died.
        """
        message = pickle.loads(self._take())
        if isinstance(message, TrntopError):
            raise message
        if isinstance(message, list):
            self.over, self.notes = True, message
            return
        self.time, self.ended, layouts, nodes = message
        for names, lengths in layouts:
            bounds = pairwise(accumulate(lengths, initial=0))
            self._places.append({name: slice(*at) for name, at in zip(names, bounds, strict=True)})
            self._widths.append(sum(lengths))
        values = np.frombuffer(self._take())
        self.views = []
        start = 0
        for name, inventory, layout, sources, simulated, reasons, phase in nodes:
            if inventory is not None:
                self._inventories[name] = inventory
            end = start + self._widths[layout]
            frame = Frame(
                node=name,
                time=self.time,
                columns=_Columns(self._places[layout], values[start:end]),
                sources=tuple([SourceState(one[0], State(one[1]), *one[2:]) for one in sources]),
                simulated=simulated,
                reasons=reasons,
                phase=phase,
            )
            self.views.append(NodeView(self._inventories[name], frame))
            start = end

    def _take(self) -> bytes:
        try:
            return self._pipe.recv_bytes()
        except (EOFError, OSError) as error:
            raise TrntopError("a process of the analysis died before its end") from error


class _Columns(Mapping[str, Column]):
    """Columns by name, cut out of one array when they are asked for."""

    __slots__ = ("_places", "_values")

    def __init__(self, places: dict[str, slice], values: Column) -> None:
        self._places = places
        self._values = values

    def __getitem__(self, name: str) -> Column:
        return self._values[self._places[name]]

    def get(self, name: str, default: Any = None) -> Any:
        place = self._places.get(name)
        return default if place is None else self._values[place]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
