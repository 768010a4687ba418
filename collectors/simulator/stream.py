"""The simulated cluster as a stream of readings, in its own time."""

import itertools
from collections.abc import Iterator

import numpy as np

from trntop.catalog import EFA_SOURCE, NEURON_MONITOR, STEPS
from trntop.model import Reading

from .efa import EfaCards
from .fleet import Fleet
from .neuron_monitor import NeuronMonitors
from .scenarios import SCENARIOS, Effect, Script, Truth
from .spec import Simulation
from .steps import Records, StepTelemetry
from .training import TrainingLoop

WOBBLE = 0.002
"""Seconds; nothing comes exactly each second."""
STEP_LAG = (0.004, 0.03)
"""Seconds from the end of a step to a node's records of it."""


def simulate(simulation: Simulation, start: float) -> Iterator[Reading]:
    """The readings from unix time `start` on, ordered by time; endless without `minutes`.

    The same simulation gives the same payloads. Nothing sleeps and no clock is read: the
    stream is as fast as it is pulled.
    """
    fleet, script = _stage(simulation)
    loop = TrainingLoop(fleet, script, simulation.seed)
    monitors = NeuronMonitors(fleet, script, simulation.seed)
    cards = EfaCards(fleet, script, simulation.seed) if fleet.cards else None
    telemetry = StepTelemetry(fleet, simulation.job, simulation.seed)
    rng = np.random.default_rng([simulation.seed, 9])
    offsets = rng.uniform(WOBBLE, 1.0 - WOBBLE, fleet.nodes)
    lags = rng.uniform(*STEP_LAG, fleet.nodes).tolist()
    length = np.inf if simulation.minutes is None else 60.0 * simulation.minutes
    before = offsets - 1.0
    waiting: list[tuple[float, int, Records | None]] = []
    for second in itertools.count():
        if second >= length:
            return
        after = second + offsets + rng.uniform(-WOBBLE, WOBBLE, fleet.nodes)
        for step in loop.run(second + 1.0):
            if step.finished:
                records = telemetry.observe(step)
                waiting += [(step.end + lag, node, records) for node, lag in enumerate(lags)]
        activity = loop.activity(before, after)
        monitors.observe(second + 0.5, activity)
        if cards is not None:
            cards.observe(second + 0.5, activity)
        before = after
        due: list[tuple[float, int, Records | None]] = [
            (time, node, None) for node, time in enumerate(after.tolist())
        ]
        due += [event for event in waiting if event[0] < second + 1.0]
        waiting = [event for event in waiting if event[0] >= second + 1.0]
        for time, node, finished in sorted(due, key=lambda event: event[:2]):
            silent = script.at(Effect.SILENT_NODE, time)
            if time >= length or (silent is not None and silent.node == node):
                continue
            name, stamp = fleet.names[node], round(start + time, 6)
            if finished is not None:
                for payload in telemetry.payloads(finished, node):
                    yield Reading(name, STEPS, stamp, payload, simulated=True)
                continue
            yield Reading(name, NEURON_MONITOR, stamp, monitors.payload(node), simulated=True)
            if cards is not None:
                yield Reading(name, EFA_SOURCE, stamp, cards.payload(node), simulated=True)


def truth(simulation: Simulation, start: float) -> tuple[Truth, ...]:
    """What is scripted to go wrong in a stream from `start` on; of an endless play, once."""
    length = np.inf if simulation.minutes is None else 60.0 * simulation.minutes
    _, script = _stage(simulation)
    return tuple(
        incident
        for incident in script.truth(simulation.job, start)
        if incident.onset < start + length
    )


def _stage(simulation: Simulation) -> tuple[Fleet, Script]:
    fleet = Fleet(simulation.instance_type, simulation.nodes, simulation.seed, simulation.runtimes)
    return fleet, Script(SCENARIOS[simulation.scenario], simulation.seed, fleet)
