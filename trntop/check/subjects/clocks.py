"""Clocks of nodes against each other: logs and traces of a job are compared by them."""

from collections.abc import Iterator, Mapping
from statistics import median_low

from trntop.check.model import Finding, Outcome
from trntop.check.result import NodeInspection
from trntop.core import units
from trntop.core.settings import Check as Limits


def findings(inspections: Mapping[str, NodeInspection], limits: Limits) -> Iterator[Finding]:
    """Clocks that are off from the median of all: ours may be the one that is wrong."""
    offsets = {
        name: inspection.clock
        for name, inspection in inspections.items()
        if inspection.clock is not None
    }
    if len(offsets) < 2:
        return
    usual = median_low(offsets.values())
    for name, offset in offsets.items():
        away = offset - usual
        # What the way there and back took may be on either side.
        if abs(away) > limits.clock_skew + inspections[name].clock_error:
            side = "ahead of" if away > 0 else "behind"
            yield Finding(
                check="clock",
                outcome=Outcome.WARN,
                fault="clock skew",
                node=name,
                text=f"{units.seconds(abs(away))} {side} the other nodes"
                f" (±{units.seconds(inspections[name].clock_error)})",
                next_step="Start chronyd or systemd-timesyncd; check with `chronyc tracking`.",
            )
