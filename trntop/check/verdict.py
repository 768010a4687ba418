"""From inspections and probes to pass, warn, fail or inconclusive: of each node, and of all."""

from collections.abc import Iterator, Mapping, Sequence

from trntop import __version__
from trntop.check import faults
from trntop.check.links import LinkAnalysis
from trntop.check.model import Finding, Outcome
from trntop.check.names import names
from trntop.check.plan import Plan
from trntop.check.result import Check, NodeInspection, NodeResult, ProbeRun
from trntop.check.subjects import counters, devices, latency, reach, setup, versions
from trntop.core import units
from trntop.core.settings import Check as Limits

_SEVERITY = (Outcome.PASS, Outcome.WARN, Outcome.UNKNOWN, Outcome.FAIL)
"""From the mildest; a check with an inconclusive result has not passed."""


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    return max(outcomes, key=_SEVERITY.index, default=Outcome.PASS)


def path(finding: Finding) -> str:
    """The two ends of a link that a finding is about: `trn-005–trn-006`; empty otherwise."""
    kind, _, ends = finding.component.partition(":")
    return ends.replace(">", "–") if kind == "link" else ""


def judge(
    inspections: Mapping[str, NodeInspection],
    runs: Sequence[ProbeRun],
    plan: Plan,
    limits: Limits,
    *,
    started: float,
    seconds: float,
    cut_short: str = "",
) -> Check:
    """A check from its evidence.

    Args:
        inspections: by node.
        runs: the probes.
        plan: of the check.
        limits: the settings in force.
        started: unix seconds.
        seconds: duration.
        cut_short: why it ended early, if it did.
    """
    analysis = LinkAnalysis(runs, limits)
    found = list(_findings(inspections, analysis, plan, limits))
    found += _not_probed(inspections, analysis, plan, cut_short)
    if cut_short:
        found.append(faults.INCOMPLETE.found(cut_short))
    # Findings about no single node follow those that name one.
    found.sort(
        key=lambda finding: (
            -_SEVERITY.index(finding.outcome), not finding.node,
            units.natural_sort_key(finding.node)
        )
    )  # fmt: skip
    nodes = [_node_result(inspection, found, analysis) for inspection in inspections.values()]
    nodes.sort(key=lambda node: (-_SEVERITY.index(node.outcome), units.natural_sort_key(node.node)))
    outcome = worst([finding.outcome for finding in found])
    return Check(
        by=f"trntop {__version__}",
        started=started,
        seconds=seconds,
        simulated=any(
            inspection.newest and inspection.newest.simulated for inspection in inspections.values()
        ),
        outcome=outcome,
        verdict=_verdict(outcome, nodes, found),
        cut_short=cut_short,
        plan=plan,
        nodes=nodes,
        findings=found,
        inspections=list(inspections.values()),
        probe_runs=list(runs),
    )


def _findings(
    inspections: Mapping[str, NodeInspection], analysis: LinkAnalysis, plan: Plan, limits: Limits
) -> Iterator[Finding]:
    yield from reach.findings(inspections, plan)
    yield from devices.findings(inspections, plan.spec)
    yield from counters.findings(inspections, limits)
    yield from versions.findings(inspections)
    yield from setup.findings(inspections, limits)
    unreachable = [name for name, inspection in inspections.items() if inspection.error]
    yield from latency.findings(analysis, unreachable)


def _not_probed(
    inspections: Mapping[str, NodeInspection], analysis: LinkAnalysis, plan: Plan, cut_short: str
) -> Iterator[Finding]:
    """Nodes that could have been probed, but were not."""
    why = cut_short or "no other node to probe it with"
    failed = {node for node, _ in analysis.faults}
    for name, inspection in inspections.items():
        if (
            not inspection.error
            and plan.may_probe(inspection.before)
            and name not in failed
            and not analysis.of_node(name)
        ):
            yield faults.NOT_PROBED.found(analysis.busy.get(name, why), name)


def _node_result(
    inspection: NodeInspection, found: Sequence[Finding], analysis: LinkAnalysis
) -> NodeResult:
    findings = [finding for finding in found if finding.node == inspection.node]
    bests = [best for end in analysis.ends_of(inspection.node) if (best := analysis.best(end))]
    seconds = min((best.seconds for best in bests if best.seconds), default=None)
    seen = inspection.newest
    efa_devices = seen.efa_devices if seen else None
    return NodeResult(
        node=inspection.node,
        outcome=worst([finding.outcome for finding in findings]),
        seconds=seconds,
        ratio=seconds / analysis.reference if seconds and analysis.reference else None,
        efa_devices=None if efa_devices is None else len(efa_devices),
        expected_efa_devices=devices.expected_efa_devices(seen) if seen else None,
        efa_device_outcomes={
            efa_device.name: worst(
                [
                    finding.outcome
                    for finding in findings
                    if finding.component == f"efa:{efa_device.name}"
                ]
            )
            for efa_device in efa_devices or ()
        },
    )


def _verdict(outcome: Outcome, results: Sequence[NodeResult], found: Sequence[Finding]) -> str:
    count = len(results)
    nodes = "1 node" if count == 1 else f"{count:,} nodes"
    if outcome is Outcome.PASS:
        return f"PASS: {nodes} {'is' if count == 1 else 'are'} fit"
    wrong = [finding for finding in found if finding.outcome is not Outcome.PASS]
    good = sum(result.outcome is Outcome.PASS for result in results)
    passing = f"{good} of {nodes} {'passes' if count == 1 else 'pass'}"
    if len({(finding.fault, finding.text) for finding in wrong}) == 1:
        where = names(finding.node for finding in wrong if finding.node) or path(wrong[0])
        return f"{outcome.upper()}: {passing}. {wrong[0].sentence(where)}"
    worst_of = {result.node: result.outcome for result in results}
    parts = [passing]
    for level in (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN):
        # Only the worst of each node.
        findings = [
            finding
            for finding in wrong
            if finding.outcome is level is worst_of.get(finding.node, level)
        ]
        if findings:
            parts.append(f"{level}: {_faults(findings)}")
    return f"{outcome.upper()}: {'; '.join(parts)}"


def _faults(found: Sequence[Finding]) -> str:
    """`slow network (trn-003, trn-005), all probes failed`."""
    nodes: dict[str, dict[str, None]] = {}
    for finding in found:
        where = nodes.setdefault(finding.fault, {})
        if place := finding.node or path(finding):
            where[place] = None
    return ", ".join(
        f"{fault} ({names(where)})" if where else fault for fault, where in nodes.items()
    )
