"""The activity of nodes in a step, and the part of it in a time window.

Times are seconds since the start of the stream; arrays are `[node, device]`.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from trntop.core.model import Column

MICROBATCHES = 16
"""Executions of one core in a step."""
EVALUATIONS_PER_SECOND = 5.0
"""Executions of one core while the job evaluates."""

_EPSILON = 1e-9


class Stall(Enum):
    """Why a step is stalled."""

    NONE = 0
    CHECKPOINT = 1
    COMPILE = 2
    HANG = 3
    """In a collective that does not end."""
    STUCK = 4
    """On the host, before the collective: the cores idle."""
    EVALUATION = 5
    IDLE = 6
    """No job runs."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of a job; on every device the parts add up to the length of the step."""

    number: int
    begin: float
    end: float
    compute: Column
    exposed: Column
    """Seconds in an exposed collective."""
    hidden: float
    """Seconds in an overlapped collective."""
    hidden_bytes: float
    """Share of the bytes in overlapped collectives."""
    speed: Column
    """Compute speed; 1 is the default."""
    stall_cause: Stall
    stall_at: Column
    """Seconds of work before the stall."""
    stall: Column
    """Seconds of the stall."""
    stuck: npt.NDArray[np.bool_] | None = None
    """Devices that stall on the host while the others stall in the collective."""
    finished: bool = True
    """False for a step that hung."""

    def pause(self, node: int) -> tuple[float, float]:
        """Start and end of the stall of a node's first device."""
        begin = self.begin + float(self.stall_at[node, 0])
        return begin, begin + float(self.stall[node, 0])


@dataclass(slots=True, eq=False)
class Activity:
    """The activity of each device in a window, in seconds."""

    elapsed: Column
    """`[node]`."""
    compute: Column
    work: Column
    """Compute, in seconds at the default speed."""
    exposed: Column
    stalled: dict[Stall, Column]
    traffic: Column
    """Share of a step's bytes, `[node]`."""
    executions: Column
    """Executions that each core finished."""
    steps: Column
    """Steps that finished."""
    compute_seconds: Column
    """Seconds of compute of the newest step."""
    exposed_seconds: Column

    @classmethod
    def none(cls, elapsed: Column, devices: int) -> "Activity":
        shape = (len(elapsed), devices)
        return cls(
            elapsed=elapsed,
            compute=np.zeros(shape),
            work=np.zeros(shape),
            exposed=np.zeros(shape),
            stalled={why: np.zeros(shape) for why in Stall},
            traffic=np.zeros(len(elapsed)),
            executions=np.zeros(shape),
            steps=np.zeros(shape),
            compute_seconds=np.zeros(shape),
            exposed_seconds=np.zeros(shape),
        )

    def put(self, nodes: npt.NDArray[np.int64], part: "Activity") -> None:
        """Sets the activity of some nodes."""
        for name in ("compute", "work", "exposed", "traffic", "executions", "steps",
                     "compute_seconds", "exposed_seconds"):  # fmt: skip
            getattr(self, name)[nodes] = getattr(part, name)
        for why, seconds in part.stalled.items():
            self.stalled[why][nodes] = seconds

    def add(self, step: Step, before: Column, after: Column) -> None:
        """Adds the part of `step` between two times of each node."""
        old, new = _progress(step, before), _progress(step, after)
        computed = new[0] - old[0]
        self.compute += computed
        self.work += step.speed * computed
        self.exposed += new[1] - old[1]
        stalled = new[2] - old[2]
        if step.stuck is not None:
            self.stalled[Stall.STUCK] += np.where(step.stuck, stalled, 0.0)
            stalled = np.where(step.stuck, 0.0, stalled)
        self.stalled[step.stall_cause] += stalled
        work, old_work = new[0] / step.compute, old[0] / step.compute
        tail, old_tail = new[1] / step.exposed, old[1] / step.exposed
        moved = step.hidden_bytes * (work - old_work) + (1.0 - step.hidden_bytes) * (
            tail - old_tail
        )
        self.traffic += moved.mean(axis=1)
        self.executions += _executions(work, tail) - _executions(old_work, old_tail)
        if step.stall_cause is Stall.EVALUATION:
            ended = np.floor(EVALUATIONS_PER_SECOND * new[2])
            self.executions += ended - np.floor(EVALUATIONS_PER_SECOND * old[2])
        self.steps += (tail > 1 - _EPSILON) & (old_tail <= 1 - _EPSILON)
        self.compute_seconds = step.compute
        self.exposed_seconds = step.exposed


def _progress(step: Step, times: Column) -> tuple[Column, Column, Column]:
    """Seconds of compute, of exposed communication and of stall by `times`."""
    passed = np.minimum(np.maximum(times - step.begin, 0.0), step.end - step.begin)[:, None]
    stalled = np.minimum(np.maximum(passed - step.stall_at, 0.0), step.stall)
    worked = passed - stalled
    computed = np.minimum(worked, step.compute)
    return computed, np.minimum(worked - computed, step.exposed), stalled


def _executions(work: Column, tail: Column) -> Column:
    """Finished executions; the last one of a step ends with its collective."""
    ended: Column = np.minimum(np.floor(MICROBATCHES * work + _EPSILON), MICROBATCHES - 1)
    return ended + (tail > 1 - _EPSILON)
