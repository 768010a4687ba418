import dataclasses

from tests.builders import make_node
from trntop.core.model import Allocation, Inventory
from trntop.exporters.metrics.allocations import of_cores, of_devices

POD = Allocation(namespace="ml", pod='a"b', container="main", cores=(1, 2))


def inventory(*allocations: Allocation, devices: int = 2) -> Inventory:
    made = make_node(0, devices, 2).inventory
    return dataclasses.replace(made, allocations=allocations)


def test_a_whole_node_is_one() -> None:
    assert of_devices(inventory(Allocation("4711", whole=True))) == [
        'trn_allocation_info{hpc_job="4711",node="trn-000"} 1\n'
    ]
    assert of_cores(inventory(Allocation("4711", whole=True))) == []


def test_cores_are_a_part_of_their_devices() -> None:
    holder = 'namespace="ml",pod="a\\"b",container="main",node="trn-000"'
    assert of_devices(inventory(POD)) == [
        f'trn_allocation_info{{neuron_device="{device}",{holder}}} 1\n' for device in (0, 1)
    ]
    assert of_cores(inventory(POD)) == [
        f'trn_neuroncore_allocation_info{{neuroncore="{core}",{holder}}} 1\n' for core in (1, 2)
    ]


def test_where_the_devices_are_not_known_the_node_is() -> None:
    found = of_devices(inventory(Allocation("4711", cores=(3,)), devices=0))
    assert found == ['trn_allocation_info{hpc_job="4711",node="trn-000"} 1\n']


def test_unknown_and_empty_allocations_have_no_series() -> None:
    assert of_devices(inventory()) == []
    assert of_devices(make_node().inventory) == of_cores(make_node().inventory) == []
