"""Axes: what the values of a column belong to, in order.

An axis is compared by identity. As long as nothing joins or leaves, every tick has the same axis,
so code that keeps values along it does not compare keys.
"""

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trntop.core.model import Column, Key

Indices = npt.NDArray[np.int64]


class AxisLike(Protocol):
    """The part of the interface of an axis that statistics need."""

    def __len__(self) -> int: ...

    def indices_in(self, old: "AxisLike") -> Indices:
        """The index of each member on an older axis; -1 for those it does not have."""
        ...


class Axis:
    """Members by key: nodes, jobs, pairs."""

    def __init__(self, keys: Sequence[Hashable] = ()) -> None:
        self.keys = tuple(keys)

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, index: int) -> Hashable:
        """The member at an index."""
        return self.keys[index]

    def find(self, key: Hashable) -> int | None:
        """The index of a member; None if there is none."""
        return self.index_of.get(key)

    @cached_property
    def index_of(self) -> dict[Hashable, int]:
        """Member → its index."""
        return {key: index for index, key in enumerate(self.keys)}

    def indices_in(self, old: AxisLike) -> Indices:
        """The index of each member on an older axis; -1 for those it does not have."""
        assert isinstance(old, Axis)
        return np.array([old.index_of.get(key, -1) for key in self.keys], dtype=np.int64)


class PartAxis:
    """The parts of all nodes, node by node: EFA devices, devices, cores, ranks.

    A member is a pair of the node's name and the part's key. Pairs are made only when needed,
    because a large cluster has millions of cores.
    """

    def __init__(self, nodes: Axis, parts: Sequence[tuple[Key, ...]]) -> None:
        self.nodes = nodes
        self.parts = tuple(parts)
        """The keys of each node's parts."""
        self.widths = list(map(len, self.parts))
        """Number of parts of each node, as a list."""
        sizes = np.array(self.widths, np.int64)
        self.sizes: Indices = sizes
        """Number of parts of each node, `[node]`."""
        self.starts: Indices = np.concatenate(([0], np.cumsum(sizes)))
        """Index of the first part of each node, `[node + 1]`."""
        self.owner: Indices = np.repeat(np.arange(len(sizes)), sizes)
        """Index of the node of each part, `[part]`."""

    def __len__(self) -> int:
        return int(self.starts[-1])

    def key(self, index: int) -> tuple[str, Key]:
        """Node and key of the part at an index."""
        owner = int(self.owner[index])
        return str(self.nodes.keys[owner]), self.parts[owner][index - int(self.starts[owner])]

    def find(self, key: Hashable) -> int | None:
        """The index of a part; None if there is none."""
        if not isinstance(key, tuple) or (node := self.nodes.index_of.get(key[0])) is None:
            return None
        parts = self.parts[node]
        return int(self.starts[node]) + parts.index(key[1]) if key[1] in parts else None

    def indices_in(self, old: AxisLike) -> Indices:
        """The index of each part on an older axis; -1 for those it does not have."""
        assert isinstance(old, PartAxis)
        indices = np.full(len(self), -1, np.int64)
        known = self.nodes.indices_in(old.nodes).tolist()
        for node, before in enumerate(known):
            if before < 0:
                continue
            start, first = int(self.starts[node]), int(old.starts[before])
            new_keys, old_keys = self.parts[node], old.parts[before]
            if new_keys == old_keys:
                indices[start : start + len(new_keys)] = np.arange(first, first + len(new_keys))
            else:
                old_index = {key: first + index for index, key in enumerate(old_keys)}
                indices[start : start + len(new_keys)] = [
                    old_index.get(key, -1) for key in new_keys
                ]
        return indices


def realigned(values: Column, old: Axis | PartAxis, new: Axis | PartAxis) -> Column:
    """`[…, old member]` to `[…, new member]`; NaN for members that the old axis does not have."""
    indices = new.indices_in(old)
    result = np.full((*values.shape[:-1], len(new)), np.nan)
    known = indices >= 0
    result[..., known] = values[..., indices[known]]
    return result
