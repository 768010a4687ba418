"""The map of EFA cards, its headings, the card under the cursor, and the pairs of nodes."""

from collections.abc import Sequence
from typing import Any

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from trntop.core.model import NodeView

from ..render import card, card_map, layers, pairs, table
from ..render.fabric import Fabric, sums
from ..render.glyphs import BLOCK, Glyphs
from ..selection import ALL, Selection
from .drawn import Drawn
from .row_table import RowTable

AROUND = 3
"""Lines above and below the map: buses, means, legend."""
FIRST = card_map.Look(layers.LAYERS[0], layers.TOPS[0])


class CardMap(RowTable[NodeView]):
    """A row a node, a cell a card, worst first by the layer that is shown."""

    fabric: reactive[Fabric | None] = reactive(None, repaint=False)
    look: reactive[card_map.Look] = reactive(FIRST, repaint=False)
    selection: reactive[Selection] = reactive(ALL, repaint=False)
    """The nodes that are shown."""

    class Pointed(Message):
        """The user clicked on a card."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def __init__(self, *, glyphs: Glyphs = BLOCK, id: str | None = None) -> None:  # noqa: A002
        super().__init__(glyphs=glyphs, id=id)
        self._by_name = False

    def key(self, row: NodeView) -> str:
        """The node's name."""
        return row.name

    def columns(self) -> Sequence[table.Column[Any]]:
        """As many cells a card as there is room for."""
        return () if self.fabric is None else card_map.columns(self.fabric, self.size.width - 1)

    def watch_fabric(self) -> None:
        """A new tick."""
        if self.fabric is not None:
            nodes = self.fabric.rails.nodes
            rows = nodes if self._by_name else card_map.worst_first(self.fabric, self.look.layer)
            if self.selection.narrow:
                chosen = self.selection.names(self.fabric.view_model)
                rows = [node for node in rows if node.name in chosen]
            self.show(rows)

    def watch_selection(self) -> None:
        """Other nodes."""
        self.watch_fabric()

    @property
    def nothing(self) -> str:
        """Why there is no row."""
        return self.selection.nothing if self.selection.narrow else ""

    def watch_look(self, before: card_map.Look, now: card_map.Look) -> None:
        """Other colours, or another card."""
        if now.layer is not before.layer:
            self.watch_fabric()
        self.redraw()

    def sort_by_next(self) -> str:
        """Takes the other of both orders; returns its name."""
        self._by_name = not self._by_name
        self.watch_fabric()
        return "by name" if self._by_name else "worst first"

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """All rows and the header, as far as what stands around them leaves room."""
        whole = super().get_content_height(container, viewport, width)
        return max(2, min(whole, container.height - AROUND))

    def prepare(self, rows: Sequence[NodeView]) -> Sequence[Any]:
        """Their cards' values and colours."""
        if self.fabric is None:
            return ()
        current = self.current
        return [
            card_map.of_node(self.fabric, row, self.look, cursor=row is current) for row in rows
        ]

    def on_click(self, event: events.Click) -> None:
        """A click chooses a node and the card it points at."""
        super().on_click(event)
        if self.fabric is None:
            return
        cell = card_map.cell_width(self.fabric, self.size.width - 1)
        place = event.x - self.gutter.left - card_map.first_card(self.fabric)
        if cell and 0 <= place < cell * len(self.fabric.rails.names):
            self.post_message(self.Pointed(place // cell))


class FabricDrawing(Drawn):
    """Base of what is drawn from all cards."""

    fabric: reactive[Fabric | None] = reactive(None, repaint=False)
    look: reactive[card_map.Look] = reactive(FIRST, repaint=False)

    def watch_fabric(self) -> None:
        """A new tick."""
        self.redraw()

    def watch_look(self) -> None:
        """Other colours, or another card."""
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """Hands the cards on to `draw_fabric`."""
        return () if self.fabric is None else self.draw_fabric(self.fabric, width, height)

    def draw_fabric(self, fabric: Fabric, width: int, height: int) -> Sequence[Strip]:
        """The lines for an area of this size."""
        raise NotImplementedError


class FabricSums(FabricDrawing):
    """What all cards carry, and whether they are there and alike."""

    DEFAULT_CSS = "FabricSums { height: 2; }"

    def draw_fabric(self, fabric: Fabric, width: int, height: int) -> Sequence[Strip]:
        """Two lines."""
        return sums(fabric, width, self.context)


class CardNames(FabricDrawing):
    """The line above the map."""

    DEFAULT_CSS = "CardNames { height: 1; }"

    def draw_fabric(self, fabric: Fabric, width: int, height: int) -> Sequence[Strip]:
        """One line; its last cell stands above the scroll bar of the map."""
        return [card_map.heading(fabric, self.look, width - 1, self.context)]


class CardMeans(FabricDrawing):
    """The lines below the map."""

    DEFAULT_CSS = "CardMeans { height: 2; }"

    def draw_fabric(self, fabric: Fabric, width: int, height: int) -> Sequence[Strip]:
        """The medians of the rails, and the scale."""
        return card_map.footing(fabric, self.look, width - 1, self.context)


class OfNode(FabricDrawing):
    """Base of what is drawn of the node under the cursor."""

    node: reactive[str | None] = reactive(None, repaint=False)

    def watch_node(self) -> None:
        """Another node."""
        self.redraw()


class CardTrends(OfNode):
    """What the node's cards sent lately, where the map leaves room."""

    def draw_fabric(self, fabric: Fabric, width: int, height: int) -> Sequence[Strip]:
        """As much as there is room for."""
        if self.node not in fabric.rails.row_of:
            return ()
        return card.past(fabric.view_model, self.node, width - 1, height, self.context)


class CardDetail(OfNode):
    """The card under the cursor."""

    DEFAULT_CSS = "CardDetail { height: auto; }"

    def draw_fabric(self, fabric: Fabric, width: int, height: int) -> Sequence[Strip]:
        """All lines there are."""
        row, column = fabric.rails.row_of.get(self.node or ""), self.look.column
        if row is None:
            return ()
        node = fabric.rails.nodes[row]
        place = None if column is None else fabric.rails.card(row, column)
        if place is None:
            return card.missing(node, width, self.context)
        return card.draw(fabric, node, place, width, self.context)


class PairMatrix(FabricDrawing):
    """The latency between nodes."""

    def draw_fabric(self, fabric: Fabric, width: int, height: int) -> Sequence[Strip]:
        """As much as there is room for."""
        return pairs.draw(fabric, width, height, self.context)
