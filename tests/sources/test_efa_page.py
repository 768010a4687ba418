"""Pages as AWS's EFA node exporter writes them; every number here is made up."""

import numpy as np
import pytest

from tests.builders import make_view
from trntop.catalog import EFA_PORT_COUNTERS, Entity
from trntop.core.errors import DecodeError
from trntop.exporters.metrics.compat import amazonefa
from trntop.sources.efa_page import decode

PAGE = """\
# HELP node_amazonefa_info Non-numeric data from /sys/class/infiniband/<device>, value is always 1.
# TYPE node_amazonefa_info gauge
node_amazonefa_info{device="rdmap144s27"} 1
node_amazonefa_info{device="rdmap160s27"} 1
# TYPE node_amazonefa_lifespan counter
node_amazonefa_lifespan{device="rdmap144s27",port="1"} 12
# TYPE node_amazonefa_tx_bytes counter
node_amazonefa_tx_bytes{device="rdmap144s27",port="1"} 1.234567890123e+12
node_amazonefa_tx_bytes{device="rdmap160s27",port="1"} 5
node_amazonefa_rx_drops{device="rdmap144s27",port="1"} 3
node_cpu_seconds_total{cpu="0",mode="idle"} 1e6
node_scrape_collector_success{collector="amazonefa"} 1
"""


def test_counters_per_efa_device() -> None:
    sample = decode(PAGE.encode())
    assert sample.keys[Entity.EFA] == ("rdmap144s27", "rdmap160s27")
    assert sample.columns["efa_tx_bytes_total"].tolist() == [1234567890123, 5]
    drops = sample.columns["efa_rx_drops_total"]
    assert drops[0] == 3
    assert np.isnan(drops[1]), "a counter that a device does not have is absent, not 0"
    assert sample.columns["node_efa_cards"].tolist() == [2]
    assert not any("lifespan" in name for name in sample.columns)
    assert "efa_retrans_pkts_total" not in sample.columns


def test_an_efa_device_without_counters_is_listed_and_not_read() -> None:
    page = "\n".join(line for line in PAGE.splitlines() if 'tx_bytes{device="rdmap160' not in line)
    sample = decode(f"{page}\n".encode())
    assert sample.keys[Entity.EFA] == ("rdmap144s27", "rdmap160s27")
    assert np.isnan(sample.columns["efa_tx_bytes_total"][1])
    assert sample.columns["node_efa_cards"].tolist() == [1]


def test_a_failed_collector_is_reported() -> None:
    sample = decode(b'node_scrape_collector_success{collector="amazonefa"} 0\n')
    assert sample.unusable == "node_exporter's collector amazonefa failed"
    assert not sample.columns


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf"])
def test_a_damaged_counter_is_absent(value: str) -> None:
    page = PAGE.replace("1.234567890123e+12", value)
    assert np.isnan(decode(page.encode()).columns["efa_tx_bytes_total"][0])


@pytest.mark.parametrize("data", [b"", b"node_cpu_seconds_total 1\n"])
def test_another_page_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match="EFA node exporter"):
        decode(data)


def test_what_trntop_publishes_under_these_names_comes_back() -> None:
    view = make_view(1)
    text = "".join("".join(lines) for _, lines in amazonefa.families(view.cluster))
    node = next(iter(view.cluster.nodes.values()))
    sample = decode(text.encode())
    assert sample.keys[Entity.EFA] == node.inventory.of(Entity.EFA)
    for name in EFA_PORT_COUNTERS:
        column = node.frame.columns.get(f"efa_{name}_total")
        if column is not None:
            np.testing.assert_allclose(sample.columns[f"efa_{name}_total"], column)
