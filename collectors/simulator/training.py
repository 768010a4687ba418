"""The synchronous training loop of each job.

A step on a device is compute, then the exposed part of the collectives. It ends on all devices at
once: a fast device waits in the collective, the slowest waits least. A step has at most one stall:
a checkpoint, a compilation, a hang.

Times are seconds since the start of the stream; arrays are `[node of the job, device]`.
"""

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trntop.core.model import Column

from .activity import Activity, Stall, Step
from .efa import slowdown
from .effects import Effect
from .fleet import Fleet
from .jobs import Job
from .script import Fault, Script
from .spec import Simulation

COMPUTE = 3.95
"""Seconds of compute in a step."""
COMPUTE_BIAS = 0.002
COMPUTE_NOISE = 0.003
COMM = 0.72
"""Seconds of collectives in a step, without waiting for the slowest node."""
COMM_NOISE = 0.02
HIDDEN_SHARE = 0.55
"""Overlapped share of the collectives."""
MAX_HIDDEN = 0.46
"""Seconds of collectives that compute can overlap."""
HIDDEN_BYTES = 0.8
"""Overlapped share of the bytes, in many small buckets; the exposed rest is mostly latency."""
HIDDEN_BYTES_SLOW = 0.6
"""The same with slow collectives: fewer buckets finish before compute ends."""
SLOW = 1.5
"""Relative length from which collectives are slow."""
HANG_LATEST, HANG_EARLIEST = 0.6, 0.15
"""Share of its compute after which a node hangs; later it would hang in the collective, like the
others.
"""
FIRST_STEP = 1200
"""The run has started before the stream."""

EVALUATION_SECONDS = (12.0, 30.0)
COMPILING_SHARE = 0.6
"""Of the warm-up; the next steps are slow."""
FIRST_STEPS_SLOW = 0.6
BLIP_SECONDS = 600.0
BLIP_NODE = (0.15, 0.8)
BLIP_COMM = (0.5, 2.5)
"""Slowdown of the compute of a node, or of the collectives, in one step."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pause:
    """A stall of a step, and its end."""

    stall_cause: Stall
    at: Column
    end: float
    stuck: npt.NDArray[np.bool_] | None = None


class TrainingLoop:
    """The steps of one job."""

    def __init__(self, job: Job, fleet: Fleet, script: Script, simulation: Simulation) -> None:
        self._job = job
        self._script = script
        self._simulation = simulation
        self._shape = (len(job.nodes), fleet.devices)
        self._efa_devices = len(fleet.efa)
        self._rng = np.random.default_rng([simulation.seed, 3, job.index])
        self._chance = np.random.default_rng([simulation.seed, 20, job.index])
        bias = COMPUTE_BIAS * simulation.noise
        self._bias = self._rng.normal(0.0, bias, len(job.nodes))
        self._to_checkpoint = self._rng.uniform(0.3, 0.9) * simulation.checkpoints
        self._to_evaluation = self._chance.uniform(0.3, 1.0) * (simulation.evaluations or math.inf)
        self._number = 1 if simulation.warmup else FIRST_STEP
        self._time = 0.0
        self._steps: deque[Step] = deque()

    def run(self, until: float) -> list[Step]:
        """New steps that start before `until`."""
        fresh = []
        while self._time < until:
            step = self._step(self._time)
            self._time = step.end
            self._number += step.finished
            fresh.append(step)
        self._steps.extend(fresh)
        return fresh

    def activity(self, before: Column, after: Column) -> Activity:
        """The activity from `before` to `after`, `[node]` each; windows only move forward.

        `run` must have gone beyond `after`.
        """
        earliest = before.min()
        while self._steps[0].end <= earliest:
            self._steps.popleft()
        total = Activity.none(after - before, self._shape[1])
        latest = after.max()
        for step in self._steps:
            if step.begin >= latest:
                break
            total.add(step, before, after)
        return total

    def compiling(self, time: float) -> float | None:
        """Start of the compilation that runs at `time`; None if there is none."""
        for step in self._steps:
            begin, end = step.pause(0)
            if step.stall_cause is Stall.COMPILE and begin <= time < end:
                return begin
        return None

    def _step(self, begin: float) -> Step:
        compute, speed = self._compute(begin)
        comm, slower = self._comm(begin)
        step_ratio = self._job.step_ratio
        hidden = min(HIDDEN_SHARE * comm, MAX_HIDDEN * step_ratio)
        length = float(compute.max()) + comm - hidden
        pause = self._pause(begin, compute, length)
        whole = pause.stall_cause is not Stall.HANG
        work = np.full(self._shape, length) if whole else pause.at
        return Step(
            number=self._number,
            begin=begin,
            end=pause.end,
            compute=compute,
            exposed=length - compute,
            hidden=hidden,
            hidden_bytes=HIDDEN_BYTES_SLOW if slower >= SLOW else HIDDEN_BYTES,
            speed=speed,
            stall_cause=pause.stall_cause,
            stall_at=pause.at,
            stall=pause.end - begin - work,
            stuck=pause.stuck,
            finished=whole,
        )

    def _compute(self, begin: float) -> tuple[Column, Column]:
        """Compute seconds and speed of each device."""
        job, noise = self._job, self._simulation.noise
        scatter = self._rng.normal(0.0, COMPUTE_NOISE * noise, self._shape[0])
        within = 0.02 * max(noise, 1.0)
        usual = np.clip(1.0 + self._bias + scatter, 1.0 - within, 1.0 + within)
        slower = np.ones(self._shape)
        slow = self._script.at(Effect.SLOW_NODE, begin, job)
        if slow is not None:
            slower[job.place(slow.node)] *= 1.0 + slow.depth_at(begin)
        slow = self._script.at(Effect.SLOW_DEVICE, begin, job)
        if slow is not None:
            slower[job.place(slow.node), slow.device] *= 1.0 + slow.depth_at(begin)
        if self._blip():
            node = int(self._chance.integers(self._shape[0]))
            slower[node] *= 1.0 + self._chance.uniform(*BLIP_NODE)
        warmup = self._simulation.warmup
        if 0.0 < begin < 3.0 * warmup:
            since = begin / warmup - COMPILING_SHARE
            slower *= 1.0 + FIRST_STEPS_SLOW * math.exp(-since / (1.0 - COMPILING_SHARE))
        compute = (COMPUTE * job.step_ratio * job.load * usual)[:, None] * slower
        return compute, 1.0 / slower

    def _comm(self, begin: float) -> tuple[float, float]:
        """Seconds of the collectives, and their slowdown."""
        noise = self._simulation.noise
        within = 0.1 * max(noise, 1.0)
        scatter = float(
            np.clip(self._rng.normal(1.0, COMM_NOISE * noise), 1.0 - within, 1.0 + within)
        )
        slower = 1.0
        for effect in (Effect.EFA_DEGRADED, Effect.EFA_DOWN):
            fault = self._script.at(effect, begin, self._job)
            if fault is not None:
                slower *= slowdown(fault, begin, self._efa_devices)
        bound = self._script.at(Effect.COMM_BOUND, begin, self._job)
        if bound is not None:
            slower *= 1.0 + bound.depth_at(begin)
        if self._blip():
            slower *= 1.0 + self._chance.uniform(*BLIP_COMM)
        return COMM * self._job.step_ratio * scatter * slower, slower

    def _blip(self) -> bool:
        """Whether this step has a blip of one of the two kinds."""
        chance = (
            0.5 * self._simulation.blips * (COMPUTE + COMM) * self._job.step_ratio / BLIP_SECONDS
        )
        return chance > 0.0 and bool(self._chance.random() < chance)

    def _pause(self, begin: float, compute: Column, length: float) -> _Pause:
        """The stall of this step, if any, and its end."""
        stop = self._stop(begin, compute, length)
        if stop is not None:
            return stop
        simulation, end = self._simulation, begin + length
        nothing, whole = np.zeros(self._shape), np.full(self._shape, length)
        compilation = self._script.at(Effect.RECOMPILE, begin, self._job)
        if compilation is not None:
            return _Pause(Stall.COMPILE, nothing, compilation.end + length)
        if begin == 0.0 and simulation.warmup:
            return _Pause(Stall.COMPILE, nothing, COMPILING_SHARE * simulation.warmup + length)
        stalled = self._script.at(Effect.CHECKPOINT_STALL, begin, self._job)
        if stalled is not None and end < stalled.end:
            self._to_checkpoint = begin + simulation.checkpoints
            return _Pause(Stall.CHECKPOINT, whole, stalled.end)
        if begin >= self._to_checkpoint:
            self._to_checkpoint = begin + simulation.checkpoints
            return _Pause(Stall.CHECKPOINT, whole, end + simulation.saving)
        if begin >= self._to_evaluation:
            self._to_evaluation = begin + simulation.evaluations
            seconds = float(self._chance.uniform(*EVALUATION_SECONDS))
            return _Pause(Stall.EVALUATION, whole, end + seconds)
        return _Pause(Stall.NONE, whole, end)

    def _stop(self, begin: float, compute: Column, length: float) -> _Pause | None:
        """A hang: the others compute up to the collective, which the victim does not reach."""
        for effect in (Effect.HANG, Effect.SILENT_NODE, Effect.DEVICE_LOST):
            fault = self._script.between(effect, begin, begin + length, self._job)
            if fault is None or fault.variant == "agent":
                continue
            onset = max(fault.begin - begin, 0.0)
            victim = self._job.place(fault.node), self._stopped_devices(fault)
            if effect is Effect.HANG:
                of_step = float(compute[victim].min())
                if onset > HANG_LATEST * of_step:
                    continue
                onset = max(onset, HANG_EARLIEST * of_step)
            if begin + onset >= fault.end:
                continue
            at = np.maximum(compute, onset)
            at[victim] = onset
            stuck = None
            if fault.variant == "host" or effect is Effect.DEVICE_LOST:
                stuck = np.zeros(self._shape, bool)
                stuck[victim] = True
            return _Pause(Stall.HANG, at, fault.end, stuck)
        return None

    def _stopped_devices(self, fault: Fault) -> slice:
        """The devices of the victim that stop."""
        if fault.effect is Effect.DEVICE_LOST:
            return slice(fault.device, fault.device + 1)
        return slice(None)


class Training:
    """The loops of all jobs."""

    def __init__(self, fleet: Fleet, script: Script, simulation: Simulation) -> None:
        self._fleet = fleet
        self._jobs = script.jobs
        self._loops = [TrainingLoop(job, fleet, script, simulation) for job in script.jobs]
        self._idle = [script.bystander] if script.bystander is not None else []

    def run(self, until: float) -> list[tuple[Job, Step]]:
        """The steps not yet returned that begin before `until`, and whose they are."""
        return [
            (job, step)
            for job, loop in zip(self._jobs, self._loops, strict=True)
            for step in loop.run(until)
        ]

    def activity(self, before: Column, after: Column) -> Activity:
        """What all nodes did between two times, `[node]` each."""
        total = Activity.none(after - before, self._fleet.devices)
        total.stalled[Stall.IDLE][self._idle] = total.elapsed[self._idle, None]
        for job, loop in zip(self._jobs, self._loops, strict=True):
            total.put(job.nodes, loop.activity(before[job.nodes], after[job.nodes]))
        return total

    def compiling(self, time: float) -> list[float | None]:
        """Since when each job's graph is being compiled at `time`."""
        return [loop.compiling(time) for loop in self._loops]
