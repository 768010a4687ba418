"""Where nodes are: EFA does not cross availability zones, and security groups can shut it out."""

from collections.abc import Iterator, Mapping

from trntop.check.consensus import names, split
from trntop.check.model import Finding, Outcome
from trntop.check.result import NodeInspection

ZONE, SUBNET, GROUP = "availability_zone_id", "subnet_id", "placement_group"
ZONE_NAME = "availability_zone"
SECURITY = "security_groups"
"""Ids of a node's security groups, separated by commas."""
INBOUND, OUTBOUND = "security_self_inbound", "security_self_outbound"
"""Whether one of them lets all traffic of its own members in, and out to them: `yes` or `no`."""

_OUTBOUND = "even if another rule allows all outbound traffic"


def findings(inspections: Mapping[str, NodeInspection]) -> Iterator[Finding]:
    """What of EC2's facts keeps nodes from reaching each other, or far apart."""
    facts = {
        name: inspection.newest.facts
        for name, inspection in inspections.items()
        if inspection.newest is not None
    }

    def told(fact: str) -> dict[str, str]:
        return {name: own[fact] for name, own in facts.items() if own.get(fact)}

    # Names of zones are an account's own, ids are everybody's.
    yield from _apart(
        "availability zone",
        told(ZONE) or told(ZONE_NAME),
        Outcome.FAIL,
        "Move the nodes to one zone: EFA traffic cannot cross zones.",
    )
    yield from _apart(
        "subnet", told(SUBNET), Outcome.WARN, "Use one subnet for all nodes of a job."
    )
    yield from _apart(
        "placement group", told(GROUP), Outcome.WARN, "Use a cluster placement group."
    )
    yield from _groups(told(SECURITY))
    for fact, way, why in ((INBOUND, "in from", ""), (OUTBOUND, "out to", f", {_OUTBOUND}")):
        for name, answer in told(fact).items():
            if answer == "no":
                yield Finding(
                    check="security group",
                    outcome=Outcome.FAIL,
                    fault="security group blocks EFA",
                    node=name,
                    text=f"no security group allows all traffic {way} its own members",
                    next_step=f"Add a rule for all traffic {way} the group itself{why}.",
                )


def _apart(what: str, values: Mapping[str, str], outcome: Outcome, why: str) -> Iterator[Finding]:
    found = split(values)
    if found is None:
        return
    if found.most is None:
        groups = "; ".join(f"{value}: {names(nodes)}" for value, nodes in found.groups())
        yield Finding(
            check="location",
            outcome=outcome,
            fault=f"different {what}s",
            text=groups,
            next_step=why,
        )
        return
    for node, value in found.odd.items():
        yield Finding(
            check="location",
            outcome=outcome,
            fault=f"different {what}",
            node=node,
            text=f"{value}, {found.count} of {len(values)} nodes are in {found.most}",
            next_step=why,
        )


def _groups(values: Mapping[str, str]) -> Iterator[Finding]:
    """Nodes that share no security group with most others."""
    groups = {name: set(own.replace(" ", "").split(",")) for name, own in values.items()}
    if len(groups) < 2 or set.intersection(*groups.values()):
        return
    counts = {
        one: sum(one in own for own in groups.values()) for own in groups.values() for one in own
    }
    common = max(sorted(counts), key=counts.__getitem__)
    odd = [name for name, own in groups.items() if common not in own]
    are = "is" if len(odd) == 1 else "are"
    yield Finding(
        check="security group",
        outcome=Outcome.FAIL,
        fault="different security groups",
        node=odd[0] if len(odd) == 1 else "",
        text=f"{names(odd)} {are} not in {common}, {counts[common]} other nodes are",
        next_step="Add all nodes to one security group that allows all traffic between members.",
    )
