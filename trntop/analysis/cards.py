"""All EFA cards side by side: what each moved, and what the others did meanwhile."""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trntop.analysis.axis import Axis, PartAxis
from trntop.analysis.counters import LONGEST, Counters
from trntop.analysis.progress import JobPhase
from trntop.analysis.siblings import Siblings, node_largest
from trntop.analysis.tick import Tick
from trntop.catalog import Entity
from trntop.core.model import NO_VALUE, Column, Inventory, NodeView


@dataclass(frozen=True, slots=True)
class CardTuning:
    """How EFA devices are polled and when their peers carry traffic."""

    interval: float = 3.0
    """Seconds between two looks: what is found of cards lasts longer, and counters lose nothing."""
    tolerance: float = 0.5
    """Seconds by which a look may come early: ticks are no clockwork."""
    idle: float = 0.01
    """Share of what the node's busiest card moves, up to which a card takes no part."""
    busy: float = 0.3
    """Share of what siblings usually move, from which on they carry the job's traffic: in a
    reading that caught only the edge of a transfer, cards differ by when they were read.
    """
    level_half_life: float = 60.0
    """Seconds in which the past counts half for what is usual."""
    recently: float = 120.0
    """Seconds for which those that talked to a node may still miss it."""


TUNING = CardTuning()

Mask = npt.NDArray[np.bool_]


class Cards:
    """The newest look at all cards, and what it takes from those before.

    All columns are `[card]`, along `axis`. All detectors share one (`Tick.shared`): whoever asks
    first in a tick has it look.
    """

    inputs = frozenset(("node_efa_cards", "efa_tx_bytes_total", "efa_rx_bytes_total"))

    def __init__(self) -> None:
        self.axis = PartAxis(Axis(), ())
        self.siblings = Siblings(self.axis, {})
        self.traffic: Column = np.zeros(0)
        """Bytes per second, both ways, since the look before."""
        self.usual: Column = np.zeros(0)
        """The median of what its siblings move that take part."""
        self.busy: Mask = np.zeros(0, bool)
        """Whether the siblings move about as much as they usually do, for their job's steps."""
        self.idle: Mask = np.zeros(0, bool)
        """Whether it moves nothing next to its node's busiest card, which is busy."""
        self.fallen: Mask = np.zeros(0, bool)
        """Whether it is idle, but was not always."""
        self.lost: Mask = np.zeros(0, bool)
        """Whether nothing can be read of it, though its node's other cards are read, or were."""
        self.inactive: Mask = np.zeros(0, bool)
        """Whether its port says that it is not up."""
        self.gone: Mask = np.zeros(0, bool)
        """Whether a node's cards were read until lately and are not any more, `[node]`."""
        self.time = -np.inf
        """When the newest look was."""
        self.middle = -np.inf
        """The middle between it and the one before: when what it finds first is likely to have
        begun.
        """
        self._number = -1
        """Of the newest tick seen, and whether it was looked at."""
        self._looked = False
        self._counters = Counters(("tx_bytes", "rx_bytes"))
        self._level: Column = np.zeros(0)
        self._seen: Mask = np.zeros(0, bool)
        """Whether it was ever read."""
        self._carried: Mask = np.zeros(0, bool)
        """Whether it ever took part."""
        self._inventories: list[Inventory | None] = []

    def look(self, tick: Tick) -> bool:
        """Takes one tick; whether it was time for a look."""
        if tick.number != self._number:
            self._number = tick.number
            self._looked = (
                not self.time <= tick.time < self.time + TUNING.interval - TUNING.tolerance
            )
            if self._looked:
                apart = tick.time - self.time
                self.middle = tick.time - (0.5 * apart if 0 < apart <= LONGEST else 0.0)
                self.time = tick.time
                self._look(tick)
        return self._looked

    @property
    def fresh(self) -> Mask:
        """Whether the card's node was read since the look before."""
        return self._counters.fresh

    @property
    def elapsed(self) -> Column:
        """Seconds between the newest readings of two looks; 0 where no new one has come."""
        return self._counters.elapsed

    def _look(self, tick: Tick) -> None:
        axis = tick.parts(Entity.EFA)
        if axis is not self.axis:
            self._move(axis)
        if not self.siblings.still(axis, tick.job_of):
            self.siblings = Siblings(axis, tick.job_of)
        self._counters.take(tick)
        counted = ~np.isnan(tick.column("efa_tx_bytes_total"))
        growth = self._counters.growth
        traffic = growth["tx_bytes"] + growth["rx_bytes"]
        if not self.fresh.all():
            # What is read more seldom than it is looked at moves on as it did.
            kept = np.where(counted, self.traffic, NO_VALUE)
            traffic = np.where(self.fresh, traffic, kept)
        self.traffic = traffic
        largest = node_largest(axis, self.traffic)
        takes_part = self.traffic > TUNING.idle * largest
        self.usual = self.siblings.median(np.where(takes_part, self.traffic, NO_VALUE))
        moving = self.fresh & (self.usual > 0)
        weight = 1.0 - np.exp2(self.elapsed / -TUNING.level_half_life)
        known = np.where(np.isnan(self._level), self.usual, self._level)
        self._level = np.where(moving, known + weight * (self.usual - known), self._level)
        self.busy = moving & (self.usual >= TUNING.busy * self._level) & ~_saving(tick)[axis.owner]
        self.idle = self.busy & (self.traffic <= TUNING.idle * largest)
        self._carried |= self.busy & takes_part
        self.fallen = self.idle & self._carried
        told = ~np.isnan(tick.column("node_efa_cards"))
        self.gone = ~told & (tick.time - self._counters.heard < TUNING.recently)
        self._seen |= counted
        self.lost = ~counted & told[axis.owner]
        if self.lost.any():
            self.lost &= self._seen | (node_largest(axis, counted * 1.0) > 0)
        self._look_whether_up(tick.views)

    def clear(self) -> None:
        """Forgets the past."""
        self.__init__()  # type: ignore[misc]

    def _look_whether_up(self, views: list[NodeView]) -> None:
        """Looks at the ports of nodes whose inventory has changed."""
        for place, (view, before) in enumerate(zip(views, self._inventories, strict=True)):
            if view.inventory is not before:
                inventory = self._inventories[place] = view.inventory
                first = int(self.axis.starts[place])
                for card, name in enumerate(self.axis.parts[place], start=first):
                    state = inventory.efa_links.get(str(name), {}).get("state")
                    self.inactive[card] = not is_up(state)

    def _move(self, axis: PartAxis) -> None:
        old = axis.places_in(self.axis)
        known, places = old >= 0, old[old >= 0]
        level, traffic = np.full(len(axis), NO_VALUE), np.full(len(axis), NO_VALUE)
        seen, carried = np.zeros(len(axis), bool), np.zeros(len(axis), bool)
        level[known], traffic[known] = self._level[places], self.traffic[places]
        seen[known], carried[known] = self._seen[places], self._carried[places]
        self._level, self.traffic, self._seen, self._carried = level, traffic, seen, carried
        self.inactive = np.zeros(len(axis), bool)
        self._inventories = [None] * len(axis.nodes)
        self.axis = axis


def _saving(tick: Tick) -> Mask:
    """Nodes that may use a card or two for their checkpoint, `[node]`."""
    saving = np.zeros(len(tick.nodes), bool)
    for crew in tick.progress.crews.values():
        if crew.phase is JobPhase.CHECKPOINTING:
            saving[crew.places] = True
    return saving


def is_up(state: str | None) -> bool:
    """Whether a port's state, such as `4: ACTIVE`, says that it works; what is unsaid may."""
    return not state or re.search(r"\bACTIVE\b", state, re.IGNORECASE) is not None
