"""The recent views, compressed, and the part of the history before an earlier view."""

import threading
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import msgspec
import numpy as np

from trntop.catalog import CATALOG, Entity
from trntop.core.model import Column, Frame, Inventory, NodeView, Phase, SourceState, View
from trntop.pipeline.history import History, Samples, Times
from trntop.remote.backfill import STEP
from trntop.remote.wire import is_wide

SECONDS = 900.0
"""Length of the history."""
BUDGET = 8 << 20
"""Approximate bytes of all views; those of 16 trn2.48xlarge take 110 KiB each."""
SPARSE = 4
"""If all ticks would take so many times the budget, there is a view each `STEP`."""
MIN_VIEWS = 30
"""If fewer views fit, they are reduced to the quantities of nodes and jobs."""
EVICTED_TOGETHER = 8
_OVERHEAD = 1024
"""Approximate bytes of a view in addition to its frames."""
_SUMMARY = frozenset(
    quantity.name for quantity in CATALOG.values() if quantity.entity in (Entity.NODE, Entity.JOB)
)
"""Quantities with one value per node or job."""


class ViewHistory:
    """The newest views: every recent tick, and fewer of the older ticks if the budget is small.

    Of more than some nodes there is a view each `STEP`. Methods may be called on any thread.
    """

    def __init__(self, seconds: float = SECONDS, budget: int = BUDGET) -> None:
        self._seconds = seconds
        self._budget = budget
        self._lock = threading.RLock()
        self.clear()

    def clear(self) -> None:
        with self._lock:
            self._times: list[float] = []
            self._views: list[_PackedView] = []
            self._newest: View | None = None
            self._step = 0.0
            """Minimum seconds between two views."""
            self.reduced = False
            """Whether the cluster is too large for values of devices and cores."""

    @property
    def span(self) -> tuple[float, float] | None:
        """Times of the oldest and the newest view."""
        with self._lock:
            return None if self._newest is None else (self._times[0], self._newest.time)

    def append(self, view: View) -> None:
        """Adds a view; if time goes backwards, the history starts over."""
        with self._lock:
            self._append(view)

    def _append(self, view: View) -> None:
        if self._newest is not None and view.time < self._newest.time:
            self.clear()
        self._newest = view
        if self._times and view.time < self._times[-1] + self._step:
            return
        packed = _pack(view, summary=self.reduced)
        if not self.reduced and packed.size * MIN_VIEWS > self._budget:
            self.reduced = True
            self._views = [_pack(_unpack(older), summary=True) for older in self._views]
            packed = _pack(view, summary=True)
        is_large = self.reduced or packed.size * self._seconds > SPARSE * self._budget
        self._step = STEP if is_large else 0.0
        self._times.append(view.time)
        self._views.append(packed)
        if sum(older.size for older in self._views) > self._budget:
            # Every second view of the older half: recent ticks stay dense.
            self._delete(slice(1, len(self._times) // 2, 2))
        # Several at once, because each deletion moves all that follow.
        old = bisect_right(self._times, view.time - self._seconds)
        if old >= EVICTED_TOGETHER:
            self._delete(slice(0, old))

    def _delete(self, part: slice) -> None:
        del self._times[part], self._views[part]

    def at(self, time: float) -> View | None:
        """The last view up to `time`, else the oldest; None while there is none.

        Values other than counters and times are rounded to float32.
        """
        with self._lock:
            if self._newest is None or time >= self._newest.time:
                return self._newest
            packed = self._views[max(0, bisect_right(self._times, time) - 1)]
        return _unpack(packed)

    def neighbor(self, time: float, direction: int, seconds: float = 0.0) -> float | None:
        """The time of a view before or after a moment.

        Args:
            time: the moment.
            direction: -1 for before, 1 for after.
            seconds: preferred distance; the result is at least the next view in that direction.

        Returns:
            A time for `at`; None if there is no view in that direction.
        """
        with self._lock:
            candidates = [other for other in self._times if (other - time) * direction > 0]
        return min(candidates, key=lambda other: abs(abs(other - time) - seconds), default=None)


class HistoryUntil:
    """The part of a history up to a time, for the graphs of an earlier view.

    Args:
        history: the whole history.
        until: the end.
        now: the time of its newest row.
    """

    def __init__(self, history: History, until: float, now: float) -> None:
        self._history = history
        self._until = until
        self._later = max(0, int(now - until) + 1)
        """Upper bound of the rows after the end: there is at most one a second."""

    def node(self, quantity: str, node: str, count: int) -> tuple[Times, Samples]:
        """As `History.node`."""
        return self._cut(*self._history.node(quantity, node, count + self._later), count)

    def nodes(
        self, quantity: str, nodes: Iterable[str], count: int, *, coarse: bool = False
    ) -> tuple[Times, Samples]:
        """As `History.nodes`."""
        series = self._history.nodes(quantity, nodes, count + self._later, coarse=coarse)
        return self._cut(*series, count)

    def scalar(self, key: str, count: int) -> tuple[Times, Samples]:
        """As `History.scalar`."""
        return self._cut(*self._history.scalar(key, count + self._later), count)

    def _cut(self, times: Times, values: Samples, count: int) -> tuple[Times, Samples]:
        end = int(np.searchsorted(times, self._until, side="right"))
        start = max(0, end - count)
        return times[start:end], values[start:end]


class _Head(msgspec.Struct, array_like=True):
    """A frame without its columns."""

    node: str
    time: float
    sources: tuple[SourceState, ...]
    simulated: bool
    reasons: Mapping[str, str]
    phase: Phase | None


class _Frames(msgspec.Struct, array_like=True):
    """The frames of a view, with the values of all columns in a row: float32, then float64."""

    heads: list[_Head]
    narrow: bytes
    wide: bytes


_decoder = msgspec.msgpack.Decoder(_Frames)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns of a frame; shared by all frames with the same columns."""

    names: tuple[str, ...]
    """The narrow ones come first."""
    sizes: tuple[int, ...]
    """Number of values of each."""
    narrow: int
    """Number of narrow columns."""


@dataclass(frozen=True, slots=True)
class _PackedView:
    """A view whose frames are compressed."""

    view: View
    """Without nodes."""
    inventories: Sequence[Inventory]
    layouts: Sequence[_Layout]
    data: bytes

    @property
    def size(self) -> int:
        """Approximate bytes."""
        return len(self.data) + 16 * len(self.layouts) + _OVERHEAD


def _pack(view: View, *, summary: bool) -> _PackedView:
    """Compresses a view, with only the quantities of nodes and jobs if `summary`."""
    import zstandard

    heads: list[_Head] = []
    layouts: list[_Layout] = []
    narrow: list[Column] = [_NOTHING]
    wide: list[Column] = [_NOTHING]
    for node in view.cluster.nodes.values():
        frame = node.frame
        names, count = _ordered(tuple(frame.columns), summary)
        columns = [frame.columns[name] for name in names]
        layouts.append(_layout(names, tuple(map(len, columns)), count))
        narrow += columns[:count]
        wide += columns[count:]
        head = frame.node, frame.time, frame.sources, frame.simulated, frame.reasons, frame.phase
        heads.append(_Head(*head))
    with np.errstate(over="ignore"):
        floats = np.concatenate(narrow).astype(np.float32)
    frames = _Frames(heads, floats.tobytes(), np.concatenate(wide).tobytes())
    data = zstandard.ZstdCompressor(level=1).compress(msgspec.msgpack.encode(frames))
    return _PackedView(
        replace(view, cluster=replace(view.cluster, nodes={})),
        [node.inventory for node in view.cluster.nodes.values()],
        layouts,
        memoryview(data).tobytes(),  # the compressor's own occupies the size of its input
    )


_NOTHING = np.empty(0)


@lru_cache(maxsize=256)
def _ordered(names: tuple[str, ...], summary: bool) -> tuple[tuple[str, ...], int]:
    """The names to keep, narrow ones first, and the number of these."""
    kept = [name for name in names if name in (_SUMMARY if summary else CATALOG)]
    wide = [name for name in kept if is_wide(name)]
    return (*(name for name in kept if not is_wide(name)), *wide), len(kept) - len(wide)


_layout = lru_cache(maxsize=256)(_Layout)


def _unpack(packed: _PackedView) -> View:
    import zstandard

    frames = _decoder.decode(zstandard.ZstdDecompressor().decompress(packed.data))
    narrow = np.frombuffer(frames.narrow, np.float32).astype(np.float64)
    values = (narrow, np.frombuffer(frames.wide, np.float64))
    at = [0, 0]
    nodes = {}
    for head, inventory, layout in zip(
        frames.heads, packed.inventories, packed.layouts, strict=True
    ):
        columns = {}
        for index, (name, size) in enumerate(zip(layout.names, layout.sizes, strict=True)):
            part = index >= layout.narrow
            columns[name] = values[part][at[part] : at[part] + size]
            at[part] += size
        frame = Frame(
            head.node, head.time, columns, head.sources, head.simulated, head.reasons, head.phase
        )
        nodes[inventory.node] = NodeView(inventory, frame)
    return replace(packed.view, cluster=replace(packed.view.cluster, nodes=nodes))
