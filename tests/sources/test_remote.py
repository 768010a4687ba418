"""Remote input is foreign: any payload is decoded or refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trntop.catalog import CATALOG, CLOUDWATCH, FLEET
from trntop.core.errors import DecodeError
from trntop.sources import DECODERS, PAGES

NEURON = b"""\
neuron_hardware_info{instance_type="trn2.48xlarge",neuron_device_count="2",\
neuroncore_per_device_count="4",neuron_device_memory_size="103079215104"} 1
neuroncore_utilization_ratio{neuroncore="3",runtime_tag="7"} 0.5
neuroncore_memory_usage_tensors{memory_location="None",neuroncore="3",runtime_tag="7"} 5e9
hardware_ecc_events_total{event_type="mem_ecc_corrected",neuron_device_index="1"} 2
execution_latency_seconds{percentile="p50",runtime_tag="7"} 0.01
neuron_runtime_vcpu_usage_ratio{runtime_tag="7",usage_type="user"} 0.1
system_vcpu_usage_ratio{usage_type="user"} 0.1
execution_status_total{status_type="completed",runtime_tag="7"} 9
"""
SAMPLES = {
    "neuron-exporter": NEURON,
    "efa-exporter": b'node_amazonefa_tx_bytes{device="rdmap0s1",port="1"} 7\n' * 2,
    "cloudwatch": b'{"metrics": {"node_efa_tx_bytes": {"Sum": 6}}, "facts": {"instance_id": "i"}}',
    "fleet": b'{"facts": {"instance_state": "stopped"}, "period": 30}',
}


def test_each_page_has_a_sample() -> None:
    assert {*PAGES, CLOUDWATCH, FLEET} == SAMPLES.keys()


@pytest.mark.parametrize("source", SAMPLES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_is_refused_or_read_in_shape(source: str, data: st.DataObject) -> None:
    payload = bytearray(SAMPLES[source])
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(payload) - 1))
        payload[index : index + data.draw(st.integers(0, 3))] = data.draw(
            st.one_of(
                st.binary(max_size=3),
                st.sampled_from([b"NaN", b"-1", b"1e999", b'"', b"{", b"4097", b"999999999999"]),
            )
        )
        payload = payload or bytearray(b" ")
    try:
        sample = DECODERS[source](bytes(payload))
    except DecodeError:
        return
    for name, column in sample.columns.items():
        entity = CATALOG[name].entity
        assert len(column) == (len(sample.keys[entity]) if entity in sample.keys else 1), name
