"""What most nodes have in common, and who is different."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trntop.core import units

MAX_NAMES = 6


@dataclass(frozen=True, slots=True)
class Split:
    """How nodes differ in something."""

    most: str | None
    """What more than half of them have; None where there is no such thing."""
    count: int
    """How many have it."""
    odd: Mapping[str, str]
    """Node → what it has instead; all of them where `most` is None."""

    def groups(self) -> Iterator[tuple[str, list[str]]]:
        """Value → the odd nodes that have it, the commonest first."""
        for value, _ in Counter(self.odd.values()).most_common():
            yield value, [node for node, own in self.odd.items() if own == value]


def split(values: Mapping[str, str]) -> Split | None:
    """How nodes differ; None where all have the same.

    Args:
        values: node → what it has.
    """
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
