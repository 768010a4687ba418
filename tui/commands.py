"""The command palette: screens, actions with their keys, incidents, nodes, themes."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.fuzzy import Matcher

from .keys import PREFIX
from .messages import NodeRequested
from .render.line import fit
from .screens.base import BaseScreen
from .themes import THEMES
from .widgets.row_table import RowTable

MAX_DISCOVERED = 60
"""Entries before anything is typed."""
LABEL, LINE = 12, 56
"""Cells of the label of an action, and of a line before its key."""

COMMAND_SCORE = 100.0
MOVES = {binding.id for binding in RowTable.BINDINGS if isinstance(binding, Binding)}
"""Keys of lists, which mean nothing in a palette."""

Target = tuple[str, Callable[[], Any]]


class Commands(Provider):
    """One line for each target; one provider, so that their order is the same each time."""

    def _targets(self) -> Iterator[Target]:
        yield from self._actions()
        yield from self._places()
        for theme in THEMES:
            yield f"Theme {theme.name}", partial(setattr, self.app, "theme", theme.name)

    def _actions(self) -> Iterator[Target]:
        """Each action with its key; screens first."""
        found: dict[str, tuple[str, str, Callable[[], Any]]] = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not (binding.id and binding.id.startswith(PREFIX)) or binding.id in MOVES:
                continue
            run: Callable[[], Any] = partial(self.app.run_action, binding.action, active.node)
            text = f"{binding.description:<{LABEL}}{active.tooltip}"
            found.setdefault(binding.action, (self.app.get_key_display(binding), text, run))
        for key, text, run in sorted(found.values(), key=lambda entry: not entry[0].isdigit()):
            yield f"{fit(text, LINE)}  {key}", run

    def _places(self) -> Iterator[Target]:
        """Incidents by summary, nodes by name."""
        screen = self.screen
        view_model = screen.view_model if isinstance(screen, BaseScreen) else None
        if view_model is None:
            return
        for incident in view_model.incidents:
            if incident.node in view_model.cluster.nodes:
                yield incident.summary, partial(self._open, str(incident.node))
        for name in view_model.cluster.names:
            yield f"{name}  go to node", partial(self._open, name)

    def _open(self, node: str) -> None:
        self.screen.post_message(NodeRequested(node))

    async def discover(self) -> Hits:
        for index, (text, run) in enumerate(self._targets()):
            if index == MAX_DISCOVERED:
                return
            yield DiscoveryHit(Content(text), run, text=text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for text, run in self._targets():
            score, offsets = matcher.fuzzy_search.match(query, text)
            if score > 0:
                # A command comes before those whose explanation contains the word.
                score += COMMAND_SCORE * text.lower().startswith(query.lower())
                yield Hit(score, _marked(matcher, text, offsets), run, text=text)


def _marked(matcher: Matcher, text: str, offsets: Iterable[int]) -> Content:
    """`text` with the matching characters highlighted; `Matcher.highlight` parses markup."""
    content = Content(text)
    for offset in offsets:
        content = content.stylize(matcher.match_style, offset, offset + 1)
    return content
