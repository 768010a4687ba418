"""Probes of latency and bandwidth, with the tools that a node has installed."""
