"""The simulated machines: names, devices, cores, EFA devices and processes."""

from dataclasses import dataclass

import numpy as np

from trntop.core.instances import GIB, INSTANCE_TYPES, TRAINIUM1, TRAINIUM2

DEFAULT_VCPUS = 8
TORUS = 4
"""Devices along each side of the torus of 16."""
EFA_PER_BUS = 2
FIRST_SLOT = 27
DEVICES_PER_BUS = 2
FIRST_DEVICE_SLOT = 30
ULTRASERVER_NODES = 4
MOST_PEERS = 8
"""That one node probes."""


@dataclass(frozen=True, slots=True)
class EfaDevice:
    """One EFA device, named like by the udev rule of rdma-core: decimal bus, slot."""

    bus: int
    slot: int
    numa_node: int

    @property
    def name(self) -> str:
        """Such as `rdmap16s27`."""
        return f"rdmap{self.bus}s{self.slot}"

    @property
    def pci(self) -> str:
        """Such as `0000:10:1b.0`."""
        return f"0000:{self.bus:02x}:{self.slot:02x}.0"


class Fleet:
    """`nodes` machines of one instance type, each with `runtimes` Neuron processes."""

    def __init__(self, instance_type: str, nodes: int, seed: int, runtimes: int) -> None:
        row = INSTANCE_TYPES[instance_type]
        self.instance_type = row.name
        self.chip = row.chip
        self.lnc = row.chip.default_lnc
        self.devices = row.devices
        self.links = {device: _neighbours(device, row.devices) for device in range(row.devices)}
        """Device → the devices it has a NeuronLink to, in the driver's order."""
        self.cores_per_device = row.chip.cores // self.lnc
        self.cores = self.devices * self.cores_per_device
        """Logical cores of one node."""
        self.vcpus = row.vcpus or DEFAULT_VCPUS
        self.efa_gbps = row.efa_gbps or 0.0
        self.efa = _efa_devices(row.efa_devices or 0)
        self.nodes = nodes
        width = max(3, len(str(nodes - 1)))
        self.names = tuple(f"trn-{node:0{width}d}" for node in range(nodes))
        self.runtimes = runtimes
        rng = np.random.default_rng([seed, 16])
        self.serials = [[rng.bytes(8).hex() for _ in self.links] for _ in range(nodes)]
        """Serial numbers of the devices, `[node][device]`."""
        first = np.random.default_rng([seed, 1]).integers(2_000, 400_000, nodes)
        self.pids: list[list[int]] = (first[:, None] + 7 * np.arange(runtimes)).tolist()
        """Process ids, `[node][runtime]`."""

    @property
    def in_ultraservers(self) -> bool:
        """Whether each four nodes are linked to one UltraServer."""
        return self.instance_type.startswith("trn2u.")

    def numa_node(self, device: int) -> int:
        """The NUMA node of a device: each of two has half of them."""
        return int(2 * device >= max(self.devices, 2))

    def cpus(self, device: int) -> str:
        """The vCPUs near to a device, such as `0-95`."""
        halves = min(self.devices, 2)
        first = self.numa_node(device) * self.vcpus // halves
        return f"{first}-{first + self.vcpus // halves - 1}"

    def bdf(self, device: int) -> str:
        """PCI address of a device."""
        bus, slot = divmod(device, DEVICES_PER_BUS)
        return f"0000:{16 * (1 + bus):02x}:{FIRST_DEVICE_SLOT + slot:02x}.0"

    @property
    def flops_ratio(self) -> float:
        """Peak of this chip over Trainium1's; the simulated model grows with it."""
        return self.chip.bf16_flops_per_second / TRAINIUM1.bf16_flops_per_second

    @property
    def host_bytes(self) -> int:
        """Host memory of a node: 4 GiB a vCPU, on Trainium2 32 GiB for three."""
        return self.vcpus * GIB * (32 if self.chip is TRAINIUM2 else 12) // 3

    def instances(self, seed: int) -> list[dict[str, str]]:
        """The `instance_info` of every node."""
        rng = np.random.default_rng([seed, 5])
        ami, subnet = f"ami-0{rng.bytes(8).hex()}", f"subnet-0{rng.bytes(8).hex()}"
        servers = [rng.bytes(8).hex() for _ in range(0, self.nodes, ULTRASERVER_NODES)]
        region, number = ("us-east-2", 3) if self.chip is TRAINIUM2 else ("us-west-2", 4)
        infos = []
        for node, name in enumerate(self.names):
            info = {
                "instance_name": name,
                "instance_id": f"i-0{rng.bytes(8).hex()}",
                "instance_type": self.instance_type,
                "instance_availability_zone": f"{region}{'abcd'[number - 1]}",
                "instance_availability_zone_id": f"{region[:4].replace('-', '')}2-az{number}",
                "instance_region": region,
                "ami_id": ami,
                "subnet_id": subnet,
            }
            if self.in_ultraservers:
                info["ultraserver_id"] = f"u-{servers[node // ULTRASERVER_NODES]}"
            infos.append(info | {"error": ""})
        return infos

    def peers(self, node: int) -> list[int]:
        """The nodes that a node probes, half of the ring: each pair is probed once."""
        behind = range(1, min(MOST_PEERS, self.nodes // 2) + 1)
        others = [((node + step) % self.nodes, 2 * step) for step in behind]
        return [other for other, way in others if way < self.nodes or node < other]

    def owned(self, runtime: int) -> range:
        """Cores that belong to one of the node's runtimes."""
        return range(
            runtime * self.cores // self.runtimes, (runtime + 1) * self.cores // self.runtimes
        )


def _neighbours(device: int, devices: int) -> list[int]:
    """On a torus of 16 (of device 0: 12, 3, 4, 1), else on a ring; a lone device has none."""
    if devices != TORUS * TORUS:
        around = ((device - 1) % devices, (device + 1) % devices)
        return [other for other in around if other != device]
    row, column = divmod(device, TORUS)
    return [
        TORUS * ((row - 1) % TORUS) + column,
        TORUS * row + (column - 1) % TORUS,
        TORUS * ((row + 1) % TORUS) + column,
        TORUS * row + (column + 1) % TORUS,
    ]


def _efa_devices(count: int) -> tuple[EfaDevice, ...]:
    return tuple(
        EfaDevice(
            bus=16 * (1 + index // EFA_PER_BUS),
            slot=FIRST_SLOT + index % EFA_PER_BUS,
            numa_node=int(index >= count / 2),
        )
        for index in range(count)
    )
