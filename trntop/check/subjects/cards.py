"""EFA devices: how many there must be and how fast, by the instance type and by the other nodes.

The state that the driver reports is hard-coded and says nothing; a card that is broken is gone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from trntop.check.advice import drain
from trntop.check.expected import ATTACHED, expected_cards
from trntop.check.model import Action, Finding, Inspection, Outcome, ProbeSpec
from trntop.check.result import NodeInspection
from trntop.check.subjects.versions import numbers
from trntop.core.instances import INSTANCE_TYPES

NO_DEVICES = "no EFA devices"
REAL_RATES = (2, 13)
"""Driver from which on the rate is the card's own; before, it is always 100 Gb/s."""


def findings(inspections: Mapping[str, NodeInspection], spec: ProbeSpec) -> Iterator[Finding]:
    """Devices that are missing or disappear during the check, and low link rates.

    Args:
        inspections: node → what was seen of it.
        spec: the probes, which may need a device.
    """
    usual = _usual(inspections)
    for name, inspection in inspections.items():
        seen = inspection.newest
        if seen is None:
            continue
        yield from _count(name, seen, usual.get(seen.instance_type), spec)
        yield from _gone(name, inspection)
        yield from _rates(name, seen)


def _usual(inspections: Mapping[str, NodeInspection]) -> dict[str, int]:
    """Instance type → how many cards most of its nodes have, if there are several nodes."""
    counts: dict[str, Counter[int]] = {}
    for inspection in inspections.values():
        if inspection.newest is not None and inspection.newest.cards is not None:
            own = counts.setdefault(inspection.newest.instance_type, Counter())
            own[len(inspection.newest.cards)] += 1
    return {
        kind: own.most_common(1)[0][0]
        for kind, own in counts.items()
        if 2 * own.most_common(1)[0][1] > own.total() > 1
    }


def _count(name: str, seen: Inspection, usual: int | None, spec: ProbeSpec) -> Iterator[Finding]:
    wanted = expected_cards(seen)
    if seen.cards is None:
        if wanted != 0:
            yield Finding(
                check="cards",
                outcome=Outcome.UNKNOWN,
                fault="EFA devices unknown",
                node=name,
                text="the inspection could not read them",
                next_step="Run on the node: `ls /sys/class/infiniband`, `trntop doctor`.",
            )
        return
    have = len(seen.cards)
    fewer_than_usual = usual is not None and have < usual
    if wanted is None and not fewer_than_usual:
        if have == 0:
            yield Finding(
                check="cards",
                outcome=Outcome.FAIL if spec.provider == "efa" else Outcome.PASS,
                fault=NO_DEVICES,
                node=name,
                text="the instance type is unknown",
                next_step="Add --provider tcp to probe over the ordinary network."
                if spec.provider == "efa"
                else "",
            )
        return
    if wanted is not None and have >= wanted:
        return
    most = wanted if wanted is not None else usual
    kind = f" on {seen.instance_type}" if wanted is not None and seen.instance_type else ""
    attached = seen.facts.get(ATTACHED) == str(have)
    text = f"{have} found, {most} expected{kind}"
    if have and (attached or (usual is not None and have >= usual)):
        why = f"launched with {have}" if attached else f"most nodes have {usual}"
        yield Finding(
            check="cards",
            outcome=Outcome.WARN,
            fault="EFA devices missing",
            node=name,
            text=f"{text}; {why}",
            next_step="Ignore this if the nodes were launched with fewer interfaces on purpose.",
        )
        return
    yield Finding(
        check="cards",
        outcome=Outcome.FAIL,
        fault="EFA devices missing" if have else NO_DEVICES,
        node=name,
        text=text,
        action=Action.REBOOT,
        next_step=drain(
            name,
            f"{have} of {most} EFA devices",
            "Reboot it; if the device stays missing, stop and start the instance.",
        ),
    )


def _gone(name: str, inspection: NodeInspection) -> Iterator[Finding]:
    if inspection.before is None or inspection.after is None:
        return
    after = {card.name for card in inspection.after.cards or ()}
    for card in inspection.before.cards or ():
        if inspection.after.cards is not None and card.name not in after:
            yield Finding(
                check="cards",
                outcome=Outcome.FAIL,
                fault="EFA device lost",
                node=name,
                component=f"efa:{card.name}",
                text=f"{card.name} disappeared during the check",
                action=Action.ISOLATE,
                next_step=drain(
                    name, f"EFA device {card.name} lost", "Stop and start the instance."
                ),
            )


def _rates(name: str, seen: Inspection) -> Iterator[Finding]:
    row = INSTANCE_TYPES.get(seen.instance_type)
    wanted = row.efa_gbps if row else None
    for card in seen.cards or ():
        real = numbers(card.driver or seen.versions.get("efa", "")) >= REAL_RATES
        if wanted is None or card.rate_gbps is None or not real or card.rate_gbps >= wanted:
            continue
        yield Finding(
            check="cards",
            outcome=Outcome.FAIL,
            fault="EFA link rate low",
            node=name,
            component=f"efa:{card.name}",
            text=f"{card.name} runs at {card.rate_gbps:g} Gb/s, {wanted:g} expected",
            action=Action.ISOLATE,
            next_step=drain(
                name, f"EFA device {card.name} is slow", "Stop and start the instance."
            ),
        )
