from typing import Any

import pytest

from tests.collectors.simulator.playing import play


def devices(spec: str) -> Any:
    return play(f"sim:healthy?nodes=1&{spec}", "neuron-ls", end=1.0)[0].data


def test_devices_of_a_torus() -> None:
    listed = devices("type=trn2.48xlarge")
    assert [device["neuron_device"] for device in listed] == list(range(16))
    assert listed[0]["connected_to"] == [12, 3, 4, 1]
    for device in listed:
        for other in device["connected_to"]:
            assert device["neuron_device"] in listed[other]["connected_to"]
    first, last = listed[0], listed[-1]
    assert (first["numa_node"], last["numa_node"]) == ("0", "1")
    assert (first["cpu_affinity"], last["cpu_affinity"]) == ("0-95", "96-191")
    assert (first["nc_count"], first["logical_neuroncore_config"]) == (4, 2)
    assert last["neuroncore_ids"] == [60, 61, 62, 63]
    assert len({device["bdf"] for device in listed}) == 16
    assert {device["memory_size"] for device in listed} == {96 << 30}
    assert {device["instance_type"] for device in listed} == {"trn2.48xlarge"}


@pytest.mark.parametrize(
    ("instance_type", "links"),
    [
        ("trn1.2xlarge", [None]),
        ("inf2.24xlarge", [[5, 1], [0, 2], [1, 3], [2, 4], [3, 5], [4, 0]]),
    ],
)
def test_devices_of_a_ring_and_a_lone_one(instance_type: str, links: list[Any]) -> None:
    listed = devices(f"type={instance_type}")
    assert [device["connected_to"] for device in listed] == links
    assert "logical_neuroncore_config" not in listed[0]


def test_processes_are_the_runtimes_of_neuron_monitor() -> None:
    spec = "sim:healthy?nodes=1&type=trn1.32xlarge&runtimes=3"
    events = play(spec, end=1.0)
    pids = [
        runtime["pid"]
        for event in events
        if event.source == "neuron-monitor"
        for runtime in event.data["neuron_runtime_data"]
    ]
    (listed,) = [event.data for event in events if event.source == "neuron-ls"]
    holders = [[process["pid"] for process in device["neuron_processes"]] for device in listed]
    assert holders[0] == [pids[0]]
    assert holders[5] == [pids[1]]
    assert holders[10] == pids[1:]
    assert holders[15] == [pids[2]]
    process = listed[0]["neuron_processes"][0]
    assert process["command"].startswith("python3 train.py ")


def test_no_two_devices_share_an_address() -> None:
    events = play("sim:healthy?nodes=1", end=1.0)
    (listed,) = [event.data for event in events if event.source == "neuron-ls"]
    (efa_devices,) = [event.data["devices"].values() for event in events if event.source == "efa"]
    addresses = [device["bdf"] for device in listed] + [
        efa_device["pci"] for efa_device in efa_devices
    ]
    assert len(set(addresses)) == 32
