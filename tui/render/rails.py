"""The EFA devices of all nodes as one table: a row per node, a column per rail.

A rail is the devices of one name on all nodes: in a collective they exchange traffic.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import NodeView

Table = npt.NDArray[np.float64]

MAX_DEGRADED_SHARE = 1 / 3
"""Of the rails; if more carry little traffic, the job does not use them."""


class Rails:
    """The column of each device, and the values of the devices."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self.nodes = nodes
        self.row_of = {node.name: row for row, node in enumerate(nodes)}
        devices = [cast(tuple[str, ...], node.inventory.of(Entity.EFA)) for node in nodes]
        kinds = dict.fromkeys(devices)
        names = sorted({name for kind in kinds for name in kind}, key=units.natural_sort_key)
        most = max(map(len, kinds), default=0)
        # If each node has its own names, a column is a place in the order of the names.
        self.named = len(names) <= 2 * most
        self.names = tuple(names) if self.named else tuple(f"{n + 1}" for n in range(most))
        column_of = {name: column for column, name in enumerate(self.names)}
        columns = {
            kind: np.array(
                [column_of[name] for name in kind] if self.named else _ranks(kind), np.int64
            )
            for kind in kinds
        }
        self._columns = [columns[kind] for kind in devices]
        self._tables: dict[str, Table] = {}

    def table(self, quantity: str) -> Table:
        """A quantity of the devices, `[node, rail]`; NaN if absent or without such a device."""
        found = self._tables.get(quantity)
        if found is None:
            found = self._tables[quantity] = np.full((len(self.nodes), len(self.names)), np.nan)
            for row, (node, columns) in enumerate(zip(self.nodes, self._columns, strict=True)):
                values = node.frame.columns.get(quantity)
                if values is not None and len(values) == len(columns):
                    found[row, columns] = values
        return found

    def columns(self, row: int) -> list[int]:
        """The column of each device of a node, in the order of its inventory."""
        return cast(list[int], self._columns[row].tolist())

    def device(self, row: int, column: int) -> int | None:
        """Index of a device in the inventory of its node; None if the node has no such device."""
        columns = self.columns(row)
        return columns.index(column) if column in columns else None


def _ranks(names: Sequence[str]) -> list[int]:
    """The place of each name in the natural order."""
    order = sorted(names, key=units.natural_sort_key)
    return [order.index(name) for name in names]


def mean(table: Table) -> npt.NDArray[np.float64]:
    """The mean of each rail over the nodes with a value, `[rail]`."""
    known = ~np.isnan(table)
    count = known.sum(axis=0)
    total = np.where(known, table, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def degraded(ratios: Table, limit: float) -> list[int]:
    """Rails that carry less than `limit` of the traffic of their peers on most nodes.

    `ratios` is the traffic of each device over the median of its node, `[node, rail]`.
    """
    known = (~np.isnan(ratios)).sum(axis=0)
    low = (ratios < limit).sum(axis=0)
    found = np.flatnonzero((known > 1) & (2 * low > known)).tolist()
    return found if len(found) <= MAX_DEGRADED_SHARE * ratios.shape[1] else []
