"""What the command palette can jump to: nodes and incidents."""

from collections.abc import Iterable
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.fuzzy import Matcher

from .messages import NodeAsked
from .render.incidents import summary
from .screens.frame import Frame

FEW = 12
"""Entries offered before anything is typed."""


class Jump(Provider):
    """Nodes by name, incidents by summary."""

    def _targets(self) -> Iterable[tuple[str, str]]:
        """Text and node of each target, incidents first."""
        screen = self.screen
        view_model = screen.latest() if isinstance(screen, Frame) else None
        if view_model is None:
            return
        for incident in view_model.incidents:
            if incident.node in view_model.cluster.nodes:
                yield summary(incident, view_model), str(incident.node)
        for name in view_model.cluster.names:
            yield name, name

    def _ask(self, node: str) -> None:
        self.screen.post_message(NodeAsked(node))

    async def discover(self) -> Hits:
        """The first few, before anything is typed."""
        for index, (text, node) in enumerate(self._targets()):
            if index == FEW:
                return
            yield DiscoveryHit(Content(text), partial(self._ask, node), text=text, help="Jump to")

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for text, node in self._targets():
            score, offsets = matcher.fuzzy_search.match(query, text)
            if score > 0:
                shown = _marked(matcher, text, offsets)
                yield Hit(score, shown, partial(self._ask, node), text=text, help="Jump to")


def _marked(matcher: Matcher, text: str, offsets: Iterable[int]) -> Content:
    """`text` with the matching characters highlighted; `Matcher.highlight` parses markup."""
    content = Content(text)
    for offset in offsets:
        content = content.stylize(matcher.match_style, offset, offset + 1)
    return content
