"""Versions that are not the same on all nodes: most have one, the odd ones out are named."""

import re
from collections.abc import Iterator, Mapping

from trntop.check.consensus import names, split
from trntop.check.model import Finding, Outcome
from trntop.check.result import NodeInspection

NONE = "none"
COUNTERS = (2, 17)
"""EFA driver from which on retransmits are counted."""


def numbers(version: str) -> tuple[int, ...]:
    """`2.17.3g` as (2, 17, 3), to compare; () of what has none."""
    found = re.match(r"\D{0,8}(\d{1,9}(?:\.\d{1,9}){0,5})", version, re.ASCII)
    return tuple(map(int, found[1].split("."))) if found else ()


def findings(inspections: Mapping[str, NodeInspection]) -> Iterator[Finding]:
    """One for each group of odd nodes and each thing that has a version."""
    seen = {
        name: inspection.newest
        for name, inspection in inspections.items()
        if inspection.newest is not None
    }
    kinds = {name: one.instance_type for name, one in seen.items() if one.instance_type}
    yield from _skew("instance type", kinds)
    # What is on no node is nobody's fault; on some only, it is missing on the others.
    for what in sorted({what for one in seen.values() for what in one.versions}):
        yield from _skew(what, {name: one.versions.get(what, NONE) for name, one in seen.items()})
    old = [
        name for name, one in seen.items() if () < numbers(one.versions.get("efa", "")) < COUNTERS
    ]
    if old:
        yield Finding(
            check="versions",
            outcome=Outcome.PASS,
            text=f"the EFA driver of {names(old)} is older than 2.17: it counts no retransmits;"
            " only the probes detect packet loss",
        )


def _skew(what: str, values: Mapping[str, str]) -> Iterator[Finding]:
    found = split(values)
    if found is None:
        return
    if found.most is None:
        groups = "; ".join(f"{value} on {names(nodes)}" for value, nodes in found.groups())
        yield Finding(
            check="versions",
            outcome=Outcome.WARN,
            fault="version mismatch",
            text=f"{what}: {groups}",
            next_step="Use one image for all nodes of a job.",
        )
        return
    for node, value in found.odd.items():
        own = f"{what} {value}" if value != NONE else f"no {what} was found"
        yield Finding(
            check="versions",
            outcome=Outcome.WARN,
            fault="version mismatch",
            node=node,
            text=f"{own}, {found.count} of {len(values)} nodes have {found.most}"
            if found.most != NONE
            else f"{own}, {found.count} of {len(values)} nodes have none",
            next_step="Use one image for all nodes of a job.",
        )
