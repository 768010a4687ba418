"""The fleet: everything at a glance, worst first."""

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.getters import query_one
from textual.reactive import reactive

from ..messages import NodeAsked, SubjectChanged
from ..preferences import Arrangement, TablePreferences
from ..render import devices, efa, fleet
from ..render.glyphs import Glyphs
from ..render.line import printable
from ..selection import Selection, SharedSelection
from ..widgets.fleet_table import FleetTable
from ..widgets.node_panel import NodePanel
from ..widgets.overview import FleetMap, Trends
from ..widgets.row_table import RowTable
from .finding import FaultFinding, Finding
from .frame import Frame, Latest


class ClusterScreen(FaultFinding):
    """A map of the fleet, the run's last minutes and a row per node."""

    CSS_PATH = "cluster.tcss"
    PLACE = "cluster"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Clear", id="cluster.clear",
                tooltip="Show all nodes again"),
        Binding("c", "columns", "Columns", show=False, id="cluster.columns",
                tooltip="Choose the columns, and the one to sort by"),
        Binding("s", "sort", "Sort", id="cluster.sort", tooltip="Sort by the next column"),
        Binding(
            "S,shift+s", "reverse", "Reverse", show=False, id="cluster.reverse",
            tooltip="Reverse sort order",
        ),
        Binding(
            "m", "map", "Map", id="cluster.map",
            tooltip="Colour the map by utilization or by tensor engines",
        ),
    ]  # fmt: skip

    table = query_one(FleetTable)

    node: reactive[str | None] = reactive(None, repaint=False, init=False)
    """The node under the cursor, shown in part where there is room."""

    def __init__(
        self,
        latest: Latest,
        glyphs: Glyphs,
        held: SharedSelection | None = None,
        keeper: TablePreferences | None = None,
    ) -> None:
        super().__init__(latest, glyphs, held)
        self._keeper = keeper or TablePreferences()

    def body(self) -> ComposeResult:
        """Map and charts above or beside the table."""
        yield self.filter_bar()
        heat = FleetMap(glyphs=self.glyphs, id="map")
        heat.data_bind(Frame.view_model, Finding.selection)
        trends = Trends(glyphs=self.glyphs, id="trends").data_bind(Frame.view_model)
        trends.border_title = "last minutes"
        nodes = FleetTable(glyphs=self.glyphs, id="nodes")
        nodes.data_bind(Frame.view_model, Finding.selection)
        cores = NodePanel(devices.draw, glyphs=self.glyphs, id="devices")
        cards = NodePanel(efa.draw, glyphs=self.glyphs, id="cards")
        cores.data_bind(Frame.view_model, ClusterScreen.node)
        cards.data_bind(Frame.view_model, ClusterScreen.node)
        for panel in (heat, trends, nodes, cores, cards):
            panel.add_class("panel")
        peek = Horizontal(cores, cards, id="peek")
        yield Container(Container(heat, nodes, peek, id="left"), trends, id="cluster")

    @property
    def subject(self) -> str | None:
        """The node under the cursor."""
        current = self.table.current
        return None if current is None else current.name

    def watch_view_model(self) -> None:
        """The first row may have become another node."""
        if self.is_mounted:
            self.call_next(self._follow)

    @on(RowTable.Moved)
    def _follow(self) -> None:
        self.node = self.subject

    def watch_node(self) -> None:
        """Names it above its panels."""
        for panel, what in (("#devices", "devices and cores"), ("#cards", "EFA devices")):
            self.entitle(panel, f"{self.node or 'no node'} · {what}")
        self.post_message(SubjectChanged())

    @on(RowTable.Chosen)
    def _open(self, event: RowTable.Chosen) -> None:
        self.post_message(NodeAsked(event.key))

    def on_mount(self) -> None:
        """Arranges the table as it was left."""
        kept = self._keeper.load()
        known = (fleet.WORST, *fleet.TITLES)
        if strange := [name for name in (kept.sort, *kept.columns) if name and name not in known]:
            self.notify(
                f"no column is called {printable(strange[0])}; known are {', '.join(known)}",
                severity="warning",
                markup=False,
            )
        self.table.wanted = tuple(name for name in kept.columns if name in known)
        if kept.sort in known:
            self.table.sorted_by, self.table.reverse = kept.sort, kept.reverse
        self.choose(Selection(faults=kept.faults))
        self.held.keep = self._arranged

    @on(FleetTable.Arranged)
    def _arranged(self) -> None:
        table = self.table
        self._keeper.save(
            Arrangement(
                sort=table.sorted_by,
                reverse=table.reverse,
                columns=table.wanted,
                faults=self.held.selection.faults,
            )
        )

    @property
    def listed(self) -> FleetTable:
        """The nodes."""
        return self.table

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is something to clear while nodes are left out, or something is typed."""
        if action == "back":
            return self.selection.narrow or (self.is_mounted and self.bar.editing)
        return super().check_action(action, parameters)

    def watch_selection(self) -> None:
        """The first row may have become another node."""
        if self.is_mounted:
            self.call_next(self._follow)

    @work
    async def action_columns(self) -> None:
        """Lets the user choose columns."""
        from .columns import Choice, ColumnsScreen

        table = self.table
        names = tuple(column.id for column in table.columns())
        found: Choice = await self.app.push_screen_wait(
            ColumnsScreen(names, table.fitting(), table.sorted_by, self.glyphs)
        )
        table.choose(found.columns, found.sort)

    def action_sort(self) -> None:
        """Sorts by the next column."""
        self.table.sort_by_next()

    def action_reverse(self) -> None:
        """Turns the order round."""
        self.table.turn()

    def action_map(self) -> None:
        """Colours the map by the next quantity."""
        self.query_one(FleetMap).turn()
