"""What is judged, a subject a module; each turns what was seen into findings, and knows no other.

reach      nodes that do not answer, refuse, or are busy
cards      EFA cards against the instance type and the other nodes
counters   what cards counted during the check
health     Neuron devices
versions   drivers, libraries and tools that are not the same everywhere
setup      modules, limits, environment
location   subnet, zone, placement group, security groups
clocks     clocks that differ
latency    probes between nodes
"""
