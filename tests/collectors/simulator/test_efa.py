import itertools
from typing import Any

import pytest

from tests.collectors.simulator.playing import play
from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS
from trntop.collectors.simulator import parse, simulate
from trntop.sources.efa import decode


def rates(event: dict[str, Any], other: dict[str, Any], name: str) -> list[int]:
    return [
        other["devices"][efa_device]["port"][name] - event["devices"][efa_device]["port"][name]
        for efa_device in event["devices"]
    ]


@pytest.mark.parametrize(
    ("instance_type", "devices", "gbps"),
    [("trn1.32xlarge", 8, 100), ("trn1n.32xlarge", 16, 100), ("trn2.48xlarge", 16, 200)],
)
def test_efa_devices_and_counters(instance_type: str, devices: int, gbps: float) -> None:
    payload = play(f"sim:healthy?nodes=1&type={instance_type}", "efa", end=1.0)[0].data
    assert payload["driver"] == "2.17.3g"
    assert len(payload["devices"]) == devices
    for name, efa_device in payload["devices"].items():
        bus, slot = name.removeprefix("rdmap").split("s")
        assert efa_device["pci"] == f"0000:{int(bus):02x}:{int(slot):02x}.0"
        assert efa_device["numa_node"] in (0, 1)
        assert efa_device["rate_gbps"] == gbps
        assert (efa_device["state"], efa_device["p2p"]) == ("4: ACTIVE", "NEURON")
        assert set(efa_device["port"]) == set(EFA_PORT_COUNTERS)
        assert len(efa_device["port"]) == 22
        assert set(efa_device["device"]) == set(EFA_DEVICE_COUNTERS)
        assert efa_device["port"]["tx_bytes"] > 1e12


def test_counters_grow_and_keep_the_drivers_identities() -> None:
    payloads = [event.data for event in play("sim:healthy?nodes=1", "efa", end=30.0)]
    before: dict[tuple[str, str], int] = {}
    for payload in payloads:
        for name, efa_device in payload["devices"].items():
            port, device = efa_device["port"], efa_device["device"]
            assert port["rx_bytes"] == (
                port["recv_bytes"] + port["rdma_read_bytes"] + port["rdma_write_recv_bytes"]
            )
            assert port["tx_bytes"] == (
                port["send_bytes"] + port["rdma_read_resp_bytes"] + port["rdma_write_bytes"]
            )
            assert device["submitted_cmds"] == device["completed_cmds"]
            assert device["no_completion_cmds"] == device["cmds_err"] == 0
            for counter, value in (port | device).items():
                assert value >= before.get((name, counter), 0)
                before[name, counter] = value
    first, last = (payloads[index]["devices"]["rdmap16s27"] for index in (0, -1))
    assert last["device"]["keep_alive_rcvd"] - first["device"]["keep_alive_rcvd"] == 29


def test_a_healthy_network_moves_bytes_every_second_and_sends_few_twice() -> None:
    payloads = [
        event.data
        for event in play("sim:healthy?nodes=2", "efa", end=60.0)
        if event.node == "trn-001"
    ]
    packets = retransmits = 0
    for payload, other in itertools.pairwise(payloads):
        sent = rates(payload, other, "tx_bytes")
        assert min(sent) > 0.9 * max(sent) > 0
        # Below the line rate of 200 Gb/s, in any second.
        assert max(sent) < 25e9
        packets += sum(rates(payload, other, "tx_pkts"))
        retransmits += sum(rates(payload, other, "retrans_pkts"))
    assert 0 < retransmits / packets < 1e-5


def test_bytes_of_a_step_fit_the_collectives() -> None:
    """13e9 parameters, 8 bytes each, half of them to be sent between two nodes."""
    payloads = [
        event.data
        for event in play("sim:healthy?nodes=2", "efa", end=61.0)
        if event.node == "trn-000"
    ]
    sent = sum(rates(payloads[0], payloads[60], "tx_bytes"))
    assert sent / (60 / 4.3) == pytest.approx(13e9 * 8 / 2, rel=0.05)


def test_the_decoder_has_no_complaint() -> None:
    reading = next(r for r in simulate(parse("sim:healthy?nodes=1"), 0.0) if r.source == "efa")
    sample = decode(reading.data)
    assert not sample.problems
    assert (sample.columns["efa_stated_link_bytes_per_second"] == 25e9).all()
