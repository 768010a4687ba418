"""Owners of the names of remote nodes.

Each owner (an agent, the page of another exporter) registers its address and its sources. Several
owners share a node if they are on one host, under one path if it is a proxy, and have different
sources. Otherwise they may be two machines of the same name, and the first one keeps it. Ports are
ignored: each exporter has its own.
"""

from urllib.parse import urlsplit


class NodeNames:
    """Node → owner (its address) → its sources."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, frozenset[str]]] = {}
        self._brought: dict[str, dict[str, frozenset[str]]] = {}
        """The same, with all sources each owner ever registered."""

    def register(self, node: str, owner: str, *sources: str) -> str:
        """The owner of the name: `owner`, unless another one was first.

        Replaces an earlier registration of the same owner, even if this one is refused.

        Args:
            node: the name.
            owner: its address, such as `http://trn-001:10042`.
            sources: its sources; none if still unknown.
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
        """Removes an owner.

        Returns:
            The sources that only this owner had; None if the node has no owner left.
        """
        held = self._held.get(node, {})
        held.pop(owner, None)
        if not held:
            self._held.pop(node, None)
            self._brought.pop(node, None)
            return None
        return self._brought[node].pop(owner, frozenset()).difference(*held.values())


def _place(address: str) -> tuple[str, str]:
    """Identity of a machine: its host, and the path behind a proxy."""
    parts = urlsplit(address)
    return parts.hostname or address, parts.path.removesuffix("/metrics").rstrip("/")
