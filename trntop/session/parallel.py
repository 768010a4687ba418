"""Analyzes recordings in several processes: each follows some nodes, this one evaluates the rules.

Nodes are independent until the rules are evaluated, and decoding takes most of the time
(docs/decisions/0017-recordings.md). Each process reads the whole stream and follows its share of
the nodes through the same `play` and `Monitor` as a single process, and sends the cluster of each
tick through a pipe.
"""

import fcntl
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from trntop.core.errors import RecordingError, TrntopError
from trntop.core.model import (
    Cluster,
    Column,
    Frame,
    Inventory,
    NeffProfile,
    NodeView,
    Phase,
    Reading,
    SourceState,
    View,
)
from trntop.core.settings import Settings
from trntop.session.monitor import Monitor, SparseStart, play

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess

WORTHWHILE = 64 << 20
"""Bytes of readings from which several processes are faster than one."""
PACKED = 10
"""Estimated compression ratio of a recording."""
MAX_WORKERS = 8
"""More would wait for the process that evaluates the rules."""
COLLECT_AT = 100_000
"""New objects after which Python searches for cycles; hardly any are garbage."""
PIPE_BYTES = 1 << 20

Layout = tuple[tuple[str, ...], tuple[int, ...]]
"""Names and lengths of a frame's columns, in order."""

log = logging.getLogger(__name__)


class _Node(msgspec.Struct, array_like=True):
    """A node of a tick; None is what both ends know already."""

    name: str
    inventory: Inventory | None
    layout: Layout | None
    sources: tuple[SourceState, ...]
    simulated: bool
    reasons: dict[str, str]
    phase: Phase | None


class _Tick(msgspec.Struct, array_like=True, tag=1):
    """The nodes of a process at one time; `values` are all their columns, float64."""

    time: float
    ended: bool
    nodes: list[_Node]
    values: bytes


class _End(msgspec.Struct, array_like=True, tag=2):
    """The stream has ended, with these losses."""

    notes: list[str]


class _Failed(msgspec.Struct, array_like=True, tag=3):
    """The process cannot go on."""

    text: str
    recording: bool = False
    """Whether a recording can no longer be read."""


_Message = _Tick | _End | _Failed


def _plain(value: Any) -> Any:
    """What MessagePack has no form for: arrays of int64, and mappings that are no dict."""
    return dict(value) if isinstance(value, Mapping) else value.tobytes()


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_decoder = msgspec.msgpack.Decoder(_Message, dec_hook=lambda _, data: np.frombuffer(data, np.int64))


def workers_for(paths: Iterable[str]) -> int:
    """How many processes should follow the nodes of these recordings; 1 means this one alone."""
    if sys.platform != "linux":  # elsewhere a forked process may not be safe
        return 1
    size = sum(
        Path(path).stat().st_size * (PACKED if path.endswith((".gz", ".zst")) else 1)
        for path in paths
    )
    return min(len(os.sched_getaffinity(0)), MAX_WORKERS) if size >= WORTHWHILE else 1


class Shares:
    """The views of recordings, made by several processes; iterated once.

    Args:
        readings: starts the stream; called once in each process.
        notes: losses in the stream, once it has been read.
        settings: the settings in force.
        profiles: NEFF profiles known on this machine.
        workers: number of processes that follow nodes.
        wanted: the quantities needed from the views, if not all.
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
        """Each forked process has a copy of its own."""

    def notes(self) -> list[str]:
        """Losses in the recordings, known after the last view."""
        return self._lost

    def __iter__(self) -> Iterator[View]:
        """One view per tick.

        Raises:
            RecordingError: a recording can no longer be read.
            TrntopError: a process died.
        """
        # Imported only here: most commands do not need it.
        from multiprocessing import get_context

        context = get_context("fork")
        processes: list[ForkProcess] = []
        pipes: list[Connection] = []
        try:
            for worker in range(self._workers):
                receiver, sender = context.Pipe(duplex=False)
                with suppress(OSError):  # a user may have too many already
                    fcntl.fcntl(sender.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
                pipes.append(receiver)
                process = context.Process(
                    target=self._follow, args=(worker, sender, pipes), daemon=True
                )
                process.start()
                processes.append(process)
                sender.close()
            yield from self._join([_Share(pipe) for pipe in pipes])
        finally:
            for pipe in pipes:
                pipe.close()
            for process in processes:
                process.terminate()
                process.join()

    def _join(self, shares: list["_Share"]) -> Iterator[View]:
        """The clusters of all shares together, with the rules evaluated."""
        while True:
            ticks = [share.next() for share in shares]
            first = ticks[0]
            if isinstance(first, _End):
                self._lost = first.notes
                return
            time, self._monitor.ended = first.time, first.ended
            views = {view.name: view for share in shares for view in share.views}
            cluster = Cluster(time, {name: views[name] for name in sorted(views)})
            yield self._monitor.evaluate(cluster)

    def _follow(self, worker: int, pipe: Connection, pipes: list[Connection]) -> None:
        """The work of one forked process."""
        # Ctrl-C is for the first process, at whose end the pipes break.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.freeze()
        gc.set_threshold(COLLECT_AT)
        for pipe_of_another in pipes:
            pipe_of_another.close()
        sender = _Sender(pipe)
        part = _Part(self._monitor, worker, self._workers)
        try:
            try:
                for cluster in play(self._readings(), part):
                    sender.send(cluster, self._monitor.ended)
                sender.put(_End(self._notes()))
            except TrntopError as error:
                sender.put(_Failed(str(error), isinstance(error, RecordingError)))
            except BrokenPipeError:
                raise
            except Exception as error:
                log.exception("share %d of the nodes", worker)
                sender.put(_Failed(f"{type(error).__name__}: {error}"))
        except BrokenPipeError:
            pass


class _Part:
    """Passes some of the nodes of a stream to a monitor; nodes take turns as they appear."""

    def __init__(self, monitor: Monitor, worker: int, workers: int) -> None:
        self.period = monitor.period
        self.sparse: SparseStart | None = None
        self.restart = monitor.restart
        self.end = monitor.end
        self.tick = monitor.cluster
        self._monitor = monitor
        self._worker = worker
        self._workers = workers
        self._turns: dict[str, int] = {}

    def feed(self, reading: Reading) -> None:
        turn = self._turns.setdefault(reading.node, len(self._turns))
        if turn % self._workers == self._worker:
            self._monitor.feed(reading)


@dataclass(slots=True)
class _Known:
    """What both ends of a pipe know of a node: it is sent only when it changes."""

    inventory: Inventory | None = None
    layout: Layout = ((), ())
    places: list[tuple[str, slice]] = field(default_factory=list)


class _Sender:
    """Sends clusters through a pipe, all columns as one array."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._known: dict[str, _Known] = {}

    def send(self, cluster: Cluster, ended: bool) -> None:
        nodes: list[_Node] = []
        columns: list[Column] = [np.empty(0)]
        for name, node in cluster.nodes.items():
            frame = node.frame
            known = self._known.setdefault(name, _Known())
            layout = tuple(frame.columns), tuple(map(len, frame.columns.values()))
            nodes.append(
                _Node(
                    name,
                    None if known.inventory is node.inventory else node.inventory,
                    None if known.layout == layout else layout,
                    frame.sources,
                    frame.simulated,
                    dict(frame.reasons),
                    frame.phase,
                )
            )
            known.inventory, known.layout = node.inventory, layout
            columns += frame.columns.values()
        values = np.concatenate(columns).tobytes()
        self.put(_Tick(cluster.time, ended, nodes, values))

    def put(self, message: _Message) -> None:
        self._pipe.send_bytes(_encoder.encode(message))


class _Share:
    """The nodes of one process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._known: dict[str, _Known] = {}
        self.views: list[NodeView] = []

    def next(self) -> _Tick | _End:
        """The next tick; after the last, the end.

        Raises:
            TrntopError: the process failed or died.
        """
        try:
            message: _Message = _decoder.decode(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise TrntopError("a process of the analysis died before its end") from error
        if isinstance(message, _Failed):
            raise (RecordingError if message.recording else TrntopError)(message.text)
        if isinstance(message, _End):
            return message
        values = np.frombuffer(message.values)
        self.views = []
        start = 0
        for node in message.nodes:
            known = self._known.setdefault(node.name, _Known())
            if node.inventory is not None:
                known.inventory = node.inventory
            if node.layout is not None:
                known.layout = names, lengths = node.layout
                bounds = pairwise(accumulate(lengths, initial=0))
                known.places = [
                    (column, slice(*at)) for column, at in zip(names, bounds, strict=True)
                ]
            end = start + sum(known.layout[1])
            node_values = values[start:end]
            start = end
            frame = Frame(
                node=node.name,
                time=message.time,
                columns={column: node_values[place] for column, place in known.places},
                sources=node.sources,
                simulated=node.simulated,
                reasons=node.reasons,
                phase=node.phase,
            )
            assert known.inventory is not None
            self.views.append(NodeView(known.inventory, frame))
        return message
