"""From inspections and probes to pass, warn, fail or inconclusive: of each node, and of all."""

import time
from collections.abc import Iterator, Mapping, Sequence

from trntop import __version__
from trntop.check import stage
from trntop.check.consensus import names
from trntop.check.ends import Ends
from trntop.check.expected import expected_cards
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

_GRAVITY = (Outcome.PASS, Outcome.WARN, Outcome.UNKNOWN, Outcome.FAIL)
"""From the mildest; a check with an inconclusive result has not passed."""


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """What several outcomes come to."""
    return max(outcomes, key=_GRAVITY.index, default=Outcome.PASS)


def path(finding: Finding) -> str:
    """The two ends of a link that a finding is about: `trn-005–trn-006`; empty otherwise."""
    kind, _, ends = finding.component.partition(":")
    return ends.replace(">", "–") if kind == "link" else ""


def severity_order(outcome: Outcome) -> int:
    """For sorting, the worst highest."""
    return _GRAVITY.index(outcome)


def judge(
    looks: Mapping[str, NodeInspection],
    trials: Sequence[ProbeRun],
    plan: Plan,
    settings: Settings,
    *,
    started: float,
    seconds: float,
    cut_short: str = "",
    unlearned: str = "",
    baseline: Check | None = None,
    imported: Sequence[ProbeResult] = (),
    outlook: Outlook | None = None,
) -> Check:
    """A check from its evidence.

    Args:
        looks: node → what was seen of it.
        trials: the probes.
        plan: what was to be done.
        settings: in force.
        started: unix seconds.
        seconds: how long it took.
        cut_short: why it ended early, if it did.
        unlearned: why EC2 told nothing, if it was asked.
        baseline: an earlier check, to compare with.
        imported: results of other tools, for the report.
        outlook: communication of finished stages.
    """
    ends = Ends(trials, settings.check)
    found = list(_findings(looks, ends, plan, settings, baseline))
    found += _untold(looks, ends, plan, cut_short)
    if outlook is not None:
        found += stage.findings(outlook, settings.analysis)
    if unlearned:
        text = f"no EC2 data on subnets, security groups and interfaces: {unlearned}"
        found.append(Finding(check="location", outcome=Outcome.PASS, text=text))
    if cut_short:
        found.append(
            Finding(check="time", outcome=Outcome.UNKNOWN, fault="check incomplete", text=cut_short)
        )
    # What concerns no single node stands behind those that are named.
    found.sort(
        key=lambda one: (-severity_order(one.outcome), not one.node, units.natural(one.node))
    )
    places = [_place(look, found, ends) for look in looks.values()]
    places.sort(key=lambda one: (-severity_order(one.outcome), units.natural(one.node)))
    outcome = worst([one.outcome for one in found])
    return Check(
        by=f"trntop {__version__}",
        started=started,
        seconds=seconds,
        simulated=_is_simulated(looks, outlook),
        outcome=outcome,
        verdict=_verdict(outcome, places, found),
        cut_short=cut_short,
        plan=plan,
        places=places,
        findings=found,
        looks=list(looks.values()),
        trials=list(trials),
        imported=list(imported),
        outlook=outlook,
        compared_with=baseline.started if baseline is not None else None,
    )


def _is_simulated(looks: Mapping[str, NodeInspection], outlook: Outlook | None) -> bool:
    seen = any(look.newest is not None and look.newest.simulated for look in looks.values())
    return seen or (outlook is not None and any(one.simulated for one in outlook.stages))


def _findings(
    looks: Mapping[str, NodeInspection],
    ends: Ends,
    plan: Plan,
    settings: Settings,
    baseline: Check | None,
) -> Iterator[Finding]:
    limits = settings.check
    yield from reach.findings(looks, plan)
    yield from cards.findings(looks, plan.spec)
    yield from counters.findings(looks, limits)
    yield from health.findings(looks)
    yield from versions.findings(looks)
    yield from setup.findings(looks, limits)
    yield from location.findings(looks)
    yield from clocks.findings(looks, limits)
    lost = [name for name, look in looks.items() if look.error]
    earlier = Ends(baseline.trials, limits) if baseline is not None else None
    then = _day(baseline.started) if baseline is not None else ""
    yield from latency.findings(ends, limits, lost, earlier, then)


def _untold(
    looks: Mapping[str, NodeInspection], ends: Ends, plan: Plan, cut_short: str
) -> Iterator[Finding]:
    """Nodes that were fit to be probed, but with which no probe came about."""
    why = cut_short or "no other node to probe it with"
    for name, look in looks.items():
        idle = look.before is not None and (not look.before.busy or plan.disturb)
        faulty = any(end[0] == name for end in ends.faults)
        lacking = look.before is not None and look.before.lacks(plan.spec.tool)
        probed = ends.of_node(name) or faulty
        if idle and not look.error and not lacking and not probed:
            yield Finding(
                check="latency",
                outcome=Outcome.UNKNOWN,
                fault="not probed",
                node=name,
                text=ends.engaged.get(name, why),
            )


def _place(look: NodeInspection, found: Sequence[Finding], ends: Ends) -> Place:
    own = [one for one in found if one.node == look.node]
    bests = [best for end in ends.of_ends(look.node) if (best := ends.best(end)) is not None]
    best = min(bests, key=lambda one: one.cost, default=None)
    seen = look.newest
    return Place(
        node=look.node,
        outcome=worst([one.outcome for one in own]),
        seconds=best.seconds if best else None,
        ratio=best.cost / ends.reference if best and ends.reference else None,
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
        told = [one.sentence("") for one in wrong if one.outcome is outcome]
        told = told or ["communication is below its limits, no node was checked"]
        return f"{outcome.upper()}: {told[0]}"
    if outcome is Outcome.PASS:
        return f"PASS: {nodes} {'is' if count == 1 else 'are'} fit"
    good = sum(one.outcome is Outcome.PASS for one in places)
    passing = f"{good} of {nodes} {'passes' if count == 1 else 'pass'}"
    if len({(one.fault, one.text) for one in wrong}) == 1:
        where = names(one.node for one in wrong if one.node) or path(wrong[0])
        return f"{outcome.upper()}: {passing}. {wrong[0].sentence(where)}"
    worst_of = {one.node: one.outcome for one in places}
    told = [
        f"{which}: {_faults(own)}"
        for which in (Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN)
        # Of a node only its worst.
        if (own := [one for one in wrong if one.outcome is worst_of.get(one.node, which) is which])
    ]
    return f"{outcome.upper()}: {'; '.join([passing, *told])}"


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
