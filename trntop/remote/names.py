"""Whose the names of other machines' nodes are.

What watches a node says at which address, and which of the node's sources it brings. Several go
together as one node (an agent and the pages of other exporters, say) where they are of one host,
under one path if it is a proxy, and no two bring the same source. Otherwise they may be two
machines that are called the same, and the name stays with the first. Ports are not looked at: each
exporter has its own.
"""

from urllib.parse import urlsplit


class NodeNames:
    """Node → those who speak for it, each by its address, and the sources that it brings."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, frozenset[str]]] = {}
        self._brought: dict[str, dict[str, frozenset[str]]] = {}
        """The same with all that each has claimed so far, of which the node may have words."""

    def register(self, node: str, owner: str, *sources: str) -> str:
        """Who speaks for a node: `owner`, unless another was first.

        A claim takes the place of the speaker's one before; who is refused has none.

        Args:
            node: the name.
            owner: the address that is asked, such as `http://trn-001:10042`.
            sources: what it brings; none as long as that is not known.
        """
        held = self._held.setdefault(node, {})
        held.pop(owner, None)
        for other, theirs in held.items():
            if _place(other) != _place(owner) or not theirs.isdisjoint(sources):
                return other
        held[owner] = frozenset(sources)
        brought = self._brought.setdefault(node, {})
        brought[owner] = brought.get(owner, frozenset()).union(sources)
        return owner

    def drop(self, node: str, owner: str) -> frozenset[str] | None:
        """Takes back a claim.

        Returns:
            The sources that the speaker brought and nobody else does; None where nobody is left
            who speaks for the node.
        """
        held = self._held.get(node, {})
        held.pop(owner, None)
        if not held:
            self._held.pop(node, None)
            self._brought.pop(node, None)
            return None
        return self._brought[node].pop(owner, frozenset()).difference(*held.values())


def _place(address: str) -> tuple[str, str]:
    """What tells two machines apart: the host, and the path to which a proxy takes its name."""
    parts = urlsplit(address)
    return parts.hostname or address, parts.path.removesuffix("/metrics").rstrip("/")
