"""The value that most nodes share, and the nodes that differ."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trntop.core import units

MAX_NAMES = 6


@dataclass(frozen=True, slots=True)
class Split:
    """A value that differs between nodes."""

    most: str | None
    """The value of more than half of them; None without a majority."""
    count: int
    """Number of nodes with it."""
    odd: Mapping[str, str]
    """Node → its different value; all nodes if `most` is None."""

    def groups(self) -> Iterator[tuple[str, list[str]]]:
        """Value → the nodes with it, the most common first."""
        for value, _ in Counter(self.odd.values()).most_common():
            yield value, [node for node, own in self.odd.items() if own == value]


def split(values: Mapping[str, str]) -> Split | None:
    """How nodes differ, by node → value; None if all have the same value."""
    counts = Counter(values.values())
    if len(counts) < 2:
        return None
    value, count = counts.most_common(1)[0]
    if 2 * count <= len(values):
        return Split(None, 0, dict(values))
    return Split(value, count, {node: own for node, own in values.items() if own != value})


def names(nodes: Iterable[str]) -> str:
    """`trn-001, trn-002, … 3 more`."""
    known = sorted(nodes, key=units.natural)
    more = f", … {len(known) - MAX_NAMES} more" if len(known) > MAX_NAMES else ""
    return ", ".join(known[:MAX_NAMES]) + more
