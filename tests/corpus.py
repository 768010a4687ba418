"""The simulator's scenarios, each played once for all tests that check its result.

Modules that use `played` are of the `xdist_group` "corpus": one process plays all of them.
"""

from dataclasses import dataclass
from functools import cache

from trntop.analysis.rule_inputs import rule_inputs
from trntop.collectors.simulator import Simulation, parse, simulate
from trntop.core.model import View
from trntop.core.settings import Settings
from trntop.exporters.web.history import HistoryBuffer
from trntop.session.monitor import Monitor, SparseStart, play

START = 1.76e9
SMALL = "type=trn1.32xlarge"
SPACING = 15
"""Seconds of data between two views that are kept: as Prometheus would scrape a live node."""

CALM = SparseStart(until=50, every=5)
"""Before anything happens, sources are polled and rules evaluated each 5 seconds."""

SCENARIOS = {
    "efa-degraded": "nodes=3&onset=90&duration=90&minutes=4.5",
    "slow-node": "nodes=3&onset=90&duration=90&minutes=4",
    "slow-device": "nodes=3&onset=90&duration=90&minutes=4",
    "hang": "nodes=3&onset=90&duration=60&minutes=3.5",
    "silent-node": "nodes=3&onset=90&duration=60&minutes=3.5",
    "recompile": "nodes=3&onset=90&duration=60&minutes=3.5",
    "memory-filling": "nodes=3&onset=60&duration=200&ramp=100&minutes=5.5",
    "ecc": "nodes=3&onset=90&minutes=3",
    "execution-errors": "nodes=3&onset=90&duration=40&minutes=4",
    "comm-bound": "nodes=3&onset=90&duration=90&minutes=4.5",
    "efa-down": "nodes=3&onset=90&duration=60&minutes=3.5",
    "latency-regression": "nodes=3&onset=200&duration=250&minutes=8.5",
    "device-lost": "nodes=3&onset=90&duration=60&minutes=3.5",
    "idle-allocation": "nodes=3&onset=60&duration=180&minutes=5",
    "version-skew": "nodes=3&minutes=2",
    "checkpoint-stall": "nodes=3&onset=120&duration=150&minutes=5",
}
"""Each scenario in which something happens, short enough for a test, long enough for its rule."""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a simulation."""

    simulation: Simulation
    views: tuple[View, ...]
    """One every `SPACING` seconds."""
    last: View
    history: HistoryBuffer
    """What an aggregator of these nodes hands over at the end."""


@cache
def played(name: str) -> Played:
    """A scenario and its incidents, computed from what the rules read."""
    simulation = parse(f"sim:{name}?{SCENARIOS.get(name, 'nodes=3&minutes=3')}&{SMALL}")
    monitor = Monitor(Settings(), wanted=rule_inputs(), sparse=CALM)
    kept: list[View] = []
    history = HistoryBuffer(1.0, aggregator=True)
    for view in play(simulate(simulation, START, CALM), monitor):
        if not kept or view.time >= kept[-1].time + SPACING:
            kept.append(view)
        history.append(view)
    return Played(simulation, tuple(kept), view, history)
