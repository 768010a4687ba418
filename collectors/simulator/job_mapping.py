"""What a scheduler's prolog writes: the job that each node was given to.

Nodes are given away whole. The bystander is free, until somebody takes it and leaves it idle.
"""

import numpy as np

from .hook import Hook, Simulated
from .machines import Machines
from .script import Script
from .template import dumps

EVERY = 10
"""Seconds between two readings of a node."""
FIRST_IDS = (20_000, 90_000)


class JobMapping:
    """The job ids of all nodes; `payload` writes one node."""

    def __init__(self, machines: Machines, script: Script, seed: int) -> None:
        self._machines = machines
        first = int(np.random.default_rng([seed, 26]).integers(*FIRST_IDS))
        self._ids = {node: first + job.index for job in script.jobs for node in job.nodes.tolist()}
        self._later = first + len(script.jobs)

    def payload(self, node: int) -> bytes:
        """The files of one node."""
        job = self._ids.get(node, self._later)
        files = {} if node == self._machines.empty else {"all": [str(job)]}
        return dumps({"period": EVERY, "files": files, "errors": []}).encode()


HOOK = Hook(
    lambda world: Simulated(JobMapping(world.machines, world.script, world.seed).payload),
    every=EVERY,
    order=7,
)
