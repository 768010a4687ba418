import numpy as np
import pytest

from tests.reports import efa_payload, encode
from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS, Entity
from trntop.decode.efa import decode
from trntop.errors import DecodeError


def test_counters_cards_and_line_rate() -> None:
    payload = efa_payload(200, rdmap2s1={"tx_bytes": 2}, rdmap1s1={"tx_bytes": 1, "rx_bytes": 3})
    sample = decode(encode(payload))
    assert sample.keys[Entity.EFA] == ("rdmap1s1", "rdmap2s1")
    assert sample.columns["efa_tx_bytes_total"].tolist() == [1, 2]
    assert sample.columns["efa_rx_bytes_total"][0] == 3
    assert np.isnan(sample.columns["efa_rx_bytes_total"][1])
    assert sample.columns["efa_link_bytes_per_second"].tolist() == [25e9, 25e9]
    assert "efa_retrans_pkts_total" not in sample.columns  # an old driver: absent, not 0
    assert sample.facts["efa_links"]["rdmap1s1"]["pci"] == "0000:10:1b.0"


def test_every_counter_of_the_driver_is_read() -> None:
    names = (*EFA_PORT_COUNTERS, *EFA_DEVICE_COUNTERS)
    payload = {
        "devices": {
            "a": {
                "port": {name: index for index, name in enumerate(EFA_PORT_COUNTERS)},
                "device": {name: index for index, name in enumerate(EFA_DEVICE_COUNTERS)},
            }
        }
    }
    assert len(decode(encode(payload)).columns) == len(names)


def test_device_counters_among_the_port_s_before_1_14() -> None:
    sample = decode(encode(efa_payload(a={"tx_bytes": 1, "keep_alive_rcvd": 87})))
    assert sample.columns["efa_keep_alive_rcvd_total"].tolist() == [87]


def test_a_card_that_cannot_be_read_is_absent_and_named() -> None:
    payload = efa_payload(a={"tx_bytes": 1}, b={"tx_bytes": 2})
    payload["devices"]["b"]["error"] = "Admin queue is closed"
    sample = decode(encode(payload))
    assert np.isnan(sample.columns["efa_tx_bytes_total"][1])
    assert sample.problems == ("b: Admin queue is closed",)


def test_no_cards() -> None:
    sample = decode(b'{"devices":{}}')
    assert sample.keys[Entity.EFA] == ()
    assert sample.columns == {}


def test_garbage_counters() -> None:
    payload = efa_payload(a={"tx_bytes": -4, "rx_bytes": 1e30, "tx_pkts": 5})
    payload["devices"]["a"]["port"]["rx_pkts"] = {"no": "number"}
    sample = decode(encode(payload))
    assert "efa_tx_bytes_total" not in sample.columns
    assert "efa_rx_bytes_total" not in sample.columns
    assert sample.problems
    with pytest.raises(DecodeError):
        decode(b"[]")
