"""The tests of a check, one subject per module, from evidence to findings.

reach      nodes that are unreachable, refuse probes, or are busy
devices    EFA and Neuron devices: number, link rate, health
counters   EFA counters during the check
versions   drivers, libraries and tools that differ between nodes
setup      modules, limits, peer-to-peer access
latency    probes between nodes
"""
