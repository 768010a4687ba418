"""The fleet, one row a node."""

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive

from trntop.core import units
from trntop.core.model import NodeView

from ..measures import TRANSMIT
from ..render import fleet, table
from ..render.glyphs import BLOCK, Glyphs
from ..render.graph import AIR, Values, buckets
from ..selection import ALL, Selection
from .row_table import RowTable

TRAIL_CELLS = 17
TRAIL_SECONDS = 4.0


class FleetTable(RowTable[NodeView]):
    """Nodes, worst first unless sorted by a column."""

    selection: reactive[Selection] = reactive(ALL, repaint=False)
    """The nodes that are shown."""

    class Arranged(Message):
        """The user sorts by another column, or the other way round."""

    def __init__(self, *, glyphs: Glyphs = BLOCK, id: str | None = None) -> None:  # noqa: A002
        super().__init__(glyphs=glyphs, id=id)
        self.sorted_by = fleet.WORST
        self.wanted: tuple[str, ...] = ()
        """Names of the columns; none for the standard ones."""
        self._columns: tuple[table.Column[fleet.FleetRow], ...] = ()
        self._title = ""
        self._drawn_from: tuple[tuple[str, ...], tuple[str, ...], bool] | None = None

    def key(self, row: NodeView) -> str:
        """The node's name."""
        return row.name

    def columns(self) -> Sequence[table.Column[Any]]:
        """As wide as the names need."""
        return self._columns

    @property
    def nothing(self) -> str:
        """Why there is no row."""
        if self.view_model is None or not self.view_model.cluster.nodes:
            return ""
        return self.selection.nothing

    def watch_view_model(self) -> None:
        """Sorts and shows the nodes of the new tick."""
        if self.view_model is None:
            return
        names = self.view_model.cluster.names
        since = self.view_model.baseline
        source = (names, self.wanted, since is not None)
        if source != self._drawn_from:
            self._drawn_from = source
            found = fleet.columns(max(map(cell_len, names), default=4), changes=since is not None)
            self._columns = fleet.chosen(found, self.wanted)
        nodes = list(self.view_model.cluster.nodes.values())
        places = fleet.order(self.view_model, self.sorted_by, reverse=self.reverse)
        if self.selection.narrow:
            shown = self.selection.mask(self.view_model).tolist()
            places = [place for place in places if shown[place]]
        self._name_it(len(places), len(nodes))
        self.show([nodes[place] for place in places])

    def watch_selection(self) -> None:
        """Other nodes."""
        self.watch_view_model()

    def sort_by_next(self) -> None:
        """Sorts by the next column that is seen, then by the standard order again."""
        ids = [fleet.WORST, *self.fitting()]
        place = ids.index(self.sorted_by) + 1 if self.sorted_by in ids else 0
        self.sort_by(ids[place % len(ids)])

    def sort_by(self, column: str) -> None:
        """Sorts by a column."""
        self._arrange(column, reverse=False)

    def turn(self) -> None:
        """Turns the order round."""
        self._arrange(self.sorted_by, reverse=not self.reverse)

    def choose(self, columns: tuple[str, ...], sort: str) -> None:
        """Takes other columns, and sorts by one of them."""
        self.wanted = columns
        self._arrange(sort, reverse=self.reverse and sort == self.sorted_by)

    def _arrange(self, column: str, *, reverse: bool) -> None:
        self.sorted_by, self.reverse = column, reverse
        self.watch_view_model()
        self.post_message(self.Arranged())

    def header_clicked(self, column: str) -> None:
        """Sorts by this column; the other way round where it is so already."""
        if column == self.sorted_by:
            self.turn()
        else:
            self.sort_by(column)

    def fitting(self) -> list[str]:
        """Names of the columns for which there is room."""
        return [column.id for column, _ in self.layout_at(self.size.width)]

    def _name_it(self, shown: int, all_nodes: int) -> None:
        """The title says in which order, how many, and since when changes count."""
        assert self.view_model is not None
        worst = self.sorted_by == fleet.WORST
        parts = ["nodes", "worst first" if worst else f"by {fleet.TITLES[self.sorted_by]}"]
        if self.reverse:
            parts[-1] += ", turned round"
        if self.selection.narrow:
            parts.append(f"{shown:,} of {all_nodes:,}")
        if (before := self.view_model.baseline) is not None:
            parts.append(f"± since {units.clock(before.time, utc=self.view_model.utc)}")
        if (title := " · ".join(parts)) != self._title:
            self._title = title
            self.border_title = Content(title)

    def remark(self, prepared: fleet.FleetRow) -> str:
        """Why a node is not reached."""
        return fleet.unreached(prepared.node)

    def prepare(self, rows: Sequence[NodeView]) -> Sequence[Any]:
        """Rows with their incidents and the trail of their EFA traffic."""
        if self.view_model is None:
            return ()
        before = self.view_model.baseline
        then = before.cluster.nodes if before is not None else {}
        trails = self._trails([row.name for row in rows])
        top = max((float(trail[trail == trail].max(initial=0.0)) for trail in trails), default=0.0)
        return [
            fleet.FleetRow(
                row,
                incidents=self.view_model.by_node.get(row.name, ()),
                trail=trail,
                trail_top=AIR * top,
                before=then.get(row.name),
                of_jobs=fleet.of_jobs(self.view_model, row),
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
