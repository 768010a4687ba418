"""What AWS sells: chips and instance types, from the Neuron hardware pages.

Memory bandwidth is decimal (820e9 bytes/s for Trainium1): the profiler's own
`mbu_estimated_percent` agrees with that, not with the "GiB/sec" some pages print.
A fact no public page states is None.
"""

from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Chip:
    """One Neuron device."""

    name: str
    cores: int
    """Physical NeuronCores."""
    default_lnc: int
    """Physical cores behind one logical core, unless NEURON_LOGICAL_NC_CONFIG changes it."""
    hbm_bytes: int
    hbm_bytes_per_second: float
    bf16_flops_per_second: float


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One EC2 instance type: its devices and its EFA devices."""

    name: str
    chip: Chip
    devices: int
    vcpus: int | None
    efa_devices: int | None
    efa_gbps: float | None
    """Line rate of one EFA device, in Gb/s."""


INFERENTIA2 = Chip("Inferentia2", 2, 1, 32 * GIB, 820e9, 190e12)
TRAINIUM1 = Chip("Trainium1", 2, 1, 32 * GIB, 820e9, 190e12)
TRAINIUM2 = Chip("Trainium2", 8, 2, 96 * GIB, 2.9e12, 667e12)
TRAINIUM3 = Chip("Trainium3", 8, 2, 144 * GIB, 4.9e12, 671e12)

CHIPS = {
    "inferentia2": INFERENTIA2,
    "trainium": TRAINIUM1,
    "trainium1": TRAINIUM1,
    "trainium2": TRAINIUM2,
    # No public capture of a Trainium3 report exists; this spelling follows the others.
    "trainium3": TRAINIUM3,
}
"""Chips by neuron-monitor's `neuron_device_type`, in lower case."""

INSTANCE_TYPES = {
    row.name: row
    for row in (
        InstanceType("inf2.xlarge", INFERENTIA2, 1, 4, None, None),
        InstanceType("inf2.8xlarge", INFERENTIA2, 1, 32, None, None),
        InstanceType("inf2.24xlarge", INFERENTIA2, 6, 96, None, None),
        InstanceType("inf2.48xlarge", INFERENTIA2, 12, 192, None, None),
        InstanceType("trn1.2xlarge", TRAINIUM1, 1, 8, 0, None),
        InstanceType("trn1.32xlarge", TRAINIUM1, 16, 128, 8, 100.0),
        InstanceType("trn1n.32xlarge", TRAINIUM1, 16, 128, 16, 100.0),
        InstanceType("trn2.3xlarge", TRAINIUM2, 1, 12, 1, 200.0),
        InstanceType("trn2.48xlarge", TRAINIUM2, 16, 192, 16, 200.0),
        InstanceType("trn2u.48xlarge", TRAINIUM2, 16, 192, 16, 200.0),
        # Named in neuron-monitor's user guide.
        InstanceType("trn2n.48xlarge", TRAINIUM2, 16, None, None, None),
        # From the Neuron driver: the devices that it numbers on each platform.
        InstanceType("trn3pd98.3xlarge", TRAINIUM3, 1, None, None, None),
        InstanceType("trn3e.24xlarge", TRAINIUM3, 4, None, None, None),
        InstanceType("trn3.48xlarge", TRAINIUM3, 16, None, None, None),
        InstanceType("trn3p.48xlarge", TRAINIUM3, 16, None, None, None),
    )
}


def find_instance_type(name: str) -> InstanceType | None:
    """The instance type of a name; HyperPod writes `ml.` before it."""
    return INSTANCE_TYPES.get(name.removeprefix("ml."))


def chip_of(instance_type: str, device_type: str) -> Chip | None:
    """The chip behind an instance type, else behind a `neuron_device_type`, else None."""
    row = find_instance_type(instance_type)
    if row is not None:
        return row.chip
    return CHIPS.get(device_type.lower())
