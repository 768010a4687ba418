"""The recent history of an agent: `/v1/history`.

Each tick is recorded, whether or not anybody is connected: the quantities that rules and charts
read, in compressed blocks of one node each (`trntop.remote.backfill`), each tick for the newest
minutes and each `backfill.STEP` for longer. Of more than `backfill.DENSE_NODES` nodes only the
latter, and without values of NeuronCores.
"""

import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from trntop.analysis.rule_inputs import rule_columns
from trntop.catalog import CATALOG, Entity
from trntop.core.custom_rule import CustomRule
from trntop.core.model import NodeView, View
from trntop.remote import backfill, wire

from .stream import requested_nodes

PATH = "/v1/history"
BLOCK = 30
"""Frames of a block."""
MAX_PENDING = 2 << 20
"""Bytes of messages after which a block is closed early."""
MAX_BYTES = 64 << 20
"""Compressed blocks of all nodes. With more, the history is shorter."""
SHORTER = 0.9
MAX_NODES = 1000
"""Nodes with a frame each `backfill.STEP`; of twice as many there is one each two steps, and so on.
"""

_CORES = (Entity.CORE, Entity.PHYSICAL_CORE)


class _Track:
    """Frames of one node at one interval.

    Args:
        name: the node.
        period: seconds between frames.
        left: frames until the first block is closed.
        aggregator: whether the node is another machine than this one.
        judge: the run that judges the node for others; empty if there is none.
    """

    def __init__(
        self, name: str, period: float, left: int, *, aggregator: bool, judge: str
    ) -> None:
        self._name = name
        self.period = min(period, wire.MAX_PERIOD)
        self._encoder = wire.FrameEncoder(name, self.period, aggregator=aggregator, judge=judge)
        self._blocks: deque[tuple[float, bytes]] = deque()
        """Time of the last frame, and the block; the oldest first."""
        self._pending: list[bytes] = []
        """The messages of the next block."""
        self._left = left
        """Frames until it is closed."""

    def append(self, view: NodeView, nodes: int, seconds: float) -> None:
        """Adds a frame, and drops blocks of more than some seconds ago."""
        now = view.frame.time
        changed, frame = self._encoder.messages(view, nodes)
        self._pending += (*(changed if self._pending else self._encoder.preface), frame)
        self._left -= 1
        if self._left <= 0 or sum(map(len, self._pending)) > MAX_PENDING:
            self._blocks.append((now, backfill.pack(self._name, self._pending, self.period)))
            self._pending, self._left = [], BLOCK
            while self._blocks[0][0] < now - seconds:
                self._blocks.popleft()

    @property
    def size(self) -> int:
        """Bytes of its blocks."""
        return sum(len(data) for _, data in self._blocks)

    def since(self, begin: float) -> Callable[[], bytes]:
        """Makes its blocks from a time on, with their lengths, also while frames are added."""
        blocks = [data for end, data in self._blocks if end >= begin]
        pending = self._pending.copy()

        def packed() -> bytes:
            last = [backfill.pack(self._name, pending, self.period)] if pending else []
            return b"".join(map(wire.framed, (*blocks, *last)))

        return packed


class HistoryBuffer:
    """The newest minutes of all nodes; `append` and `blocks` may be called on different threads.

    Args:
        period: seconds between views.
        aggregator: whether the views are of other machines than this one.
        judge: this run, if it judges the nodes for others.
        custom_rules: custom rules.
    """

    def __init__(
        self,
        period: float,
        *,
        aggregator: bool = False,
        judge: str = "",
        custom_rules: Iterable[CustomRule] = (),
    ) -> None:
        self._period = period
        self._aggregator = aggregator
        self._judge = judge
        self._columns = rule_columns(custom_rules)
        self._fleet_columns = frozenset(
            name for name in self._columns if CATALOG[name].entity not in _CORES
        )
        self._sparse: dict[str, _Track] = {}
        self._dense: dict[str, _Track] = {}
        self._seconds = backfill.SECONDS
        """Length of the history, shorter if it would exceed `MAX_BYTES`."""
        self._time = 0.0
        """Of the newest view."""
        self._appended = 0.0
        """When it was appended, by the monotonic clock."""
        self._lock = threading.Lock()

    @property
    def routes(self) -> list[Route]:
        return [Route(PATH, self._history)]

    async def _history(self, request: Request) -> Response:
        try:
            seconds = float(request.query_params.get("seconds", backfill.SECONDS))
        except ValueError:
            return PlainTextResponse("seconds: not a number\n", 400)
        dense = "sparse" not in request.query_params
        blocks = self.blocks(requested_nodes(request), seconds, dense=dense)

        async def content() -> AsyncIterator[bytes]:
            for block in blocks:
                yield block

        # Of the views: a recording has another time than this machine.
        clock = self._time + time.monotonic() - self._appended
        headers = {"Cache-Control": "no-store", backfill.CLOCK_HEADER: f"{clock:.3f}"}
        return StreamingResponse(content(), media_type=backfill.CONTENT_TYPE, headers=headers)

    def append(self, view: View) -> None:
        """Records a view; if time goes backwards, the history starts over."""
        nodes, now, before = view.cluster.nodes, view.time, self._time
        if now == before:
            return  # a stream that has ended is repeated
        with self._lock:
            self._time, self._appended = now, time.monotonic()
            kept = nodes.keys() if now > before else ()
            for tracks in (self._sparse, self._dense):
                for name in tracks.keys() - kept:
                    del tracks[name]
            if len(nodes) <= backfill.DENSE_NODES and self._period < backfill.STEP:
                self._record(self._dense, nodes, self._period, backfill.DENSE_SECONDS)
            else:
                self._dense.clear()
            step = backfill.STEP * max(1, math.ceil(len(nodes) / MAX_NODES))
            if now // step != before // step:
                self._record(self._sparse, nodes, max(self._period, step), self._seconds)
                if sum(track.size for track in self._sparse.values()) > MAX_BYTES:
                    self._seconds *= SHORTER

    def _record(
        self,
        tracks: dict[str, _Track],
        nodes: Mapping[str, NodeView],
        period: float,
        seconds: float,
    ) -> None:
        wanted = self._columns if len(nodes) <= backfill.DENSE_NODES else self._fleet_columns
        for name, view in nodes.items():
            track = tracks.get(name)
            if track is None or track.period != min(period, wire.MAX_PERIOD):
                # Blocks of many nodes are not all compressed in the same tick.
                left = BLOCK - len(tracks) % BLOCK
                track = tracks[name] = _Track(
                    name, period, left, aggregator=self._aggregator, judge=self._judge
                )
            track.append(wire.only(view, wanted), len(nodes), seconds)

    def blocks(
        self, names: Collection[str] | None, seconds: float, *, dense: bool = True
    ) -> Iterator[bytes]:
        """The blocks of the newest `seconds`, one node after the other, with their lengths.

        Args:
            names: the nodes; None for all.
            seconds: length of the history.
            dense: with those of each tick.
        """
        levels = (self._sparse, self._dense) if dense else (self._sparse,)
        with self._lock:
            begin = self._time - seconds
            chosen = [
                tracks[name].since(begin)
                for name in self._sparse
                for tracks in levels
                if name in tracks and (names is None or name in names)
            ]
        for packed in chosen:
            yield packed()
