"""The fleet: a map, the charts of the last minutes, and a row per node."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal
from textual.getters import query_one
from textual.reactive import reactive

from ..keys import hidden_key, key
from ..messages import NodeRequested, SubjectChanged
from ..render import devices, efa, fleet, incidents, trends
from ..render.line import printable
from ..widgets.drawn import Panel, of_node
from ..widgets.fleet_table import FleetTable
from ..widgets.overview import FleetMap
from ..widgets.row_table import RowTable
from .base import BaseScreen
from .filtered import FilteredScreen, NodeListScreen


class ClusterScreen(NodeListScreen):
    """All nodes, worst first."""

    CSS_PATH = "cluster.tcss"
    NAME = "cluster"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "back", "Clear", "Show all nodes"),
        key("s", "sort", "Sort", "Sort by the next column"),
        hidden_key("S,shift+s", "reverse", "Reverse", "Reverse sort order"),
        key("m", "map", "Map", "Color the map by utilization, TE, retransmits, comm share or HBM"),
    ]

    table = query_one(FleetTable)

    node: reactive[str | None] = reactive(None, repaint=False, init=False)
    """The node under the cursor; a large screen shows its parts."""

    def body(self) -> ComposeResult:
        yield self.filter_bar()
        fleet_map = FleetMap(id="map")
        charts = Panel(
            lambda panel, view_model, width, height: trends.fleet(
                view_model, width, height, panel.context
            ),
            "last minutes",
            id="trends",
        )
        nodes = FleetTable(self._known(self.dashboard.settings.screen.columns), id="nodes")
        for widget in (fleet_map, nodes):
            widget.data_bind(BaseScreen.view_model, FilteredScreen.selection).add_class("panel")
        parts = (
            Panel(of_node(devices.draw), "devices and cores", id="devices"),
            Panel(of_node(efa.draw), "EFA devices", id="node-efa"),
        )
        for part in parts:
            part.data_bind(BaseScreen.view_model, ClusterScreen.node)
        worst = Panel(
            lambda panel, view_model, width, height: incidents.worst(
                view_model, width, height, panel.context
            ),
            "worst incident",
            id="worst",
        )
        for panel in (charts, worst):
            panel.data_bind(BaseScreen.view_model)
        left = Container(fleet_map, nodes, Horizontal(*parts, id="peek"), charts, id="left")
        yield Container(left, worst, id="cluster")

    def _known(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if name in fleet.TITLES)

    def on_mount(self) -> None:
        """Applies the settings for columns and sort order."""
        wanted = self.dashboard.settings.screen
        known = (fleet.WORST, *fleet.TITLES)
        if wanted.sort in known:
            self.table.sort(wanted.sort)
        unknown = [n for n in (wanted.sort, *wanted.columns) if n and n not in known]
        if unknown:
            text = f"unknown column {printable(unknown[0])}; use one of {', '.join(known)}"
            self.notify(text, severity="warning", markup=False)

    @property
    def list_table(self) -> FleetTable:
        return self.table

    def watch_view_model(self) -> None:
        self.set_class(bool(self.view_model and self.view_model.incidents), "-incident")
        if self.is_mounted:
            self.call_next(self._follow)

    def watch_selection(self) -> None:
        self.watch_view_model()

    @on(RowTable.Moved)
    def _follow(self) -> None:
        self.node = self.subject

    def watch_node(self) -> None:
        for panel, what in (("#devices", "devices and cores"), ("#node-efa", "EFA devices")):
            self.query_one(panel, Panel).entitle(f"{self.node or 'no node'} · {what}")
        self.post_message(SubjectChanged())

    @on(RowTable.Chosen)
    def _open(self) -> None:
        if self.subject is not None:
            self.post_message(NodeRequested(self.subject))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "back":
            return self.selection.narrow or (self.is_mounted and self.bar.editing)
        return super().check_action(action, parameters)

    def action_sort(self) -> None:
        self.table.sort_by_next()

    def action_reverse(self) -> None:
        self.table.sort(self.table.sorted_by, reverse=not self.table.reverse)

    def action_map(self) -> None:
        self.query_one(FleetMap).next_layer()
