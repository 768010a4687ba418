import itertools
from typing import Any

import pytest

from tests.collectors.simulator.playing import play
from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS
from trntop.collectors.simulator import parse, simulate
from trntop.sources.efa import decode


def rates(one: dict[str, Any], other: dict[str, Any], name: str) -> list[int]:
    return [
        other["devices"][card]["port"][name] - one["devices"][card]["port"][name]
        for card in one["devices"]
    ]


@pytest.mark.parametrize(
    ("instance_type", "cards", "gbps"),
    [("trn1.32xlarge", 8, 100), ("trn1n.32xlarge", 16, 100), ("trn2.48xlarge", 16, 200)],
)
def test_cards_and_counters(instance_type: str, cards: int, gbps: float) -> None:
    payload = play(f"sim:healthy?nodes=1&type={instance_type}", "efa", end=1.0)[0].data
    assert payload["driver"] == "2.17.3g"
    assert len(payload["devices"]) == cards
    for name, card in payload["devices"].items():
        bus, slot = name.removeprefix("rdmap").split("s")
        assert card["pci"] == f"0000:{int(bus):02x}:{int(slot):02x}.0"
        assert card["numa_node"] in (0, 1)
        assert card["rate_gbps"] == gbps
        assert (card["state"], card["p2p"]) == ("4: ACTIVE", "NEURON")
        assert set(card["port"]) == set(EFA_PORT_COUNTERS)
        assert len(card["port"]) == 22
        assert set(card["device"]) == set(EFA_DEVICE_COUNTERS)
        assert card["port"]["tx_bytes"] > 1e12


def test_counters_grow_and_keep_the_drivers_identities() -> None:
    payloads = [event.data for event in play("sim:healthy?nodes=1", "efa", end=30.0)]
    before: dict[tuple[str, str], int] = {}
    for payload in payloads:
        for name, card in payload["devices"].items():
            port, device = card["port"], card["device"]
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
    first, last = (payloads[place]["devices"]["rdmap16s27"] for place in (0, -1))
    assert last["device"]["keep_alive_rcvd"] - first["device"]["keep_alive_rcvd"] == 29


def test_a_healthy_network_moves_bytes_every_second_and_sends_few_twice() -> None:
    payloads = [
        event.data
        for event in play("sim:healthy?nodes=2", "efa", end=60.0)
        if event.node == "trn-001"
    ]
    packets = retransmits = 0
    for one, other in itertools.pairwise(payloads):
        sent = rates(one, other, "tx_bytes")
        assert min(sent) > 0.9 * max(sent) > 0
        # Below the line rate of 200 Gb/s, in any second.
        assert max(sent) < 25e9
        packets += sum(rates(one, other, "tx_pkts"))
        retransmits += sum(rates(one, other, "retrans_pkts"))
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
