"""What the values of a column belong to, in order.

An axis is compared by identity: as long as nothing joins or leaves, every tick has the same one,
and what is kept along it need not compare keys.
"""

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trntop.core.model import Column, Key

Places = npt.NDArray[np.int64]


class Along(Protocol):
    """What statistics need to know of an axis."""

    def __len__(self) -> int: ...

    def places_in(self, old: "Along") -> Places:
        """The place of each member on an older axis, -1 for those it lacks."""
        ...


class Axis:
    """Members by key: nodes, jobs, pairs."""

    def __init__(self, keys: Sequence[Hashable] = ()) -> None:
        self.keys = tuple(keys)

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, place: int) -> Hashable:
        """The member at a place."""
        return self.keys[place]

    def find(self, key: Hashable) -> int | None:
        """The place of a member."""
        return self.place.get(key)

    @cached_property
    def place(self) -> dict[Hashable, int]:
        """Member → its place."""
        return {key: place for place, key in enumerate(self.keys)}

    def places_in(self, old: Along) -> Places:
        """The place of each member on an older axis, -1 for those it lacks."""
        assert isinstance(old, Axis)
        return np.array([old.place.get(key, -1) for key in self.keys], dtype=np.int64)


class PartAxis:
    """The parts of all nodes, node by node: EFA devices, devices, cores, ranks.

    A member is a pair of the node's name and the part's key. Pairs are made only when needed:
    a large cluster has millions of cores.
    """

    def __init__(self, nodes: Axis, parts: Sequence[tuple[Key, ...]]) -> None:
        self.nodes = nodes
        self.parts = tuple(parts)
        """The keys of each node's parts."""
        self.widths = list(map(len, self.parts))
        """How many each node has."""
        sizes = np.array(self.widths, np.int64)
        self.sizes: Places = sizes
        """How many each node has, `[node]`."""
        self.starts: Places = np.concatenate(([0], np.cumsum(sizes)))
        """Where each node's parts begin, `[node + 1]`."""
        self.owner: Places = np.repeat(np.arange(len(sizes)), sizes)
        """Place of the node of each part, `[part]`."""

    def __len__(self) -> int:
        return int(self.starts[-1])

    def key(self, place: int) -> tuple[str, Key]:
        """Node and key of the part at a place."""
        owner = int(self.owner[place])
        return str(self.nodes.keys[owner]), self.parts[owner][place - int(self.starts[owner])]

    def find(self, key: Hashable) -> int | None:
        """The place of a part."""
        if not isinstance(key, tuple) or (node := self.nodes.place.get(key[0])) is None:
            return None
        parts = self.parts[node]
        return int(self.starts[node]) + parts.index(key[1]) if key[1] in parts else None

    def places_in(self, old: Along) -> Places:
        """The place of each part on an older axis, -1 for those it lacks."""
        assert isinstance(old, PartAxis)
        places = np.full(len(self), -1, np.int64)
        known = self.nodes.places_in(old.nodes).tolist()
        for node, before in enumerate(known):
            if before < 0:
                continue
            start, first = int(self.starts[node]), int(old.starts[before])
            mine, theirs = self.parts[node], old.parts[before]
            if mine == theirs:
                places[start : start + len(mine)] = np.arange(first, first + len(mine))
            else:
                there = {key: first + index for index, key in enumerate(theirs)}
                places[start : start + len(mine)] = [there.get(key, -1) for key in mine]
        return places


def carried(values: Column, old: Axis | PartAxis, new: Axis | PartAxis) -> Column:
    """`[…, old member]` to `[…, new member]`; NaN for members that the old axis lacks."""
    places = new.places_in(old)
    result = np.full((*values.shape[:-1], len(new)), np.nan)
    known = places >= 0
    result[..., known] = values[..., places[known]]
    return result
