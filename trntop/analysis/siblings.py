"""Who an EFA card is compared with, and what is usual among those."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from trntop.analysis.axis import PartAxis
from trntop.core.model import NO_VALUE, Column, Key

FEW = 2
"""A node with no more cards than this has too few to tell which of them differs."""

Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Groups:
    """Cards in groups, by the number of each card's group, `[card]`."""

    def __init__(self, group: Places) -> None:
        self.of = group
        self.sizes = np.bincount(group) if len(group) else np.zeros(0, np.int64)
        order = np.argsort(group, kind="stable")
        begins = np.cumsum(self.sizes) - self.sizes
        self._row = np.empty(len(group), np.int64)
        self._row[order] = np.arange(len(group)) - begins[group[order]]
        self._shape = len(self.sizes), int(self.sizes.max(initial=0))

    def median(self, values: Column) -> Column:
        """The median of the others of each card's group, absent ones left out, `[card]`."""
        table = np.full(self._shape, NO_VALUE)
        table[self.of, self._row] = values
        table.sort(axis=1)  # NaN comes last
        known = self._shape[1] - np.isnan(table).sum(axis=1)
        there = ~np.isnan(values)
        others = known[self.of] - there
        ordered, first = table.ravel(), self.of * self._shape[1]
        last = np.maximum(self._shape[1] - 1, 0)

        def at(place: Places) -> Column:
            """What has this place among the others."""
            here = ordered[first + np.clip(place, 0, last)]
            behind = ordered[first + np.clip(place + 1, 0, last)]
            # Whoever stands behind the card in the order is one place nearer without it.
            return np.where(there & ~(here < values), behind, here)

        middle = 0.5 * (at((others - 1) // 2) + at(others // 2))
        return np.where(others > 0, middle, NO_VALUE)

    def count(self, chosen: Mask) -> Places:
        """How many of each card's group are chosen, `[card]`."""
        return np.bincount(self.of[chosen], minlength=self._shape[0])[self.of]


class Siblings(Groups):
    """The cards of all nodes in groups that share the work evenly.

    A card's siblings are the other cards of its node; where that has one or two, the cards of the
    same name on the other nodes of its job.

    Args:
        axis: all cards.
        job_of: node → its job, where that is known.
    """

    def __init__(self, axis: PartAxis, job_of: Mapping[str, str]) -> None:
        self.axis = axis
        self._job_of = dict(job_of) if (axis.sizes <= FEW).any() else None
        group = axis.owner.copy()
        names: dict[tuple[str, str | None], list[int]] = {}
        for node in np.flatnonzero(axis.sizes <= FEW).tolist():
            job = job_of.get(str(axis.nodes.keys[node]))
            for place, name in enumerate(axis.parts[node], start=int(axis.starts[node])):
                names.setdefault((str(name), job), []).append(place)
        for number, places in enumerate(names.values(), start=len(axis.nodes)):
            if len(places) > 1:
                group[places] = number
        super().__init__(group)

    def still(self, axis: PartAxis, job_of: Mapping[str, str]) -> bool:
        """Whether these are the siblings on `axis`, too."""
        return axis is self.axis and (self._job_of is None or self._job_of == job_of)

    @cached_property
    def rails(self) -> Groups:
        """Cards of the same name on all nodes: in a collective they talk to one another."""
        numbers: dict[Key, int] = {}
        names = (name for parts in self.axis.parts for name in parts)
        return Groups(np.array([numbers.setdefault(one, len(numbers)) for one in names], np.int64))


def node_largest(axis: PartAxis, values: Column) -> Column:
    """The largest value of each card's node, absent ones left out, `[card]`."""
    filled = axis.sizes > 0
    largest = np.full(len(axis.sizes), NO_VALUE)
    if filled.any():
        largest[filled] = np.fmax.reduceat(values, axis.starts[:-1][filled])
    return largest[axis.owner]


def lower_median(values: Column) -> float:
    """The median, the lower one of two, so that half of all being odd does not move it."""
    known = values[~np.isnan(values)]
    if not len(known):
        return NO_VALUE
    middle = (len(known) - 1) // 2
    return float(np.partition(known, middle)[middle])


def of_whole_nodes(axis: PartAxis, values: Column, since: Column) -> Column:
    """Lets one card stand for its node where most of the node's cards are above 1.

    That is the card which has been there longest; the node's others are set to 0.
    """
    for node in np.flatnonzero(whole(axis, values > 1.0)).tolist():
        places = np.arange(axis.starts[node], axis.starts[node + 1])
        above = places[values[places] > 1.0]
        first = above[np.argmin(np.where(np.isnan(since[above]), np.inf, since[above]))]
        values = values.copy()
        values[above[above != first]] = 0.0
    return values


def whole(axis: PartAxis, chosen: Mask) -> Mask:
    """Nodes of whose cards most are chosen, and more than one, `[node]`."""
    count = np.bincount(axis.owner[chosen], minlength=len(axis.sizes))
    most: Mask = (count > 1) & (2 * count >= axis.sizes)
    return most
