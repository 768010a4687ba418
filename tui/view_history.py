"""The recent views, and the part of the history before an earlier view."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from trntop.catalog import CATALOG, Entity
from trntop.core.model import NodeView, View
from trntop.pipeline.history import History, Samples, Times

SECONDS = 900.0
"""Length of the history."""
BUDGET = 64 << 20
"""Approximate bytes of all views."""
MIN_VIEWS = 30
"""If fewer views fit, they are reduced to the quantities of nodes and jobs."""
OVERSIZED = 3
"""Successive large views before they are reduced: the first values of a node are all new."""
EVICTED_TOGETHER = 8
SAMPLED_NODES = 64
"""Approximate number of nodes from which the size is extrapolated."""
_COLUMN_OVERHEAD, _NODE_OVERHEAD = 112, 2048
"""Approximate bytes in addition to the values."""
_SUMMARY = frozenset(
    quantity.name for quantity in CATALOG.values() if quantity.entity in (Entity.NODE, Entity.JOB)
)
"""Quantities with one value per node or job."""


class ViewHistory:
    """The newest views: every recent tick, and fewer of the older ticks if the budget is small."""

    def __init__(self, seconds: float = SECONDS, budget: int = BUDGET) -> None:
        self._seconds = seconds
        self._budget = budget
        self.clear()

    def clear(self) -> None:
        self._times: list[float] = []
        self._views: list[View] = []
        self._sizes: list[int] = []
        self._newest: View | None = None
        self._oversized = 0
        self.reduced = False
        """Whether the cluster is too large for values of devices and cores."""

    @property
    def span(self) -> tuple[float, float] | None:
        """Times of the oldest and the newest view."""
        return (self._times[0], self._times[-1]) if self._times else None

    def append(self, view: View) -> None:
        """Adds a view; if time goes backwards, the history starts over."""
        if self._times and view.time < self._times[-1]:
            self.clear()
        size = _size(view, self._newest)
        self._oversized = self._oversized + 1 if size * MIN_VIEWS > self._budget else 0
        if not self.reduced and (self._oversized >= OVERSIZED or 4 * size > self._budget):
            self.reduced = True
            self._views = [_reduced(older) for older in self._views]
            self._sizes = [_size(older, None) for older in self._views]
        kept = _reduced(view) if self.reduced else view
        self._times.append(view.time)
        self._views.append(kept)
        self._sizes.append(_size(kept, self._newest) if self.reduced else size)
        self._newest = view
        if sum(self._sizes) > self._budget:
            # Every second view of the older half: recent ticks stay dense.
            half = len(self._times) // 2
            self._delete(slice(1, half, 2))
            # What a view shared with a deleted one is now its own.
            for place in range(1, half - half // 2 + 1):
                self._sizes[place] = _size(self._views[place], self._views[place - 1])
        # Several at once, because each deletion moves all that follow.
        old = bisect_right(self._times, view.time - self._seconds)
        if old >= EVICTED_TOGETHER:
            self._delete(slice(0, old))

    def _delete(self, part: slice) -> None:
        del self._times[part], self._views[part], self._sizes[part]

    def at(self, time: float) -> View | None:
        """The last view up to `time`, else the oldest; None while there is none."""
        if self._newest is None or time >= self._newest.time:
            return self._newest
        return self._views[max(0, bisect_right(self._times, time) - 1)]

    def neighbor(self, time: float, direction: int, seconds: float = 0.0) -> float | None:
        """The time of a view before or after a moment.

        Args:
            time: the moment.
            direction: -1 for before, 1 for after.
            seconds: preferred distance; the result is at least the next view in that direction.

        Returns:
            A time for `at`; None if there is no view in that direction.
        """
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


def _size(view: View, before: View | None) -> int:
    """Bytes that a view adds: columns without new values are shared with the view before."""
    nodes = view.cluster.nodes
    earlier = {} if before is None else before.cluster.nodes
    stride = 1 + len(nodes) // SAMPLED_NODES
    size = 0
    for name in view.cluster.names[::stride]:
        shared = earlier[name].frame.columns if name in earlier else {}
        size += _NODE_OVERHEAD + sum(
            _COLUMN_OVERHEAD + values.nbytes
            for quantity, values in nodes[name].frame.columns.items()
            if shared.get(quantity) is not values
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
