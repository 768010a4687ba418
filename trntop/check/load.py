"""How loaded the hosts of a probe were, in the words that stand with its results.

A ping-pong polls a whole core on both sides. Where all cores are taken it measures how long it
waits for one, and a slow probe tells nothing of the path.
"""

import re

_PART = re.compile(r"(\d+(?:\.\d+)?) of (\d+)", re.ASCII)


def told(average: float, cores: int) -> str:
    """`load 0.3 of 192 cores`.

    Args:
        average: load average of the last minute.
        cores: that the host has.
    """
    return f"load {average:.1f} of {cores} cores"


def both(client: str, server: str) -> str:
    """`load 0.3 of 192 cores, 0.1 of 192 cores at the server`; what is not known is left out."""
    if not server:
        return client
    there = f"{server.removeprefix('load ')} at the server"
    return f"{client}, {there}" if client else f"load {there}"


def per_core(load: str) -> float | None:
    """Load average per core, of the side that has more; None where the words tell none."""
    parts = [(float(average), int(cores)) for average, cores in _PART.findall(load)]
    return max((average / cores for average, cores in parts if cores), default=None)
