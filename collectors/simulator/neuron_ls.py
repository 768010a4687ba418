"""Output of `neuron-ls -j -a`: devices, links, processes."""

from .fleet import Fleet
from .hook import Hook, Simulated
from .machines import Machines
from .template import dumps

EVERY = 60
"""Seconds between two readings of a node."""
RUNTIME, OLDER_RUNTIME = "2.34.10", "2.33.13"
COMMAND = "python3 train.py --config pretrain.toml"


class NeuronLs:
    """The devices of all nodes."""

    def __init__(self, fleet: Fleet, machines: Machines, seed: int) -> None:
        self._fleet = fleet
        self._machines = machines
        self._instances = fleet.instances(seed)

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


HOOK = Hook(
    lambda world: Simulated(NeuronLs(world.fleet, world.machines, world.seed).payload),
    every=EVERY,
    order=0,
)
