"""Simulated training runs.

Their readings have the raw payloads of every source, so that decoders and analysis handle them like
measured ones; each is marked as simulated.
"""

from .scenarios import SCENARIOS
from .script import Truth
from .spec import Simulation, parse
from .stream import simulate, truth

__all__ = ["SCENARIOS", "Simulation", "Truth", "parse", "simulate", "truth"]
