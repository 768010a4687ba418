"""What is asked of a server that has trntop's own series: never more than the screen needs.

Of a cluster of up to `MAX_WHOLE` nodes every node's roll-ups are asked for. Of a larger one only
what recording rules have summed up, and the worst nodes: their cost is that of the screen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trntop.catalog import CATALOG, METRIC_PREFIX, Entity, Kind, Page, page_of
from trntop.history import KEPT

from . import nodes
from .selectors import Scope, one_of

MAX_WHOLE = 1000
"""Nodes of which all are shown."""
MAX_CARDS = 256
"""Nodes of which all cards are asked for; of more, those of the nodes that resend most."""
SOME_CARDS = 64
"""How many these are."""
MAX_SHOWN = 200
"""Nodes that are shown of more."""
CANDIDATES = 40
"""The worst by each measure that are looked at."""
MAX_QUERIES = 10
"""Questions in one refresh, at most; `tests` count them."""
MIN_WINDOW = 60.0
"""Seconds in which a counter's two newest samples are looked for, at least; one may be missing."""
SAMPLES = 4

CLUSTER = f"cluster:{METRIC_PREFIX}"
TRAINING = f"training_job:{METRIC_PREFIX}"
UTILIZATION = "node_neuroncore_utilization_mean_ratio"
_ENGINES = "node_tensor_engine_busy_mean_ratio"
_MEMORY = "node_device_memory_used_max_ratio"
_BANDWIDTH = "node_hbm_bandwidth_ratio"
_TRANSMIT = "node_efa_tx_bytes_per_second"
RETRANSMIT = "node_efa_retransmit_max_ratio"
COMPLETED = "node_executions_completed_per_second"
OVER_NODES: Mapping[str, str] = {
    UTILIZATION: "mean",
    _ENGINES: "mean",
    _MEMORY: "max",
    _BANDWIDTH: "mean",
    _TRANSMIT: "sum",
}
"""Quantities of all nodes together, and how they become one."""
_OF_JOBS = (
    "job_step", "job_ranks", "job_step_seconds", "job_comm_share_ratio",
    "job_exposed_comm_share_ratio", "job_tokens_per_second", "job_loss", "job_mfu_ratio",
)  # fmt: skip
_LIVE_OF_JOBS = ("job_step_seconds", "job_comm_share_ratio")
_LIVE_ENDS = ("resent most", "least used")
"""What is asked of a large cluster whose sums nobody records."""
_SLOW = f"node:{METRIC_PREFIX}job_compute_seconds:ratio_to_median"
_OPENED = f"{METRIC_PREFIX}incident_opened_timestamp_seconds"
_TALLY = f"{METRIC_PREFIX}incidents"
_HELD = f"incident:{_OPENED}:held"
_INCIDENT = ("kind", "severity", "training_job", "node", "component", "provenance")
_TX, _RESENT = f"{METRIC_PREFIX}efa_tx_bytes_total", f"{METRIC_PREFIX}efa_retransmit_ratio"
_ABOUT = (nodes.INSTANCE, nodes.PHASE, nodes.JOB, nodes.ALLOCATION)
_SUMMARY = tuple(
    one.metric
    for one in CATALOG.values()
    if page_of(one) is Page.METRICS and one.entity in (Entity.NODE, Entity.JOB)
)
_COMPARED = (
    *OVER_NODES,
    "node_efa_rx_bytes_per_second",
    RETRANSMIT,
    "node_efa_cards",
    "node_efa_cards_expected",
    "node_efa_link_bytes_per_second",
    "node_device_power_mean_ratio",
    "node_cpu_busy_ratio",
    "node_devices",
    "node_comm_share_floor_ratio",
    "node_comm_share_ceiling_ratio",
    "node_ecc_uncorrected_events",
    "node_unhealthy_components",
)
"""Node quantities by which all nodes are compared; the others come with all of one node."""
_PAST = tuple(f"{METRIC_PREFIX}{name}" for name in KEPT if CATALOG[name].kind is Kind.GAUGE)


def metric(quantity: str) -> str:
    """The name under which a quantity is scraped."""
    return f"{METRIC_PREFIX}{quantity}"


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions to one server.

    Args:
        scope: the series that the user chose.
        names: the metrics that it has.
        interval: seconds between the samples of a node.
        jobs: the scrape jobs that trntop's pages are of.
    """

    scope: Scope
    names: frozenset[str]
    interval: float
    jobs: tuple[str, ...] = ()

    @property
    def recorded(self) -> bool:
        """Whether recording rules sum up the cluster."""
        return f"{CLUSTER}instance_info:count" in self.names

    @property
    def window(self) -> str:
        """In which a counter's newest samples are looked for."""
        return f"{max(MIN_WINDOW, SAMPLES * self.interval):.0f}s"

    def _rate(self, name: str, *matchers: str) -> str:
        return f"irate({self.scope.of(name, *matchers)}[{self.window}])"

    def count(self) -> str:
        """How many nodes there are: one row for each kind."""
        return f"count by (instance_type, simulated) ({self.scope.of(nodes.INSTANCE)})"

    def whole(self, cards: Iterable[str] | None) -> dict[str, str]:
        """Of all nodes, by what it is about; the first two must be answered.

        Args:
            cards: the nodes whose cards are wanted; None is all, and their silent sources too.
        """
        which = () if cards is None else (one_of("node", cards),)
        asked = {
            "about": self.scope.named(_ABOUT),
            "nodes": self.scope.named(map(metric, _COMPARED)),
            "jobs": self.scope.named(map(metric, _OF_JOBS)),
            "times": f"timestamp({self.scope.of(nodes.INSTANCE)})",
            "completed": self._rate(metric("node_executions_completed_total")),
            "tx": self._rate(_TX, *which),
            "resent": self.scope.of(_RESENT, *which),
        }
        if cards is None:
            asked["silent"] = f"{self.scope.of(nodes.SOURCE_UP)} == 0"
        return asked | self._wrong()

    def cluster(self) -> dict[str, str]:
        """Of a cluster too large for that: its sums, what is wrong, and who may be the worst."""
        asked = {}
        if self.recorded:
            asked["recorded"] = self.scope.like(f"({CLUSTER}|{TRAINING}).+")
        else:
            # Few: some servers refuse to touch more than 300,000 series for one question.
            means = self.scope.named(map(metric, (UTILIZATION, *_LIVE_OF_JOBS)))
            asked["count"] = self.count()
            asked["means"] = f"avg by (__name__, training_job) ({means})"
            asked["traffic"] = f"sum by (__name__) ({self.scope.of(metric(_TRANSMIT))})"
            asked["sizes"] = f"count by (training_job) ({self.scope.of(nodes.JOB)})"
        asked |= self._wrong()
        for key, order, name in (
            ("resent most", "topk", metric(RETRANSMIT)),
            ("least used", "bottomk", metric(UTILIZATION)),
            ("fullest", "topk", metric(_MEMORY)),
            ("slowest", "topk", _SLOW),
        ):
            if self.recorded or key in _LIVE_ENDS:
                asked[key] = f"{order}({CANDIDATES}, {self.scope.of(name)})"
        return asked

    def some(self, labels: Iterable[str]) -> dict[str, str]:
        """Of these nodes only."""
        which = one_of("node", labels)
        names = [*_ABOUT, *_SUMMARY, _RESENT, nodes.SOURCE_UP]
        asked = {
            "nodes": self.scope.named(names, which),
            "times": f"timestamp({self.scope.of(nodes.INSTANCE, which)})",
        }
        if self.recorded:
            asked["tx"] = self._rate(_TX, which)
        return asked

    def _wrong(self) -> dict[str, str]:
        """What agents have found, and which targets the server does not reach."""
        asked = {}
        if self.names.intersection((_TALLY, _OPENED)):
            # The recorded ones outlast whoever reported them.
            found = f"{self.scope.of(_HELD)} or {self.scope.of(_OPENED)}"
            asked["incidents"] = f"min by ({', '.join(_INCIDENT)}) ({found})"
        if self.jobs:
            asked["down"] = f"{self.scope.of('up', one_of('job', self.jobs))} == 0"
        return asked

    def scrape_jobs(self) -> str:
        """Of which scrape jobs trntop's pages are, also where none can be reached now."""
        name = f"{CLUSTER}instance_info:count" if self.recorded else nodes.INSTANCE
        return f"group by (job) (last_over_time({self.scope.of(name)}[1h]))"

    def any_node(self) -> str:
        """One node, whichever."""
        return f"topk(1, {self.scope.of(nodes.INSTANCE)})"

    def samples(self, label: str) -> str:
        """The samples of a node, which tell how often it is scraped."""
        return f"{self.scope.of(nodes.INSTANCE, one_of('node', (label,)))}[5m]"

    def node(self, label: str) -> dict[str, str]:
        """All of one node."""
        which = one_of("node", (label,))
        return {
            "all": self.scope.like(f"{METRIC_PREFIX}.+|{nodes.SOURCE_UP}", which),
            "counters": f"{self.scope.like(f'{METRIC_PREFIX}.+_total', which)}[{self.window}]",
            "times": f"timestamp({self.scope.of(nodes.INSTANCE, which)})",
        }

    def past(self, labels: Iterable[str] | None) -> dict[str, str]:
        """Series over time: of these nodes; with None of the cluster and its jobs."""
        if labels is not None:
            return {"nodes": self.scope.named(_PAST, one_of("node", labels))}
        if self.recorded:
            return {"recorded": self.scope.like(f"({CLUSTER}|{TRAINING}).+")}
        asked = {}
        for how in ("avg", "sum", "max"):
            names = [
                metric(name)
                for name, combined in OVER_NODES.items()
                if combined == {"avg": "mean"}.get(how, how)
            ]
            asked[how] = f"{how} by (__name__) ({self.scope.named(names)})"
        jobs = self.scope.named(map(metric, _OF_JOBS))
        return asked | {"jobs": f"avg by (__name__, training_job) ({jobs})"}
