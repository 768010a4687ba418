"""The keys at the foot of a screen, as many as there is room for."""

from textual.app import ComposeResult
from textual.events import Resize
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

LAST = ("help", "quit", "cluster", "node", "comm", "efa", "incidents", "run")
"""Actions whose keys stay longest, the most important first: what leads on from any place."""
FIRST = "pause"
"""The action whose key goes first."""
EDGE = 2
"""Cells beside the keys."""


class KeysBar(Footer):
    """A footer that leaves keys out instead of cutting the last ones off; `?` lists them all."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._cells = 0
        """Of the screen when the keys were chosen."""

    def compose(self) -> ComposeResult:
        """The keys that fit, in their order."""
        self._cells = self.app.size.width
        keys = [key for key in super().compose() if isinstance(key, FooterKey)]
        shown = fitting([(key.action, _cells(key)) for key in keys], self._cells - EDGE)
        yield from (key for place, key in enumerate(keys) if place in shown)

    async def on_resize(self, event: Resize) -> None:
        """Chooses anew."""
        if self.app.size.width != self._cells:
            await self.recompose()


def _cells(key: FooterKey) -> int:
    return len(f"{key.key_display} {key.description} ")


def fitting(keys: list[tuple[str, int]], width: int) -> set[int]:
    """The places of the keys to show.

    Args:
        keys: action and cells of each, in their order.
        width: cells for all.
    """
    kept = set(range(len(keys)))

    def weight(place: int) -> tuple[bool, int]:
        action = keys[place][0]
        if action in LAST:
            return True, -LAST.index(action)
        return False, -len(keys) if action == FIRST else -place

    while len(kept) > 1 and sum(keys[place][1] for place in kept) > width:
        kept.remove(min(kept, key=weight))
    return kept
