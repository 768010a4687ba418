"""What the numbers of a screen are: formula, inputs, sources, and the rules that judge them."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen

from trntop.core import units

from ..render.glyphs import Glyphs
from ..render.line import printable
from ..widgets.explained import Explained, QuantityTable
from ..widgets.keys_bar import KeysBar
from ..widgets.row_table import RowTable
from .frame import Frame, Latest


class ExplainScreen(Frame, ModalScreen[None]):
    """Over the screen whose numbers it explains; closes with the key that opened it.

    Args:
        latest: as for every screen.
        glyphs: as for every screen.
        names: the quantities, by their names in the catalog.
        node: the node whose values are shown; None for those of all nodes.
        first: the quantity that the cursor is on at first.
    """

    CSS_PATH = "explain.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape,e,q", "dismiss", "Close", key_display="esc", id="explain.close",
            tooltip="Back to the screen",
        ),
        Binding("J,shift+j", "scroll(1)", "Text down", key_display="J", id="explain.down",
                tooltip="Scroll the explanation down"),
        Binding("K,shift+k", "scroll(-1)", "Text up", key_display="K", id="explain.up",
                tooltip="Scroll the explanation up"),
    ]  # fmt: skip

    table = query_one(QuantityTable)
    text = query_one(Explained)
    page = query_one("#explanation", VerticalScroll)

    def __init__(
        self,
        latest: Latest,
        glyphs: Glyphs,
        names: Sequence[str],
        node: str | None,
        first: str | None = None,
    ) -> None:
        super().__init__(latest, glyphs)
        self._names = names
        self._node = node
        self._first = first

    def compose(self) -> ComposeResult:
        """The quantities, and beside or below them the one under the cursor."""
        names = QuantityTable(self._names, self._node, glyphs=self.glyphs, id="quantities")
        text = Explained(self._node, glyphs=self.glyphs)
        names.data_bind(Frame.view_model)
        text.data_bind(Frame.view_model)
        with Container(id="explain") as panel:
            panel.border_title = self._title()
            yield names
            yield VerticalScroll(text, id="explanation", can_focus=False)
        yield KeysBar()

    def _title(self) -> Content:
        # Content, because a border title given as a string is parsed as markup.
        return Content(printable(f"what the numbers mean · {self._node or 'all nodes'}"))

    @property
    def subject(self) -> str | None:
        """The node whose numbers are explained."""
        return self._node

    def watch_view_model(self) -> None:
        """Says of when the numbers are."""
        if self.view_model is not None and self.is_mounted:
            clock = units.clock(self.view_model.view.time, utc=self.view_model.utc)
            self.query_one("#explain").border_subtitle = Content(clock)

    def on_mount(self) -> None:
        """Goes to the quantity that was asked for."""
        self.text.quantity = self._first or self._names[0]
        # Once its size is known: the row must come into sight.
        self.call_after_refresh(setattr, self.table, "cursor", self._first)

    def action_scroll(self, step: int) -> None:
        """Scrolls the explanation."""
        self.page.scroll_relative(y=3 * step, animate=False)

    @on(RowTable.Moved)
    def _moved(self, event: RowTable.Moved) -> None:
        event.stop()
        if event.key is not None:
            self.text.quantity = event.key
            self.page.scroll_home(animate=False)
