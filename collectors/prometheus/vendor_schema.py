"""Nodes of which there are only other people's series: AWS's exporter of neuron-monitor, its EFA
exporter, the CloudWatch agent.

Their names are few and say little: utilization, memory, latency, traffic; no job, no incident. One
metric comes on two scales, 0 to 1 from the exporter and 0 to 100 from the agent.
https://awsdocs-neuron.readthedocs-hosted.com/en/latest/tools/neuron-sys-tools/neuron-monitor-user-guide.html
"""

from collections.abc import Iterable, Iterator, Mapping

from trntop.catalog import METRIC_PREFIX
from trntop.core.text import clean

from .capabilities import Capabilities
from .client import Labels
from .nodes import OF_CARDS, OF_PARTS, Draft, Drafts, Node
from .publisher import Publisher
from .queries import window
from .query_client import SECONDS, QueryClient
from .selectors import Scope, quoted
from .sums import Sums

_BY = "instance, NodeName, InstanceId"
"""What tells nodes apart; Prometheus has the first, the CloudWatch agent the others."""
_FACTS = ("instance_type", "instance_id", "instance_name", "availability_zone", "region")
_HARDWARE = ("neuron_hardware_info", "neuron_hardware")
_EFA = "node_amazonefa_tx_bytes"
_CORE = "neuroncore_utilization_ratio"
_PERCENT = 1.5
"""A share above this is none: it is counted to 100."""
PERCENT_NOTE = f"{_CORE} goes to 100 there: read as percent"
_SHARES = (
    "node_neuroncore_utilization_mean_ratio",
    "node_neuroncore_utilization_min_ratio",
    "node_neuroncore_utilization_max_ratio",
    "neuroncore_utilization_ratio",
)

_EXPRESSIONS: Mapping[str, tuple[str, str]] = {
    "node_neuroncore_utilization_mean_ratio": (_CORE, "avg by (BY) (SEL)"),
    "node_neuroncore_utilization_min_ratio": (_CORE, "min by (BY) (SEL)"),
    "node_neuroncore_utilization_max_ratio": (_CORE, "max by (BY) (SEL)"),
    "node_neuroncores_busy": (_CORE, "count by (BY) (SEL > 0)"),
    "node_executions_completed_per_second": (
        'execution_status_total{status_type="completed"}', "sum by (BY) (irate(SEL[WINDOW]))",
    ),
    "node_total_latency_p99_seconds": (
        'execution_latency_seconds{percentile="p99"}', "max by (BY) (SEL)",
    ),
    "node_total_latency_p50_seconds": (
        'execution_latency_seconds{percentile="p50"}', "max by (BY) (SEL)",
    ),
    "node_device_memory_used_bytes": (
        'neuron_runtime_memory_used_bytes{memory_location="neuron_device"}', "sum by (BY) (SEL)",
    ),
    "node_efa_tx_bytes_per_second": (
        _EFA, "sum by (BY) (irate(SEL[WINDOW]))",
    ),
    "node_efa_rx_bytes_per_second": (
        "node_amazonefa_rx_bytes", "sum by (BY) (irate(SEL[WINDOW]))",
    ),
    "node_efa_cards": (_EFA, "count by (BY) (SEL)"),
}  # fmt: skip
"""Quantity → the metric it is made of, with its own matcher, and how."""

TELLING = frozenset((_CORE, *_HARDWARE, _EFA))
"""Any of these tells of a Trainium node."""
NAMES = TELLING | {metric.partition("{")[0] for metric, _ in _EXPRESSIONS.values()}
"""The metrics of which it matters whether a server has them."""


class VendorSchema:
    """Asks for nodes by others' names.

    Args:
        asker: asks.
        teller: hands on.
        scope: the series that the user chose.
        found: what the engine has.
    """

    def __init__(
        self, query_client: QueryClient, publisher: Publisher, scope: Scope, found: Capabilities
    ) -> None:
        self._query_client = query_client
        self._publisher = publisher
        self._scope = scope
        self._names = found.names
        self._window = window(found.interval)
        self._places: dict[str, str] = {}
        """Name of a node → the label that selects it."""
        self._percent = False
        """Whether shares are counted to 100: seen once, it is so also while all are idle."""
        self._drafts = Drafts()

    def set_interval(self, interval: float) -> None:
        """Takes how often nodes are scraped now."""
        self._window = window(interval)

    async def refresh(self, at: float, _focus: str | None) -> None:
        """One look at everything.

        Raises:
            BackendError: it cannot be had.
        """
        answers = await self._query_client.refresh(self._all(), at, ("values", "times"))
        self._percent |= any(
            value > _PERCENT
            for labels, value in answers.rows("values")
            if labels.get("quantity") in _SHARES
        )
        drafts = Drafts()
        drafts.add(_as_own(answers.rows("values"), 100.0 if self._percent else 1.0))
        for labels, _ in (*answers.rows("values"), *answers.rows("about")):
            name, place = place_of(labels)
            self._places.setdefault(clean(name), place)
            if name and (draft := drafts.of({"node": name})) is not None:
                _learn(draft, labels)
        drafts.add_times(
            ({"node": place_of(labels)[0]}, stamp) for labels, stamp in answers.rows("times")
        )
        self._query_client.notes += [PERCENT_NOTE] * self._percent
        total = Sums()
        total.take_nodes(drafts.nodes.values(), at - self._publisher.patience)
        await self._publisher.publish(drafts, at, OF_CARDS, {})
        self._publisher.publish_summary(total, self._publisher.roster(at), 0, None)
        self._drafts = drafts

    async def drill(self, node: Node, at: float) -> None:
        """Tells the cores of one node.

        Raises:
            BackendError: they cannot be had.
        """
        draft = self._drafts.nodes.get(node.label)
        place, _, value = self._places.get(node.name, "").partition("=")
        if draft is None or draft.time is None or not place or _CORE not in self._names:
            return
        selector = self._scope.of(_CORE, f"{place}={quoted(value)}")
        queries = {"cores": f"max by ({_BY}, neuroncore) ({selector})"}
        found = await self._query_client.at_once(queries, at, SECONDS)
        drafts = Drafts()
        drafts.nodes[node.label] = draft
        scale = 100.0 if self._percent else 1.0
        drafts.add_as(
            "neuroncore_utilization_ratio",
            (
                ({"node": node.label, "neuroncore": labels.get("neuroncore", "")}, share / scale)
                for labels, share in found.rows("cores")
            ),
        )
        self._publisher.whole = node.name
        self._publisher.send(node, draft, draft.time, OF_PARTS)

    def _selector(self, metric: str) -> str:
        name, _, matchers = metric.partition("{")
        return self._scope.of(name, *filter(None, (matchers.removesuffix("}"),)))

    def _all(self) -> dict[str, str]:
        """Of all nodes."""
        parts = []
        for quantity, (metric, how) in _EXPRESSIONS.items():
            if metric.partition("{")[0] in self._names:
                text = (
                    how.replace("BY", _BY)
                    .replace("SEL", self._selector(metric))
                    .replace("WINDOW", self._window)
                )
                parts.append(f"label_replace({text}, {quoted('quantity')}, {quoted(quantity)}, "
                             f'"", "")')  # fmt: skip
        times = " or ".join(f"timestamp({self._selector(name)})" for name in sorted(self._names))
        facts = " or ".join(
            self._selector(name) for name in (_CORE, *_HARDWARE) if name in self._names
        )
        asked = {"values": " or ".join(parts), "times": f"max by ({_BY}) ({times})"}
        if facts:
            asked["about"] = f"group by ({_BY}, {', '.join(_FACTS)}) ({facts})"
        return {key: text for key, text in asked.items() if text}


def place_of(labels: Labels) -> tuple[str, str]:
    """A node's name, and the label that selects it: `trn-001`, `instance=trn-001:8000`."""
    if node := labels.get("NodeName"):
        return node, f"NodeName={node}"
    if target := labels.get("instance"):
        host, colon, port = target.rpartition(":")
        return (host if colon and port.isdigit() else target), f"instance={target}"
    machine = labels.get("InstanceId", "")
    return machine, f"InstanceId={machine}"


def _as_own(rows: Iterable[tuple[Labels, float]], whole: float) -> Iterator[tuple[Labels, float]]:
    """The values as rows of trntop's metrics; shares are counted to `whole` there."""
    for labels, value in rows:
        quantity = labels.get("quantity", "")
        name, _ = place_of(labels)
        named = {"__name__": f"{METRIC_PREFIX}{quantity}", "node": name}
        yield named, value / whole if quantity in _SHARES else value


def _learn(draft: Draft, labels: Labels) -> None:
    """Takes what the labels of a series tell of its machine."""
    for name in _FACTS:
        if text := labels.get(name):
            draft.facts.setdefault(name, clean(text))
