"""Parts of a node's screen."""

from collections.abc import Sequence

from textual.reactive import reactive
from textual.strip import Strip

from trntop.core.model import NodeView

from ..render import moments, trends
from ..render.glyphs import BLOCK, Glyphs
from ..render.node import Paint
from ..view_model import ViewModel
from .drawn import Drawn


class NodeDrawing(Drawn):
    """Draws one node of the scene; nothing for a node that is gone."""

    node: reactive[str | None] = reactive(None, repaint=False)

    def watch_node(self) -> None:
        """Another node."""
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """Hands the node on to `draw_node`."""
        if self.view_model is None or self.node is None:
            return ()
        node = self.view_model.cluster.nodes.get(self.node)
        return () if node is None else self.draw_node(self.view_model, node, width, height)

    def draw_node(
        self, view_model: ViewModel, node: NodeView, width: int, height: int
    ) -> Sequence[Strip]:
        """The lines of `node`."""
        raise NotImplementedError


class NodePanel(NodeDrawing):
    """As high as what a given function draws.

    Args:
        paint: makes the lines from scene, node, width and pen.
        glyphs: what graphs are drawn with.
        id: of the widget.
    """

    DEFAULT_CSS = "NodePanel { height: auto; }"

    def __init__(self, paint: Paint, *, glyphs: Glyphs = BLOCK, id: str | None = None) -> None:  # noqa: A002
        super().__init__(glyphs=glyphs, id=id)
        self._paint = paint

    def draw_node(
        self, view_model: ViewModel, node: NodeView, width: int, height: int
    ) -> Sequence[Strip]:
        """All lines there are."""
        return self._paint(view_model, node, width, self.context)


class NodeTrends(NodeDrawing):
    """The node's last minutes, filling the area."""

    def draw_node(
        self, view_model: ViewModel, node: NodeView, width: int, height: int
    ) -> Sequence[Strip]:
        """As many charts as fit."""
        series = trends.node_trends(view_model, node.name)
        marks = moments.of_node(view_model, node.name, self.context)
        return trends.draw(series, view_model.view.time, width, height, self.context, marks)
