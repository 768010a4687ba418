"""Container Insights metrics of a cluster, `cloudwatch:CLUSTER[?region=REGION]`.

For clusters without another reachable source. CloudWatch bills requested metrics: eight values per
node and minute, none per core or EFA device. A minute is requested once it is a minute old, because
the agents send it late and in parts; its age is that of the minute.

Metrics: "AWS Neuron metrics" and "AWS Elastic Fabric Adapter (EFA) metrics" in
AmazonCloudWatch/latest/monitoring/Container-Insights-metrics-enhanced-EKS.
"""

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from trntop.catalog import CLOUDWATCH
from trntop.core.errors import UsageError
from trntop.core.model import Reading, State, Status
from trntop.core.settings import Settings
from trntop.core.source_spec import Source
from trntop.core.text import clean
from trntop.session.collector import Collector, Sink
from trntop.sources.cloudwatch import ERRORS, PERIOD, QUERIES

from . import aws
from .backoff import Backoff
from .worker import StuckError, Worker

log = logging.getLogger(__name__)

NAMESPACE = "ContainerInsights"
NODES = "node_neurondevice_runtime_memory_used_bytes"
"""The metric that lists nodes: it has no series of cores."""
TYPES = "node_neuroncore_utilization"
"""The metric whose first core has the instance type as a dimension."""
FIRST_CORE = "core0"
LISTED = 600.0
"""Seconds for which a list of nodes is used."""
SETTLE = 60.0
"""Seconds after which a minute is complete."""
BACK = 6
"""Minutes requested."""
BATCH = 500
"""Most queries of one call of GetMetricData."""
MAX_NODES = 2000
MAX_WAIT = 900.0

_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", re.ASCII)
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d{1,2}", re.ASCII)
_DIMENSIONS = {"ClusterName", "InstanceId", "NodeName"}


def collectors(source: Source, settings: Settings) -> list[Collector]:
    """The collector of a cluster.

    Raises:
        UsageError: the source is not valid.
    """
    cluster, _, query = source.text.partition(":")[2].partition("?")
    options = parse_qs(query, keep_blank_values=True)
    region = options.pop("region", [settings.fleet.region])[-1]
    shown = clean(source.text, 80)
    if not _CLUSTER.fullmatch(cluster):
        raise UsageError(f"{shown} is not valid: use cloudwatch:CLUSTER, an EKS cluster")
    if options or (region and not _REGION.fullmatch(region)):
        raise UsageError(f"{shown} is not valid: only region=REGION can follow ?")
    return [ContainerInsights(cluster, region)]


class Node(NamedTuple):
    instance: str
    name: str


class Minute(NamedTuple):
    """The metrics of one node and minute."""

    node: Node
    ends: float
    """Unix seconds."""
    metrics: Mapping[str, Mapping[str, float]]


class ContainerInsights:
    """The nodes of one cluster.

    Args:
        cluster: its name.
        region: empty means that of the AWS configuration.
        period: seconds between requests.
    """

    source = CLOUDWATCH

    def __init__(self, cluster: str, region: str = "", period: float = PERIOD) -> None:
        self.node = f"cloudwatch:{cluster}"
        self._cluster = cluster
        self._region = region
        self._period = period
        self._worker = Worker("trntop cloudwatch")
        self._client: Any = None
        self._nodes: dict[Node, str] = {}
        """Node → its instance type, empty if unknown."""
        self._listed = float("-inf")
        self._published: dict[Node, float] = {}
        """Node → end of its last minute."""

    async def run(self, sink: Sink) -> None:
        """Requests metrics every `period` until cancelled."""
        backoff = Backoff(first=2 * self._period, longest=MAX_WAIT)
        try:
            while True:
                wait = self._period
                try:
                    minutes = await self._worker.call(self._request, aws.DEADLINE)
                except StuckError:
                    self._report(sink, "no response of CloudWatch in time")
                except aws.AwsError as error:
                    self._report(sink, str(error))
                    if error.throttled:
                        wait = backoff.wait(0.0)
                except Exception as error:  # an unexpected response must not end it
                    log.exception("reading %s", self.node)
                    self._report(sink, f"internal error: {type(error).__name__}")
                else:
                    self._publish(minutes, sink)
                    backoff = Backoff(first=2 * self._period, longest=MAX_WAIT)
                await asyncio.sleep(wait)
        finally:
            self._worker.close()

    def _report(self, sink: Sink, why: str) -> None:
        """Reports a failure for each node, or for the cluster."""
        for name in [self._names()[node] for node in self._published] or [self.node]:
            sink.status(Status(name, CLOUDWATCH, State.DOWN, why))

    def _publish(self, minutes: Sequence[Minute], sink: Sink) -> None:
        names = self._names()
        if not self._published and minutes:
            sink.remove(self.node)
        for minute in minutes:
            node = minute.node
            facts = {"instance_id": node.instance, "instance_type": self._nodes.get(node, "")}
            data = msgspec.json.encode(
                {
                    "period": PERIOD,
                    "seconds": PERIOD,
                    "facts": {name: value for name, value in facts.items() if value},
                    "metrics": minute.metrics,
                }
            )
            age = max(0.0, time.time() - minute.ends)
            sink.reading(Reading(names[node], CLOUDWATCH, sink.now() - age, data))
            self._published[node] = minute.ends

    def _names(self) -> dict[Node, str]:
        """The host without its domain if that is unique, else the host with its instance."""
        nodes = {*self._nodes, *self._published}
        short = {node: node.name.partition(".")[0] for node in nodes}
        count = Counter(short.values())
        return {
            node: clean(name if count[name] == 1 else f"{node.name} {node.instance}")
            for node, name in short.items()
        }

    def _request(self) -> list[Minute]:
        """The new minutes, the oldest first; called in the thread."""
        if self._client is None:
            self._client = aws.client("cloudwatch", self._region)
        if time.monotonic() > self._listed + LISTED or not self._nodes:
            self._nodes = self._find()
            self._listed = time.monotonic()
        if not self._nodes:
            raise aws.AwsError(
                f"Container Insights has no Neuron metrics of cluster {self._cluster}: check its "
                "name and region, and that its agents send them"
            )
        minutes = self._minutes(datetime.now(UTC))
        return sorted(minutes, key=lambda minute: minute.ends)

    def _find(self) -> dict[Node, str]:
        cluster = {"Name": "ClusterName", "Value": self._cluster}
        nodes = [
            Node(each["InstanceId"], each["NodeName"])
            for each in self._list(NODES, [cluster])
            if each.keys() == _DIMENSIONS
        ]
        first = [cluster, {"Name": "NeuronCore", "Value": FIRST_CORE}]
        types = {
            each.get("InstanceId", ""): each.get("InstanceType", "")
            for each in self._list(TYPES, first)
        }
        return {node: types.get(node.instance, "") for node in nodes[:MAX_NODES]}

    def _list(self, metric: str, dimensions: list[dict[str, str]]) -> Iterator[dict[str, str]]:
        """The dimensions of the recent series of a metric."""
        arguments = {
            "Namespace": NAMESPACE,
            "MetricName": metric,
            "Dimensions": dimensions,
            "RecentlyActive": "PT3H",
        }
        answers = aws.pages(self._client, "cloudwatch:ListMetrics", "list_metrics", arguments)
        listed = (metric for page in answers for metric in page.get("Metrics", ()))
        for found in islice(listed, 4 * MAX_NODES):
            yield {
                str(dimension["Name"]): str(dimension["Value"])
                for dimension in found.get("Dimensions", ())
            }

    def _minutes(self, now: datetime) -> Iterator[Minute]:
        """The new minutes of all nodes."""
        settled = now - timedelta(seconds=SETTLE)
        end = settled.replace(second=0, microsecond=0)
        queries = [
            (node, metric, statistic) for node in self._nodes for metric, statistic in QUERIES
        ]
        found: dict[tuple[Node, float], dict[str, dict[str, float]]] = {}
        for start in range(0, len(queries), BATCH):
            batch = queries[start : start + BATCH]
            arguments = {
                "StartTime": end - timedelta(seconds=BACK * PERIOD),
                "EndTime": end,
                "ScanBy": "TimestampDescending",
                "MetricDataQueries": [
                    self._query(index, *query) for index, query in enumerate(batch)
                ],
            }
            for page in aws.pages(
                self._client, "cloudwatch:GetMetricData", "get_metric_data", arguments
            ):
                for result in page.get("MetricDataResults", ()):
                    node, metric, statistic = batch[int(str(result["Id"])[1:])]
                    stamps, values = result.get("Timestamps", ()), result.get("Values", ())
                    for at, value in zip(stamps, values, strict=False):
                        ends = at.timestamp() + PERIOD
                        metrics = found.setdefault((node, ends), {})
                        metrics.setdefault(metric, {})[statistic] = float(value)
        newest: dict[Node, float] = {}
        for node, ends in found:
            newest[node] = max(ends, newest.get(node, ends))
        for (node, ends), metrics in found.items():
            before = self._published.get(node)
            if before is None:
                # Of the past only the newest minute counts, without its errors.
                if ends == newest[node]:
                    metrics.pop(ERRORS, None)
                    yield Minute(node, ends, metrics)
            elif ends > before:
                yield Minute(node, ends, metrics)

    def _query(self, index: int, node: Node, metric: str, statistic: str) -> dict[str, Any]:
        dimensions = {
            "ClusterName": self._cluster,
            "InstanceId": node.instance,
            "NodeName": node.name,
        }
        return {
            "Id": f"q{index}",
            "MetricStat": {
                "Metric": {
                    "Namespace": NAMESPACE,
                    "MetricName": metric,
                    "Dimensions": [
                        {"Name": name, "Value": value} for name, value in dimensions.items()
                    ],
                },
                "Period": int(PERIOD),
                "Stat": statistic,
            },
        }
