"""What is asked of a server that has trntop's own series: never more than the screen needs.

Of a cluster of up to `MAX_WHOLE` nodes every node's roll-ups are asked for. Of a larger one only
what recording rules have summed up, and the worst nodes: their cost is that of the screen.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trntop.catalog import CATALOG, METRIC_PREFIX, Kind
from trntop.pipeline.history import KEPT

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
"""The worst by each measure that are looked at, where no rule records them."""
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
_SLOW = f"node:{METRIC_PREFIX}job_compute_seconds:ratio_to_median"
LEAST, MOST = "bottomk", "topk"
_ENDS = (
    (f"{METRIC_PREFIX}{RETRANSMIT}", MOST),
    (_SLOW, MOST),
    (f"{METRIC_PREFIX}{UTILIZATION}", LEAST),
    (f"{METRIC_PREFIX}{_MEMORY}", MOST),
)
"""The measures by which a node may be one of the worst, and which of its ends is bad."""
_LIVE_OF_JOBS = ("job_step_seconds", "job_comm_share_ratio")
_LIVE_ENDS = (_ENDS[0], _ENDS[2])
"""What is asked of a large cluster whose sums nobody records."""
_OPENED = f"{METRIC_PREFIX}incident_opened_timestamp_seconds"
_TALLY = f"{METRIC_PREFIX}incidents"
_HELD = f"incident:{_OPENED}:held"
_INCIDENT = ("kind", "severity", "training_job", "node", "component", "provenance")
_TX, _RESENT = f"{METRIC_PREFIX}efa_tx_bytes_total", f"{METRIC_PREFIX}efa_retransmit_ratio"
_ABOUT = (nodes.PHASE, nodes.JOB, nodes.ALLOCATION)
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


def window(interval: float) -> str:
    """In which the newest samples of a counter are looked for that is scraped so often."""
    return f"{max(MIN_WINDOW, SAMPLES * interval):.0f}s"


def metric(quantity: str) -> str:
    """The name under which a quantity is scraped."""
    return f"{METRIC_PREFIX}{quantity}"


def _recorded_end(name: str, order: str) -> str:
    """The name under which a rule records the worst nodes by a measure."""
    return f"{name}_{order}" if name.startswith("node:") else f"node:{name}:{order}"


_RECORDED_ENDS = {_recorded_end(name, order): order for name, order in _ENDS}
ENDS = _RECORDED_ENDS | dict(_ENDS)
"""Name of a measure, recorded or not → the end that is bad."""
RECORDED = frozenset((f"{CLUSTER}instance_info:count", *_RECORDED_ENDS))
"""The recorded values of which it matters whether a server has them."""
NAMES = RECORDED | {nodes.INSTANCE, _TALLY, _OPENED}
"""The metrics of which it matters."""


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
    def ends_recorded(self) -> bool:
        """Whether they find the worst nodes too; those of before did not."""
        return not self.names.isdisjoint(_RECORDED_ENDS)

    def _rate(self, name: str, *matchers: str) -> str:
        return f"irate({self.scope.of(name, *matchers)}[{window(self.interval)}])"

    def _times(self, *matchers: str) -> str:
        """When nodes were heard; the labels tell what they are."""
        return f"timestamp({self.scope.of(nodes.INSTANCE, *matchers)})"

    def count(self) -> str:
        """How many nodes there are: one row for each kind."""
        return f"count by (instance_type, simulated) ({self.scope.of(nodes.INSTANCE)})"

    def whole(self, cards: Sequence[str] | None) -> dict[str, str]:
        """Of all nodes, by what it is about. What the nodes are like and how old that is
        (`nodes`, `times`) must be answered; of the others what is missing is said.

        Args:
            cards: the nodes whose cards are wanted; None is all, and their silent sources too.
        """
        asked = {
            "about": self.scope.named(_ABOUT),
            "nodes": self.scope.named(map(metric, _COMPARED)),
            "jobs": self.scope.named(map(metric, _OF_JOBS)),
            "times": self._times(),
            "completed": self._rate(metric("node_executions_completed_total")),
        }
        if cards is None or cards:
            which = () if cards is None else (one_of("node", cards),)
            asked["tx"] = self._rate(_TX, *which)
            asked["resent"] = self.scope.of(_RESENT, *which)
        if cards is None:
            asked["silent"] = f"{self.scope.of(nodes.SOURCE_UP)} == 0"
        return asked | self._wrong()

    def cluster(self) -> dict[str, str]:
        """Of a cluster too large for that: its sums, and what is wrong."""
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
        return asked

    def worst(self) -> dict[str, str]:
        """Who may be the worst: recorded, else found by looking at all."""
        if self.ends_recorded:
            return {"worst": self.scope.named(_RECORDED_ENDS)}
        return {
            f"worst by {name}": f"{order}({CANDIDATES}, {self.scope.of(name)})"
            for name, order in (_ENDS if self.recorded else _LIVE_ENDS)
        }

    def some(self, labels: Sequence[str]) -> dict[str, str]:
        """Of these nodes only; nothing where there is none."""
        if not labels:
            return {}
        which = one_of("node", labels)
        names = [*_ABOUT, *map(metric, (*_COMPARED, *_OF_JOBS)), _RESENT, nodes.SOURCE_UP]
        asked = {
            "nodes": self.scope.named(names, which),
            "times": self._times(which),
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
        counters = self.scope.like(f"{METRIC_PREFIX}.+_total", which)
        return {
            "all": self.scope.like(f"{METRIC_PREFIX}.+|{nodes.SOURCE_UP}", which),
            "counters": f"{counters}[{window(self.interval)}]",
            "times": self._times(which),
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
