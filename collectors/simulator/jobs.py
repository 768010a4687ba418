"""The jobs of the cluster, their nodes and pipeline stages."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trntop.core.model import Column

from .fleet import Fleet

STEP_RATIOS = (0.6, 1.5)
"""Step time of the other jobs, relative to the first."""
LIGHTEST = 0.9
"""Compute of the lightest pipeline stage, relative to the heaviest."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One training job; its columns are `[node of the job]`."""

    index: int
    name: str
    nodes: npt.NDArray[np.int64]
    """Indices in the fleet."""
    step_ratio: float
    """Relative step time."""
    stage: npt.NDArray[np.int64]
    """Pipeline stage of each node."""
    load: Column
    """Compute of each node, relative to the heaviest stage."""

    def place(self, node: int) -> int:
        """The index in the job of a node of the fleet."""
        return int(np.flatnonzero(self.nodes == node)[0])

    @property
    def heaviest(self) -> npt.NDArray[np.int64]:
        """The nodes of the heaviest stage, as indices in the fleet."""
        nodes: npt.NDArray[np.int64] = self.nodes[self.load == self.load.max()]
        return nodes


def jobs_of(
    fleet: Fleet, name: str, count: int, stages: int, seed: int, bystander: int | None
) -> tuple[Job, ...]:
    """The nodes split into `count` jobs of `stages` pipeline stages; a bystander has no job."""
    free = np.array([node for node in range(fleet.nodes) if node != bystander], np.int64)
    parts = np.array_split(free, count)
    return tuple(
        _job(index, name if not index else f"{name}-{index + 1}", nodes, stages, seed)
        for index, nodes in enumerate(parts)
        if len(nodes)
    )


def _job(index: int, name: str, nodes: npt.NDArray[np.int64], stages: int, seed: int) -> Job:
    rng = np.random.default_rng([seed, 17, index])
    step_ratio = float(rng.uniform(*STEP_RATIOS)) if index else 1.0
    stage = np.arange(len(nodes)) * stages // len(nodes)
    # One stage is the heaviest, like one with large embeddings.
    loads = rng.uniform(LIGHTEST, 0.98, stages)
    loads[rng.integers(stages)] = 1.0
    return Job(index, name, nodes, step_ratio, stage, loads[stage])
