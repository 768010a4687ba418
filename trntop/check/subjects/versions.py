"""Versions that differ between nodes."""

from collections import Counter
from collections.abc import Iterator, Mapping

from trntop.check import faults
from trntop.check.model import Finding
from trntop.check.names import names
from trntop.check.result import NodeInspection
from trntop.core.versions import numbers

NONE = "none"
COUNTERS = (2, 17)
"""First EFA driver that counts retransmits."""


def findings(inspections: Mapping[str, NodeInspection]) -> Iterator[Finding]:
    """One for each node that differs from most others, or one if there is no majority."""
    seen = {name: own.newest for name, own in inspections.items() if own.newest is not None}
    kinds = {name: own.instance_type for name, own in seen.items() if own.instance_type}
    yield from _differences("instance type", kinds)
    for software in sorted({software for own in seen.values() for software in own.versions}):
        versions = {name: own.versions.get(software, NONE) for name, own in seen.items()}
        yield from _differences(software, versions)
    old = [
        name for name, own in seen.items() if () < numbers(own.versions.get("efa", "")) < COUNTERS
    ]
    if old:
        yield faults.remark(
            "versions",
            f"the EFA driver of {names(old)} is older than 2.17: it counts no retransmits; only the"
            " probes detect packet loss",
        )


def _differences(software: str, values: Mapping[str, str]) -> Iterator[Finding]:
    counts = Counter(values.values()).most_common()
    if len(counts) < 2:
        return
    most, count = counts[0]
    if 2 * count <= len(values):
        groups = "; ".join(
            f"{value} on {names(node for node, own in values.items() if own == value)}"
            for value, _ in counts
        )
        yield faults.VERSIONS.found(f"{software}: {groups}")
        return
    for node, value in values.items():
        if value != most:
            own = f"{software} {value}" if value != NONE else f"no {software} was found"
            yield faults.VERSIONS.found(f"{own}, {count} of {len(values)} nodes have {most}", node)
