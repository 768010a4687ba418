"""The keys of the screen, and how to read it."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.keys import format_key
from textual.strip import Strip
from textual.widgets import Markdown

from trntop.core import units

from ..help import READING
from ..keys import PREFIX, key
from ..render.line import Part, fit, line
from ..render.markdown import flowed
from ..widgets.drawn import Drawn
from ..widgets.keys_bar import KeysBar
from ..widgets.row_table import RowTable
from .base import BaseScreen, Modal

GAP = 2

Key = tuple[str, str, str]
"""Keys, label and description."""


def keys_of(active: Iterable[ActiveBinding]) -> list[Key]:
    """The keys of trntop, each action once; keys that move in a list are last."""
    found: dict[str, tuple[list[str], Binding]] = {}
    for entry in active:
        binding = entry.binding
        if binding.id and binding.id.startswith(PREFIX):
            found.setdefault(binding.id, ([], binding))[0].append(_spelled(binding))
    moves = {b.id for b in RowTable.BINDINGS if isinstance(b, Binding) and not b.show}
    return [
        (", ".join(dict.fromkeys(keys)), binding.description, binding.tooltip)
        for keys, binding in sorted(found.values(), key=lambda entry: entry[1].id in moves)
    ]


def _spelled(binding: Binding) -> str:
    *modifiers, key = binding.key.split("+")
    if modifiers == ["shift"] and len(key) == 1:
        return key.upper()
    return "+".join([*modifiers, format_key(key)])


class KeyList(Drawn):
    """A key, its label and its description."""

    DEFAULT_CSS = "KeyList { height: auto; margin-bottom: 1; }"

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__()
        self._keys = keys

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        palette = self.context.palette
        keys, words = (
            max((cell_len(key[column]) for key in self._keys), default=0) + GAP for column in (0, 1)
        )
        rows: list[list[Part]] = []
        for spelled, word, why in self._keys:
            lines = list(
                flowed([(why, palette.muted)], width, (" " * (keys + words), palette.text))
            )
            lines[0][:1] = [(fit(spelled, keys), palette.key), (fit(word, words), palette.text)]
            rows += lines
        return [line(row, width) for row in rows]


class HelpScreen(Modal):
    """The help, over the current screen."""

    CSS_PATH = "help.tcss"
    HORIZONTAL_BREAKPOINTS = BaseScreen.HORIZONTAL_BREAKPOINTS
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape,question_mark,q", "dismiss", "Close", "Back to the screen"),
        key("j", "scroll(1)", "Down", "Scroll down"),
        key("k", "scroll(-1)", "Up", "Scroll up"),
    ]

    def __init__(self, keys: Sequence[Key], cpu_share: float) -> None:
        super().__init__()
        self._keys = keys
        self._reading = READING.format(share=units.percent(cpu_share))

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Vertical(Markdown("## Keys on this screen"), KeyList(self._keys), id="keys")
            yield Markdown(self._reading, id="reading")
        yield KeysBar()

    def action_scroll(self, lines: int) -> None:
        self.query_one("#help").scroll_relative(y=lines, animate=False)
