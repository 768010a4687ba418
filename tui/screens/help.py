"""Every key that works where the user is, and how to read the screen."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.keys import format_key
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Markdown

from trntop.core import units

from ..help import READING
from ..render.line import Part, fit, line
from ..render.markdown import flowed
from ..widgets.drawn import Drawn
from ..widgets.keys_bar import KeysBar
from ..widgets.row_table import RowTable
from .frame import Frame

GAP = 2
"""Cells between the columns of the list of keys."""

Key = tuple[str, str, str]
"""Keys, what they do in a word, and in a sentence."""


def keys_of(active: Iterable[ActiveBinding]) -> list[Key]:
    """The program's own keys, each action once; Textual's carry no id with a dot.

    Those that only move within a list come last: everybody tries them unasked.
    """
    found: dict[str, tuple[list[str], Binding]] = {}
    for entry in active:
        binding = entry.binding
        if binding.id and "." in binding.id:
            found.setdefault(binding.id, ([], binding))[0].append(_spelled(binding))
    moves = {one.id for one in RowTable.BINDINGS if isinstance(one, Binding) and not one.show}
    return [
        (", ".join(dict.fromkeys(keys)), binding.description, binding.tooltip)
        for keys, binding in sorted(found.values(), key=lambda one: one[1].id in moves)
    ]


def _spelled(binding: Binding) -> str:
    *modifiers, key = binding.key.split("+")
    if modifiers == ["shift"] and len(key) == 1:
        return key.upper()
    return "+".join([*modifiers, format_key(key)])


class KeyList(Drawn):
    """A key, its word and its sentence; what does not fit goes on under the sentence's begin."""

    DEFAULT_CSS = "KeyList { height: auto; margin-bottom: 1; }"

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__()
        self._keys = keys

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """All of them."""
        palette = self.context.palette
        keys, words = (
            max((cell_len(one[column]) for one in self._keys), default=0) + GAP for column in (0, 1)
        )
        rows: list[list[Part]] = []
        for key, word, why in self._keys:
            lines = list(
                flowed([(why, palette.muted)], width, (" " * (keys + words), palette.text))
            )
            lines[0][:1] = [(fit(key, keys), palette.key), (fit(word, words), palette.text)]
            rows += lines
        return [line(row, width) for row in rows]


class HelpScreen(ModalScreen[None]):
    """The help, over whatever is shown; scrolls, and closes with the key that opened it."""

    CSS_PATH = "help.tcss"
    HORIZONTAL_BREAKPOINTS = Frame.HORIZONTAL_BREAKPOINTS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape,question_mark,q", "dismiss", "Close", key_display="esc", id="help.close",
            tooltip="Back to the screen",
        ),
        Binding("j", "scroll(1)", "Down", id="help.down", tooltip="Scroll down"),
        Binding("k", "scroll(-1)", "Up", id="help.up", tooltip="Scroll up"),
    ]  # fmt: skip

    def __init__(self, keys: Sequence[Key], share: float | None, rate: float | None) -> None:
        super().__init__()
        self._keys = keys
        self._reading = READING.format(
            share=units.percent(share),
            rate=units.ABSENT if rate is None else f"{rate / 1024:.0f} KiB/s",
        )

    def compose(self) -> ComposeResult:
        """The keys above the text, or beside it where there is room; both scroll as one."""
        with VerticalScroll(id="help"):
            yield Vertical(Markdown("## Keys on this screen"), KeyList(self._keys), id="keys")
            yield Markdown(self._reading, id="reading")
        yield KeysBar()

    def action_scroll(self, lines: int) -> None:
        """Moves the text."""
        self.query_one("#help").scroll_relative(y=lines, animate=False)
