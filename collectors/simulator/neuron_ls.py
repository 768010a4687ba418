"""Output of `neuron-ls -j -a`: devices, links, processes."""

from .simulated import Simulated, World
from .template import dumps

PERIOD = 60
"""Seconds between two readings of a node."""
RUNTIME, OLDER_RUNTIME = "2.34.10", "2.33.13"
COMMAND = "python3 train.py --config pretrain.toml"


class NeuronLs(Simulated):
    """The devices of all nodes."""

    period = PERIOD

    def __init__(self, world: World) -> None:
        fleet = world.fleet
        self._fleet = fleet
        self._machines = world.machines
        self._instances = fleet.instances(world.seed)

    def payload(self, node: int) -> bytes:
        """The payload of one node."""
        fleet, machines = self._fleet, self._machines
        pids = [] if node == machines.empty else fleet.pids[node]
        runtime_version = OLDER_RUNTIME if node == machines.older("runtime") else RUNTIME
        devices = []
        for device, links in fleet.links.items():
            if device == machines.lost(node):
                continue
            first = device * fleet.cores_per_device
            cores = range(first, first + fleet.cores_per_device)
            lnc = {"logical_neuroncore_config": fleet.lnc} if fleet.lnc > 1 else {}
            devices.append(
                {
                    "neuron_device": device,
                    "bdf": fleet.bdf(device),
                    "cpu_affinity": fleet.cpus(device),
                    "numa_node": str(fleet.numa_node(device)),
                    "connected_to": links or None,
                    "nc_count": len(cores),
                    **lnc,
                    "memory_size": fleet.chip.hbm_bytes,
                    "neuroncore_ids": list(cores),
                    "neuron_processes": [
                        {
                            "pid": pid,
                            "command": COMMAND,
                            "neuron_runtime_version": runtime_version,
                        }
                        for runtime, pid in enumerate(pids)
                        if set(cores) & set(fleet.owned(runtime))
                    ],
                    "instance_type": fleet.instance_type,
                    "instance_id": self._instances[node]["instance_id"],
                }
            )
        return dumps(devices).encode()
