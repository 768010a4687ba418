"""Nodes that are unreachable, refuse probes, or are busy; and what could not be inspected."""

from collections.abc import Iterator, Mapping

from trntop.check import faults
from trntop.check.model import PROBE_TOOL, Finding
from trntop.check.names import names
from trntop.check.plan import Plan
from trntop.check.result import NodeInspection

MAX_JOBS = 3
UNRESOLVED = "not resolve"
"""Part of the errors of the agent's client and of ssh for a host name without an address."""


def findings(inspections: Mapping[str, NodeInspection], plan: Plan) -> Iterator[Finding]:
    """One for each node that could not be checked completely, and remarks."""
    # If no node responds, the cause is more likely the network or the given names.
    none_responds = len(inspections) > 1 and all(
        inspection.error and not inspection.refused and inspection.before is None
        for inspection in inspections.values()
    )
    for name, inspection in inspections.items():
        seen = inspection.before
        if inspection.refused:
            yield faults.REFUSED.found(inspection.error, name)
        elif inspection.error and none_responds:
            step = faults.UNRESOLVED.next_step if _is_unresolved(inspection) else ""
            yield faults.ALL_UNREACHABLE.found(inspection.error, name, next_step=step)
        elif inspection.error and _is_unresolved(inspection):
            yield faults.UNRESOLVED.found(inspection.error, name)
        elif inspection.error:
            fault = faults.UNREACHABLE if seen is None else faults.STOPPED
            yield fault.found(inspection.error, name)
        elif seen is not None and seen.busy and not plan.include_busy:
            yield faults.BUSY.found(f"not probed, used by {_jobs(seen.busy)}", name)
        elif seen is not None and seen.lacks_tool:
            yield faults.TOOL_MISSING.found(f"not probed, {PROBE_TOOL} is not installed", name)
    yield from _not_inspected(inspections)


def _is_unresolved(inspection: NodeInspection) -> bool:
    return UNRESOLVED in inspection.error.lower()


def _jobs(jobs: list[str]) -> str:
    more = f" and {len(jobs) - MAX_JOBS} more" if len(jobs) > MAX_JOBS else ""
    return ", ".join(jobs[:MAX_JOBS]) + more


def _not_inspected(inspections: Mapping[str, NodeInspection]) -> Iterator[Finding]:
    """Remarks, one for each part that could not be inspected."""
    nodes: dict[str, list[str]] = {}
    for name, inspection in inspections.items():
        for problem in dict.fromkeys(inspection.newest.problems if inspection.newest else ()):
            nodes.setdefault(problem, []).append(name)
    for problem, own in nodes.items():
        if len(own) == 1:
            yield faults.remark("inspection", problem, own[0])
        else:
            where = "all nodes" if len(own) == len(inspections) else names(own)
            yield faults.remark("inspection", f"not inspected on {where}: {problem}")
