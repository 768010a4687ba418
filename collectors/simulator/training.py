"""One synchronous training loop over all nodes.

A step on a node is compute, then the part of the collectives that compute does not cover. It
ends everywhere at once: whoever computes fast waits inside the collective, and the slowest
node waits least. Into a step falls at most one stall: a checkpoint, a compilation, a hang.

Times are seconds since the start of the stream; arrays are `[node]`.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum

import numpy as np

from trntop.model import Column

from .fleet import Fleet
from .scenarios import Effect, Script

COMPUTE = 3.95
"""Seconds a node computes in a step."""
COMPUTE_BIAS = 0.002
COMPUTE_NOISE = 0.003
COMM = 0.72
"""Seconds a collective runs in a step, without the wait for the slowest node."""
COMM_NOISE = 0.02
HIDDEN_SHARE = 0.55
"""Of the collectives' time, behind compute."""
MAX_HIDDEN = 0.46
"""Seconds of collectives that the compute of a step can cover."""
SLOW_CARD = 2.3
"""How much longer collectives take through a degraded card."""
SLOW_NODE = 1.35
HIDDEN_BYTES = 0.8
"""Of a step's bytes, behind compute, in many small buckets; the exposed rest is mostly latency."""
HIDDEN_BYTES_SLOW = 0.6
"""The same through a degraded card: fewer buckets are through before compute ends."""
MICROBATCHES = 16
"""Executions of one core in a step."""
CHECKPOINT_EVERY = 240.0
CHECKPOINT_SECONDS = 3.0
FIRST_STEP = 1200
"""The run was under way before anybody watched."""

_EPSILON = 1e-9


class Stall(Enum):
    """Why nothing moves."""

    NONE = 0
    CHECKPOINT = 1
    COMPILE = 2
    HANG = 3


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of the job; its parts add up to its length on every node."""

    number: int
    begin: float
    end: float
    compute: Column
    exposed: Column
    """Seconds in a collective with nothing else to do."""
    hidden: float
    """Seconds in a collective behind compute."""
    hidden_bytes: float
    """Share of the step's bytes behind compute."""
    why: Stall
    stall_at: Column
    """Seconds of work after which the stall begins."""
    stall: Column
    """Seconds it lasts."""
    finished: bool = True
    """False for a step that hung and was given up."""

    def pause(self, node: int) -> tuple[float, float]:
        """When a node's stall begins and ends."""
        begin = self.begin + float(self.stall_at[node])
        return begin, begin + float(self.stall[node])


@dataclass(slots=True, eq=False)
class Activity:
    """What each node did in a window of time."""

    elapsed: Column
    compute: Column
    exposed: Column
    stalled: dict[Stall, Column]
    traffic: Column
    """Share of a step's bytes."""
    executions: Column
    """Executions that each core ended."""
    steps: Column
    """Steps that ended."""
    compute_seconds: Column
    """Of the newest step."""
    exposed_seconds: Column


class TrainingLoop:
    """Steps, one after the other, as the script has it."""

    def __init__(self, fleet: Fleet, script: Script, seed: int) -> None:
        self._script = script
        self._nodes = fleet.nodes
        self._rng = np.random.default_rng([seed, 3])
        self._bias = self._rng.normal(0.0, COMPUTE_BIAS, fleet.nodes)
        self._to_checkpoint = self._rng.uniform(0.3, 0.9) * CHECKPOINT_EVERY
        self._number = FIRST_STEP
        self._time = 0.0
        self._steps: deque[Step] = deque()

    def run(self, until: float) -> list[Step]:
        """Steps not yet returned that begin before `until`."""
        fresh = []
        while self._time < until:
            step = self._step(self._time)
            self._time = step.end
            self._number += step.finished
            fresh.append(step)
        self._steps.extend(fresh)
        return fresh

    def activity(self, before: Column, after: Column) -> Activity:
        """What happened from `before` to `after`, `[node]` each; windows only move forward.

        `run` must have gone beyond `after`.
        """
        earliest = before.min()
        while self._steps[0].end <= earliest:
            self._steps.popleft()
        zero = np.zeros(self._nodes)
        total = Activity(
            elapsed=after - before,
            compute=zero.copy(),
            exposed=zero.copy(),
            stalled={why: zero.copy() for why in Stall},
            traffic=zero.copy(),
            executions=zero.copy(),
            steps=zero.copy(),
            compute_seconds=zero,
            exposed_seconds=zero,
        )
        latest = after.max()
        for step in self._steps:
            if step.begin >= latest:
                break
            _add(total, step, before, after)
        return total

    def compiling(self, time: float) -> float | None:
        """Since when the graph is being compiled at `time`, which no window has passed yet."""
        for step in self._steps:
            begin, end = step.pause(0)
            if step.why is Stall.COMPILE and begin <= time < end:
                return begin
        return None

    def _step(self, begin: float) -> Step:
        noise = self._rng.normal(0.0, COMPUTE_NOISE, self._nodes)
        compute = COMPUTE * np.clip(1.0 + self._bias + noise, 0.98, 1.02)
        slow = self._script.at(Effect.SLOW_NODE, begin)
        if slow is not None:
            compute[slow.node] *= SLOW_NODE
        comm = COMM * float(np.clip(self._rng.normal(1.0, COMM_NOISE), 0.9, 1.1))
        slow_card = self._script.at(Effect.EFA_DEGRADED, begin) is not None
        if slow_card:
            comm *= SLOW_CARD
        hidden = min(HIDDEN_SHARE * comm, MAX_HIDDEN)
        length = float(compute.max()) + comm - hidden
        exposed = length - compute
        why, stall_at, end = self._stall(begin, compute, length)
        hung = why is Stall.HANG
        return Step(
            number=self._number,
            begin=begin,
            end=end,
            compute=compute,
            exposed=exposed,
            hidden=hidden,
            hidden_bytes=HIDDEN_BYTES_SLOW if slow_card else HIDDEN_BYTES,
            why=why,
            stall_at=stall_at,
            stall=end - begin - (stall_at if hung else np.full(self._nodes, length)),
            finished=not hung,
        )

    def _stall(self, begin: float, compute: Column, length: float) -> tuple[Stall, Column, float]:
        """Why, after how much work on each node, and when the step ends."""
        for effect in (Effect.HANG, Effect.SILENT_NODE):
            fault = self._script.between(effect, begin, begin + length)
            if fault is not None:
                # The others compute on, up to the collective that the victim does not reach.
                onset = max(fault.begin - begin, 0.0)
                at = np.maximum(compute, onset)
                at[fault.node] = onset
                return Stall.HANG, at, fault.end
        end = begin + length
        compilation = self._script.at(Effect.RECOMPILE, begin)
        if compilation is not None:
            return Stall.COMPILE, np.zeros(self._nodes), compilation.end + length
        whole = np.full(self._nodes, length)
        if begin >= self._to_checkpoint:
            self._to_checkpoint = begin + CHECKPOINT_EVERY
            return Stall.CHECKPOINT, whole, end + CHECKPOINT_SECONDS
        return Stall.NONE, whole, end


def _add(total: Activity, step: Step, before: Column, after: Column) -> None:
    """Adds what `step` has in the window."""
    old, new = _progress(step, before), _progress(step, after)
    total.compute += new[0] - old[0]
    total.exposed += new[1] - old[1]
    total.stalled[step.why] += new[2] - old[2]
    work, old_work = new[0] / step.compute, old[0] / step.compute
    tail, old_tail = new[1] / step.exposed, old[1] / step.exposed
    total.traffic += step.hidden_bytes * (work - old_work)
    total.traffic += (1.0 - step.hidden_bytes) * (tail - old_tail)
    total.executions += _executions(work, tail) - _executions(old_work, old_tail)
    total.steps += (tail > 1 - _EPSILON) & (old_tail <= 1 - _EPSILON)
    total.compute_seconds = step.compute
    total.exposed_seconds = step.exposed


def _progress(step: Step, times: Column) -> tuple[Column, Column, Column]:
    """Seconds of compute, of exposed communication and of stall by `times`."""
    passed = np.minimum(np.maximum(times - step.begin, 0.0), step.end - step.begin)
    stalled = np.minimum(np.maximum(passed - step.stall_at, 0.0), step.stall)
    worked = passed - stalled
    computed = np.minimum(worked, step.compute)
    return computed, np.minimum(worked - computed, step.exposed), stalled


def _executions(work: Column, tail: Column) -> Column:
    """Executions ended; the last one of a step holds the collective and ends with it."""
    ended: Column = np.minimum(np.floor(MICROBATCHES * work + _EPSILON), MICROBATCHES - 1)
    return ended + (tail > 1 - _EPSILON)
