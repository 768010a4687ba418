"""The filter: a line that is typed in, and one that says what holds."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.suggester import Suggester
from textual.widgets import Input, Label

from ..filter import Filter, FilterError
from ..filter.completion import candidates, complete
from ..filter.language import MAX_LENGTH
from ..render import filter as drawing
from ..render.glyphs import BLOCK, Glyphs
from ..selection import ALL, Selection
from ..view_model import ViewModel
from .drawn import Drawn


class _Completer(Suggester):
    """Shows how the word at the end may go on."""

    async def get_suggestion(self, value: str) -> str | None:
        """All of it, completed."""
        return complete(value)


class FilterInput(Input):
    """One line of text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Apply", id="filter.keep",
                tooltip="Apply the filter and return to the table"),
        Binding("tab", "complete", "Complete", id="filter.complete",
                tooltip="Take the name that is offered"),
    ]  # fmt: skip

    DEFAULT_CSS = """
    FilterInput { width: 1fr; height: 1; border: none; padding: 0; background: transparent;
        &:focus { border: none; background: transparent; background-tint: transparent; } }
    """

    def action_complete(self) -> None:
        """Takes what is offered."""
        self.cursor_position = len(self.value)
        self.action_cursor_right()


class FilterLine(Drawn):
    """What the filter finds, or what is wrong with it."""

    DEFAULT_CSS = "FilterLine { height: auto; }"

    selection: reactive[Selection] = reactive(ALL, repaint=False)

    def __init__(self, *, glyphs: Glyphs = BLOCK, id: str | None = None) -> None:  # noqa: A002
        super().__init__(glyphs=glyphs, id=id)
        self.typed: str | None = None
        """What is being typed; None while nothing is."""
        self.scrolled = 0
        """Cells of it that are out of sight on the left."""
        self.trial = ALL
        """What is typed, where it makes sense."""
        self.error: FilterError | None = None
        self.refused = False
        """Whether the user wanted to keep what makes no sense."""

    def watch_selection(self) -> None:
        """Other nodes."""
        self.redraw()

    def redraw(self) -> None:
        """Draws anew; while there is nothing to say, a tick must not lay out the screen anew."""
        if self.typed is not None or self.selection.narrow or self.size.height:
            super().redraw()

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """One line, or none where all nodes are shown."""
        if self.view_model is None:
            return ()
        nodes = len(self.view_model.cluster.nodes)
        if self.typed is None:
            return () if not self.selection.narrow else (self._kept(nodes, width),)
        if self.error is not None:
            at = cell_len(self.typed[: self.error.at]) - self.scrolled
            missing = self.error.at >= len(self.typed.rstrip()) and not self.refused
            said = f"invalid filter: {self.error}" if self.refused else str(self.error)
            return (drawing.problem(said, at, missing, width, self.context),)
        _, names = candidates(self.typed)
        found = self.trial.count(self.view_model)
        return (drawing.hint(found, nodes, names, width, self.context),)

    def _kept(self, nodes: int, width: int) -> Strip:
        assert self.view_model is not None
        found = self.selection.count(self.view_model)
        return drawing.kept(self.selection, found, nodes, width, self.context)


class FilterBar(Vertical):
    """Holds both; the line to type in is there while it is needed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="filter.cancel",
                tooltip="Take back what is typed"),
    ]  # fmt: skip

    DEFAULT_CSS = """
    FilterBar { height: auto; }
    FilterBar Horizontal { height: 1; }
    FilterBar Label { width: 3; }
    """

    view_model: reactive[ViewModel | None] = reactive(None, repaint=False)
    selection: reactive[Selection] = reactive(ALL, repaint=False)

    class Changed(Message):
        """Other nodes shall be shown.

        Args:
            filter: which.
        """

        def __init__(self, filter: Filter | None) -> None:  # noqa: A002
            super().__init__()
            self.filter = filter

    class Closed(Message):
        """Nothing is typed any more."""

    def __init__(self, *, glyphs: Glyphs = BLOCK, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._line = FilterLine(glyphs=glyphs)
        self._before: Filter | None = None
        """What held when the user began to type."""

    def compose(self) -> ComposeResult:
        """What holds; the line to type in comes with `open`."""
        yield self._line.data_bind(FilterBar.view_model, FilterBar.selection)

    @property
    def editing(self) -> bool:
        """Whether something is being typed."""
        return self._line.typed is not None

    async def open(self) -> None:
        """Lets the user type."""
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
        """Takes the line away; what holds stays."""
        if self.editing:
            self._line.typed = self._line.error = None
            await self.query(Horizontal).remove()
            self._line.redraw()
            self.post_message(self.Closed())

    async def action_cancel(self) -> None:
        """Takes the line away, and back what was typed."""
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
            line.trial = self._selection(text)
        except FilterError as error:
            line.error = error
        else:
            # While a name is typed it is a word that no node is called; rows need not go and come.
            if self.view_model is not None and line.trial.count(self.view_model):
                self.post_message(self.Changed(line.trial.filter))
        line.redraw()

    def _selection(self, text: str) -> Selection:
        made = Filter(text) if text.strip() else None
        return Selection(made, faults=self.selection.faults)

    @on(Input.Submitted)
    async def _keep(self, event: Input.Submitted) -> None:
        event.stop()
        if self._line.error is None:
            self.post_message(self.Changed(self._line.trial.filter))
            await self.close()
        else:
            self._line.refused = True
            self._line.redraw()

    async def on_click(self, event: events.Click) -> None:
        """A click on what holds lets it be changed."""
        if not self.editing:
            await self.open()
