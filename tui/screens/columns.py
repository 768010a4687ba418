"""The dialog for the columns and the sort order of the fleet table."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from ..render import fleet, glyphs
from ..render.table import Column
from ..widgets.keys_bar import KeysBar

TITLE_CELLS = 12


@dataclass(frozen=True, slots=True)
class Choice:
    """Names of the columns, none for the default ones; and the sort column."""

    columns: tuple[str, ...]
    sort: str


class ColumnsScreen(ModalScreen[Choice]):
    """A list of check boxes.

    Args:
        shown: the columns of the table.
        fitting: those that fit on the screen.
        sort: the sort column.
    """

    CSS_PATH = "columns.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,c,enter", "close", "Done", key_display="esc", id="columns.close",
                tooltip="Apply and return to the table", priority=True),
        Binding("space", "tick", "Show, hide", id="columns.tick",
                tooltip="Show or hide the column under the cursor", priority=True),
        Binding("s", "sort", "Sort by it", id="columns.sort",
                tooltip="Sort by the column under the cursor; again for the default order"),
        Binding("d", "standard", "Default", id="columns.standard",
                tooltip="The default columns, worst first"),
        Binding("j", "move(1)", "Down", show=False, id="columns.down", tooltip="Next column"),
        Binding("k", "move(-1)", "Up", show=False, id="columns.up", tooltip="Previous column"),
    ]  # fmt: skip

    choices = query_one(OptionList)

    def __init__(self, shown: Iterable[str], fitting: Iterable[str], sort: str) -> None:
        super().__init__()
        self._shown = set(shown)
        self._hidden = self._shown.difference(fitting)
        self._sort = sort
        self._columns = [column for column in fleet.columns(4) if column.id != fleet.NODE]

    def compose(self) -> ComposeResult:
        rows = [Option(self._row(column), column.id) for column in self._columns]
        choices = OptionList(*rows, id="choices", compact=True)
        choices.border_title = "columns"
        yield choices
        yield KeysBar()

    def on_mount(self) -> None:
        self.choices.highlighted = 0

    def _row(self, column: Column[fleet.FleetRow]) -> Content:
        shown = column.id in self._shown
        tick = glyphs.CALM if shown else " "
        arrow = glyphs.DOWN if column.id == self._sort else " "
        title = f"{column.title} {column.unit}".strip()
        hidden = shown and column.id in self._hidden
        return Content.assemble(
            (f"[{tick}] ", "$accent" if shown else "$text-muted"),
            (f"{title:<{TITLE_CELLS}}", "bold" if shown else "$text-muted"),
            (f"{arrow} ", "bold $accent"),
            (column.help, "$text-muted"),
            (" · no room" if hidden else "", "$secondary"),
        )

    def action_move(self, step: int) -> None:
        (self.choices.action_cursor_down if step > 0 else self.choices.action_cursor_up)()

    @property
    def _under_cursor(self) -> str | None:
        place = self.choices.highlighted
        return None if place is None else self._columns[place].id

    def action_tick(self) -> None:
        if (name := self._under_cursor) is not None:
            self._shown ^= {name}
            self._hidden.discard(name)
            self._redraw()

    @on(OptionList.OptionSelected)
    def _clicked(self) -> None:
        self.action_tick()

    def action_sort(self) -> None:
        if (name := self._under_cursor) is not None:
            self._sort = fleet.WORST if name == self._sort else name
            self._redraw()

    def action_standard(self) -> None:
        self._sort = fleet.WORST
        self._shown = {column.id for column in fleet.selected(self._columns, ())}
        self._redraw()

    def _redraw(self) -> None:
        for place, column in enumerate(self._columns):
            self.choices.replace_option_prompt_at_index(place, self._row(column))

    def action_close(self) -> None:
        names = tuple(c.id for c in self._columns if c.id in self._shown)
        standard = tuple(c.id for c in fleet.selected(self._columns, ()))
        chosen = () if names == standard else names or (fleet.NODE,)
        self.dismiss(Choice(chosen, self._sort))
