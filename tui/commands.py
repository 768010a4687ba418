"""Nodes and incidents in the command palette."""

from collections.abc import Iterable
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.fuzzy import Matcher

from .messages import NodeRequested
from .screens.base import BaseScreen

MAX_DISCOVERED = 12
"""Entries before anything is typed."""


class Jump(Provider):
    """Nodes by name, incidents by summary."""

    def _targets(self) -> Iterable[tuple[str, str]]:
        """Text and node of each target, incidents first."""
        screen = self.screen
        view_model = screen.view_model if isinstance(screen, BaseScreen) else None
        if view_model is None:
            return
        for incident in view_model.incidents:
            if incident.node in view_model.cluster.nodes:
                yield incident.summary, str(incident.node)
        for name in view_model.cluster.names:
            yield name, name

    def _open(self, node: str) -> None:
        self.screen.post_message(NodeRequested(node))

    async def discover(self) -> Hits:
        for index, (text, node) in enumerate(self._targets()):
            if index == MAX_DISCOVERED:
                return
            yield DiscoveryHit(Content(text), partial(self._open, node), text=text, help="Jump to")

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for text, node in self._targets():
            score, offsets = matcher.fuzzy_search.match(query, text)
            if score > 0:
                shown = _marked(matcher, text, offsets)
                yield Hit(score, shown, partial(self._open, node), text=text, help="Jump to")


def _marked(matcher: Matcher, text: str, offsets: Iterable[int]) -> Content:
    """`text` with the matching characters highlighted; `Matcher.highlight` parses markup."""
    content = Content(text)
    for offset in offsets:
        content = content.stylize(matcher.match_style, offset, offset + 1)
    return content
