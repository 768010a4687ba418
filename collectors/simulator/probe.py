"""Latency probes: one result per reading, each pair once a minute, over one EFA device each."""

from collections.abc import Iterator

import numpy as np

from .effects import Effect
from .simulated import Simulated, World
from .template import Template, inset, slot

PERIOD = 60
"""Seconds between two probes of a pair."""
SECONDS = 16.5e-6
"""Mean one-way time of a small message."""
PAIR_SPREAD = 0.06
NOISE = 0.05
LATE_SHARE = 0.005
"""Share of slow probes."""
LATE = 1.8
RETRANSMITTED = 4.0
"""Mean latency over a degraded EFA device, per unit of depth: retransmits wait for time-outs."""


class Probes(Simulated):
    """The probes of all nodes."""

    def __init__(self, world: World) -> None:
        fleet = world.fleet
        self._fleet = fleet
        self._script = world.script
        self._rng = rng = np.random.default_rng([world.seed, 19])
        shape = (fleet.nodes, fleet.nodes)
        self._usual = SECONDS * np.clip(rng.normal(1.0, PAIR_SPREAD, shape), 0.8, 1.2)
        self._turns = [
            [(int(rng.integers(PERIOD)), peer) for peer in fleet.peers(node)]
            for node in range(fleet.nodes)
        ]
        self._template = Template(
            {
                "tool": "fi_pingpong",
                "peer": inset(),
                "card": inset(),
                "peer_card": inset(),
                "provider": "efa",
                "size_bytes": 64,
                "statistic": "mean",
                "seconds": slot("%.3e"),
                "load": "training",
            }
        )

    def payloads(self, second: int, node: int, span: int, *, first: bool) -> Iterator[bytes]:
        """The results of a node in the `span` of seconds up to `second`."""
        for turn, peer in self._turns[node]:
            if (second - turn) % PERIOD < span:
                seconds = self._usual[node, peer] * float(np.exp(NOISE * self._rng.normal()))
                if self._rng.random() < LATE_SHARE:
                    seconds *= LATE
                fault = self._script.at(Effect.LATENCY_REGRESSION, second)
                if fault is not None and (fault.node, fault.peer) == (node, peer):
                    seconds *= 1.0 + fault.depth_at(second)
                place = (node + peer) % len(self._fleet.efa)
                degraded = self._script.at(Effect.EFA_DEGRADED, second)
                if degraded is not None and (degraded.node, degraded.efa) in (
                    (node, place), (peer, place),
                ):  # fmt: skip
                    seconds *= 1.0 + RETRANSMITTED * degraded.depth_at(second)
                card = self._fleet.efa[place].name
                values = (self._fleet.names[peer], card, card, seconds)
                yield self._template.fill(values).encode()
