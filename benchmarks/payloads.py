"""Inputs of the budgets' size, from the simulator."""

from collections.abc import Iterator
from itertools import islice

from trntop.collectors import simulator
from trntop.core.model import Reading

START = 1.76e9


def readings(nodes: int, minutes: float, source: str = "") -> Iterator[Reading]:
    text = f"sim:healthy?nodes={nodes}&minutes={minutes:.3f}"
    stream = simulator.simulate(simulator.parse(text), START)
    return (reading for reading in stream if not source or reading.source == source)


def report() -> bytes:
    """One neuron-monitor report of a trn2.48xlarge: 64 logical cores with the two physical ones
    behind each (128), 16 devices, 192 vCPUs; not the first, which has no period yet.
    """
    return next(islice(readings(1, 1, "neuron-monitor"), 5, None)).data
