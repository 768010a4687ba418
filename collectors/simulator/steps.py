"""Step telemetry: one record of each rank at the end of each step; a rank is a device."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trntop.model import Column

from .fleet import Fleet
from .template import Template, slot
from .training import FIRST_STEP, Step

RANK_NOISE = 0.0008
TOKENS_PER_RANK = 16_384
"""Four sequences of 4,096."""
FINAL_LOSS = 1.86
EARLY_LOSS = 3.4
"""On top of the final loss at the first step seen."""
LOSS_STEPS = 1500.0
LOSS_NOISE = 0.012


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """One finished step of all ranks; the columns are `[node, device]`, in seconds."""

    step: Step
    compute: Column
    exposed: Column
    loss: float


class StepTelemetry:
    """The training process of every rank. `observe` takes a step, `payloads` writes a node's."""

    def __init__(self, fleet: Fleet, job: str, seed: int) -> None:
        self._shape = (fleet.nodes, fleet.devices)
        self._tokens = TOKENS_PER_RANK * fleet.nodes * fleet.devices
        self._rng = np.random.default_rng([seed, 8])
        self._template = Template(
            {
                "job": job,
                "rank": slot(),
                "step": slot(),
                "step_seconds": slot("%.6f"),
                "compute_seconds": slot("%.6f"),
                "comm_seconds": slot("%.6f"),
                "exposed_comm_seconds": slot("%.6f"),
                "tokens": slot(),
                "loss": slot("%.4f"),
            }
        )

    def observe(self, step: Step) -> Records:
        """The ranks of a finished step, each a little off its node."""
        noise = self._rng.normal(1.0, RANK_NOISE, self._shape)
        worked = (step.compute + step.exposed)[:, None]
        compute = np.minimum(step.compute[:, None] * noise, worked)
        loss = FINAL_LOSS + EARLY_LOSS * math.exp((FIRST_STEP - step.number) / LOSS_STEPS)
        loss *= 1.0 + LOSS_NOISE * float(self._rng.normal())
        return Records(step, compute, worked - compute, loss)

    def payloads(self, records: Records, node: int) -> Iterator[bytes]:
        """The records of the ranks of one node."""
        step = records.step
        rank = node * self._shape[1]
        for compute, exposed in zip(
            records.compute[node].tolist(), records.exposed[node].tolist(), strict=True
        ):
            yield self._template.fill(
                (
                    rank,
                    step.number,
                    step.end - step.begin,
                    compute,
                    step.hidden + exposed,
                    exposed,
                    self._tokens,
                    records.loss,
                )
            ).encode()
            rank += 1
