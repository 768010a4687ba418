"""The keys at the foot of a screen, as many as there is room for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from textual.events import Click, MouseMove
from textual.screen import Screen
from textual.strip import Strip

from ..render.line import Part, length, line
from ..view_model import Mode
from .drawn import Drawn

SCREENS = ("cluster", "node", "comm", "efa", "incidents", "run")
"""Actions at the left; the others are at the right."""
LAST = ("help", "command_palette", "time_code", *SCREENS, "quit")
"""Actions whose keys stay longest, the most important first."""
FIRST = "pause"
"""The action whose key is left out first."""
BACK = ("live", "pause")
"""While paused, the actions whose keys stay longest: they return to live data."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key with an action on this screen."""

    key: str
    shown: str
    word: str
    action: str
    enabled: bool
    tooltip: str

    @property
    def cells(self) -> int:
        return len(self.shown) + len(self.word) + 1 + bool(self.word)


class KeysBar(Drawn):
    """A line of keys, which can be clicked.

    Args:
        words: returns temporary labels of actions; hidden keys with a label are shown.
    """

    DEFAULT_CSS = """
    KeysBar { dock: bottom; height: 1; padding-left: 1; background: $background; }
    """

    def __init__(self, words: Callable[[], Mapping[str, str]] = dict) -> None:
        super().__init__()
        self._words = words
        self._mode: Mode | None = None

    def update(self) -> None:
        """Labels depend on the mode only."""
        mode = None if self.view_model is None else self.view_model.mode
        if mode is not self._mode:
            self._mode = mode
            self.redraw()

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, _: Screen[object]) -> None:
        self.redraw()

    def _keys(self, width: int) -> list[Key]:
        """The keys that fit."""
        found: dict[str, Key] = {}
        words = self._words()
        for _, binding, enabled, tooltip in self.screen.active_bindings.values():
            word = words.get(binding.action) or binding.description * binding.show
            if word and binding.action not in found:
                shown = self.app.get_key_display(binding)
                text = tooltip or binding.description
                found[binding.action] = Key(binding.key, shown, word, binding.action, enabled, text)
        keys = list(found.values())
        fit = fitting(keys, width)
        if all(key in fit for key in keys if key.action in SCREENS):
            return fit
        keys = [replace(key, word="" if key.action in SCREENS else key.word) for key in keys]
        return fitting(keys, width)

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        palette = self.context.palette
        parts: list[Part] = []
        for start, key in self._placed(width):
            parts.append((" " * (start - length(parts)), palette.muted))
            parts.append((key.shown, palette.key if key.enabled else palette.faint))
            word = f" {key.word} " if key.word else " "
            parts.append((word, palette.muted if key.enabled else palette.faint))
        return [line(parts, width)]

    def _placed(self, width: int) -> list[tuple[int, Key]]:
        """The keys that fit, each with its first cell: screens at the left, others at the right."""
        keys = self._keys(width)
        left = sorted(
            (key for key in keys if key.action in SCREENS),
            key=lambda key: SCREENS.index(key.action),
        )
        right = [key for key in keys if key.action not in SCREENS]
        start = max(sum(key.cells for key in left), width - sum(key.cells for key in right) + 1)
        sizes = [key.cells for key in left]
        places = [sum(sizes[:place]) for place in range(len(left))]
        for key in right:
            places.append(start)
            start += key.cells
        return list(zip(places, [*left, *right], strict=True))

    def _at(self, x: int) -> Key | None:
        x -= self.gutter.left
        placed = self._placed(self.size.width)
        return next((key for start, key in placed if start <= x < start + key.cells - 1), None)

    def on_click(self, event: Click) -> None:
        """Presses the key under the pointer."""
        key = self._at(event.x)
        if key is not None and key.enabled:
            self.app.simulate_key(key.key)

    def on_mouse_move(self, event: MouseMove) -> None:
        """The tooltip of the key under the pointer."""
        key = self._at(event.x)
        self.tooltip = None if key is None else key.tooltip


def fitting(keys: Sequence[Key], width: int) -> list[Key]:
    """The keys that fit into `width`; the less important ones are left out."""
    kept = dict(enumerate(keys))
    paused = any(key.action == BACK[0] for key in keys)
    last = (*BACK, *LAST) if paused else LAST

    def weight(place: int) -> tuple[bool, int]:
        action = keys[place].action
        if action in last:
            return True, -last.index(action)
        return False, -len(keys) if action == FIRST else -place

    # The blank after the last one may be cut.
    while len(kept) > 1 and sum(key.cells for key in kept.values()) - 1 > width:
        del kept[min(kept, key=weight)]
    return list(kept.values())
