"""One node: devices and cores, EFA cards, what runs on it, its host, and what feeds it all."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.reactive import reactive

from trntop.core.model import Incident

from ..messages import SubjectChanged
from ..render import devices, efa, host, place
from ..render import node as parts
from ..render.glyphs import Glyphs
from ..selection import SharedSelection
from ..widgets.node_panel import NodeDrawing, NodePanel, NodeTrends
from ..widgets.parts import Parts
from .frame import Frame, Latest

_PANELS = {"efa": "cards", "device": "devices", "core": "devices", "runtime": "processes"}
"""Kind of component → the panel that shows it."""


class NodeScreen(Frame):
    """Everything known of one node.

    Args:
        latest: as for every screen.
        glyphs: as for every screen.
        node: its name.
        held: the choice of nodes that screens share.
    """

    CSS_PATH = "node.tcss"
    PLACE = "node"
    QUANTITIES = (
        *Frame.QUANTITIES,
        "neuroncore_utilization_ratio",
        "physical_core_tensor_engine_busy_ratio",
        "device_memory_used_bytes",
        "device_hbm_bytes_per_second",
        "efa_tx_bytes_per_second",
        "efa_retransmit_ratio",
        "efa_tx_sibling_ratio",
        "node_comm_share_floor_ratio",
        "node_comm_share_ceiling_ratio",
        "node_executions_completed_per_second",
        "node_total_latency_p50_seconds",
        "node_total_latency_p99_seconds",
        "node_executions_failed_total",
        "node_ecc_uncorrected_events",
        "node_unhealthy_components",
        "node_memory_available_bytes",
        "node_network_rx_bytes_per_second",
        "node_disk_read_bytes_per_second",
        "node_lustre_read_bytes_per_second",
        "node_clock_offset_seconds",
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="node.back", tooltip="Back to where you came from"),
        Binding("n", "turn(1)", "Next", id="node.next",
                tooltip="The next node by name, of those that are chosen"),
        Binding("p", "turn(-1)", "Prev", id="node.previous",
                tooltip="The previous node by name, of those that are chosen"),
        Binding("j", "scroll(1)", "Down", show=False, id="node.down", tooltip="Scroll down"),
        Binding("k", "scroll(-1)", "Up", show=False, id="node.up", tooltip="Scroll up"),
    ]  # fmt: skip

    node: reactive[str | None] = reactive(None, repaint=False)

    def __init__(self, latest: Latest, glyphs: Glyphs, node: str, held: SharedSelection) -> None:
        super().__init__(latest, glyphs)
        self._held = held
        self.set_reactive(NodeScreen.node, node)

    def body(self) -> ComposeResult:
        """Who it is above, its parts below."""
        yield self._panel(parts.identity, "", "identity")
        with Parts(id="parts"):
            with Container(id="hardware"):
                yield self._panel(devices.draw, "devices and cores", "devices")
                yield self._panel(efa.draw, "EFA devices", "cards")
            yield self._panel(parts.found, "incidents of this node and its jobs", "found")
            yield self._dressed(NodeTrends(glyphs=self.glyphs, id="past"), "last minutes")
            with Container(id="software"):
                yield self._panel(parts.processes, "Neuron processes", "processes")
                yield self._panel(host.draw, "host", "host")
            yield self._panel(place.draw, "instance and location", "place")
            yield self._panel(parts.sources, "sources", "sources")

    def _panel(self, paint: parts.Paint, title: str, name: str) -> NodeDrawing:
        return self._dressed(NodePanel(paint, glyphs=self.glyphs, id=name), title)

    def _dressed(self, panel: NodeDrawing, title: str) -> NodeDrawing:
        panel.set_class(bool(title), "panel")
        panel.border_title = title
        return panel.data_bind(Frame.view_model, NodeScreen.node)

    @property
    def trail(self) -> tuple[str, ...]:
        """The screen that led here, and the node."""
        below = [one.PLACE for one in self.app.screen_stack if isinstance(one, Frame)]
        return (*below[:-1], self.node or "")

    def go_to(self, part: str) -> None:
        """Scrolls to where a component is shown."""
        if panel := _PANELS.get(part.partition(":")[0]):
            self.query_one(f"#{panel}").scroll_visible(top=True, animate=False)

    @property
    def subject(self) -> str | None:
        """This node."""
        return self.node

    @property
    def incident(self) -> Incident | None:
        """The worst of this node, else the one in the alert line."""
        found = self.view_model.by_node.get(self.node or "", ()) if self.view_model else ()
        return found[0] if found else super().incident

    def watch_node(self) -> None:
        """Another node."""
        if self.is_current:
            self.crumbs = self.trail
        self.post_message(SubjectChanged())

    def action_back(self) -> None:
        """Leaves the node."""
        self.app.pop_screen()

    def action_turn(self, step: int) -> None:
        """Shows the node `step` places on, round the chosen ones; this one may be none of them."""
        node, view_model = self.node, self.view_model
        if view_model is None or node is None or node not in view_model.cluster.nodes:
            return
        chosen = self._held.selection.names(view_model) | {node}
        names = [name for name in view_model.cluster.names if name in chosen]
        self.node = names[(names.index(node) + step) % len(names)]

    def action_scroll(self, step: int) -> None:
        """Scrolls the parts."""
        self.query_one("#parts").scroll_relative(y=3 * step, animate=False)
