"""A table that draws only its visible rows: it changes each second, at any length."""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ..keys import hidden_key, key
from ..render import table
from ..render.line import line
from ..selection import ALL, Selection
from .drawn import Drawn

Row = TypeVar("Row")


class RowTable(Drawn, ScrollView, Generic[Row], can_focus=True, inherit_bindings=False):
    """Rows under a fixed header, with a cursor that stays on its row while others move.

    Until the user moves it, the cursor stays on the first row: the worst one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("up,k", "move(-1)", "Up", "Previous row"),
        hidden_key("down,j", "move(1)", "Down", "Next row"),
        hidden_key("pageup", "page(-1)", "Page up", "A page up"),
        hidden_key("pagedown", "page(1)", "Page down", "A page down"),
        hidden_key("home", "edge(0)", "First", "First row"),
        hidden_key("end", "edge(-1)", "Last", "Last row"),
        key("enter", "choose", "Open", "Open what the cursor is on"),
    ]

    DEFAULT_CSS = """
    RowTable { width: 1fr; height: 1fr; overflow: hidden auto; scrollbar-size-vertical: 1; }
    """

    cursor: reactive[str | None] = reactive(None, repaint=False)
    """Key of the row under the cursor once the user has moved it; None is the first row."""
    selection: reactive[Selection] = reactive(ALL, repaint=False)
    """The nodes that are shown."""

    class Event(Message):
        """Of a row; its key is None in an empty table."""

        def __init__(self, sender: "RowTable[Any]", key: str | None) -> None:
            super().__init__()
            self.sender = sender
            self.key = key

        @property
        def control(self) -> "RowTable[Any]":
            return self.sender

    class Chosen(Event):
        """The user opened a row."""

    class Moved(Event):
        """The cursor is on another row."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self.sorted_by = ""
        self.reverse = False

    def find_rows(self) -> Sequence[Row]:
        """The rows for the current inputs."""
        raise NotImplementedError

    def key(self, row: Row) -> str:
        """The permanent name of a row."""
        raise NotImplementedError

    def node_of(self, row: Row) -> str:
        """The node of a row."""
        return self.key(row)

    def columns(self) -> Sequence[table.Column[Any]]:
        """The columns, including those that may not fit."""
        raise NotImplementedError

    def prepare(self, rows: Sequence[Row]) -> Sequence[Any]:
        """What the columns draw, for visible rows only."""
        return rows

    def note(self, prepared: Any) -> str:
        """Text instead of the values of a row; empty to show the values."""
        return ""

    @property
    def empty_text(self) -> str:
        """Text instead of rows."""
        return self.selection.empty_text if self.selection.narrow else ""

    def header_clicked(self, column: str) -> None:
        """The title of a column was clicked."""

    def layout_at(self, width: int) -> table.Layout[Any]:
        """The columns that are drawn at this width, each with its cells."""
        return table.layout(self.columns(), width - 1)  # the last cell is next to the scroll bar

    @property
    def position(self) -> int:
        """Index of the row under the cursor; 0 in an empty table."""
        if self.cursor is not None:
            for index, row in enumerate(self.rows):
                if self.key(row) == self.cursor:
                    return index
        return 0

    @property
    def current(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self.position] if self.rows else None

    @property
    def node(self) -> str | None:
        """The node of the row under the cursor."""
        return None if self.current is None else self.node_of(self.current)

    def point_at(self, node: str) -> None:
        """Moves the cursor to the first row of a node, unless it is on such a row."""
        if self.node != node:
            of_node = (self.key(row) for row in self.rows if self.node_of(row) == node)
            self.cursor = next(of_node, self.cursor)

    def update(self) -> None:
        """Shows the rows for the current inputs."""
        if self.view_model is None:
            return
        rows = self.find_rows()
        resized = len(rows) != len(self.rows)
        self.rows = rows
        if resized:
            self.virtual_size = Size(0, len(rows) + 1)
            self.refresh(layout=self.auto_height)
            if self.cursor is not None and all(self.key(row) != self.cursor for row in rows):
                self.cursor = None
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        columns = self.layout_at(width)
        context, first, position = self.context, self.scroll_offset.y, self.position
        lines = [table.header(columns, width, context, self.sorted_by, self.reverse)]
        if not self.rows and self.empty_text:
            lines.append(line([(f"  {self.empty_text}", context.palette.muted)], width))
        visible = self.prepare(self.rows[first : first + height - 1])
        for index, row in enumerate(visible, first):
            lines.append(
                table.row(
                    columns,
                    row,
                    width,
                    context,
                    cursor=index == position,
                    focus=self.has_focus,
                    note=self.note(row),
                )
            )
        return lines

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return (len(self.rows) or bool(self.empty_text)) + 1

    def watch_cursor(self) -> None:
        visible = max(1, self.size.height - 1)
        first, position = self.scroll_offset.y, self.position
        if position < first:
            self.scroll_to(y=position, animate=False)
        elif position >= first + visible:
            self.scroll_to(y=position - visible + 1, animate=False)
        self.redraw()
        self.post_message(
            self.Moved(self, None if not self.rows else self.key(self.rows[position]))
        )

    def watch_has_focus(self, _has_focus: bool) -> None:
        super().watch_has_focus(_has_focus)
        self.redraw()

    def action_move(self, step: int) -> None:
        self._go(self.position + step)

    def action_page(self, direction: int) -> None:
        self._go(self.position + direction * max(1, self.size.height - 2))

    def action_edge(self, index: int) -> None:
        """Moves the cursor to the first (0) or last (-1) row."""
        self._go(index % max(1, len(self.rows)))

    def action_choose(self) -> None:
        if (current := self.current) is not None:
            self.post_message(self.Chosen(self, self.key(current)))

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, a double click opens the row."""
        x, y = event.x - self.gutter.left, event.y - self.gutter.top
        if y == 0:
            column = table.column_at(self.layout_at(self.size.width), x)
            if column is not None:
                self.header_clicked(column.id)
            return
        index = y + self.scroll_offset.y - 1
        if y < 1 or not 0 <= index < len(self.rows):
            return
        if index == self.position and event.chain > 1:
            self.action_choose()
        else:
            self._go(index)

    def _go(self, index: int) -> None:
        if self.rows:
            self.cursor = self.key(self.rows[min(len(self.rows) - 1, max(0, index))])

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self._drawn_for = None

    def _key(self) -> Hashable:
        return super()._key(), self.has_focus
