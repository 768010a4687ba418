"""The profile that was taken of the job's first program, before anybody watched.

What is compiled later has none, so that its HBM bandwidth is unknown, as in life.
"""

from .activity import MICROBATCHES
from .fleet import Fleet
from .hook import Hook, Simulated, World
from .programs import neff, uuid
from .template import dumps
from .training import COMM, COMPUTE

EVERY = 60
"""Seconds between two readings of a node."""
BANDWIDTH_SHARE = 0.4
"""Of a core's part of the chip's peak, while it computes."""
READ_SHARE = 0.6


def payload(fleet: Fleet, seed: int, job: int) -> bytes:
    """The same on every node of a job."""
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
    return dumps({"period": EVERY, "profiles": [profile]}).encode()


def _make(world: World) -> Simulated:
    profiles = [payload(world.fleet, world.seed, 0)] * world.fleet.nodes
    for job in world.script.jobs:
        profile = payload(world.fleet, world.seed, job.index)
        for node in job.nodes.tolist():
            profiles[node] = profile
    return Simulated(profiles.__getitem__)


HOOK = Hook(_make, every=EVERY, order=6)
