"""Job ids of the nodes, as written by the prolog of a scheduler.

Whole nodes are allocated. The bystander is free until an idle process occupies it.
"""

import numpy as np

from .simulated import Simulated, World
from .template import dumps

PERIOD = 10
"""Seconds between two readings of a node."""
FIRST_IDS = (20_000, 90_000)


class JobMapping(Simulated):
    """The job ids of all nodes."""

    period = PERIOD

    def __init__(self, world: World) -> None:
        script = world.script
        self._machines = world.machines
        first = int(np.random.default_rng([world.seed, 26]).integers(*FIRST_IDS))
        self._ids = {node: first + job.index for job in script.jobs for node in job.nodes.tolist()}
        self._later = first + len(script.jobs)

    def payload(self, node: int) -> bytes:
        """The payload of one node."""
        job = self._ids.get(node, self._later)
        files = {} if node == self._machines.empty else {"all": [str(job)]}
        return dumps({"period": PERIOD, "files": files, "errors": []}).encode()
