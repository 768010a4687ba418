"""Container Insights' metrics of one node for one minute.

    {"period": 60, "seconds": 60, "facts": {"instance_id": …},
     "metrics": {"node_neuroncore_utilization": {"Average": 41.5, "Minimum": 0, "Maximum": 99}}}

Names and statistics are CloudWatch's, in the dimensions ClusterName, InstanceId, NodeName, where
the agent's values for single cores and EFA devices are data points of one metric. What they mean is
from the agent's source (plugins/processors/awsneuron, receiver/awscontainerinsightreceiver), which
differs from AWS's table of metrics in one place: utilization is in percent, execution latency is
the p50, and EFA's bytes and drops are differences between two polls, though the table calls them
rates. So their sum over all devices and the minute, divided by the minute, is the node's rate.
"""

import msgspec
import numpy as np

from trntop.catalog import CLOUDWATCH
from trntop.core.model import Sample
from trntop.core.text import clean
from trntop.sources import tolerant
from trntop.sources.columns import PERCENT, SECONDS, SIZE, Range
from trntop.sources.exporter_page import within
from trntop.sources.source import Role, Source

PERIOD = 60.0
"""Seconds between data points."""
GAUGES: dict[str, tuple[str, str, Range]] = {
    "node_neuroncore_utilization_mean_ratio": ("node_neuroncore_utilization", "Average", PERCENT),
    "node_neuroncore_utilization_min_ratio": ("node_neuroncore_utilization", "Minimum", PERCENT),
    "node_neuroncore_utilization_max_ratio": ("node_neuroncore_utilization", "Maximum", PERCENT),
    "node_device_memory_used_bytes": (
        "node_neurondevice_runtime_memory_used_bytes", "Average", SIZE,
    ),
    "node_total_latency_p50_seconds": ("node_neuron_execution_latency", "Average", SECONDS),
}  # fmt: skip
"""Quantity → metric, statistic, range."""
SUMS = {
    "node_efa_tx_bytes_per_second": "node_efa_tx_bytes",
    "node_efa_rx_bytes_per_second": "node_efa_rx_bytes",
}
"""Rate → metric whose sum is divided by the seconds it covers."""
ERRORS = "node_neuron_execution_errors_total"
QUERIES = tuple(
    dict.fromkeys(
        (
            *((metric, statistic) for metric, statistic, _ in GAUGES.values()),
            *((metric, "Sum") for metric in (*SUMS.values(), ERRORS)),
        )
    )
)
"""Metric and statistic of everything that is read here."""


class _Minute(msgspec.Struct):
    period: float = PERIOD
    seconds: float = PERIOD
    facts: dict[str, str] = {}
    metrics: dict[str, dict[str, float | None]] = {}


_decoder = msgspec.json.Decoder(_Minute)


def decode(data: bytes) -> Sample:
    """One minute of a node.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    minute, problems = tolerant.decode(data, _decoder)
    facts = {clean(name, 64): clean(text) for name, text in list(minute.facts.items())[:16]}
    sample = Sample(facts={"facts": facts}, period=PERIOD, problems=problems)

    def value_of(metric: str, statistic: str) -> float | None:
        return minute.metrics.get(metric, {}).get(statistic)

    for quantity, (metric, statistic, bounds) in GAUGES.items():
        value = value_of(metric, statistic)
        if value is not None:
            column = within(np.array([value]), bounds)
            if np.isfinite(column[0]):
                sample.columns[quantity] = column
    for quantity, metric in SUMS.items():
        value = value_of(metric, "Sum")
        if value is not None and 0 <= value <= SIZE.limit and minute.seconds > 0:
            rate = within(np.array([value / minute.seconds]), SIZE)
            if np.isfinite(rate[0]):
                sample.columns[quantity] = rate
    errors = value_of(ERRORS, "Sum")
    if errors is not None and 0 <= errors <= SIZE.limit:
        sample.deltas["node_executions_failed_total"] = errors
    return sample


SOURCE = Source(
    name=CLOUDWATCH,
    decode=decode,
    role=Role.REMOTE,
    stale_after=300.0,  # CloudWatch itself is minutes late
    gives="Container Insights' metrics of each node of a cluster: utilization, HBM use, latency, "
    "execution errors, EFA traffic, by the minute",
    origin="GetMetricData of CloudWatch, each 60 s, one to three minutes late",
    needs="the CloudWatch agent with accelerated compute metrics on the nodes and "
    "permission (docs/nodes.md)",
    without="no values of nodes that cannot be reached otherwise",
)
