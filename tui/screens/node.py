"""One node: devices and cores, EFA cards, what runs on it, its host, and what feeds it all."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.reactive import reactive

from ..render import devices, efa, host
from ..render import node as parts
from ..render.glyphs import Glyphs
from ..widgets.node_panel import NodeDrawing, NodePanel, NodeTrends
from .frame import Frame, Latest


class NodeScreen(Frame):
    """Everything known of one node."""

    CSS_PATH = "node.tcss"
    PLACE = "node"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="node.back", tooltip="Back to where you came from"),
        Binding("n,right", "turn(1)", "Next", key_display="n", id="node.next",
                tooltip="The next node by name"),
        Binding("p,left", "turn(-1)", "Prev", key_display="p", id="node.previous",
                tooltip="The previous node by name"),
        Binding("j", "scroll(1)", "Down", show=False, id="node.down", tooltip="Scroll down"),
        Binding("k", "scroll(-1)", "Up", show=False, id="node.up", tooltip="Scroll up"),
    ]  # fmt: skip

    node: reactive[str | None] = reactive(None, repaint=False)

    def __init__(self, latest: Latest, glyphs: Glyphs, node: str) -> None:
        super().__init__(latest, glyphs)
        self.set_reactive(NodeScreen.node, node)

    def body(self) -> ComposeResult:
        """Who it is above, its parts below."""
        yield self._panel(parts.identity, "", "identity")
        with VerticalScroll(id="parts"):
            with Container(id="hardware"):
                yield self._panel(devices.draw, "devices and cores", "devices")
                yield self._panel(efa.draw, "EFA cards", "cards")
            yield self._panel(parts.found, "incidents of this node and its jobs", "found")
            yield self._dressed(NodeTrends(glyphs=self.glyphs, id="past"), "last minutes")
            with Container(id="software"):
                yield self._panel(parts.processes, "Neuron processes", "processes")
                yield self._panel(host.draw, "host", "host")
            yield self._panel(parts.sources, "sources", "sources")

    def _panel(self, paint: parts.Paint, title: str, name: str) -> NodeDrawing:
        return self._dressed(NodePanel(paint, glyphs=self.glyphs, id=name), title)

    def _dressed(self, panel: NodeDrawing, title: str) -> NodeDrawing:
        panel.set_class(bool(title), "panel")
        panel.border_title = title
        return panel.data_bind(Frame.scene, NodeScreen.node)

    @property
    def subject(self) -> str | None:
        """This node."""
        return self.node

    def action_back(self) -> None:
        """Leaves the node."""
        self.app.pop_screen()

    def action_turn(self, step: int) -> None:
        """Shows the node `step` places on, round the fleet."""
        names = self.scene.cluster.names if self.scene else ()
        if self.node is not None and self.node in names:
            self.node = names[(names.index(self.node) + step) % len(names)]

    def action_scroll(self, step: int) -> None:
        """Scrolls the parts."""
        self.query_one("#parts").scroll_relative(y=3 * step, animate=False)
