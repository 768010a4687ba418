"""One node: devices and cores, EFA devices, processes, host, sources."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.reactive import reactive
from textual.strip import Strip

from trntop.core.model import Incident

from ..keys import hidden_key, key
from ..messages import SubjectChanged
from ..render import devices, efa, host, instance, marks, trends
from ..render import node as parts
from ..view_model import ViewModel
from ..widgets.drawn import Panel, of_node
from ..widgets.panel_stack import PanelStack
from .base import BaseScreen

_PANELS = {"efa": "node-efa", "device": "devices", "core": "devices", "runtime": "processes"}
"""Kind of component → the panel that shows it."""


def _draw_trends(panel: Panel, view_model: ViewModel, width: int, height: int) -> list[Strip]:
    if panel.node is None or panel.node not in view_model.cluster.nodes:
        return []
    found = trends.node_trends(view_model, panel.node)
    starts = marks.of_node(view_model, panel.node, panel.context)
    return trends.draw(found, view_model.view.time, width, height, panel.context, starts)


class NodeScreen(BaseScreen):
    """Everything about one node."""

    CSS_PATH = "node.tcss"
    NAME = "node"
    SCROLLED = "#parts"
    QUANTITIES = (
        *BaseScreen.QUANTITIES,
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
        "node_nfs_read_bytes_per_second",
        "node_clock_offset_seconds",
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "back", "Back", "Back to the previous screen"),
        key("n", "turn(1)", "Next", "Next selected node, by name"),
        key("p", "turn(-1)", "Prev", "Previous selected node, by name"),
        hidden_key("j", "scroll(1)", "Down", "Scroll down"),
        hidden_key("k", "scroll(-1)", "Up", "Scroll up"),
    ]

    node: reactive[str | None] = reactive(None, repaint=False)

    def __init__(self, node: str) -> None:
        super().__init__()
        self.set_reactive(NodeScreen.node, node)

    def body(self) -> ComposeResult:
        panels = {
            "identity": Panel(of_node(parts.identity), id="identity"),
            "devices": Panel(of_node(devices.draw), "devices and cores", id="devices"),
            "efa": Panel(of_node(efa.draw), "EFA devices", id="node-efa"),
            "found": Panel(of_node(parts.found), "incidents of this node and its jobs", id="found"),
            "trends": Panel(_draw_trends, "last minutes", id="trends"),
            "processes": Panel(of_node(parts.processes), "Neuron processes", id="processes"),
            "host": Panel(of_node(host.draw), "host", id="host"),
            "instance": Panel(of_node(instance.draw), "instance and location", id="instance"),
            "sources": Panel(of_node(parts.sources), "sources", id="sources"),
        }
        for panel in panels.values():
            panel.data_bind(BaseScreen.view_model, NodeScreen.node)
        yield panels["identity"]
        with PanelStack(id="parts"):
            yield Container(panels["devices"], panels["efa"], id="hardware")
            yield panels["found"]
            yield panels["trends"]
            yield Container(panels["processes"], panels["host"], id="software")
            yield panels["instance"]
            yield panels["sources"]

    @property
    def path(self) -> tuple[str, ...]:
        below = [s.NAME for s in self.app.screen_stack if isinstance(s, BaseScreen)]
        return (*below[:-1], self.node or "")

    def go_to(self, part: str) -> None:
        """Scrolls to the panel of a component."""
        if panel := _PANELS.get(part.partition(":")[0]):
            self.query_one(f"#{panel}").scroll_visible(top=True, animate=False)

    @property
    def subject(self) -> str | None:
        return self.node

    @property
    def incident(self) -> Incident | None:
        """The worst of this node, else that of the alert line."""
        found = self.view_model.by_node.get(self.node or "", ()) if self.view_model else ()
        return found[0] if found else super().incident

    def watch_node(self) -> None:
        if self.is_current:
            self.crumbs = self.path
        self.post_message(SubjectChanged())

    async def action_back(self) -> None:
        self.app.pop_screen()

    def action_turn(self, step: int) -> None:
        """Shows the selected node `step` places after this one."""
        node, view_model = self.node, self.view_model
        if view_model is None or node is None or node not in view_model.cluster.nodes:
            return
        selected = self.dashboard.shared.selection.names(view_model) | {node}
        names = [name for name in view_model.cluster.names if name in selected]
        self.node = names[(names.index(node) + step) % len(names)]
