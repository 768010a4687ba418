"""From inspections and probes to pass, warn, fail or inconclusive: of each node, and of all."""

import time
from collections.abc import Iterator, Mapping, Sequence

from trntop import __version__
from trntop.check import stage
from trntop.check.consensus import names
from trntop.check.expected import expected_cards
from trntop.check.links import LinkAnalysis
from trntop.check.model import Finding, Outcome, ProbeResult
from trntop.check.plan import Plan
from trntop.check.result import Check, NodeInspection, Place, ProbeRun
from trntop.check.stage import Outlook
from trntop.check.subjects import (
    cards,
    clocks,
    counters,
    health,
    latency,
    location,
    reach,
    setup,
    versions,
)
from trntop.core import units
from trntop.core.settings import Settings

_SEVERITY = (Outcome.PASS, Outcome.WARN, Outcome.UNKNOWN, Outcome.FAIL)
"""From the mildest; a check with an inconclusive result has not passed."""


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """What several outcomes come to."""
    return max(outcomes, key=_SEVERITY.index, default=Outcome.PASS)


def path(finding: Finding) -> str:
    """The two ends of a link that a finding is about: `trn-005–trn-006`; empty otherwise."""
    kind, _, ends = finding.component.partition(":")
    return ends.replace(">", "–") if kind == "link" else ""


def severity_order(outcome: Outcome) -> int:
    """For sorting, the worst highest."""
    return _SEVERITY.index(outcome)


def judge(
    inspections: Mapping[str, NodeInspection],
    runs: Sequence[ProbeRun],
    plan: Plan,
    settings: Settings,
    *,
    started: float,
    seconds: float,
    cut_short: str = "",
    ec2_error: str = "",
    baseline: Check | None = None,
    imported: Sequence[ProbeResult] = (),
    outlook: Outlook | None = None,
) -> Check:
    """A check from its evidence.

    Args:
        inspections: node → what was seen of it.
        runs: the probes.
        plan: what was to be done.
        settings: in force.
        started: unix seconds.
        seconds: how long it took.
        cut_short: why it ended early, if it did.
        ec2_error: why EC2 told nothing, if it was asked.
        baseline: an earlier check, to compare with.
        imported: results of other tools, for the report.
        outlook: communication of finished stages.
    """
    analysis = LinkAnalysis(runs, settings.check)
    found = list(_findings(inspections, analysis, plan, settings, baseline))
    found += _not_probed(inspections, analysis, plan, cut_short)
    if outlook is not None:
        found += stage.findings(outlook, settings.analysis)
    if ec2_error:
        text = f"no EC2 data on subnets, security groups and interfaces: {ec2_error}"
        found.append(Finding(check="location", outcome=Outcome.PASS, text=text))
    if cut_short:
        found.append(
            Finding(check="time", outcome=Outcome.UNKNOWN, fault="check incomplete", text=cut_short)
        )
    # What concerns no single node stands behind those that are named.
    found.sort(
        key=lambda one: (-severity_order(one.outcome), not one.node, units.natural(one.node))
    )
    places = [_place(inspection, found, analysis) for inspection in inspections.values()]
    places.sort(key=lambda one: (-severity_order(one.outcome), units.natural(one.node)))
    outcome = worst([one.outcome for one in found])
    return Check(
        by=f"trntop {__version__}",
        started=started,
        seconds=seconds,
        simulated=_is_simulated(inspections, outlook),
        outcome=outcome,
        verdict=_verdict(outcome, places, found),
        cut_short=cut_short,
        plan=plan,
        places=places,
        findings=found,
        looks=list(inspections.values()),
        trials=list(runs),
        imported=list(imported),
        outlook=outlook,
        compared_with=baseline.started if baseline is not None else None,
    )


def _is_simulated(inspections: Mapping[str, NodeInspection], outlook: Outlook | None) -> bool:
    seen = any(
        inspection.newest is not None and inspection.newest.simulated
        for inspection in inspections.values()
    )
    return seen or (outlook is not None and any(one.simulated for one in outlook.stages))


def _findings(
    inspections: Mapping[str, NodeInspection],
    analysis: LinkAnalysis,
    plan: Plan,
    settings: Settings,
    baseline: Check | None,
) -> Iterator[Finding]:
    limits = settings.check
    yield from reach.findings(inspections, plan)
    yield from cards.findings(inspections, plan.spec)
    yield from counters.findings(inspections, limits)
    yield from health.findings(inspections)
    yield from versions.findings(inspections)
    yield from setup.findings(inspections, limits)
    yield from location.findings(inspections)
    yield from clocks.findings(inspections, limits)
    lost = [name for name, inspection in inspections.items() if inspection.error]
    earlier = LinkAnalysis(baseline.trials, limits) if baseline is not None else None
    then = _day(baseline.started) if baseline is not None else ""
    yield from latency.findings(analysis, limits, lost, earlier, then)


def _not_probed(
    inspections: Mapping[str, NodeInspection], analysis: LinkAnalysis, plan: Plan, cut_short: str
) -> Iterator[Finding]:
    """Nodes that were fit to be probed, but with which no probe came about."""
    why = cut_short or "no other node to probe it with"
    for name, inspection in inspections.items():
        idle = inspection.before is not None and (not inspection.before.busy or plan.disturb)
        faulty = any(end[0] == name for end in analysis.faults)
        lacking = inspection.before is not None and inspection.before.lacks(plan.spec.tool)
        probed = analysis.of_node(name) or faulty
        if idle and not inspection.error and not lacking and not probed:
            yield Finding(
                check="latency",
                outcome=Outcome.UNKNOWN,
                fault="not probed",
                node=name,
                text=analysis.busy.get(name, why),
            )


def _place(inspection: NodeInspection, found: Sequence[Finding], analysis: LinkAnalysis) -> Place:
    own = [one for one in found if one.node == inspection.node]
    bests = [
        best
        for end in analysis.of_ends(inspection.node)
        if (best := analysis.best(end)) is not None
    ]
    best = min(bests, key=lambda one: one.cost, default=None)
    seen = inspection.newest
    return Place(
        node=inspection.node,
        outcome=worst([one.outcome for one in own]),
        seconds=best.seconds if best else None,
        ratio=best.cost / analysis.reference if best and analysis.reference else None,
        cards=len(seen.cards) if seen and seen.cards is not None else None,
        expected_cards=expected_cards(seen) if seen else None,
        card_outcomes={
            card.name: worst([one.outcome for one in own if one.component == f"efa:{card.name}"])
            for card in (seen.cards if seen else None) or ()
        },
    )


def _verdict(outcome: Outcome, places: Sequence[Place], found: Sequence[Finding]) -> str:
    count = len(places)
    nodes = "1 node" if count == 1 else f"{count:,} nodes"

    wrong = [one for one in found if one.outcome is not Outcome.PASS]
    if not places:
        parts = [one.sentence("") for one in wrong if one.outcome is outcome]
        parts = parts or ["communication is below its limits, no node was checked"]
        return f"{outcome.upper()}: {parts[0]}"
    if outcome is Outcome.PASS:
        return f"PASS: {nodes} {'is' if count == 1 else 'are'} fit"
    good = sum(one.outcome is Outcome.PASS for one in places)
    passing = f"{good} of {nodes} {'passes' if count == 1 else 'pass'}"
    if len({(one.fault, one.text) for one in wrong}) == 1:
        where = names(one.node for one in wrong if one.node) or path(wrong[0])
        return f"{outcome.upper()}: {passing}. {wrong[0].sentence(where)}"
    worst_of = {one.node: one.outcome for one in places}
    parts = [
        f"{which}: {_faults(own)}"
        for which in (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)
        # Of a node only its worst.
        if (own := [one for one in wrong if one.outcome is worst_of.get(one.node, which) is which])
    ]
    return f"{outcome.upper()}: {'; '.join([passing, *parts])}"


def _faults(found: Sequence[Finding]) -> str:
    """`slow network (trn-003, trn-005), all probes failed`."""
    nodes: dict[str, dict[str, None]] = {}
    for one in found:
        where = nodes.setdefault(one.fault, {})
        if place := one.node or path(one):
            where[place] = None
    return ", ".join(
        f"{fault} ({names(where)})" if where else fault for fault, where in nodes.items()
    )


def _day(unix: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(unix))
