"""Step telemetry: one record of each rank at the end of each step; a rank is a device.

The first rank of each node also reports the start and end of a checkpoint or a compilation.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trntop.core.model import Column, Stage

from .activity import Stall, Step
from .efa import BYTES_PER_PARAMETER, PARAMETERS
from .fleet import Fleet
from .jobs import Job
from .machines import FLOPS_SHARE
from .spec import Simulation
from .template import Template, dumps, slot
from .training import FIRST_STEP

RANK_NOISE = 0.0008
TOKENS_PER_RANK = 16_384
"""Four sequences of 4,096."""
MODEL_SHARE = 0.86
"""Of the operations; the others compute activations again."""
FINAL_LOSS = 1.86
EARLY_LOSS = 3.4
"""On top of the final loss at the first step seen."""
LOSS_STEPS = 1500.0
LOSS_NOISE = 0.012
BUCKETS = 40
"""A layer each."""
REDUCTION_SHARE = 0.6
"""Of the communication time."""

STAGES = {
    Stall.CHECKPOINT: Stage.CHECKPOINTING,
    Stall.COMPILE: Stage.COMPILING,
    Stall.EVALUATION: Stage.EVALUATING,
}
"""Stages that a training process reports; it cannot report a hang."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """One finished step of all ranks of a job; the columns are `[node, device]`, in seconds."""

    step: Step
    compute: Column
    exposed: Column
    mfu: Column
    """Model FLOPs utilization, from 0 to 1."""
    loss: float


class StepTelemetry:
    """The training process of every rank of a job.

    `observe` takes a step, `payloads` writes a node's. Nodes are places in the job.
    """

    def __init__(self, fleet: Fleet, job: Job, simulation: Simulation, starts: list[float]) -> None:
        self._shape = (len(job.nodes), fleet.devices)
        self._job = job
        self._starts = [starts[node] for node in job.nodes.tolist()]
        self._tokens = round(TOKENS_PER_RANK * job.step_ratio) * len(job.nodes) * fleet.devices
        parameters = PARAMETERS * fleet.flops_ratio * job.step_ratio / fleet.devices
        self._bytes = BYTES_PER_PARAMETER / 2 * parameters
        """Of a rank's share of the model, with one rank of each node in a group."""
        self._noise = RANK_NOISE * simulation.noise
        self._rng = np.random.default_rng([simulation.seed, 8, job.index])
        self._stages = job.stage.tolist()
        stage = {"pipeline_stage": slot()} if simulation.report_stage else {}
        self._told = bool(stage)
        self._template = Template(
            {
                "job": job.name,
                "rank": slot(),
                **stage,
                "step": slot(),
                "step_seconds": slot("%.6f"),
                "compute_seconds": slot("%.6f"),
                "comm_seconds": slot("%.6f"),
                "overlap_seconds": slot("%.6f"),
                "exposed_comm_seconds": slot("%.6f"),
                "reduction_seconds": slot("%.6f"),
                "collectives": {
                    kind: {
                        "count": BUCKETS * parts,
                        "seconds": slot("%.6f"),
                        "bytes": slot("%.0f"),
                        "bus_bytes": slot("%.0f"),
                    }
                    for kind, parts in (("reduce_scatter", 1), ("all_gather", 2))
                },
                "tokens": slot(),
                "loss": slot("%.4f"),
                "mfu": slot("%.4f"),
                "time": slot("%.6f"),
            }
        )

    def observe(self, step: Step) -> Records:
        """The ranks of a finished step, each a little off its node."""
        noise = self._rng.normal(1.0, self._noise, self._shape)
        worked = step.compute + step.exposed
        compute = np.minimum(step.compute * noise, worked)
        mfu = MODEL_SHARE * FLOPS_SHARE * compute * step.speed / (step.end - step.begin)
        loss = FINAL_LOSS + EARLY_LOSS * math.exp((FIRST_STEP - step.number) / LOSS_STEPS)
        loss *= 1.0 + LOSS_NOISE * float(self._rng.normal())
        return Records(step, compute, worked - compute, mfu, loss)

    def payloads(self, records: Records, node: int) -> Iterator[bytes]:
        """The records of the ranks of one node."""
        step = records.step
        rank = node * self._shape[1]
        stage = (self._stages[node],) if self._told else ()
        for compute, exposed, mfu in zip(
            records.compute[node].tolist(),
            records.exposed[node].tolist(),
            records.mfu[node].tolist(),
            strict=True,
        ):
            yield self._template.fill(
                (
                    rank,
                    *stage,
                    step.number,
                    step.end - step.begin,
                    compute,
                    step.hidden + exposed,
                    step.hidden,
                    exposed,
                    *self._collectives(step.hidden + exposed),
                    self._tokens,
                    records.loss,
                    mfu,
                    self._starts[node] + step.end,
                )
            ).encode()
            rank += 1

    def _collectives(self, comm: float) -> Iterator[float]:
        """One reduce-scatter of gradients in float32, then two all-gathers of bfloat16: half of the
        bytes each; the reduction takes longer.
        """
        yield REDUCTION_SHARE * comm
        for share in (REDUCTION_SHARE, 1.0 - REDUCTION_SHARE):
            yield from (share * comm, self._bytes, self._bytes * (1 - 1 / self._shape[0]))

    def notes(self, step: Step, node: int) -> Iterator[tuple[float, bytes]]:
        """Time and record of the start and end of a stall, by the first rank of a node."""
        stage = STAGES.get(step.stall_cause)
        if stage is not None:
            for word, since in zip((stage, Stage.TRAINING), step.pause(node), strict=True):
                time = round(self._starts[node] + since, 6)
                note = {
                    "job": self._job.name,
                    "rank": node * self._shape[1],
                    "stage": word,
                    "since": time,
                    "time": time,
                }
                yield since, dumps(note).encode()
