"""Signals of a slow part: steps of ranks, metrics of nodes, devices and cores."""
