import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports import efa_payload, encode
from trntop.catalog import CATALOG, EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS, Entity
from trntop.core.errors import DecodeError
from trntop.sources.efa import decode


def test_counters_efa_devices_and_line_rate() -> None:
    payload = efa_payload(200, rdmap2s1={"tx_bytes": 2}, rdmap1s1={"tx_bytes": 1, "rx_bytes": 3})
    sample = decode(encode(payload))
    assert sample.keys[Entity.EFA] == ("rdmap1s1", "rdmap2s1")
    assert sample.columns["efa_tx_bytes_total"].tolist() == [1, 2]
    assert sample.columns["efa_rx_bytes_total"][0] == 3
    assert np.isnan(sample.columns["efa_rx_bytes_total"][1])
    assert sample.columns["efa_stated_link_bytes_per_second"].tolist() == [25e9, 25e9]
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
    columns = decode(encode(payload)).columns
    assert columns.keys() == {*(f"efa_{name}_total" for name in names), "node_efa_cards"}


def test_an_efa_device_that_cannot_be_read_is_absent_and_named() -> None:
    payload = efa_payload(a={"tx_bytes": 1}, b={"tx_bytes": 2})
    payload["devices"]["b"]["error"] = "Admin queue is closed"
    sample = decode(encode(payload))
    assert np.isnan(sample.columns["efa_tx_bytes_total"][1])
    assert sample.columns["node_efa_cards"].tolist() == [1]
    assert sample.problems == ("b: Admin queue is closed",)


def test_no_efa_devices() -> None:
    sample = decode(b'{"devices":{}}')
    assert sample.keys[Entity.EFA] == ()
    assert sample.columns.keys() == {"node_efa_cards"}
    assert sample.columns["node_efa_cards"].tolist() == [0]


def test_garbage_counters() -> None:
    payload = efa_payload(a={"tx_bytes": -4, "rx_bytes": 1e30, "tx_pkts": 5})
    payload["devices"]["a"]["port"]["rx_pkts"] = {"no": "number"}
    sample = decode(encode(payload))
    assert "efa_tx_bytes_total" not in sample.columns
    assert "efa_rx_bytes_total" not in sample.columns
    assert sample.problems
    with pytest.raises(DecodeError):
        decode(b"[]")


@pytest.mark.parametrize(
    ("driver", "stated"),
    [("2.12.1g", False), ("1.9.0", False), ("2.13.0", True), ("3.3.0g", True), (None, False)],
)
def test_the_stated_rate_is_believed_since_2_13(driver: str | None, stated: bool) -> None:
    sample = decode(encode(efa_payload(a={"tx_bytes": 1}) | {"driver": driver}))
    assert ("efa_stated_link_bytes_per_second" in sample.columns) is stated


def test_links_of_an_efa_device() -> None:
    device = {"numa_node": -1, "state": "4: ACTIVE", "p2p": "NEU\x1bRON", "pci": "0000:10:1b.0"}
    sample = decode(encode({"driver": "2.17.3g", "devices": {"a": device, "b": {"p2p": ""}}}))
    assert sample.facts["efa_links"] == {
        "a": {
            "pci": "0000:10:1b.0",
            "driver": "2.17.3g",
            "state": "4: ACTIVE",
            "p2p": "NEU\ufffdRON",
        },
        "b": {"driver": "2.17.3g"},
    }


def test_unreadable_counters_are_absent_and_named() -> None:
    payload = efa_payload(a={"tx_bytes": 1}, b={"tx_bytes": 2, "rx_bytes": 3})
    payload["devices"]["a"]["errors"] = ["ports/1/hw_counters/rx_bytes: Input/output error"]
    sample = decode(encode(payload))
    assert np.isnan(sample.columns["efa_rx_bytes_total"]).tolist() == [True, False]
    assert sample.columns["efa_tx_bytes_total"].tolist() == [1, 2]
    assert sample.problems == ("a: ports/1/hw_counters/rx_bytes: Input/output error",)


def test_more_efa_devices_than_expected() -> None:
    devices = {f"c{index:03}": {"port": {"tx_bytes": index}} for index in range(300)}
    sample = decode(encode({"devices": devices}))
    assert len(sample.keys[Entity.EFA]) == 256
    assert sample.problems == ("300 EFA devices; only 256 are read",)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_payload(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        decode(data)


@given(
    st.dictionaries(
        st.text(max_size=4),
        st.fixed_dictionaries(
            {
                "rate_gbps": st.none() | st.integers() | st.floats(allow_nan=False),
                "port": st.dictionaries(
                    st.sampled_from(list(EFA_PORT_COUNTERS)),
                    st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
                    max_size=3,
                ),
            }
        ),
        max_size=3,
    )
)
def test_any_numbers(devices: dict[str, Any]) -> None:
    try:
        sample = decode(json.dumps({"devices": devices}).encode())
    except DecodeError:
        return
    for name, values in sample.columns.items():
        assert len(values) == len(sample.keys.get(CATALOG[name].entity, ("node",)))
        assert (np.isnan(values) | (values >= 0)).all()
        assert not np.isinf(values).any()
