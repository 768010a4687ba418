import datetime
import itertools
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.collectors.recording_sink import RecordingSink, running
from tests.moto_server import client_of, reset, simulated_aws
from trntop.collectors import aws, cloudwatch
from trntop.collectors.cloudwatch import ContainerInsights, Node
from trntop.collectors.fleet import collectors_of
from trntop.core.errors import UsageError
from trntop.core.model import State
from trntop.core.settings import Fleet, Settings
from trntop.core.source_spec import parse
from trntop.sources import DECODERS

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("servers")]
"""moto and werkzeug warn of things of their own."""


def ago(seconds: float) -> float:
    """The start of the minute that long ago, unix seconds."""
    return (time.time() - seconds) // 60 * 60


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch, simulated_aws(patch) as url:
        yield url


@pytest.fixture(autouse=True)
def empty(server: str) -> None:
    reset(server)


def put(node: int, name: str, values: list[float], minute: float, cluster: str = "train") -> None:
    """Data points of one metric of one node within one minute, as the agent sends them."""
    dimensions = {
        "ClusterName": cluster,
        "InstanceId": f"i-{node}",
        "NodeName": f"ip-10-0-0-{node}.us-west-2.compute.internal",
    }
    cores = {**dimensions, "InstanceType": "trn2.48xlarge", "NeuronDevice": "device0"}
    data: list[dict[str, Any]] = []
    for index, value in enumerate(values):
        at = datetime.datetime.fromtimestamp(minute + index, datetime.UTC)
        label_sets = [dimensions, {"ClusterName": cluster}]
        if "neuroncore" in name:
            label_sets.append({**cores, "NeuronCore": f"core{index}"})
        for labels in label_sets:
            named = [{"Name": key, "Value": text} for key, text in labels.items()]
            data.append({"MetricName": name, "Dimensions": named, "Timestamp": at, "Value": value})
    client_of("cloudwatch").put_metric_data(Namespace="ContainerInsights", MetricData=data)


def fill(node: int, minute: float) -> None:
    put(node, "node_neuroncore_utilization", [10 * node, 50, 90], minute)
    put(node, "node_neurondevice_runtime_memory_used_bytes", [1e9], minute)
    put(node, "node_neuron_execution_latency", [0.05], minute)
    put(node, "node_neuron_execution_errors_total", [2], minute)
    put(node, "node_efa_tx_bytes", [6e9] * 16, minute)


async def test_nodes_and_their_metrics() -> None:
    for node in (1, 2):
        fill(node, ago(180))
    put(3, "node_neurondevice_runtime_memory_used_bytes", [1], ago(180), cluster="other")
    sink = RecordingSink()
    async with running(ContainerInsights("train"), sink):
        await sink.until(lambda: len(sink.readings) == 2, 20)
    assert sorted(reading.node for reading in sink.readings) == ["ip-10-0-0-1", "ip-10-0-0-2"]
    first = min(sink.readings, key=lambda reading: reading.node)
    age = sink.now() - first.time
    assert 115 < age < 300, "its age is that of the minute, not of the answer"
    sample = DECODERS[first.source](first.data)
    assert sample.facts["facts"] == {"instance_id": "i-1", "instance_type": "trn2.48xlarge"}
    columns = {name: values.tolist() for name, values in sample.columns.items()}
    assert columns == {
        "node_neuroncore_utilization_mean_ratio": [pytest.approx(0.5)],
        "node_neuroncore_utilization_min_ratio": [pytest.approx(0.1)],
        "node_neuroncore_utilization_max_ratio": [pytest.approx(0.9)],
        "node_device_memory_used_bytes": [1e9],
        "node_total_latency_p50_seconds": [pytest.approx(0.05)],
        "node_efa_tx_bytes_per_second": [pytest.approx(16 * 6e9 / 60)],
    }
    assert not sample.deltas, "errors from before we came are no news"


async def test_each_minute_is_handed_over_once_and_in_order() -> None:
    fill(1, ago(240))
    sink = RecordingSink()
    async with running(ContainerInsights("train", period=0.05), sink):
        await sink.until(lambda: sink.readings, 20)
        for minute in (ago(180), ago(120)):
            fill(1, minute)
        await sink.until(lambda: len(sink.readings) >= 3, 20)
    times = [reading.time for reading in sink.readings]
    assert times == sorted(times)
    assert len(times) == 3
    deltas = [DECODERS[reading.source](reading.data).deltas for reading in sink.readings]
    assert deltas == [{}, *[{"node_executions_failed_total": 2}] * 2]


async def test_a_minute_that_is_not_settled_is_not_taken() -> None:
    fill(1, ago(300))
    fill(1, ago(0))
    sink = RecordingSink()
    async with running(ContainerInsights("train"), sink):
        await sink.until(lambda: sink.readings, 20)
    assert len(sink.readings) == 1


async def test_a_cluster_without_metrics_reports_possible_causes() -> None:
    sink = RecordingSink()
    async with running(ContainerInsights("train"), sink):
        await sink.until(lambda: sink.statuses, 20)
    status = sink.statuses[0]
    assert (status.node, status.state) == ("cloudwatch:train", State.DOWN)
    assert "no Neuron metrics of cluster train" in status.reason


async def test_refusals_reach_the_nodes_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    fill(1, ago(180))
    sink = RecordingSink()
    monkeypatch.setattr(aws, "TRIES", 1)
    async with running(ContainerInsights("train", period=0.05), sink):
        await sink.until(lambda: sink.readings, 20)

        def deny(*_: object) -> None:
            raise aws.AwsError("cloudwatch:GetMetricData is not allowed", denied=True)

        monkeypatch.setattr(aws, "pages", deny)
        await sink.until(lambda: sink.statuses, 20)
    assert sink.statuses[0].node == "ip-10-0-0-1"
    assert sink.reasons(State.DOWN)[0] == "cloudwatch:GetMetricData is not allowed"


async def test_throttled_it_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []

    def throttle(self: ContainerInsights) -> None:
        times.append(time.monotonic())
        raise aws.AwsError("too often", throttled=True)

    monkeypatch.setattr(ContainerInsights, "_request", throttle)
    sink = RecordingSink()
    async with running(ContainerInsights("train", period=0.05), sink):
        await sink.until(lambda: len(times) >= 4, 20)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert gaps[0] >= 0.05
    assert gaps[2] >= 0.2, "each time twice as long, less the jitter"


def test_names_that_are_not_one_nodes_are_longer() -> None:
    insights = ContainerInsights("train")
    nodes = [Node("i-1", "a.x"), Node("i-2", "a.y"), Node("i-3", "b.x"), Node("i-4", "b.x")]
    insights._nodes = dict.fromkeys(nodes, "")
    assert set(insights._names().values()) == {"a.x i-1", "a.y i-2", "b.x i-3", "b.x i-4"}


@pytest.mark.parametrize(
    "text",
    ["cloudwatch:", "cloudwatch:a b", "cloudwatch:a?zone=b", "cloudwatch:a?region=../../x",
     "cloudwatch:a?region=us-west-2&x=y", "cloudwatch:a\x1b"],
)  # fmt: skip
def test_what_is_no_cluster_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cloudwatch:"):
        collectors_of(parse(text), Settings())


def test_the_region_is_in_the_source_or_in_the_settings() -> None:
    settings = Settings(fleet=Fleet(region="eu-west-1"))
    (first,) = cloudwatch.collectors(parse("cloudwatch:train"), settings)
    (two,) = cloudwatch.collectors(parse("cloudwatch:train?region=us-east-2"), settings)
    assert isinstance(first, ContainerInsights)
    assert isinstance(two, ContainerInsights)
    assert (first._region, two._region) == ("eu-west-1", "us-east-2")
