"""The simulated cluster as a stream of readings, in its own time."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from trntop.catalog import KERNEL_LOG, LOG, STEPS
from trntop.model import Reading

from .fleet import Fleet
from .kernel_log import KernelLogs
from .log import TrainingLog
from .scenarios import SCENARIOS, Effect, Script, Truth
from .sources import Sources
from .spec import Simulation
from .steps import Records, StepTelemetry
from .training import Step, TrainingLoop

WOBBLE = 0.002
"""Seconds; nothing comes exactly each second."""
STEP_LAG = (0.004, 0.03)
"""Seconds from the end of a step to a node's records of it."""

_Payloads = Iterable[tuple[str, bytes]]
"""Sources and what they give."""
_Event = tuple[float, int, Callable[[], _Payloads]]
"""When, which node, and what it then says."""


def simulate(simulation: Simulation, start: float) -> Iterator[Reading]:
    """The readings from unix time `start` on, ordered by time; endless without `minutes`.

    The same simulation gives the same payloads, but for the clock times in them, which move with
    `start`. Nothing sleeps and no clock is read: the stream is as fast as it is pulled.
    """
    fleet, script = _stage(simulation)
    seed, job = simulation.seed, simulation.job
    loop = TrainingLoop(fleet, script, seed)
    sources = Sources(fleet, script, seed, start)
    telemetry = StepTelemetry(fleet, job, seed, start)
    log = TrainingLog(fleet, job, seed, start)
    kernels = KernelLogs(fleet, script, seed, start)
    rng = np.random.default_rng([seed, 9])
    offsets = rng.uniform(WOBBLE, 1.0 - WOBBLE, fleet.nodes)
    lags = rng.uniform(*STEP_LAG, fleet.nodes).tolist()
    length = np.inf if simulation.minutes is None else 60.0 * simulation.minutes
    before = offsets - 1.0
    waiting: list[_Event] = []
    for second in itertools.count():
        if second >= length:
            return
        after = second + offsets + rng.uniform(-WOBBLE, WOBBLE, fleet.nodes)
        for step in loop.run(second + 1.0):
            waiting += _training(telemetry, log, step, lags)
        for time, node, line in kernels.lines(second):
            waiting.append((time, node, partial(_one, KERNEL_LOG, line)))
        sources.observe(second + 0.5, loop.activity(before, after), loop.compiling(second + 0.5))
        before = after
        for node, time in enumerate(after.tolist()):
            waiting.append((time, node, partial(sources.payloads, second, node)))
        due = [event for event in waiting if event[0] < second + 1.0]
        waiting = [event for event in waiting if event[0] >= second + 1.0]
        for time, node, says in sorted(due, key=lambda event: event[:2]):
            silent = script.at(Effect.SILENT_NODE, time)
            if time >= length or (silent is not None and silent.node == node):
                continue
            name, stamp = fleet.names[node], round(start + time, 6)
            for source, payload in says():
                yield Reading(name, source, stamp, payload, simulated=True)


def truth(simulation: Simulation, start: float) -> tuple[Truth, ...]:
    """What is scripted to go wrong in a stream from `start` on; of an endless play, once."""
    length = np.inf if simulation.minutes is None else 60.0 * simulation.minutes
    _, script = _stage(simulation)
    return tuple(
        incident
        for incident in script.truth(simulation.job, start)
        if incident.onset < start + length
    )


def _training(
    telemetry: StepTelemetry, log: TrainingLog, step: Step, lags: list[float]
) -> Iterator[_Event]:
    """When the training processes of each node will speak of a step."""
    records = telemetry.observe(step) if step.finished else None
    for node, lag in enumerate(lags):
        for time, note in telemetry.notes(step, node):
            yield time + lag, node, partial(_one, STEPS, note)
        if records is not None:
            yield step.end + lag, node, partial(_reports, telemetry, log, records, node)


def _one(source: str, payload: bytes) -> _Payloads:
    yield source, payload


def _reports(telemetry: StepTelemetry, log: TrainingLog, records: Records, node: int) -> _Payloads:
    """What the training processes of a node say of a finished step."""
    for payload in telemetry.payloads(records, node):
        yield STEPS, payload
    if node == 0:
        yield LOG, log.payload(records)


def _stage(simulation: Simulation) -> tuple[Fleet, Script]:
    fleet = Fleet(simulation.instance_type, simulation.nodes, simulation.seed, simulation.runtimes)
    return fleet, Script(SCENARIOS[simulation.scenario], simulation.seed, fleet)
