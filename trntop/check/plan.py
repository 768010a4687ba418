"""The plan of a check and its duration."""

import math
from typing import Literal

import msgspec

from trntop.check import schedule
from trntop.check.model import Inspection, ProbeSpec
from trntop.check.schedule import Round

Extent = Literal["quick", "full"]

INSPECTION_SECONDS = 2.0
"""Typical seconds of an inspection."""
START_SECONDS = 1.0
"""Typical seconds to start both sides of a run: 0.2 each over tcp, more over EFA."""
REQUEST_SECONDS = 0.5
"""Typical seconds from a request to its start."""
LATENCY = {"efa": 25e-6, "tcp": 100e-6}
"""Upper bounds of one-way seconds, so that plans do not promise too much."""
BYTES_PER_SECOND = 1e9
SUSPECT_ROUNDS = 2
"""Additional rounds if a node is slow."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a check, for any number of nodes."""

    extent: Extent = "quick"
    """Two partners for each node, or each pair."""
    per_device: bool = False
    """Whether each EFA device is probed separately, with the device at the same position."""
    include_busy: bool = msgspec.field(default=False, name="disturb")
    """Whether nodes with running jobs are also probed."""
    spec: ProbeSpec = ProbeSpec()
    pairs: int = 128
    """Maximum number of pairs probed at a time."""
    inspect_seconds: float = 20.0
    """Deadline of an inspection."""
    time_limit: float = 900.0
    """Seconds after which a check ends with partial results."""

    def may_probe(self, seen: Inspection | None) -> bool:
        return seen is not None and (not seen.busy or self.include_busy) and not seen.lacks_tool

    def rounds(self, count: int) -> list[Round]:
        return schedule.tournament(count) if self.extent == "full" else schedule.quick(count)

    def seconds(self, count: int, efa_devices: int = 1) -> tuple[float, float]:
        """Seconds if all nodes are healthy, and if suspects are probed again.

        Args:
            count: number of nodes.
            efa_devices: EFA devices of each node, for `per_device`.
        """
        probe = probe_seconds(self.spec) * (efa_devices if self.per_device else 1)
        inspections = 2 * math.ceil(max(count, 1) / self.pairs) * INSPECTION_SECONDS
        rounds = [math.ceil(len(pairs) / self.pairs) for pairs in self.rounds(count)] or [1]
        healthy = inspections + sum(rounds) * probe
        return healthy, healthy + SUSPECT_ROUNDS * max(rounds) * probe


def probe_seconds(spec: ProbeSpec) -> float:
    """Typical seconds of a probe, at most its deadline."""
    one_way = LATENCY[spec.provider] + spec.size_bytes / BYTES_PER_SECOND
    # The first run warms up and is discarded.
    run = START_SECONDS + 2 * spec.iterations * one_way
    return min(REQUEST_SECONDS + (spec.repeats + 1) * run, REQUEST_SECONDS + spec.seconds)
