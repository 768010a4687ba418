"""What a check is going to do, and how long that takes."""

import math
from typing import Literal

import msgspec

from trntop.check import schedule
from trntop.check.model import ProbeSpec
from trntop.check.schedule import Round
from trntop.core.settings import Check as Limits

Extent = Literal["quick", "full"]

INSPECTION = 2.0
"""Seconds that a look at a node takes, about."""
START = 1.0
"""Seconds for which both sides of a run start, about: fi_pingpong takes 0.2 each over tcp, and more
over EFA.
"""
ANSWER = 0.5
"""Seconds between an order over the network and its being under way, about."""
LATENCY = {"efa": 25e-6, "tcp": 100e-6}
"""One way, in seconds; from above, so that plans do not promise too much."""
BYTES_PER_SECOND = 1e9
SUSPECT_ROUNDS = 2
"""Rounds after the quick ones, if somebody was slow: for suspects, and once more."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a check does. It does not name the nodes: the same plan suits any number."""

    extent: Extent = "quick"
    """Two partners for each node, or each pair."""
    per_card: bool = False
    """Whether each card is probed alone, with the card of the same place of the partner."""
    disturb: bool = False
    """Whether nodes with running jobs are probed too."""
    spec: ProbeSpec = ProbeSpec()
    pairs: int = 128
    """Most pairs that are probed at a time."""
    inspect_seconds: float = 20.0
    """After so long a look at a node counts as failed."""
    time_limit: float = 900.0
    """Seconds after which a check ends with what it has."""

    def rounds(self, count: int) -> list[Round]:
        """The rounds for `count` nodes."""
        return schedule.tournament(count) if self.extent == "full" else schedule.quick(count)

    def seconds(self, count: int, cards: int = 1) -> tuple[float, float]:
        """How long it takes where all is well, and where suspects are probed again.

        Args:
            count: number of nodes.
            cards: of each of them; matters if each is probed alone.
        """
        probe = probe_seconds(self.spec) * (cards if self.per_card else 1)
        looks = 2 * math.ceil(max(count, 1) / self.pairs) * INSPECTION

        def lasting(pairs: int) -> float:
            return math.ceil(pairs / self.pairs) * probe

        rounds = [len(each) for each in self.rounds(count)] or [1]
        well = looks + sum(map(lasting, rounds))
        return well, well + SUSPECT_ROUNDS * lasting(max(rounds))


def plan_of(limits: Limits, spec: ProbeSpec, **options: bool | float | Extent) -> Plan:
    """The plan that the settings ask for, with what an option says otherwise."""
    plan = Plan(
        spec=spec,
        pairs=limits.pairs,
        inspect_seconds=limits.inspect_seconds,
        time_limit=limits.time_limit,
    )
    return msgspec.structs.replace(plan, **options)


def probe_seconds(spec: ProbeSpec) -> float:
    """How long one probe takes, about; it never takes longer than its deadline."""
    one_way = LATENCY[spec.provider] + spec.size_bytes / BYTES_PER_SECOND
    # One run more than is counted: the first, which warms up, is thrown away.
    run = START + 2 * spec.iterations * one_way
    return min(ANSWER + (spec.repeats + 1) * run, ANSWER + spec.seconds)
