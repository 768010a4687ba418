"""The recent past: rings of float32, `[time, entity]`.

Node quantities are kept for every node at the tick, then at a coarser step for longer. The
collection thread writes, screens read copies under a lock.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from trntop.core.model import Cluster

Samples = npt.NDArray[np.float32]
Times = npt.NDArray[np.float64]

KEPT = (
    "node_neuroncore_utilization_mean_ratio",
    "node_tensor_engine_busy_mean_ratio",
    "node_hbm_bandwidth_ratio",
    "node_device_memory_used_max_ratio",
    "node_efa_tx_bytes_per_second",
    "node_efa_retransmit_max_ratio",
    "node_executions_completed_per_second",
)
"""The node quantities that are kept; further series come from `extra` (jobs)."""


class Ring:
    """The newest `capacity` rows of a table whose columns may become more.

    Rows take no memory until they are written.
    """

    def __init__(self, capacity: int, width: int = 0) -> None:
        self.capacity = capacity
        self._rows = np.empty((capacity, width), np.float32)
        self._times = np.zeros(capacity)
        self._written = 0

    @property
    def width(self) -> int:
        """Number of columns."""
        return self._rows.shape[1]

    def __len__(self) -> int:
        return min(self._written, self.capacity)

    def widen(self, width: int) -> None:
        """Adds columns, absent until now."""
        if width > self.width:
            grown = np.empty((self.capacity, width), np.float32)
            known = len(self)
            grown[:known, : self.width] = self._rows[:known]
            grown[:known, self.width :] = np.nan
            self._rows = grown

    def append(self, time: float, row: npt.ArrayLike) -> None:
        """Writes one row over the oldest."""
        slot = self._written % self.capacity
        self._times[slot] = time
        self._rows[slot] = row
        self._written += 1

    def fill(self, times: Times, rows: Samples, slots: Sequence[int]) -> None:
        """Puts what is known of some columns into rows that lack it, and before the oldest row.

        Args:
            times: `[n]`, rising.
            rows: `[n, slot]`.
            slots: the columns.
        """
        known_times, known = self.last(len(self))
        if len(times) and len(known):
            # A row takes the newest value before it, unless that was of another time.
            at = np.searchsorted(times, known_times, side="right") - 1
            step = 1.5 * float(np.max(np.diff(times), initial=0.0))
            near = (at >= 0) & (known_times - times[np.maximum(at, 0)] <= step)
            filled = known[:, slots]
            lacking = np.isnan(filled) & near[:, None]
            known[:, slots] = np.where(lacking, rows[np.maximum(at, 0)], filled)
        room = self.capacity - len(known)
        before = times < (known_times[0] if len(known) else np.inf)
        early = np.flatnonzero(before)[-room:] if room else np.empty(0, np.int64)
        wide = np.full((len(early), self.width), np.nan, np.float32)
        wide[:, slots] = rows[early]
        count = len(early) + len(known)
        self._times[:count] = np.concatenate([times[early], known_times])
        self._rows[:count] = np.concatenate([wide, known])
        self._written = count

    def last(self, count: int) -> tuple[Times, Samples]:
        """Copies of the newest `count` rows, oldest first: times `[n]`, values `[n, width]`."""
        slots = self._slots(count)
        return self._times[slots], self._rows[slots]

    def column(self, index: int, count: int) -> tuple[Times, Samples]:
        """The same of one column: times `[n]`, values `[n]`."""
        slots = self._slots(count)
        return self._times[slots], self._rows[slots, index]

    def _slots(self, count: int) -> npt.NDArray[np.int64]:
        count = min(count, len(self))
        return np.arange(self._written - count, self._written) % self.capacity


class _Series:
    """One quantity at two resolutions; the coarse one holds means of `step` fine rows."""

    def __init__(self, fine: int, coarse: int, step: int) -> None:
        self.fine = Ring(fine)
        self.coarse = Ring(coarse)
        self.silent = 0
        """Ticks since the last value; a job that is gone is forgotten with its last value."""
        self._step = step
        self._pending = 0

    def append(self, time: float, row: Samples) -> None:
        self.fine.widen(len(row))
        self.fine.append(time, row)
        self._pending += 1
        if self._pending == self._step:
            self._pending = 0
            self.coarse.widen(len(row))
            _, rows = self.fine.last(self._step)
            valid = ~np.isnan(rows)
            count = valid.sum(axis=0)
            total = np.where(valid, rows, 0).sum(axis=0)
            mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
            self.coarse.append(time, mean)

    def fill(self, times: Times, rows: Samples, slots: Sequence[int], width: int) -> None:
        """As `Ring.fill`, at both resolutions."""
        for ring, step in ((self.fine, 1), (self.coarse, self._step)):
            ring.widen(width)
            ring.fill(times[::step], rows[::step], slots)


class History:
    """Node and job series by name.

    Args:
        seconds: length of the fine ring, in ticks.
        coarse: rows of the coarse ring.
        step: ticks in one coarse row.
    """

    def __init__(self, seconds: int = 900, coarse: int = 1080, step: int = 10) -> None:
        self._shape = (seconds, coarse, step)
        self._nodes: dict[str, int] = {}
        """Node → its column."""
        self._left: dict[str, int] = {}
        """Node that is not there → for how many ticks."""
        self._free: list[int] = []
        """Columns of nodes that have left for longer than anything is kept."""
        self._series: dict[str, _Series] = {}
        self._scalars: dict[str, _Series] = {}
        self._lock = threading.Lock()

    def append(self, cluster: Cluster, extra: Mapping[str, float] | None = None) -> None:
        """Writes one tick: the kept node quantities, and scalars by name (`job/quantity`)."""
        with self._lock:
            self._drop_departed(cluster)
            slots = [self._slot(name) for name in cluster.names]
            for quantity in KEPT:
                row = np.full(self._width, np.nan, np.float32)
                row[slots] = cluster.column(quantity)
                self._of(self._series, quantity).append(cluster.time, row)
            absent = np.full(1, np.nan, np.float32)
            scalars = extra or {}
            for key, value in scalars.items():
                series = self._of(self._scalars, key)
                series.append(cluster.time, np.array([value], np.float32))
                series.silent = 0
            for key in self._scalars.keys() - scalars.keys():
                series = self._scalars[key]
                series.append(cluster.time, absent)
                series.silent += 1
                if series.silent > series.fine.capacity:
                    del self._scalars[key]

    def fill(
        self,
        times: Sequence[float],
        scalars: Mapping[str, Sequence[float | None]],
        nodes: Mapping[str, Mapping[str, Sequence[float | None]]],
        tick: float,
    ) -> None:
        """Takes what was before the first tick, or was not known then.

        Args:
            times: unix seconds, rising.
            scalars: key → a value for each time, None where there was none.
            nodes: node → kept quantity → the same.
            tick: seconds between rows: a value holds until the next, as on screen.
        """
        at = np.asarray(times, np.float64)
        if not len(at):
            return
        ticks = np.arange(at[0], at[-1] + tick / 2, tick)
        indices = np.searchsorted(at, ticks + tick / 2, side="right") - 1
        with self._lock:
            for key, values in scalars.items():
                self._of(self._scalars, key).fill(ticks, _held([values], indices), [0], 1)
            places_of = {node: self._slot(node) for node in nodes}
            for quantity in KEPT:
                known = [(places_of[node], table[quantity]) for node, table in nodes.items()
                        if quantity in table]  # fmt: skip
                if known:
                    slots = [slot for slot, _ in known]
                    series = self._of(self._series, quantity)
                    rows = _held([values for _, values in known], indices)
                    series.fill(ticks, rows, slots, self._width)

    @property
    def _width(self) -> int:
        return len(self._nodes) + len(self._free)

    def _slot(self, node: str) -> int:
        """The column of a node; a new one gets that of one that is forgotten, if there is any."""
        slot = self._nodes.get(node)
        if slot is None:
            slot = self._nodes[node] = self._free.pop() if self._free else len(self._nodes)
        return slot

    def _drop_departed(self, cluster: Cluster) -> None:
        """Gives back the columns of nodes of which nothing is left."""
        if self._nodes.keys() == cluster.nodes.keys():
            self._left.clear()
            return
        fine, rows, step = self._shape
        kept = max(fine, (rows + 1) * step)
        left = self._nodes.keys() - cluster.nodes.keys()
        self._left = {node: self._left.get(node, 0) + 1 for node in left}
        for node in [node for node, ticks in self._left.items() if ticks > kept]:
            del self._left[node]
            self._free.append(self._nodes.pop(node))

    def _of(self, table: dict[str, _Series], key: str) -> _Series:
        series = table.get(key)
        if series is None:
            series = table[key] = _Series(*self._shape)
        return series

    def node(self, quantity: str, node: str, count: int) -> tuple[Times, Samples]:
        """The newest `count` ticks of one node's quantity: times `[n]`, values `[n]`."""
        with self._lock:
            slot = self._nodes.get(node)
            series = self._series.get(quantity)
            if slot is None or series is None or slot >= series.fine.width:
                return np.empty(0), np.empty(0, np.float32)
            return series.fine.column(slot, count)

    def nodes(
        self, quantity: str, nodes: Iterable[str], count: int, *, coarse: bool = False
    ) -> tuple[Times, Samples]:
        """The newest rows of a quantity for several nodes: times `[n]`, values `[n, node]`."""
        with self._lock:
            names = list(nodes)
            series = self._series.get(quantity)
            if series is None:
                return np.empty(0), np.empty((0, len(names)), np.float32)
            ring = series.coarse if coarse else series.fine
            times, rows = ring.last(count)
            table = np.full((len(times), len(names)), np.nan, np.float32)
            for column, name in enumerate(names):
                slot = self._nodes.get(name, ring.width)
                if slot < ring.width:
                    table[:, column] = rows[:, slot]
            return times, table

    def scalar(self, key: str, count: int) -> tuple[Times, Samples]:
        """The newest `count` ticks of a scalar: times `[n]`, values `[n]`."""
        with self._lock:
            series = self._scalars.get(key)
            if series is None:
                return np.empty(0), np.empty(0, np.float32)
            return series.fine.column(0, count)


def _held(columns: Sequence[Sequence[float | None]], indices: npt.NDArray[np.intp]) -> Samples:
    """Rows of these columns at some of their indices, `[index, column]`; None becomes NaN."""
    return np.array(columns, np.float32).T[indices]
