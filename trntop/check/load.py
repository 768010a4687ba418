"""The load of the hosts of a probe, as text in its results.

A ping-pong polls a full core on both sides. Without an idle core it measures how long it waits for
one, and a slow probe is no evidence about the path.
"""

import re

_PART = re.compile(r"(\d+(?:\.\d+)?) of (\d+)", re.ASCII)


def describe(average: float, cores: int) -> str:
    """The load average of the last minute: `load 0.3 of 192 cores`."""
    return f"load {average:.1f} of {cores} cores"


def both(client: str, server: str) -> str:
    """`load 0.3 of 192 cores, 0.1 of 192 cores at the server`; unknown parts are omitted."""
    if not server:
        return client
    there = f"{server.removeprefix('load ')} at the server"
    return f"{client}, {there}" if client else f"load {there}"


def per_core(load: str) -> float | None:
    """Load average per core, of the side with more; None if unknown."""
    parts = [(float(average), int(cores)) for average, cores in _PART.findall(load)]
    return max((average / cores for average, cores in parts if cores), default=None)
