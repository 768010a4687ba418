"""The fleet, one row per node."""

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len

from trntop.core.model import NodeView

from ..measures import TRANSMIT
from ..render import fleet, table
from ..render.graph import AIR, Values, buckets
from .row_table import RowTable

TRAIL_CELLS = 17
TRAIL_SECONDS = 4.0


class FleetTable(RowTable[NodeView]):
    """Nodes, worst first unless sorted by a column.

    Args:
        columns: names of the columns; none for the default ones.
        id: of the widget.
    """

    def __init__(self, columns: tuple[str, ...] = (), *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.sorted_by = fleet.WORST
        self.names = columns
        self._columns: tuple[table.Column[fleet.FleetRow], ...] = ()
        self._columns_for: tuple[tuple[str, ...], frozenset[str]] | None = None

    def key(self, row: NodeView) -> str:
        return row.name

    def columns(self) -> Sequence[table.Column[Any]]:
        return self._columns

    @property
    def empty_text(self) -> str:
        if self.view_model is None or not self.view_model.cluster.nodes:
            return ""
        return self.selection.empty_text

    def find_rows(self) -> Sequence[NodeView]:
        assert self.view_model is not None
        names = self.view_model.cluster.names
        hidden = fleet.uniform(self.view_model)
        if (names, hidden) != self._columns_for:
            self._columns_for = names, hidden
            found = fleet.columns(max(map(cell_len, names), default=4))
            self._columns = fleet.selected(found, self.names, hidden)
            self._drawn_for = None
        nodes = list(self.view_model.cluster.nodes.values())
        places = fleet.order(self.view_model, self.sorted_by, reverse=self.reverse)
        if self.selection.narrow:
            shown = self.selection.mask(self.view_model).tolist()
            places = [place for place in places if shown[place]]
        self._describe(len(places), len(nodes))
        return [nodes[place] for place in places]

    def _describe(self, shown: int, nodes: int) -> None:
        """The title has the order and the number of rows."""
        worst = self.sorted_by == fleet.WORST
        order = "worst first" if worst else f"by {fleet.TITLES[self.sorted_by]}"
        reverse = ", reversed" if self.reverse else ""
        count = f" · {shown:,} of {nodes:,}" if self.selection.narrow else ""
        self.entitle(f"nodes · {order}{reverse}{count}")

    def sort_by_next(self) -> None:
        """Sorts by the next visible column, after the last one in the default order."""
        ids = [fleet.WORST, *self.fitting()]
        place = ids.index(self.sorted_by) + 1 if self.sorted_by in ids else 0
        self.sort(ids[place % len(ids)])

    def sort(self, column: str, *, reverse: bool = False) -> None:
        self.sorted_by, self.reverse = column, reverse
        self.update()

    def header_clicked(self, column: str) -> None:
        """Sorts by this column; a second click reverses the order."""
        self.sort(column, reverse=column == self.sorted_by and not self.reverse)

    def fitting(self) -> list[str]:
        """Names of the columns that fit."""
        return [column.id for column, _ in self.layout_at(self.size.width)]

    def note(self, prepared: fleet.FleetRow) -> str:
        return fleet.unreached(prepared.node)

    def prepare(self, rows: Sequence[NodeView]) -> Sequence[Any]:
        """Rows with their incidents and recent EFA traffic."""
        if self.view_model is None:
            return ()
        trails = self._trails([row.name for row in rows])
        top = max((float(trail[trail == trail].max(initial=0.0)) for trail in trails), default=0.0)
        return [
            fleet.FleetRow(
                row,
                incidents=self.view_model.by_node.get(row.name, ()),
                trail=trail,
                trail_top=AIR * top,
                job_incidents=fleet.job_incidents(self.view_model, row),
            )
            for row, trail in zip(rows, trails, strict=True)
        ]

    def _trails(self, names: Sequence[str]) -> list[Values]:
        assert self.view_model is not None
        count = int(TRAIL_CELLS * TRAIL_SECONDS) + 1
        times, values = self.view_model.history.nodes(TRANSMIT, names, count)
        now = self.view_model.view.time
        return [
            buckets(times, values[:, column], now, TRAIL_CELLS, TRAIL_SECONDS)
            for column in range(len(names))
        ]
