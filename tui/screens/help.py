"""How to read the screen, and every key that works where the user is."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Markdown, Static

from ..help import READING
from ..widgets.keys_bar import KeysBar

Key = tuple[str, str, str]
"""Keys, what they do in a word, and in a sentence."""


def keys_of(active: Iterable[ActiveBinding]) -> list[Key]:
    """The program's own keys, each action once; Textual's carry no id with a dot."""
    found: dict[str, tuple[list[str], Binding]] = {}
    for entry in active:
        binding = entry.binding
        if binding.id and "." in binding.id:
            found.setdefault(binding.id, ([], binding))[0].append(_spelled(binding))
    return [
        (", ".join(dict.fromkeys(keys)), binding.description, binding.tooltip)
        for keys, binding in found.values()
    ]


def _spelled(binding: Binding) -> str:
    *modifiers, key = binding.key.split("+")
    names = {
        "question_mark": "?",
        "plus": "+",
        "equals_sign": "=",
        "minus": "-",
        "escape": "Esc",
        "enter": "Enter",
        "up": "↑",
        "down": "↓",
        "left": "←",
        "right": "→",
    }
    return "+".join([*(name.capitalize() for name in modifiers), names.get(key, key)])


def table(keys: Sequence[Key]) -> Content:
    """A line per key."""
    return Content("\n").join(
        Content.assemble((f"{key:<12}", "bold $accent"), f"{what:<12}", (why, "$text-muted"))
        for key, what, why in keys
    )


class HelpScreen(ModalScreen[None]):
    """The help, over whatever is shown; scrolls, and closes with the key that opened it."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape,question_mark,q", "dismiss", "Close", key_display="esc", id="help.close",
            tooltip="Back to the screen",
        ),
        Binding("j", "scroll(1)", "Down", show=False, id="help.down", tooltip="Scroll down"),
        Binding("k", "scroll(-1)", "Up", show=False, id="help.up", tooltip="Scroll up"),
    ]  # fmt: skip

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        """One text that scrolls."""
        with VerticalScroll(id="help"):
            yield Markdown(READING)
            yield Static(table(self._keys), id="keys")
        yield KeysBar()

    def action_scroll(self, lines: int) -> None:
        """Moves the text."""
        self.query_one("#help").scroll_relative(y=lines, animate=False)
