"""The sources without values, and why."""

from collections.abc import Iterable, Iterator

from trntop.core.model import NodeView, SourceState, State


def sources_of(nodes: Iterable[NodeView]) -> Iterator[tuple[str, SourceState]]:
    """Node and source, for each source of each node."""
    return ((node.name, source) for node in nodes for source in node.frame.sources)


def is_down(source: SourceState) -> bool:
    return source.state not in (State.FRESH, State.LATE, State.ENDED)


def down_sources(nodes: Iterable[NodeView]) -> dict[tuple[str, str], list[str]]:
    """Source, and its state with the reason → the nodes."""
    found: dict[tuple[str, str], list[str]] = {}
    for node, source in sources_of(nodes):
        if is_down(source):
            why = f"{source.state}: {source.reason}" if source.reason else str(source.state)
            found.setdefault((source.name, why), []).append(node)
    return found
