"""The fleet, one row a node."""

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len

from trntop.model import NodeView

from ..render import fleet, table
from ..render.glyphs import BLOCK, Glyphs
from ..render.graph import AIR, Values, buckets
from .row_table import RowTable

WORST = "worst"
"""The standard order: incidents first, then the silent, then by name."""
TRAIL_CELLS = 17
TRAIL_SECONDS = 4.0


class FleetTable(RowTable[NodeView]):
    """Nodes, worst first unless sorted by a column."""

    def __init__(self, *, glyphs: Glyphs = BLOCK, id: str | None = None) -> None:  # noqa: A002
        super().__init__(glyphs=glyphs, id=id)
        self.sorted_by = WORST
        self._columns: tuple[table.Column[fleet.FleetRow], ...] = fleet.columns(8)
        self._names: tuple[str, ...] = ()

    def key(self, row: NodeView) -> str:
        """The node's name."""
        return row.name

    def columns(self) -> Sequence[table.Column[Any]]:
        """As wide as the names need."""
        return self._columns

    def watch_scene(self) -> None:
        """Sorts and shows the nodes of the new tick."""
        if self.scene is None:
            return
        names = self.scene.cluster.names
        if names != self._names:
            self._names = names
            self._columns = fleet.columns(max(map(cell_len, names), default=4))
        self.show(self._sorted(list(self.scene.cluster.nodes.values())))

    def sort_by_next(self) -> str:
        """Sorts by the next column, then by the standard order again; returns its name."""
        ids = [WORST, "node", *(column.id for column in self._columns if column.sort)]
        self.sorted_by = ids[(ids.index(self.sorted_by) + 1) % len(ids)]
        self.reverse = False
        self.watch_scene()
        return self.sorted_by

    def turn(self) -> None:
        """Turns the order round."""
        self.reverse = not self.reverse
        self.watch_scene()

    def prepare(self, rows: Sequence[NodeView]) -> Sequence[Any]:
        """Rows with their incidents and the trail of their EFA traffic."""
        if self.scene is None:
            return ()
        trails = self._trails([row.name for row in rows])
        top = max((float(trail[trail == trail].max(initial=0.0)) for trail in trails), default=0.0)
        return [
            fleet.FleetRow(row, self.scene.by_node.get(row.name, ()), trail, AIR * top)
            for row, trail in zip(rows, trails, strict=True)
        ]

    def _trails(self, names: Sequence[str]) -> list[Values]:
        assert self.scene is not None
        count = int(TRAIL_CELLS * TRAIL_SECONDS) + 1
        times, values = self.scene.history.nodes(fleet.TRANSMIT, names, count)
        now = self.scene.view.time
        return [
            buckets(times, values[:, column], now, TRAIL_CELLS, TRAIL_SECONDS)
            for column in range(len(names))
        ]

    def _sorted(self, nodes: list[NodeView]) -> list[NodeView]:
        assert self.scene is not None
        by_node = self.scene.by_node
        if self.sorted_by == "node":
            return nodes[::-1] if self.reverse else nodes
        if self.sorted_by == WORST:
            # The mapping is sorted by name and sorting is stable, so rows of one rank stand still.
            return sorted(
                nodes,
                key=lambda node: fleet.badness(by_node.get(node.name, ()), node),
                reverse=not self.reverse,
            )
        key = next(column.sort for column in self._columns if column.id == self.sorted_by)
        assert key is not None
        return sorted(nodes, key=key, reverse=not self.reverse)
