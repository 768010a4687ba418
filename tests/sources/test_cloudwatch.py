import json
import math
from typing import Any

import pytest

from trntop.catalog import CATALOG, Entity
from trntop.core.errors import DecodeError
from trntop.sources.cloudwatch import GAUGES, QUERIES, SUMS, decode


def minute(**metrics: dict[str, Any]) -> bytes:
    return json.dumps({"period": 60, "seconds": 60, "metrics": metrics}).encode()


def test_utilization_is_percent_always() -> None:
    statistics = {"Average": 0.8, "Minimum": 0, "Maximum": 100}
    columns = decode(minute(node_neuroncore_utilization=statistics)).columns
    assert columns["node_neuroncore_utilization_mean_ratio"].tolist() == [pytest.approx(0.008)]
    assert columns["node_neuroncore_utilization_min_ratio"].tolist() == [0]
    assert columns["node_neuroncore_utilization_max_ratio"].tolist() == [1]


def test_differences_of_a_minute_become_a_rate() -> None:
    sample = decode(minute(node_efa_tx_bytes={"Sum": 6e11}, node_efa_rx_bytes={"Sum": 0}))
    assert sample.columns["node_efa_tx_bytes_per_second"].tolist() == [1e10]
    assert sample.columns["node_efa_rx_bytes_per_second"].tolist() == [0]


def test_a_minute_of_no_length_has_no_rate() -> None:
    data = b'{"seconds": 1e-300, "metrics": {"node_efa_tx_bytes": {"Sum": 6e11}}}'
    assert decode(data).columns == {}


def test_errors_of_a_minute_are_added_up() -> None:
    sample = decode(minute(node_neuron_execution_errors_total={"Sum": 3}))
    assert sample.deltas == {"node_executions_failed_total": 3}


def test_facts_and_interval() -> None:
    sample = decode(b'{"facts": {"instance_id": "i-1\\u001b"}, "metrics": {}}')
    assert sample.facts == {"facts": {"instance_id": "i-1�"}}
    assert sample.period == 60


@pytest.mark.parametrize("value", [None, -1, 1e300, math.nan])
def test_damage_is_absent(value: float | None) -> None:
    metrics: dict[str, dict[str, Any]] = {}
    for metric, statistic in QUERIES:
        metrics.setdefault(metric, {})[statistic] = value
    sample = decode(minute(**metrics))
    assert not sample.columns
    assert not sample.deltas


def test_quantities_exist_and_are_of_the_node() -> None:
    for name in (*GAUGES, *SUMS):
        assert CATALOG[name].entity is Entity.NODE


@pytest.mark.parametrize("data", [b"", b"[]", b"nonsense"])
def test_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)
