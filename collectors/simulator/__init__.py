"""A training run on made-up machines, written as the real sources write it.

The readings hold raw payloads of every source, so that they take the same way through decoders
and analysis as measured ones; each is marked as simulated.
"""

from .scenarios import SCENARIOS
from .script import Truth
from .spec import Simulation, parse
from .stream import simulate, truth

__all__ = ["SCENARIOS", "Simulation", "Truth", "parse", "simulate", "truth"]
