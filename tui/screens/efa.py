"""All EFA devices: traffic, retransmits and latency."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.reactive import reactive
from textual.strip import Strip

from trntop.core.model import Incident

from ..keys import hidden_key, key
from ..measures import RECEIVE, RETRANSMIT, TRANSMIT
from ..messages import NodeRequested
from ..render import efa, efa_device, efa_map, fabric, layers, marks, slow_links, trends
from ..render.context import RenderContext
from ..render.fabric import Fabric
from ..render.line import printable
from ..render.links import LATENCY
from ..view_model import ViewModel
from ..widgets.drawn import Panel
from ..widgets.efa_map import FIRST, EfaMap, EfaPanel
from ..widgets.row_table import RowTable
from .base import BaseScreen
from .filtered import FilteredScreen, NodeListScreen


def _draw_device(
    panel: EfaPanel, fabric: Fabric, width: int, _height: int, context: RenderContext
) -> Sequence[Strip]:
    row, column = fabric.rails.row_of.get(panel.node or ""), panel.map_state.column
    if row is None:
        return ()
    place = None if column is None else fabric.rails.device(row, column)
    return efa_device.draw(fabric, fabric.rails.nodes[row], place, width, context)


def _draw_trends(panel: Panel, view_model: ViewModel, width: int, height: int) -> list[Strip]:
    found = (trends.of_node(view_model, panel.node or "", of) for of in (RETRANSMIT, TRANSMIT))
    starts = marks.of_node(view_model, panel.node or "", panel.context)
    known = [trend for trend in found if trend is not None and trend.known]
    return trends.draw(known, view_model.view.time, width, height, panel.context, starts)


class EfaScreen(NodeListScreen):
    """A map of the devices, the selected device, and the slowest links."""

    CSS_PATH = "efa.tcss"
    NAME = "efa"
    SCROLLED = "#device"
    QUANTITIES = (
        TRANSMIT, RECEIVE, fabric.SHARE, RETRANSMIT, fabric.DEVICES, fabric.EXPECTED,
        efa.TX, efa.RX, efa.LINE_RATE, efa.RETRANSMIT, efa.PEERS,
        *(f"efa_{name}_total" for name in efa_device.COUNTERS), LATENCY,
    )  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "back", "Back", "Clear the filter, then go back to the fleet"),
        key("m", "layer", "Map", "Color EFA devices by traffic vs peers, retransmits or latency"),
        hidden_key("left_square_bracket", "device(-1)", "Device left", "EFA device to the left"),
        hidden_key("right_square_bracket", "device(1)", "Device right", "EFA device to the right"),
        key("s", "sort", "Sort", "Worst nodes first, or by name"),
        hidden_key("J,shift+j", "scroll(1)", "Counters down", "Scroll the device's counters down"),
        hidden_key("K,shift+k", "scroll(-1)", "Counters up", "Scroll the device's counters up"),
    ]

    table = query_one(EfaMap)

    fabric: reactive[Fabric | None] = reactive(None, repaint=False)
    map_state: reactive[efa_map.MapState] = reactive(FIRST, repaint=False)
    node: reactive[str | None] = reactive(None, repaint=False)
    """The node under the cursor."""
    device: str | None = None
    """The device that the user selected; None is the worst of the node."""
    titles: reactive[tuple[str, str]] = reactive(("", ""), repaint=False, init=False)
    """Of the panels of the device and of the map."""

    def body(self) -> ComposeResult:
        totals = EfaPanel(
            lambda _, fabric_, width, __, context: fabric.totals(fabric_, width, context),
            id="totals",
        )
        legend = EfaPanel(
            lambda panel, fabric_, width, _, context: [
                efa_map.legend(fabric_, panel.map_state, width - 1, context)
            ],
            id="legend",
        )
        links = EfaPanel(
            lambda _, fabric_, width, height, context: slow_links.draw(
                fabric_, width, height, context
            ),
            id="links",
        )
        table, device = EfaMap(id="map"), EfaPanel(_draw_device, id="counters")
        for part in (totals, legend, links, table, device):
            part.data_bind(EfaScreen.fabric, EfaScreen.map_state)
        device.data_bind(EfaScreen.node)
        table.data_bind(FilteredScreen.selection)
        fleet = Container(table, legend, id="fleet")
        scroll = VerticalScroll(device, id="device", can_focus=False)
        links.entitle("latency between nodes, one way")
        for panel in (fleet, scroll, links):
            panel.add_class("panel")
        yield self.filter_bar()
        yield totals
        charts = Panel(_draw_trends, "last minutes of the node", id="trends")
        charts.data_bind(BaseScreen.view_model, EfaScreen.node)
        left = Container(fleet, charts, id="left")
        yield Container(left, Container(scroll, links, id="details"), id="split")

    @property
    def list_table(self) -> EfaMap:
        return self.table

    @property
    def incident(self) -> Incident | None:
        """That of the selected device, else of its node, else that of the alert line."""
        if self.fabric is None or self.node is None:
            return super().incident
        found = self.fabric.view_model.by_node.get(self.node, ())
        of_device = efa_device.incident_of(self.fabric, self.node, self._device or "")
        return of_device or next(iter(found), None) or super().incident

    @property
    def _device(self) -> str | None:
        """The name of the selected device."""
        if self.fabric is None or self.map_state.column is None:
            return None
        names = self.fabric.rails.names
        return names[self.map_state.column] if self.map_state.column < len(names) else None

    def watch_view_model(self) -> None:
        if self.view_model is None:
            return
        found = Fabric(self.view_model)
        if self.node is None:
            # The first picture is laid out once, so the position of the cursor must be known.
            shown = self.selection.names(self.view_model)
            nodes = efa_map.worst_first(found, self.map_state.layer)
            self.node = next((node.name for node in nodes if node.name in shown), None)
        self.map_state = replace(self.map_state, column=self._column(found))
        self.fabric = found
        self.set_class(not (found.links.probes or found.links.failed), "-unprobed")
        if self.is_mounted:
            self.call_next(self._follow)

    def watch_selection(self) -> None:
        if self.is_mounted:
            self.call_next(self._follow)

    @on(RowTable.Moved)
    def _follow(self) -> None:
        """Selects a device of the node under the cursor."""
        if self.fabric is None:
            return
        self.node = self.subject
        # The map ends with its rows; heading, legend and border are around them.
        self.query_one("#fleet").styles.max_height = max(2, len(self.table.rows)) + 4
        self.map_state = replace(self.map_state, column=self._column(self.fabric))
        self.titles = (
            f"{self.node or 'no node'} · {self._device or 'no EFA device'}",
            f"EFA devices · {self.map_state.layer.title}",
        )

    def watch_titles(self) -> None:
        for panel, title in zip(("#device", "#fleet"), self.titles, strict=True):
            # Content, because a border title given as a string is parsed as markup.
            self.query_one(panel).border_title = Content(printable(title))

    def _column(self, fabric: Fabric) -> int | None:
        """The column of the selected device, else of the worst device of the node."""
        names, row = fabric.rails.names, fabric.rails.row_of.get(self.node or "")
        if not names or row is None:
            return None
        if self.device in names:
            return names.index(self.device)
        found = efa_map.marks(fabric, fabric.rails.nodes[row], links=True)
        return max(found, key=lambda column: found[column].rank, default=0)

    @on(RowTable.Chosen)
    def _open(self) -> None:
        if self.subject is not None:
            self.post_message(NodeRequested(self.subject))

    @on(EfaMap.Pointed)
    def _pointed(self, event: EfaMap.Pointed) -> None:
        self._select(event.column)

    def _select(self, column: int) -> None:
        if self.fabric is not None and self.fabric.rails.names:
            names = self.fabric.rails.names
            self.device = names[min(len(names) - 1, max(0, column))]
            self._follow()

    def action_device(self, step: int) -> None:
        self._select((self.map_state.column or 0) + step)

    def action_layer(self) -> None:
        place = layers.LAYERS.index(self.map_state.layer) + 1
        self.map_state = replace(self.map_state, layer=layers.LAYERS[place % len(layers.LAYERS)])
        # A narrow screen has room for the links or the device.
        self.set_class(place == len(layers.LAYERS) - 1, "-latency")
        self._follow()

    def action_sort(self) -> None:
        self.table.by_name = not self.table.by_name
        order = "by name" if self.table.by_name else "worst first"
        self.query_one("#fleet").border_subtitle = order
        self._follow()
