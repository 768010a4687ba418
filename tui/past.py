"""The recent past of the screen: views that can be gone back to, and graphs that end there."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from trntop.catalog import CATALOG, Entity
from trntop.core.model import NodeView, View
from trntop.pipeline.history import History, Samples, Times

SECONDS = 900.0
"""How far back one can go."""
DENSE_SECONDS = 120.0
"""The newest of these are kept tick by tick, if the budget allows."""
BUDGET = 64 << 20
"""Bytes that the views may take, about: half for the newest, half for those before."""
MEASURED_EVERY = 60
"""Views after which their size is looked at again."""
LARGE, LARGE_SHARE = 256, 0.4
"""Nodes above which so much of the budget is used."""
GROWN = 1.25
"""Times as many nodes as before, after which it is looked at soon."""
SETTLING = 2
"""Views until then."""
LOOKED_AT = 64
"""Nodes by which the size of all is judged, about."""
LEAST = 30
"""Views that each half shall hold at least, or all of the dense part where ticks are rare; else
nodes are kept without their parts."""
FEW = 8
"""Views that are let go at once."""
_PER_COLUMN = 112
_PER_NODE = 2048
"""Bytes of a column and of a node beside the numbers, about."""
_WHOLE = frozenset(one.name for one in CATALOG.values() if one.entity in (Entity.NODE, Entity.JOB))
"""Quantities that there is one of per node or job."""


class Past:
    """The newest views: the last minutes tick by tick, the others as the budget allows."""

    def __init__(
        self, seconds: float = SECONDS, dense: float = DENSE_SECONDS, budget: int = BUDGET
    ) -> None:
        self._seconds = seconds
        self._dense_seconds = dense
        self._budget = budget
        self._new = _Row()
        self._old = _Row()
        self._slim = False
        """Whether only what there is one of per node or job is kept."""
        self._newest: View | None = None
        self._until_measured = 0
        self._told = 0
        """Nodes that had any value when their number was last noted."""

    @property
    def span(self) -> tuple[float, float] | None:
        """Times of the oldest and the newest view; None where there is none."""
        times = self._old.times or self._new.times
        return (times[0], self._newest.time) if self._newest is not None else None

    @property
    def slim(self) -> bool:
        """Whether devices, cores and cards of the past are not kept: the cluster is too large."""
        return self._slim

    def append(self, view: View) -> None:
        """Takes a view; where time goes back, the past begins anew."""
        if self._newest is not None and view.time < self._newest.time:
            self.clear()
        told = sum(1 for node in view.cluster.nodes.values() if node.frame.columns)
        if told > GROWN * self._told:
            # Nodes that join make a tick many times as large; their first values are all new.
            self._told = told
            self._until_measured = min(self._until_measured, SETTLING)
        if self._until_measured == 0 and self._newest is not None:
            self._measure(view, self._newest)
            self._until_measured = MEASURED_EVERY
        self._until_measured = max(0, self._until_measured - 1)
        self._newest = view
        if self._new.takes(view.time):
            self._new.append(_slimmed(view) if self._slim else view)
        for kept in self._new.take_until(view.time - self._dense_seconds):
            if self._old.takes(kept.time):
                self._old.append(kept)
        self._old.take_until(view.time - self._seconds)

    def at(self, time: float) -> View | None:
        """The newest view that is not after `time`, else the oldest; None where there is none."""
        if self._newest is not None and time >= self._newest.time:
            return self._newest
        return self._new.at(time) or self._old.at(time) or self._old.first or self._new.first

    def beside(self, time: float, side: int, seconds: float = 0.0) -> float | None:
        """When the view was that lies before or after a moment.

        Args:
            time: the moment.
            side: -1 for before, 1 for after.
            seconds: how far away, about; at least the next view on that side.

        Returns:
            Its time, which `at` takes; None where there is no view on that side.
        """
        newest = () if self._newest is None else (self._newest.time,)
        there = [
            one for one in (*self._old.times, *self._new.times, *newest) if (one - time) * side > 0
        ]
        return min(there, key=lambda one: abs(abs(one - time) - seconds), default=None)

    def clear(self) -> None:
        """Forgets everything."""
        self.__init__(self._seconds, self._dense_seconds, self._budget)  # type: ignore[misc]

    def _measure(self, view: View, before: View) -> None:
        # A large cluster's present takes much already.
        share = 1.0 if len(view.cluster.nodes) <= LARGE else LARGE_SHARE
        whole, half = _size(view, before), int(share * self._budget) // 2
        tick = view.time - before.time
        least = min(LEAST, self._dense_seconds / max(tick, 1.0))
        was_slim, self._slim = self._slim, whole * least > half
        size = _size(_slimmed(view), before) if self._slim else whole
        self._new.gap = self._dense_seconds * size / half
        self._old.gap = (self._seconds - self._dense_seconds) * size / half
        # A tick apart is as dense as they come; ticks are no clockwork.
        for row in (self._new, self._old):
            row.gap = 0.0 if row.gap <= tick else row.gap - 0.5 * tick
            if self._slim and not was_slim:
                row.slim()


class _Row:
    """Views in the order of their times, some seconds apart."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._views: list[View] = []
        self.gap = 0.0

    @property
    def first(self) -> View | None:
        return self._views[0] if self._views else None

    def takes(self, time: float) -> bool:
        """Whether a view of this time is not too near to the one before."""
        return not self.times or time - self.times[-1] >= self.gap

    def append(self, view: View) -> None:
        """Takes a view."""
        self.times.append(view.time)
        self._views.append(view)

    def slim(self) -> None:
        """Keeps of what came before the cluster was known to be large what is kept from now on."""
        kept, self.times, self._views = self._views, [], []
        for view in kept:
            if self.takes(view.time):
                self.append(_slimmed(view))

    def take_until(self, time: float) -> list[View]:
        """Removes the views up to a time, a few at once: each removal moves all that follow."""
        count = bisect_right(self.times, time)
        if count < FEW:
            return []
        taken = self._views[:count]
        del self.times[:count], self._views[:count]
        return taken

    def at(self, time: float) -> View | None:
        """The newest view that is not after `time`."""
        place = bisect_right(self.times, time)
        return self._views[place - 1] if place else None


class HistoryUntil:
    """A history that ends at some time: what graphs of the past are drawn from.

    Args:
        history: all of it.
        until: the end.
        now: the time of its newest row.
    """

    def __init__(self, history: History, until: float, now: float) -> None:
        self._history = history
        self._until = until
        self._later = max(0, int(now - until) + 1)
        """Rows after the end, at most: there is one a second, or fewer."""

    def node(self, quantity: str, node: str, count: int) -> tuple[Times, Samples]:
        """As `History.node`."""
        return self._cut(*self._history.node(quantity, node, count + self._later), count)

    def nodes(
        self, quantity: str, nodes: Iterable[str], count: int, *, coarse: bool = False
    ) -> tuple[Times, Samples]:
        """As `History.nodes`."""
        found = self._history.nodes(quantity, nodes, count + self._later, coarse=coarse)
        return self._cut(*found, count)

    def scalar(self, key: str, count: int) -> tuple[Times, Samples]:
        """As `History.scalar`."""
        return self._cut(*self._history.scalar(key, count + self._later), count)

    def _cut(self, times: Times, values: Samples, count: int) -> tuple[Times, Samples]:
        end = int(np.searchsorted(times, self._until, side="right"))
        start = max(0, end - count)
        return times[start:end], values[start:end]


def _size(view: View, before: View) -> int:
    """Bytes of what is new in a view: columns that nobody told anew are those of before."""
    nodes = view.cluster.nodes
    every = 1 + len(nodes) // LOOKED_AT
    size = 0
    for name in view.cluster.names[::every]:
        known = before.cluster.nodes.get(name)
        columns = {} if known is None else known.frame.columns
        size += _PER_NODE + sum(
            _PER_COLUMN + values.nbytes
            for quantity, values in nodes[name].frame.columns.items()
            if columns.get(quantity) is not values
        )
    return size * every


def _slimmed(view: View) -> View:
    """The same without what there are many of on each node."""
    nodes = {
        name: NodeView(
            node.inventory,
            replace(
                node.frame,
                columns={
                    quantity: node.frame.columns[quantity]
                    for quantity in _WHOLE & node.frame.columns.keys()
                },
            ),
        )
        for name, node in view.cluster.nodes.items()
    }
    return replace(view, cluster=replace(view.cluster, nodes=nodes))
