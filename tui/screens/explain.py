"""Explains the values of a screen: formula, inputs, sources and rules."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.strip import Strip

from trntop.analysis.rulebook import rules
from trntop.core import units

from ..keys import key
from ..render import explain
from ..render.line import printable
from ..view_model import ViewModel
from ..widgets.drawn import Panel
from ..widgets.keys_bar import KeysBar
from ..widgets.quantity_table import QuantityTable
from ..widgets.row_table import RowTable
from .base import BaseScreen, Modal


class ExplainScreen(BaseScreen, Modal):
    """A dialog over the screen with the values.

    Args:
        names: the quantities.
        node: the node of the values; None for all nodes.
        first: the quantity that is selected first.
    """

    CSS_PATH = "explain.tcss"
    SCROLLED = "#explanation"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape,e,q", "dismiss", "Close", "Back to the screen"),
        key("J,shift+j", "scroll(1)", "Text down", "Scroll the explanation down"),
        key("K,shift+k", "scroll(-1)", "Text up", "Scroll the explanation up"),
    ]

    table = query_one(QuantityTable)
    page = query_one("#explanation", VerticalScroll)

    def __init__(self, names: Sequence[str], node: str | None, first: str | None = None) -> None:
        super().__init__()
        self._names = names
        self._node = node
        self._first = first
        self._text = Panel(self._draw, id="text")

    def _draw(self, panel: Panel, view_model: ViewModel, width: int, _: int) -> Sequence[Strip]:
        if not panel.subject:
            return ()
        found = rules(view_model.limits, view_model.custom_rules)
        return explain.draw(view_model, self._node, panel.subject, found, width, panel.context)

    def compose(self) -> ComposeResult:
        names = QuantityTable(self._names, self._node, id="quantities")
        names.data_bind(BaseScreen.view_model)
        with Container(id="explain") as panel:
            # Content, because a border title given as a string is parsed as markup.
            panel.border_title = Content(printable(f"explain · {self._node or 'all nodes'}"))
            yield names
            text = self._text.data_bind(BaseScreen.view_model)
            yield VerticalScroll(text, id="explanation", can_focus=False)
        yield KeysBar()

    @property
    def subject(self) -> str | None:
        return self._node

    def watch_view_model(self) -> None:
        """The subtitle has the time of the values."""
        if self.view_model is not None and self.is_mounted:
            clock = units.clock(self.view_model.view.time, utc=self.view_model.utc)
            self.query_one("#explain").border_subtitle = Content(clock)

    def on_mount(self) -> None:
        self._text.subject = self._first or self._names[0]
        # After the layout, so that the row can be scrolled into view.
        self.call_after_refresh(setattr, self.table, "cursor", self._first)

    @on(RowTable.Moved)
    def _moved(self, event: RowTable.Moved) -> None:
        event.stop()
        if event.key is not None:
            self._text.subject = event.key
            self.page.scroll_home(animate=False)
