"""The change of EFA counters between the two inspections, never totals since boot.

One exception: an admin command that never completed closes the device's admin queue until the
driver is reset, so that any count above 0 means that it is closed now.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median_low

from trntop.check import faults
from trntop.check.faults import Fault
from trntop.check.model import Action, Finding, Outcome
from trntop.check.result import NodeInspection
from trntop.core import units
from trntop.core.settings import Check as Limits

DEAD = "no_completion_cmds"
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
"""Counters of which any change is reported, unless most devices have it."""
FACTOR = 8
"""Multiple of the median of all devices that a device must exceed."""
LEAST_PACKETS = 20
"""Retransmitted packets below which a share is noise."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What one EFA device counted between the inspections."""

    node: str
    efa_device: str
    counts: Mapping[str, int]
    seconds: float

    @property
    def component(self) -> str:
        return f"efa:{self.efa_device}"


def findings(inspections: Mapping[str, NodeInspection], limits: Limits) -> Iterator[Finding]:
    """Dead devices, and events during the check that most devices did not count."""
    for name, inspection in inspections.items():
        yield from _dead(name, inspection)
    changes = []
    for change in _changes(inspections):
        if any(count < 0 for count in change.counts.values()):
            yield faults.EFA_RESET.found(
                f"counters of {change.efa_device} restarted during the check",
                change.node,
                component=change.component,
            )
        else:
            changes.append(change)
    for counter, name in EVENTS.items():
        yield from _events(changes, counter, name)
    yield from _retransmits(changes, limits)


def _dead(name: str, inspection: NodeInspection) -> Iterator[Finding]:
    for efa_device in (inspection.newest.efa_devices if inspection.newest else None) or ():
        if count := efa_device.device.get(DEAD) or efa_device.port.get(DEAD):
            yield faults.EFA_DEAD.found(
                f"{count} admin commands of {efa_device.name} never completed; it accepts no more"
                " until its driver is reset",
                name,
                component=f"efa:{efa_device.name}",
            )


def _changes(inspections: Mapping[str, NodeInspection]) -> Iterator[_Change]:
    for name, inspection in inspections.items():
        if inspection.before is None or inspection.after is None:
            continue
        first = {
            efa_device.name: {**efa_device.device, **efa_device.port}
            for efa_device in inspection.before.efa_devices or ()
        }
        for efa_device in inspection.after.efa_devices or ():
            before = first.get(efa_device.name, {})
            counts = {
                counter: value - before[counter]
                for counter, value in {**efa_device.device, **efa_device.port}.items()
                if counter in before
            }
            seconds = inspection.after.time - inspection.before.time
            yield _Change(name, efa_device.name, counts, seconds)


def _events(changes: list[_Change], counter: str, name: str) -> Iterator[Finding]:
    known = [change for change in changes if counter in change.counts]
    if not known:
        return
    fault = Fault("counters", name, Outcome.WARN, action=Action.MONITOR)
    usual = median_low(change.counts[counter] for change in known)
    odd = [change for change in known if change.counts[counter] > FACTOR * usual]
    for change in odd:
        yield fault.found(
            f"{change.efa_device} counted {change.counts[counter]:,} ({counter}) in"
            f" {units.span(change.seconds)}",
            change.node,
            component=change.component,
        )
    if usual and not odd:
        yield fault.found(
            f"most EFA devices counted {usual:,} or more ({counter}) during the check; no device"
            " differs from its peers",
            outcome=Outcome.PASS if counter == "cmds_err" else Outcome.WARN,
        )


def _retransmits(changes: list[_Change], limits: Limits) -> Iterator[Finding]:
    shares = [
        (change.counts["retrans_pkts"] / sent, change)
        for change in changes
        if "retrans_pkts" in change.counts and (sent := change.counts.get("tx_pkts", 0)) > 0
    ]
    if not shares:
        return
    usual = median_low(share for share, _ in shares)
    for share, change in shares:
        count = change.counts["retrans_pkts"]
        if share > limits.retransmits and share > FACTOR * usual and count >= LEAST_PACKETS:
            yield faults.RETRANSMITS.found(
                f"{change.efa_device} retransmitted {units.percent(share)} of its packets"
                f" ({count:,} of {change.counts['tx_pkts']:,}), peers {units.percent(usual)}",
                change.node,
                component=change.component,
            )
    if usual > limits.retransmits:
        yield faults.ALL_RETRANSMIT.found(
            f"half of the EFA devices retransmitted {units.percent(usual)} of their packets or"
            " more; no device differs from its peers"
        )
