"""Quantities, and the one under the cursor explained."""

from collections.abc import Sequence
from typing import Any

from textual.reactive import reactive
from textual.strip import Strip

from trntop.analysis.rulebook import rules

from ..render import explain, table
from ..render.glyphs import BLOCK, Glyphs
from .drawn import Drawn
from .row_table import RowTable


class QuantityTable(RowTable[str]):
    """One row a quantity, with its value now.

    Args:
        names: of the catalog.
        node: whose values; None for those of all nodes.
        glyphs: what is drawn with.
        id: of the widget.
    """

    def __init__(
        self,
        names: Sequence[str],
        node: str | None,
        *,
        glyphs: Glyphs = BLOCK,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._names = names
        self._node = node

    def key(self, row: str) -> str:
        """The quantity's name."""
        return row

    def columns(self) -> Sequence[table.Column[Any]]:
        """Quantity and value."""
        return explain.COLUMNS

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is nothing to open."""
        return action != "choose" and super().check_action(action, parameters)

    def watch_view_model(self) -> None:
        """A new tick."""
        self.show(self._names)

    def prepare(self, rows: Sequence[str]) -> Sequence[Any]:
        """The values of visible rows."""
        if self.view_model is None:
            return ()
        return [
            explain.Entry(name, explain.briefly(self.view_model, self._node, name)) for name in rows
        ]


class Explained(Drawn):
    """One quantity in full, for a node or for all nodes."""

    DEFAULT_CSS = "Explained { height: auto; }"

    quantity: reactive[str] = reactive("", repaint=False)

    def __init__(self, node: str | None, *, glyphs: Glyphs = BLOCK, id: str | None = None) -> None:  # noqa: A002
        super().__init__(glyphs=glyphs, id=id)
        self._node = node

    def watch_quantity(self) -> None:
        """Another one."""
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """As many lines as it takes."""
        if self.view_model is None or not self.quantity:
            return ()
        view_model = self.view_model
        found = rules(view_model.limits, view_model.own_rules)
        return explain.draw(view_model, self._node, self.quantity, found, width, self.context)
