"""Who was given what, as series of value 1: to be joined, and on no other series.

A job that has the whole node has one series without a device, so that `metric * on (node)
group_left (hpc_job) trn_allocation_info{neuron_device=""}` says whose a value is; any other has
one for each device of which it has all or a part, joined on node and neuron_device.
"""

from collections.abc import Iterable

from trntop.catalog import METRIC_PREFIX, Kind
from trntop.core.model import Allocation, Inventory

from .exposition import Family, labels

DEVICES = Family(
    f"{METRIC_PREFIX}allocation_info",
    Kind.GAUGE,
    "Job or container that a scheduler gave a node, a device or a part of one to, used or not; "
    "join it on node, and on neuron_device where it has one",
)
CORES = Family(
    f"{METRIC_PREFIX}neuroncore_allocation_info",
    Kind.GAUGE,
    "Job or container that a scheduler gave a single core to; join it on node and neuroncore",
)


def of_devices(inventory: Inventory) -> list[str]:
    """Lines of `DEVICES`; without `neuron_device` for a whole node, and where the devices of the
    node are not known.
    """
    return [
        _line(DEVICES, one, [("neuron_device", device)], inventory.node)
        for one in inventory.allocations or ()
        for device in (() if one.whole else inventory.held_devices(one)) or ("",)
    ]


def of_cores(inventory: Inventory) -> list[str]:
    """Lines of `CORES`: only of holders that were given single cores."""
    return [
        _line(CORES, one, [("neuroncore", core)], inventory.node)
        for one in inventory.allocations or ()
        for core in one.cores
    ]


def _line(family: Family, one: Allocation, part: Iterable[tuple[str, object]], node: str) -> str:
    pairs = [
        *part,
        ("hpc_job", one.job),
        ("namespace", one.namespace),
        ("pod", one.pod),
        ("container", one.container),
        ("node", node),
    ]
    return f"{family.name}{labels(pairs)} 1\n"
