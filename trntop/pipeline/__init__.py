"""Samples to inventory and frame: node, rates, estimates, job phase, history."""
