"""Allocations by schedulers, as series of value 1 to join in queries.

A job that has the whole node has one series without a device, so that `metric * on (node)
group_left (hpc_job) trn_allocation_info{neuron_device=""}` adds the job to a value. Any other job
has one series for each device of which it has all or a part.
"""

from collections.abc import Iterable

from trntop.catalog import METRIC_PREFIX, Kind
from trntop.core.model import Allocation, Inventory

from .exposition import Family, labels

DEVICES = Family(
    f"{METRIC_PREFIX}allocation_info",
    Kind.GAUGE,
    "Job or container to which a scheduler allocated the node, a device or a part of one; "
    "join it on node, and on neuron_device if it has one",
)
CORES = Family(
    f"{METRIC_PREFIX}neuroncore_allocation_info",
    Kind.GAUGE,
    "Job or container to which a scheduler allocated a single core; join it on node and neuroncore",
)


def of_devices(inventory: Inventory) -> list[str]:
    """Lines of `DEVICES`; without `neuron_device` for a whole node and for unknown devices."""
    return [
        _line(DEVICES, allocation, [("neuron_device", device)], inventory.node)
        for allocation in inventory.allocations or ()
        for device in (() if allocation.whole else inventory.held_devices(allocation)) or ("",)
    ]


def of_cores(inventory: Inventory) -> list[str]:
    """Lines of `CORES`, for allocations of single cores."""
    return [
        _line(CORES, allocation, [("neuroncore", core)], inventory.node)
        for allocation in inventory.allocations or ()
        for core in allocation.cores
    ]


def _line(
    family: Family, allocation: Allocation, part: Iterable[tuple[str, object]], node: str
) -> str:
    pairs = [
        *part,
        ("hpc_job", allocation.job),
        ("namespace", allocation.namespace),
        ("pod", allocation.pod),
        ("container", allocation.container),
        ("node", node),
    ]
    return f"{family.name}{labels(pairs)} 1\n"
