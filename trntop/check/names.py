"""Lists of nodes in sentences."""

from collections.abc import Iterable

from trntop.core import units

MAX_NAMES = 6


def names(nodes: Iterable[str]) -> str:
    """`trn-001, trn-002, … 3 more`."""
    known = sorted(nodes, key=units.natural_sort_key)
    more = f", … {len(known) - MAX_NAMES} more" if len(known) > MAX_NAMES else ""
    return ", ".join(known[:MAX_NAMES]) + more
