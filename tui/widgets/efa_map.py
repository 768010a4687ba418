"""The map of EFA devices, and panels of the same devices."""

from collections.abc import Callable, Sequence
from typing import Any

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from trntop.core.model import NodeView

from ..render import efa_map, layers, table
from ..render.context import RenderContext
from ..render.efa_map import MapState
from ..render.fabric import Fabric
from .drawn import Drawn
from .row_table import RowTable

LEGEND = 1
"""Lines below the map."""
FIRST = MapState(layers.LAYERS[0])

Paint = Callable[["EfaPanel", Fabric, int, int, RenderContext], Sequence[Strip]]


class EfaMap(RowTable[NodeView]):
    """A row per node, a cell per device, worst first in the layer that is shown."""

    fabric: reactive[Fabric | None] = reactive(None, repaint=False)
    map_state: reactive[MapState] = reactive(FIRST, repaint=False)
    by_name: reactive[bool] = reactive(False, repaint=False)

    class Pointed(Message):
        """The user clicked on a device."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def key(self, row: NodeView) -> str:
        return row.name

    def columns(self) -> Sequence[table.Column[Any]]:
        return () if self.fabric is None else efa_map.columns(self.fabric, self.size.width - 1)

    def watch_fabric(self) -> None:
        if self.fabric is not None:
            self.set_reactive(EfaMap.view_model, self.fabric.view_model)
            self.update()

    def find_rows(self) -> Sequence[NodeView]:
        assert self.fabric is not None
        by_name, layer = self.by_name, self.map_state.layer
        rows = self.fabric.rails.nodes if by_name else efa_map.worst_first(self.fabric, layer)
        if self.selection.narrow:
            names = self.selection.names(self.fabric.view_model)
            rows = [node for node in rows if node.name in names]
        return rows

    def watch_map_state(self, before: MapState, now: MapState) -> None:
        if now.layer is not before.layer:
            self.update()
        self.redraw()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        rows = super().get_content_height(container, viewport, width)
        return max(2, min(rows, container.height - LEGEND))

    def prepare(self, rows: Sequence[NodeView]) -> Sequence[Any]:
        if self.fabric is None:
            return ()
        current = self.current
        return [
            efa_map.row_of(self.fabric, row, self.map_state, cursor=row is current) for row in rows
        ]

    def on_click(self, event: events.Click) -> None:
        """A click selects a node and a device."""
        super().on_click(event)
        if self.fabric is None:
            return
        cell = efa_map.cell_width(self.fabric, self.size.width - 1)
        place = event.x - self.gutter.left - efa_map.first_cell(self.fabric)
        if cell and 0 <= place < cell * len(self.fabric.rails.names):
            self.post_message(self.Pointed(place // cell))


class EfaPanel(Drawn):
    """Drawn by a function of all EFA devices."""

    DEFAULT_CSS = "EfaPanel { height: auto; }"

    fabric: reactive[Fabric | None] = reactive(None, repaint=False)
    map_state: reactive[MapState] = reactive(FIRST, repaint=False)
    node: reactive[str | None] = reactive(None, repaint=False)

    def __init__(self, paint: Paint, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._paint = paint

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        if self.fabric is None:
            return ()
        return self._paint(self, self.fabric, width, height, self.context)
