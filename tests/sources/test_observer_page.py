"""What is public of Neuron Observer's names; the pages here are made up after it."""

import pytest

from trntop.catalog import Entity
from trntop.core.errors import DecodeError
from trntop.sources.observer_page import MARK, decode

PAGE = b"""\
neuron_core_utilization_avg{node="trn-1"} 41.5
neuron_core_utilization_max{node="trn-1"} 99
neuron_core_utilization_sum 2656
neuron_device_mem_ecc_uncorrected_sum{node="trn-1"} 2
neuron_efa_tx_bytes{device="rdmap1s0"} 10
neuron_efa_tx_bytes{device="rdmap2s0"} 20
neuron_efa_rx_bytes_total{device="rdmap2s0"} 7
neuron_system_something_new 1
"""


def test_what_is_public_is_read() -> None:
    sample = decode(PAGE)
    columns = {name: values.tolist() for name, values in sample.columns.items()}
    assert columns["node_neuroncore_utilization_mean_ratio"] == [0.415]
    assert columns["node_neuroncore_utilization_max_ratio"] == [0.99]
    assert columns["node_ecc_uncorrected_events"] == [2]
    assert sample.keys[Entity.EFA] == ("rdmap1s0", "rdmap2s0")
    assert columns["efa_tx_bytes_total"] == [10, 20]
    assert columns["efa_rx_bytes_total"][1] == 7
    assert MARK.search(PAGE)


def test_shares_may_be_from_0_to_1() -> None:
    sample = decode(b"neuron_device_utilization_avg_ratio 0.5\n")
    assert sample.columns["node_neuroncore_utilization_mean_ratio"].tolist() == [0.5]


def test_a_card_that_no_label_names_is_left_out() -> None:
    with pytest.raises(DecodeError):
        decode(b'neuron_efa_tx_bytes{job="x"} 10\n')


@pytest.mark.parametrize("page", [b"", b"neuron_core_something_sum 1\n", b"up 1\n"])
def test_nothing_known_is_said(page: bytes) -> None:
    with pytest.raises(DecodeError, match="Neuron Observer"):
        decode(page)


def test_the_page_of_neuron_monitor_is_not_taken_for_it() -> None:
    assert not MARK.search(
        b"neuron_runtime_memory_used_bytes 1\nneuron_hardware_info 1\nneuroncore_memory_usage_x 1\n"
    )
