"""What EFA cards counted between the two looks: rates, never totals since boot.

A total tells of the life of a card, which may have been long. One exception: an admin command
that never completed closes the card's admin queue until the driver is reset, so that any count
above 0 means that it is closed now.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median_low

from trntop import units
from trntop.check.advice import drain
from trntop.check.model import Action, Card, Finding, Outcome
from trntop.check.result import Look
from trntop.settings import Check as Limits

DEAD = "no_completion_cmds"
ALIVE = "keep_alive_rcvd"
EVENTS = {
    "rx_drops": "packets that it received and dropped",
    "retrans_timeout_events": "time-outs that changed the network path",
    "unresponsive_remote_events": "peers that did not respond",
    "impaired_remote_conn_events": "impaired connections",
    "rdma_read_wr_err": "failed RDMA reads",
    "rdma_write_wr_err": "failed RDMA writes",
    "cmds_err": "failed admin commands",
    "reg_mr_err": "failed memory registrations",
}
"""Counters of which any rate is told, unless most cards have it."""
FACTOR = 8
"""Times the median of all cards that a card must have counted."""
LEAST_PACKETS = 20
"""Packets sent again below which a share says little."""
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


def findings(looks: Mapping[str, Look], limits: Limits) -> Iterator[Finding]:
    """Dead cards, and what was counted during the check that most cards did not count."""
    for name, look in looks.items():
        yield from _dead(name, look)
    changes = list(_changes(looks))
    for counter, what in EVENTS.items():
        yield from _events(changes, counter, what)
    yield from _retransmits(changes, limits)
    yield from _silent(changes)
    for one in changes:
        if one.reset:
            yield Finding(
                check="counters",
                outcome=Outcome.WARN,
                node=one.node,
                component=f"efa:{one.card.name}",
                text=f"counters of EFA card {one.card.name} began anew during the check: its"
                " driver was reset",
                action=Action.MONITOR,
            )


def _dead(name: str, look: Look) -> Iterator[Finding]:
    for card in (look.newest.cards if look.newest else None) or ():
        if count := card.device.get(DEAD) or card.port.get(DEAD):
            yield Finding(
                check="admin queue",
                outcome=Outcome.FAIL,
                node=name,
                component=f"efa:{card.name}",
                text=f"{count} admin commands of EFA card {card.name} never completed: its driver"
                " takes no further ones until it is reset",
                action=Action.REBOOT,
                next_step=drain(
                    name, f"EFA card {card.name} is dead", "Reboot it; if that recurs, replace it."
                ),
            )


def _changes(looks: Mapping[str, Look]) -> Iterator[_Change]:
    for name, look in looks.items():
        if look.before is None or look.after is None:
            continue
        first = {card.name: card for card in look.before.cards or ()}
        for card in look.after.cards or ():
            if card.name not in first:
                continue
            before = {**first[card.name].device, **first[card.name].port}
            counts = {
                counter: value - before[counter]
                for counter, value in {**card.device, **card.port}.items()
                if counter in before
            }
            reset = any(count < 0 for count in counts.values())
            seconds = look.after.time - look.before.time
            yield _Change(name, card, {} if reset else counts, seconds, reset)


def _bar(values: list[int]) -> int:
    """What a card must have counted more than: what most have blames none."""
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
                node=one.node,
                component=f"efa:{one.card.name}",
                text=f"EFA card {one.card.name} counted {count:,} {what} ({counter}) in the"
                f" {units.span(one.seconds)} of the check",
                action=Action.MONITOR,
            )
    if bar and not any(one.counts[counter] > bar for one in known):
        usual = bar // FACTOR
        yield Finding(
            check="counters",
            outcome=Outcome.WARN if counter != "cmds_err" else Outcome.PASS,
            text=f"most EFA cards counted {usual:,} or more {what} ({counter}) during the check:"
            " no card stands out",
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
                node=one.node,
                component=f"efa:{one.card.name}",
                text=f"EFA card {one.card.name} sent {units.percent(share)} of its packets again"
                f" ({again:,} of {one.counts['tx_pkts']:,}), most cards"
                f" {units.percent(usual)}",
                action=Action.MONITOR,
                next_step="Check it again with --per-card --full: if it is slow too, drain it.",
            )
    if usual > limits.retransmits:
        yield Finding(
            check="retransmits",
            outcome=Outcome.WARN,
            text=f"half of the EFA cards sent {units.percent(usual)} of their packets again or"
            " more: none stands out, so look at what is between them",
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
                node=one.node,
                component=f"efa:{one.card.name}",
                text=f"EFA card {one.card.name} gave no sign of life ({ALIVE}) in"
                f" {units.span(one.seconds)}, others did",
                action=Action.MONITOR,
            )
