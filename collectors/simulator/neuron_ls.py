"""What `neuron-ls -j -a` prints: the devices, how they are linked, and who holds them."""

from .fleet import Fleet
from .template import dumps

EVERY = 60
"""Seconds between two readings of a node."""
RUNTIME = "2.34.10"
COMMAND = "python3 train.py --config pretrain.toml"


class NeuronLs:
    """The devices of all nodes; `payload` writes one node."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._instances = fleet.instances(seed)

    def payload(self, node: int) -> bytes:
        """The array of one node's devices."""
        fleet = self._fleet
        devices = []
        for device, links in fleet.links.items():
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
                        {"pid": pid, "command": COMMAND, "neuron_runtime_version": RUNTIME}
                        for runtime, pid in enumerate(fleet.pids[node])
                        if set(cores) & set(fleet.owned(runtime))
                    ],
                    "instance_type": fleet.instance_type,
                    "instance_id": self._instances[node]["instance_id"],
                }
            )
        return dumps(devices).encode()
