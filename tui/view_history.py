"""The history of the screen: recent views to go back to, and series for graphs that end there."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from trntop.catalog import CATALOG, Entity
from trntop.core.model import NodeView, View
from trntop.pipeline.history import History, Samples, Times

SECONDS = 900.0
"""Length of the history."""
DENSE_SECONDS = 120.0
"""The newest part, which holds every tick if the budget allows."""
BUDGET = 64 << 20
"""Approximate bytes of all views: half for the dense part, half for the older views."""
MEASURE_INTERVAL = 60
"""Views between two measurements of their size."""
LARGE, LARGE_SHARE = 256, 0.4
"""Above this number of nodes the history uses only this share of the budget."""
GROWTH = 1.25
"""Factor by which the number of nodes grows before the size is measured early."""
EARLY_MEASURE = 2
"""Views until that early measurement."""
SAMPLED_NODES = 64
"""Approximate number of nodes that the size is extrapolated from."""
MIN_VIEWS = 30
"""Views that each half holds at least (or the whole dense part where ticks are rare); if they do
not fit, views are reduced to the quantities of nodes and jobs."""
EVICTED_TOGETHER = 8
"""Views that are evicted at once."""
_COLUMN_OVERHEAD = 112
_NODE_OVERHEAD = 2048
"""Approximate bytes of a column and of a node without the numbers."""
_SUMMARY = frozenset(
    quantity.name for quantity in CATALOG.values() if quantity.entity in (Entity.NODE, Entity.JOB)
)
"""Quantities with one value per node or job."""


class ViewHistory:
    """The newest views: the last minutes tick by tick, the older ones as the budget allows."""

    def __init__(
        self, seconds: float = SECONDS, dense: float = DENSE_SECONDS, budget: int = BUDGET
    ) -> None:
        self._seconds = seconds
        self._dense_seconds = dense
        self._budget = budget
        self._dense = _Row()
        self._sparse = _Row()
        self._reduced = False
        self._newest: View | None = None
        self._until_measured = 0
        self._reporting = 0
        """Nodes that had any value when their number was last recorded."""

    @property
    def span(self) -> tuple[float, float] | None:
        """Times of the oldest and the newest view; None while there is none."""
        times = self._sparse.times or self._dense.times
        return (times[0], self._newest.time) if self._newest is not None else None

    @property
    def reduced(self) -> bool:
        """Whether the cluster is too large to keep devices, cores and EFA devices."""
        return self._reduced

    def append(self, view: View) -> None:
        """Adds a view; if time goes backwards, the history starts over."""
        if self._newest is not None and view.time < self._newest.time:
            self.clear()
        reporting = sum(1 for node in view.cluster.nodes.values() if node.frame.columns)
        if reporting > GROWTH * self._reporting:
            # Nodes that join make a tick many times as large; their first values are all new.
            self._reporting = reporting
            self._until_measured = min(self._until_measured, EARLY_MEASURE)
        if self._until_measured == 0 and self._newest is not None:
            self._measure(view, self._newest)
            self._until_measured = MEASURE_INTERVAL
        self._until_measured = max(0, self._until_measured - 1)
        self._newest = view
        if self._dense.accepts(view.time):
            self._dense.append(_reduced(view) if self._reduced else view)
        for older in self._dense.evict(view.time - self._dense_seconds):
            if self._sparse.accepts(older.time):
                self._sparse.append(older)
        self._sparse.evict(view.time - self._seconds)

    def at(self, time: float) -> View | None:
        """The last view up to `time`, else the oldest; None while there is none."""
        if self._newest is not None and time >= self._newest.time:
            return self._newest
        return (
            self._dense.at(time) or self._sparse.at(time) or self._sparse.first or self._dense.first
        )

    def neighbor(self, time: float, direction: int, seconds: float = 0.0) -> float | None:
        """The time of a view before or after a moment.

        Args:
            time: the moment.
            direction: -1 for before, 1 for after.
            seconds: preferred distance; the result is at least the next view in that direction.

        Returns:
            A time for `at`; None if there is no view in that direction.
        """
        newest = () if self._newest is None else (self._newest.time,)
        candidates = [
            other
            for other in (*self._sparse.times, *self._dense.times, *newest)
            if (other - time) * direction > 0
        ]
        return min(candidates, key=lambda other: abs(abs(other - time) - seconds), default=None)

    def clear(self) -> None:
        self.__init__(self._seconds, self._dense_seconds, self._budget)  # type: ignore[misc]

    def _measure(self, view: View, before: View) -> None:
        # The newest view of a large cluster takes much memory already.
        share = 1.0 if len(view.cluster.nodes) <= LARGE else LARGE_SHARE
        full, half = _size(view, before), int(share * self._budget) // 2
        tick = view.time - before.time
        least = min(MIN_VIEWS, self._dense_seconds / max(tick, 1.0))
        was_reduced, self._reduced = self._reduced, full * least > half
        size = _size(_reduced(view), before) if self._reduced else full
        self._dense.gap = self._dense_seconds * size / half
        self._sparse.gap = (self._seconds - self._dense_seconds) * size / half
        # Ticks are irregular: half a tick of tolerance, and no gap below one tick.
        for row in (self._dense, self._sparse):
            row.gap = 0.0 if row.gap <= tick else row.gap - 0.5 * tick
            if self._reduced and not was_reduced:
                row.reduce()


class _Row:
    """Views in the order of their times, at least `gap` seconds apart."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._views: list[View] = []
        self.gap = 0.0

    @property
    def first(self) -> View | None:
        return self._views[0] if self._views else None

    def accepts(self, time: float) -> bool:
        return not self.times or time - self.times[-1] >= self.gap

    def append(self, view: View) -> None:
        self.times.append(view.time)
        self._views.append(view)

    def reduce(self) -> None:
        """Reduces the views from before the cluster grew to what is kept from now on."""
        views, self.times, self._views = self._views, [], []
        for view in views:
            if self.accepts(view.time):
                self.append(_reduced(view))

    def evict(self, time: float) -> list[View]:
        """Removes the views up to `time`, several at once: each removal moves all that follow."""
        count = bisect_right(self.times, time)
        if count < EVICTED_TOGETHER:
            return []
        evicted = self._views[:count]
        del self.times[:count], self._views[:count]
        return evicted

    def at(self, time: float) -> View | None:
        """The last view up to `time`."""
        index = bisect_right(self.times, time)
        return self._views[index - 1] if index else None


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


def _size(view: View, before: View) -> int:
    """Bytes that a view adds: columns without new values are shared with the view before."""
    nodes = view.cluster.nodes
    stride = 1 + len(nodes) // SAMPLED_NODES
    size = 0
    for name in view.cluster.names[::stride]:
        earlier = before.cluster.nodes.get(name)
        columns = {} if earlier is None else earlier.frame.columns
        size += _NODE_OVERHEAD + sum(
            _COLUMN_OVERHEAD + values.nbytes
            for quantity, values in nodes[name].frame.columns.items()
            if columns.get(quantity) is not values
        )
    return size * stride


def _reduced(view: View) -> View:
    """A view with only the quantities of nodes and jobs."""
    nodes = {
        name: NodeView(
            node.inventory,
            replace(
                node.frame,
                columns={
                    quantity: node.frame.columns[quantity]
                    for quantity in _SUMMARY & node.frame.columns.keys()
                },
            ),
        )
        for name, node in view.cluster.nodes.items()
    }
    return replace(view, cluster=replace(view.cluster, nodes=nodes))
