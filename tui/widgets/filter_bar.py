"""The filter: an input line, and a line with the active filter."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.suggester import Suggester
from textual.widgets import Input, Label

from ..filter import Filter, FilterError
from ..filter.completion import candidates, complete
from ..filter.language import MAX_LENGTH
from ..keys import key
from ..render import filter as drawing
from ..selection import ALL, Selection
from ..view_model import ViewModel
from .drawn import Drawn


class _Completer(Suggester):
    """Completes the last word."""

    async def get_suggestion(self, value: str) -> str | None:
        return complete(value)


class FilterInput(Input):
    """The input line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("enter", "submit", "Apply", "Apply the filter and return to the table"),
        key("tab", "complete", "Complete", "Complete the name"),
    ]

    DEFAULT_CSS = """
    FilterInput { width: 1fr; height: 1; border: none; padding: 0; background: transparent;
        &:focus { border: none; background: transparent; background-tint: transparent; } }
    """

    def action_complete(self) -> None:
        self.cursor_position = len(self.value)
        self.action_cursor_right()


class FilterLine(Drawn):
    """The number of matching nodes, or the syntax error."""

    DEFAULT_CSS = "FilterLine { height: auto; }"

    selection: reactive[Selection] = reactive(ALL, repaint=False)

    def __init__(self) -> None:
        super().__init__()
        self.typed: str | None = None
        """The text in the input line; None while it is closed."""
        self.scrolled = 0
        """Hidden cells on the left of the text."""
        self.selection = ALL
        """The last valid filter."""
        self.error: FilterError | None = None
        self.refused = False
        """Whether the user tried to apply an invalid filter."""

    def redraw(self) -> None:
        """Skips an empty line, so that it causes no layout on each tick."""
        if self.typed is not None or self.selection.narrow or self.size.height:
            super().redraw()

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        if self.view_model is None:
            return ()
        nodes = len(self.view_model.cluster.nodes)
        if self.typed is None:
            if not self.selection.narrow:
                return ()
            found = self.selection.count(self.view_model)
            return (drawing.active(self.selection, found, nodes, width, self.context),)
        if self.error is not None:
            at = cell_len(self.typed[: self.error.at]) - self.scrolled
            missing = self.error.at >= len(self.typed.rstrip()) and not self.refused
            text = f"invalid filter: {self.error}" if self.refused else str(self.error)
            return (drawing.problem(text, at, missing, width, self.context),)
        _, names = candidates(self.typed)
        found = self.selection.count(self.view_model)
        return (drawing.hint(found, nodes, names, width, self.context),)


class FilterBar(Vertical):
    """The input line, which exists only while it is open, and the line with the active filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "cancel", "Cancel", "Discard the changes"),
    ]

    DEFAULT_CSS = """
    FilterBar { height: auto; }
    FilterBar Horizontal { height: 1; }
    FilterBar Label { width: 3; }
    """

    view_model: reactive[ViewModel | None] = reactive(None, repaint=False)
    selection: reactive[Selection] = reactive(ALL, repaint=False)

    class Changed(Message):
        """The filter changed."""

        def __init__(self, filter: Filter | None) -> None:  # noqa: A002
            super().__init__()
            self.filter = filter

    class Closed(Message):
        """The input line is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._line = FilterLine()
        self._before: Filter | None = None
        """The filter when the input line was opened."""

    def compose(self) -> ComposeResult:
        yield self._line.data_bind(FilterBar.view_model, FilterBar.selection)

    @property
    def editing(self) -> bool:
        return self._line.typed is not None

    async def open(self) -> None:
        if not self.editing:
            self._before = self.selection.filter
            self._line.typed = text = self._before.text if self._before else ""
            typed = FilterInput(
                text, placeholder="util<30 node~trn-0", suggester=_Completer(case_sensitive=True),
                max_length=MAX_LENGTH, select_on_focus=False,
            )  # fmt: skip
            await self.mount(Horizontal(Label(drawing.PROMPT), typed), before=0)
            self._try(text)
        self.query_one(FilterInput).focus()

    async def close(self) -> None:
        """Closes the input line; the filter stays."""
        if self.editing:
            self._line.typed = self._line.error = None
            await self.query(Horizontal).remove()
            self._line.redraw()
            self.post_message(self.Closed())

    async def action_cancel(self) -> None:
        """Closes the input line and restores the filter."""
        if self.selection.filter is not self._before:
            self.post_message(self.Changed(self._before))
        await self.close()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self.editing:
            self._try(event.value)

    def _try(self, text: str) -> None:
        line = self._line
        line.typed, line.error, line.refused = text, None, False
        line.scrolled = round(self.query_one(FilterInput).scroll_x)
        try:
            line.selection = self._selection(text)
        except FilterError as error:
            line.error = error
        else:
            # While a name is incomplete it matches no node; the rows remain.
            if self.view_model is not None and line.selection.count(self.view_model):
                self.post_message(self.Changed(line.selection.filter))
        line.redraw()

    def _selection(self, text: str) -> Selection:
        parsed = Filter(text) if text.strip() else None
        return Selection(parsed, faults=self.selection.faults)

    @on(Input.Submitted)
    async def _apply(self, event: Input.Submitted) -> None:
        event.stop()
        if self._line.error is None:
            self.post_message(self.Changed(self._line.selection.filter))
            await self.close()
        else:
            self._line.refused = True
            self._line.redraw()

    async def on_click(self, event: events.Click) -> None:
        """A click opens the input line."""
        if not self.editing:
            await self.open()
