"""What EFA devices counted between the two inspections: rates, never totals since boot.

A total covers the life of a device, which may have been long. One exception: an admin command
that never completed closes the device's admin queue until the driver is reset, so that any count
above 0 means that it is closed now.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median_low

from trntop.check.advice import drain
from trntop.check.model import Action, Card, Finding, Outcome
from trntop.check.result import NodeInspection
from trntop.core import units
from trntop.core.settings import Check as Limits

DEAD = "no_completion_cmds"
ALIVE = "keep_alive_rcvd"
EVENTS = {
    "rx_drops": "dropped packets",
    "retrans_timeout_events": "retransmit timeouts",
    "unresponsive_remote_events": "unresponsive peers",
    "impaired_remote_conn_events": "impaired connections",
    "rdma_read_wr_err": "RDMA read errors",
    "rdma_write_wr_err": "RDMA write errors",
    "cmds_err": "admin command errors",
    "reg_mr_err": "memory registration errors",
}
"""Counters of which any rate is reported, unless most devices have it."""
FACTOR = 8
"""Times the median of all cards that a card must have counted."""
LEAST_PACKETS = 20
"""Retransmitted packets below which a share says little."""
QUIET = 30.0
"""Seconds without a sign of life after which a card is remarked, if others gave one."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What one card counted between the looks."""

    node: str
    card: Card
    counts: Mapping[str, int]
    seconds: float
    reset: bool


def findings(inspections: Mapping[str, NodeInspection], limits: Limits) -> Iterator[Finding]:
    """Dead devices, and what was counted during the check that most devices did not count."""
    for name, inspection in inspections.items():
        yield from _dead(name, inspection)
    changes = list(_changes(inspections))
    for counter, what in EVENTS.items():
        yield from _events(changes, counter, what)
    yield from _retransmits(changes, limits)
    yield from _silent(changes)
    for one in changes:
        if one.reset:
            yield Finding(
                check="counters",
                outcome=Outcome.WARN,
                fault="EFA driver reset",
                node=one.node,
                component=f"efa:{one.card.name}",
                text=f"counters of {one.card.name} restarted during the check",
                action=Action.MONITOR,
            )


def _dead(name: str, inspection: NodeInspection) -> Iterator[Finding]:
    for card in (inspection.newest.cards if inspection.newest else None) or ():
        if count := card.device.get(DEAD) or card.port.get(DEAD):
            yield Finding(
                check="admin queue",
                outcome=Outcome.FAIL,
                fault="EFA admin queue dead",
                node=name,
                component=f"efa:{card.name}",
                text=f"{count} admin commands of {card.name} never completed; it accepts no more"
                " until its driver is reset",
                action=Action.REBOOT,
                next_step=drain(
                    name,
                    f"EFA device {card.name} is dead",
                    "Reboot it; if it recurs, replace the instance.",
                ),
            )


def _changes(inspections: Mapping[str, NodeInspection]) -> Iterator[_Change]:
    for name, inspection in inspections.items():
        if inspection.before is None or inspection.after is None:
            continue
        first = {card.name: card for card in inspection.before.cards or ()}
        for card in inspection.after.cards or ():
            if card.name not in first:
                continue
            before = {**first[card.name].device, **first[card.name].port}
            counts = {
                counter: value - before[counter]
                for counter, value in {**card.device, **card.port}.items()
                if counter in before
            }
            reset = any(count < 0 for count in counts.values())
            seconds = inspection.after.time - inspection.before.time
            yield _Change(name, card, {} if reset else counts, seconds, reset)


def _bar(values: list[int]) -> int:
    """What a device must exceed: a count that most have is no fault of one."""
    return FACTOR * median_low(values) if values else 0


def _events(changes: list[_Change], counter: str, what: str) -> Iterator[Finding]:
    known = [one for one in changes if counter in one.counts]
    bar = _bar([one.counts[counter] for one in known])
    for one in known:
        count = one.counts[counter]
        if count > bar:
            yield Finding(
                check="counters",
                outcome=Outcome.WARN,
                fault=what,
                node=one.node,
                component=f"efa:{one.card.name}",
                text=f"{one.card.name} counted {count:,} ({counter}) in {units.span(one.seconds)}",
                action=Action.MONITOR,
            )
    if bar and not any(one.counts[counter] > bar for one in known):
        usual = bar // FACTOR
        yield Finding(
            check="counters",
            outcome=Outcome.WARN if counter != "cmds_err" else Outcome.PASS,
            fault=what,
            text=f"most EFA devices counted {usual:,} or more ({counter}) during the check; no"
            " device differs from its peers",
        )


def _retransmits(changes: list[_Change], limits: Limits) -> Iterator[Finding]:
    shares = {
        place: one.counts["retrans_pkts"] / sent
        for place, one in enumerate(changes)
        if "retrans_pkts" in one.counts and (sent := one.counts.get("tx_pkts", 0)) > 0
    }
    if not shares:
        return
    usual = median_low(shares.values())
    for place, share in shares.items():
        one = changes[place]
        again = one.counts["retrans_pkts"]
        if share > limits.retransmits and share > FACTOR * usual and again >= LEAST_PACKETS:
            yield Finding(
                check="retransmits",
                outcome=Outcome.WARN,
                fault="retransmits high",
                node=one.node,
                component=f"efa:{one.card.name}",
                text=f"{one.card.name} retransmitted {units.percent(share)} of its packets"
                f" ({again:,} of {one.counts['tx_pkts']:,}), peers {units.percent(usual)}",
                action=Action.MONITOR,
                next_step="Check again with --per-card --full; if it is slow too, drain it.",
            )
    if usual > limits.retransmits:
        yield Finding(
            check="retransmits",
            outcome=Outcome.WARN,
            fault="retransmits high",
            text=f"half of the EFA devices retransmitted {units.percent(usual)} of their packets or"
            " more; no device differs from its peers",
            next_step="Check the network between the nodes.",
        )


def _silent(changes: list[_Change]) -> Iterator[Finding]:
    known = [one for one in changes if ALIVE in one.counts and one.seconds >= QUIET]
    if not known or median_low(one.counts[ALIVE] for one in known) == 0:
        return
    for one in known:
        if one.counts[ALIVE] == 0:
            yield Finding(
                check="admin queue",
                outcome=Outcome.WARN,
                fault="no EFA keep-alive",
                node=one.node,
                component=f"efa:{one.card.name}",
                text=f"{one.card.name} counted no {ALIVE} in {units.span(one.seconds)}, its peers"
                " did",
                action=Action.MONITOR,
            )
