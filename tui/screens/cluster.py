"""The fleet: everything at a glance, worst first."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.reactive import reactive

from ..messages import NodeAsked
from ..render import devices, efa
from ..render.line import printable
from ..widgets.fleet_table import FleetTable
from ..widgets.node_panel import NodePanel
from ..widgets.overview import FleetMap, Trends
from ..widgets.row_table import RowTable
from .frame import Frame


class ClusterScreen(Frame):
    """A map of the fleet, the run's last minutes and a row per node."""

    CSS_PATH = "cluster.tcss"
    PLACE = "cluster"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "Sort", id="cluster.sort", tooltip="Sort by the next column"),
        Binding(
            "S,shift+s", "reverse", "Reverse", show=False, id="cluster.reverse",
            tooltip="Turn the order round",
        ),
        Binding(
            "m", "map", "Map", id="cluster.map",
            tooltip="Colour the map by utilization or by tensor engines",
        ),
    ]  # fmt: skip

    table = query_one(FleetTable)

    node: reactive[str | None] = reactive(None, repaint=False)
    """The node under the cursor, shown in part where there is room."""

    def body(self) -> ComposeResult:
        """Map and charts above or beside the table."""
        fleet = FleetMap(glyphs=self.glyphs, id="map").data_bind(Frame.scene)
        trends = Trends(glyphs=self.glyphs, id="trends").data_bind(Frame.scene)
        trends.border_title = "last minutes"
        nodes = FleetTable(glyphs=self.glyphs, id="nodes").data_bind(Frame.scene)
        nodes.border_title = "nodes · worst first"
        cores = NodePanel(devices.draw, glyphs=self.glyphs, id="devices")
        cards = NodePanel(efa.draw, glyphs=self.glyphs, id="cards")
        cores.data_bind(Frame.scene, ClusterScreen.node)
        cards.data_bind(Frame.scene, ClusterScreen.node)
        for panel in (fleet, trends, nodes, cores, cards):
            panel.add_class("panel")
        peek = Horizontal(cores, cards, id="peek")
        yield Container(Container(fleet, nodes, peek, id="left"), trends, id="cluster")

    @property
    def subject(self) -> str | None:
        """The node under the cursor."""
        current = self.table.current
        return None if current is None else current.name

    def watch_scene(self) -> None:
        """The first row may have become another node."""
        if self.is_mounted:
            self.call_next(self._follow)

    @on(RowTable.Moved)
    def _follow(self) -> None:
        self.node = self.subject
        for panel, what in (("#devices", "devices and cores"), ("#cards", "EFA cards")):
            # Content, because a border title given as a string is parsed as markup.
            title = Content(printable(f"{self.node or 'no node'} · {what}"))
            self.query_one(panel).border_title = title

    @on(RowTable.Chosen)
    def _open(self, event: RowTable.Chosen) -> None:
        self.post_message(NodeAsked(event.key))

    def action_sort(self) -> None:
        """Sorts by the next column."""
        self._titled(self.table.sort_by_next())

    def action_reverse(self) -> None:
        """Turns the order round."""
        self.table.turn()

    def action_map(self) -> None:
        """Colours the map by the next quantity."""
        self.query_one(FleetMap).turn()

    def _titled(self, column: str) -> None:
        order = "worst first" if column == "worst" else f"by {column}"
        self.table.border_title = f"nodes · {order}"
