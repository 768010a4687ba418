"""The profile of the first program of a job; the HBM bandwidth of later ones is unknown."""

from .activity import MICROBATCHES
from .fleet import Fleet
from .programs import neff, uuid
from .simulated import Simulated, World
from .template import dumps
from .training import COMM, COMPUTE

PERIOD = 60
"""Seconds between two readings of a node."""
BANDWIDTH_SHARE = 0.4
"""Of the peak of a core, during compute."""
READ_SHARE = 0.6


def payload(fleet: Fleet, seed: int, job: int) -> bytes:
    """The payload of all nodes of a job."""
    seconds = COMPUTE / MICROBATCHES
    peak = fleet.chip.hbm_bytes_per_second / fleet.cores_per_device
    moved = BANDWIDTH_SHARE * peak * seconds
    profile = {
        "name": neff(0),
        "uuid": uuid(seed, job, 0),
        "hbm_read_bytes": round(READ_SHARE * moved),
        "hbm_write_bytes": round((1.0 - READ_SHARE) * moved),
        "seconds": seconds,
        "comm_seconds": COMM / MICROBATCHES,
    }
    return dumps({"period": PERIOD, "profiles": [profile]}).encode()


class Profiles(Simulated):
    """The profiles of all nodes."""

    period = PERIOD

    def __init__(self, world: World) -> None:
        self._profiles = [payload(world.fleet, world.seed, 0)] * world.fleet.nodes
        for job in world.script.jobs:
            profile = payload(world.fleet, world.seed, job.index)
            for node in job.nodes.tolist():
                self._profiles[node] = profile

    def payload(self, node: int) -> bytes:
        """The payload of one node."""
        return self._profiles[node]
