"""The EFA cards of all nodes as one table: a row a node, a column a rail.

A rail is the cards of one name on all nodes: in a collective they talk to one another.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import NodeView

Table = npt.NDArray[np.float64]

FEW = 3
"""One rail in so many may be lame; more of them are cards that the job does not use."""


class Rails:
    """Which card stands in which column, and what the cards tell.

    Args:
        nodes: the rows.
    """

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self.nodes = nodes
        self.row_of = {node.name: row for row, node in enumerate(nodes)}
        cards = [cast(tuple[str, ...], node.inventory.of(Entity.EFA)) for node in nodes]
        kinds = dict.fromkeys(cards)
        names = sorted({name for kind in kinds for name in kind}, key=units.natural)
        most = max(map(len, kinds), default=0)
        self.named = len(names) <= 2 * most
        """Whether a column is a name; else nodes name their cards each in their own way, and a
        column is a place in the order of a node's names.
        """
        self.names = tuple(names) if self.named else tuple(f"{n + 1}" for n in range(most))
        column_of = {name: column for column, name in enumerate(self.names)}
        columns = {
            kind: np.array(
                [column_of[name] for name in kind] if self.named else _ranks(kind), np.int64
            )
            for kind in kinds
        }
        self._columns = [columns[kind] for kind in cards]
        self._tables: dict[str, Table] = {}

    def table(self, quantity: str) -> Table:
        """A quantity of cards, `[node, rail]`; NaN where it is absent or there is no such card."""
        found = self._tables.get(quantity)
        if found is None:
            found = self._tables[quantity] = np.full((len(self.nodes), len(self.names)), np.nan)
            for row, (node, columns) in enumerate(zip(self.nodes, self._columns, strict=True)):
                values = node.frame.columns.get(quantity)
                if values is not None and len(values) == len(columns):
                    found[row, columns] = values
        return found

    def columns(self, row: int) -> list[int]:
        """The column of each card of a node, in the order of its inventory."""
        return cast(list[int], self._columns[row].tolist())

    def card(self, row: int, column: int) -> int | None:
        """The place of a card in its node's inventory; None where the node has none there."""
        columns = self.columns(row)
        return columns.index(column) if column in columns else None


def _ranks(names: Sequence[str]) -> list[int]:
    """The place of each in the natural order."""
    order = sorted(names, key=units.natural)
    return [order.index(name) for name in names]


def mean(table: Table) -> npt.NDArray[np.float64]:
    """The mean of each rail over the nodes that tell, `[rail]`."""
    known = ~np.isnan(table)
    count = known.sum(axis=0)
    total = np.where(known, table, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def median(table: Table) -> npt.NDArray[np.float64]:
    """The median of each rail over the nodes that tell, `[rail]`: a sick card does not move it."""
    found = np.full(table.shape[1], np.nan)
    told = ~np.isnan(table).all(axis=0)
    if told.any():
        found[told] = np.nanmedian(table[:, told], axis=0)
    return found


def lame(ratios: Table, limit: float) -> list[int]:
    """Rails that carry less than `limit` of what their siblings do on most nodes.

    None where it is many: the job does not use them.

    Args:
        ratios: each card's traffic over the median of its node's cards, `[node, rail]`.
        limit: a share.
    """
    known = (~np.isnan(ratios)).sum(axis=0)
    low = (ratios < limit).sum(axis=0)
    found = np.flatnonzero((known > 1) & (2 * low > known)).tolist()
    return found if FEW * len(found) <= ratios.shape[1] else []
