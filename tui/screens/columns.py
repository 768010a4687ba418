"""Which columns the fleet table has, and which it is sorted by."""

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

from ..render import fleet
from ..render.glyphs import Glyphs
from ..render.table import Column
from ..widgets.keys_bar import KeysBar

TITLE_CELLS = 12


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user wants."""

    columns: tuple[str, ...]
    """Names; none for the standard ones."""
    sort: str


class ColumnsScreen(ModalScreen[Choice]):
    """A list to tick.

    Args:
        shown: the columns that the table has.
        fitting: those of them for which there is room.
        sort: the column it is sorted by.
        glyphs: what ticks are drawn with.
    """

    CSS_PATH = "columns.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,c,enter", "close", "Done", key_display="esc", id="columns.close",
                tooltip="Back to the table, with these columns", priority=True),
        Binding("space", "tick", "Show, hide", id="columns.tick",
                tooltip="Show or hide the column under the cursor", priority=True),
        Binding("s", "sort", "Sort by it", id="columns.sort",
                tooltip="Sort by the column under the cursor; again for worst first"),
        Binding("d", "standard", "Standard", id="columns.standard",
                tooltip="The standard columns, worst first"),
        Binding("j", "move(1)", "Down", show=False, id="columns.down", tooltip="Next column"),
        Binding("k", "move(-1)", "Up", show=False, id="columns.up", tooltip="Previous column"),
    ]  # fmt: skip

    choices = query_one(OptionList)

    def __init__(
        self, shown: Iterable[str], fitting: Iterable[str], sort: str, glyphs: Glyphs
    ) -> None:
        super().__init__()
        self._ticked = set(shown)
        self._cramped = self._ticked.difference(fitting)
        self._sort = sort
        self._glyphs = glyphs
        self._columns = [one for one in fleet.columns(4) if one.id != fleet.NODE]

    def compose(self) -> ComposeResult:
        """The list, over the table."""
        rows = [Option(self._row(one), one.id) for one in self._columns]
        choices = OptionList(*rows, id="choices", compact=True)
        choices.border_title = "columns"
        yield choices
        yield KeysBar()

    def on_mount(self) -> None:
        """The cursor is on the first column."""
        self.choices.highlighted = 0

    def _row(self, column: Column[fleet.FleetRow]) -> Content:
        """Tick, name, unit, what it is; whether it sorts, and that there was no room for it."""
        ticked = column.id in self._ticked
        tick = self._glyphs.calm if ticked else " "
        arrow = self._glyphs.down if column.id == self._sort else " "
        title = f"{column.title} {column.unit}".strip()
        cramped = ticked and column.id in self._cramped
        return Content.assemble(
            (f"[{tick}] ", "$accent" if ticked else "$text-muted"),
            (f"{title:<{TITLE_CELLS}}", "bold" if ticked else "$text-muted"),
            (f"{arrow} ", "bold $accent"),
            (column.help, "$text-muted"),
            (" · no room" if cramped else "", "$secondary"),
        )

    def action_move(self, step: int) -> None:
        """Moves the cursor."""
        (self.choices.action_cursor_down if step > 0 else self.choices.action_cursor_up)()

    @property
    def _under_cursor(self) -> str | None:
        place = self.choices.highlighted
        return None if place is None else self._columns[place].id

    def action_tick(self) -> None:
        """Shows or hides the column under the cursor."""
        if (name := self._under_cursor) is not None:
            self._ticked ^= {name}
            self._cramped.discard(name)
            self._redraw()

    @on(OptionList.OptionSelected)
    def _clicked(self) -> None:
        self.action_tick()

    def action_sort(self) -> None:
        """Sorts by the column under the cursor."""
        if (name := self._under_cursor) is not None:
            self._sort = fleet.WORST if name == self._sort else name
            self._redraw()

    def action_standard(self) -> None:
        """As it is at first."""
        self._sort = fleet.WORST
        self._ticked = {one.id for one in fleet.chosen(self._columns, ())}
        self._redraw()

    def _redraw(self) -> None:
        for place, column in enumerate(self._columns):
            self.choices.replace_option_prompt_at_index(place, self._row(column))

    def action_close(self) -> None:
        """Hands back what was chosen."""
        names = tuple(one.id for one in self._columns if one.id in self._ticked)
        standard = tuple(one.id for one in fleet.chosen(self._columns, ()))
        wanted = () if names == standard else names or (fleet.NODE,)
        self.dismiss(Choice(wanted, self._sort))
