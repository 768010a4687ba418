"""Samples to inventory and frame: node, rates, estimates, job phase, history."""

import trntop.sources  # noqa: F401  # completes the catalog before tables derive from it
