"""Who tells of a slow part: ranks of themselves, neuron-monitor of nodes, devices and cores."""
