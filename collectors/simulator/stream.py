"""The stream of readings of a simulated cluster, in its own time."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from trntop.catalog import JOB_MAPPING, KERNEL_LOG, LOG, STEPS
from trntop.core.model import Reading
from trntop.session.monitor import SparseStart

from .activity import Step
from .effects import Effect
from .fleet import Fleet
from .jobs import Job
from .log import TrainingLog
from .script import Script, Truth
from .sources import Sources
from .spec import Simulation
from .steps import Records, StepTelemetry
from .training import Training

WOBBLE = 0.002
"""Jitter of the polls, seconds."""
STEP_LAG = (0.004, 0.03)
"""Seconds from the end of a step to its records."""
SKEWED = 0.35
"""Share of the nodes with a clock offset, if there are any."""
LATE = (15, 90)
"""Second of the first reading of a late node."""

_Payloads = Iterable[tuple[str, bytes]]
"""Source and payload."""
_Event = tuple[float, int, Callable[[], _Payloads]]
"""Time, node, and its payloads."""


def simulate(
    simulation: Simulation, start: float, sparse: SparseStart | None = None
) -> Iterator[Reading]:
    """The readings from unix time `start`, in order of arrival; endless without `minutes`.

    The same simulation gives the same payloads, except for times, which depend on `start`. Nothing
    sleeps. A `sparse` start has fewer payloads of the same run.
    """
    fleet, script = _stage(simulation)
    seed = simulation.seed
    clocks, joins = _clocks(simulation), _joins(simulation)
    starts = [start + off for off in clocks]
    training = Training(fleet, script, simulation)
    sources = Sources(fleet, script, simulation, starts, joins)
    emitters = [_Emitters(fleet, job, simulation, starts) for job in script.jobs]
    rng = np.random.default_rng([seed, 9])
    losses = np.random.default_rng([seed, 23])
    # Separate: a source added later did not change the losses of the others.
    later_losses = np.random.default_rng([seed, 27])
    offsets = rng.uniform(WOBBLE, 1.0 - WOBBLE, fleet.nodes)
    lags = rng.uniform(*STEP_LAG, fleet.nodes).tolist()
    length = simulation.length
    before = offsets - 1.0
    waiting: list[_Event] = []
    for second in itertools.count():
        if second >= length:
            return
        after = second + offsets + rng.uniform(-WOBBLE, WOBBLE, fleet.nodes)
        for job, step in training.run(second + 1.0):
            waiting += emitters[job.index].events(step, lags)
        for time, node, line in sources.kernels.lines(second):
            waiting.append((time, node, partial(_single, KERNEL_LOG, line)))
        middle = second + 0.5
        sources.observe(middle, training.activity(before, after), training.compiling(middle))
        before = after
        if span := 1 if sparse is None else sparse.polled(second):
            for node, time in enumerate(after.tolist()):
                waiting.append((time, node, partial(sources.payloads, second, node, span)))
        due = [event for event in waiting if event[0] < second + 1.0]
        waiting = [event for event in waiting if event[0] >= second + 1.0]
        for time, node, payloads in sorted(due, key=lambda event: event[:2]):
            silent = script.at(Effect.SILENT_NODE, time)
            if time >= length or (silent is not None and silent.node == node):
                continue
            if time < joins[node]:
                continue
            name, stamp = fleet.names[node], round(starts[node] + time, 6)
            for source, payload in payloads():
                draws = later_losses if source == JOB_MAPPING else losses
                if simulation.missing and draws.random() < simulation.missing:
                    continue
                yield Reading(name, source, stamp, payload, simulated=True)


def truth(simulation: Simulation, start: float) -> tuple[Truth, ...]:
    """The scripted faults of a stream from `start`; of a cycle, the first."""
    _, script = _stage(simulation)
    return script.truth(start, simulation.length)


class _Emitters:
    """The training processes of one job."""

    def __init__(self, fleet: Fleet, job: Job, simulation: Simulation, starts: list[float]) -> None:
        self._nodes = job.nodes.tolist()
        self._telemetry = StepTelemetry(fleet, job, simulation, starts)
        self._log = TrainingLog(fleet, job, simulation.seed, starts)

    def events(self, step: Step, lags: list[float]) -> Iterator[_Event]:
        """The events of a step."""
        records = self._telemetry.observe(step) if step.finished else None
        for place, node in enumerate(self._nodes):
            for time, note in self._telemetry.notes(step, place):
                yield time + lags[node], node, partial(_single, STEPS, note)
            if records is not None:
                yield step.end + lags[node], node, partial(self._payloads, records, place)

    def _payloads(self, records: Records, place: int) -> _Payloads:
        for payload in self._telemetry.payloads(records, place):
            yield STEPS, payload
        if place == 0:
            yield LOG, self._log.payload(records)


def _single(source: str, payload: bytes) -> _Payloads:
    yield source, payload


def _clocks(simulation: Simulation) -> list[float]:
    """Clock offset of each node in seconds."""
    rng = np.random.default_rng([simulation.seed, 22])
    others = simulation.nodes - 1
    off = rng.uniform(-simulation.skew, simulation.skew, others)
    # Most are right, so that the median is.
    right = others - min(max(int(rng.binomial(others, SKEWED)), 1), others // 2)
    off[rng.permutation(others)[:right]] = 0.0
    return [0.0, *off.tolist()]


def _joins(simulation: Simulation) -> list[int]:
    """The second of the first reading of each node."""
    rng = np.random.default_rng([simulation.seed, 24])
    joins = np.zeros(simulation.nodes, np.int64)
    late = rng.permutation(np.arange(1, simulation.nodes))[: simulation.late]
    joins[late] = rng.integers(*LATE, len(late))
    seconds: list[int] = joins.tolist()
    return seconds


def _stage(simulation: Simulation) -> tuple[Fleet, Script]:
    fleet = Fleet(simulation.instance_type, simulation.nodes, simulation.seed, simulation.runtimes)
    return fleet, Script(simulation, fleet)
