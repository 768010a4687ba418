"""By what counters of EFA cards have grown from look to look.

A detector that looks every other second loses nothing by it: the counters go on.
"""

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from trntop.analysis.axis import Axis, PartAxis, carried
from trntop.analysis.tick import Tick
from trntop.catalog import EFA_SOURCE, Entity
from trntop.core.model import NO_VALUE, Column, Frame

LONGEST = 30.0
"""Seconds; what lies further back than this was another reading's."""
MOST = 1e12
"""Growth per second beyond which a counter is damaged: no card moves so many bytes."""

Mask = npt.NDArray[np.bool_]
_NAME, _TIME = attrgetter("name"), attrgetter("time")


class Counters:
    """Some counters of all cards; columns are `[card]`, along `axis`.

    Args:
        names: of the counters, as the driver calls them.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = {f"efa_{name}_total": name for name in names}
        self.axis = PartAxis(Axis(), ())
        self.fresh: Mask = np.zeros(0, bool)
        """Whether the card's node was read since the look before."""
        self.elapsed: Column = np.zeros(0)
        """Seconds between the newest readings of two looks; 0 where no new one has come."""
        self.pace: Column = np.zeros(0)
        """The same, kept until the next one comes; NaN before the second."""
        self.heard: Column = np.zeros(0)
        """When the cards were last read, `[node]`."""
        self.growth: dict[str, Column] = {}
        """Counter → by what it has grown a second since the look before; NaN where that is
        unknown: not read anew, set back, or damaged.
        """
        self._totals: dict[str, Column] = {}
        """As of each card's newest reading."""
        self._source = 0
        """Where the cards' source stands among those of most nodes."""

    def take(self, tick: Tick) -> None:
        """Takes a look."""
        axis = tick.parts(Entity.EFA)
        if axis is not self.axis:
            self._move(axis)
        heard = self._read_at(tick.frames)
        apart = heard - self.heard
        anew = apart > 0
        fresh = anew | (np.isnan(self.heard) & ~np.isnan(heard))
        self.heard = heard
        self.fresh = fresh[axis.owner]
        self.elapsed = np.where(anew, np.minimum(apart, LONGEST), 0.0)[axis.owner]
        self.pace = np.where(self.elapsed > 0, self.elapsed, self.pace)
        per_second = (1.0 / np.where(anew, apart, NO_VALUE))[axis.owner]
        everywhere = bool(fresh.all())
        columns = tick.columns(tuple(self._names))
        for name, now in zip(self._names.values(), columns, strict=True):
            before = self._totals[name]
            growth = now - before
            growth *= per_second
            if not (growth.min(initial=0.0) >= 0 and growth.max(initial=0.0) <= MOST):
                np.copyto(growth, NO_VALUE, where=~((growth >= 0) & (growth <= MOST)))
            self.growth[name] = growth
            self._totals[name] = now if everywhere else np.where(self.fresh, now, before)

    def _read_at(self, frames: list[Frame]) -> Column:
        """When each node's cards were last read, `[node]`."""
        try:
            # The sources of nodes mostly stand in the same order.
            states = [frame.sources[self._source] for frame in frames]
        except IndexError:
            states = []
        if not states or set(map(_NAME, states)) != {EFA_SOURCE}:
            return np.array([self._heard_of(frame) for frame in frames], np.float64)
        return np.array(list(map(_TIME, states)), np.float64)  # None becomes NaN

    def _heard_of(self, frame: Frame) -> float:
        for place, source in enumerate(frame.sources):
            if source.name == EFA_SOURCE:
                self._source = place
                return NO_VALUE if source.time is None else source.time
        return NO_VALUE

    def _move(self, axis: PartAxis) -> None:
        old = self.axis
        nothing = np.full(len(old), NO_VALUE)
        for name in self._names.values():
            self._totals[name] = carried(self._totals.get(name, nothing), old, axis)
        self.pace = carried(self.pace, old, axis)
        self.heard = carried(self.heard, old.nodes, axis.nodes)
        self.axis = axis
