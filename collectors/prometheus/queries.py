"""The queries for a refresh, for one node and for history.

Up to `MAX_ALL` nodes, all of them are queried; with more, the values of recording rules and the
worst nodes, so that the cost does not grow with the cluster.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from trntop.catalog import CATALOG, METRIC_PREFIX, Kind
from trntop.pipeline.history import KEPT
from trntop.pipeline.totals import OVER_NODES, UTILIZATION

from . import nodes
from .client import BackendError, Client

MAX_ALL = 1000
"""Nodes up to which all are shown."""
MAX_EFA_NODES = 256
"""Nodes up to which all EFA devices are queried."""
SOME_EFA_NODES = 64
"""With more nodes, the EFA devices of this many are queried: those with the most retransmits."""
MAX_JOBS = 100
"""Scrape jobs: each query names them."""
MAX_SHOWN = 200
"""Nodes shown of a cluster with more than `MAX_ALL`."""
MIN_WINDOW = 60.0
"""Minimum window, in seconds, for the two newest samples of a counter."""
MIN_WINDOW_INTERVALS = 4
"""The same, in scrape intervals."""
DEFAULT_INTERVAL = 15.0
"""Scrape interval in seconds if it cannot be measured."""
PROBE_SECONDS = 20.0
"""Timeout of the queries of `probe`."""

CLUSTER = f"cluster:{METRIC_PREFIX}"
TRAINING = f"training_job:{METRIC_PREFIX}"
RULES = "the recording rules of `trntop rules prometheus`"
RETRANSMIT = "node_efa_retransmit_max_ratio"
COMPLETED = "node_executions_completed_per_second"
_MEMORY = "node_device_memory_used_max_ratio"
_OF_JOBS = (
    "job_step", "job_ranks", "job_step_seconds", "job_comm_share_ratio",
    "job_exposed_comm_share_ratio", "job_tokens_per_second", "job_loss", "job_mfu_ratio",
)  # fmt: skip
LEAST, MOST = "bottomk", "topk"
WORST = {
    f"node:{METRIC_PREFIX}{RETRANSMIT}:{MOST}": MOST,
    f"node:{METRIC_PREFIX}job_compute_seconds:ratio_to_median_{MOST}": MOST,
    f"node:{METRIC_PREFIX}{UTILIZATION}:{LEAST}": LEAST,
    f"node:{METRIC_PREFIX}{_MEMORY}:{MOST}": MOST,
}
"""Recorded worst nodes by each quantity → which values are the worst."""
_COUNT = f"{CLUSTER}instance_info:count"
RECORDED = frozenset((_COUNT, *WORST))
_OPENED = f"{METRIC_PREFIX}incident_opened_timestamp_seconds"
_INCIDENT_COUNT = f"{METRIC_PREFIX}incidents"
_RECORDED_INCIDENTS = f"incident:{_OPENED}:held"
_INCIDENT = "kind, severity, training_job, node, component, provenance"
_TX, _RETRANSMITTED = f"{METRIC_PREFIX}efa_tx_bytes_total", f"{METRIC_PREFIX}efa_retransmit_ratio"
_NODE_FACTS = (nodes.PHASE, nodes.JOB, nodes.ALLOCATION)
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
"""Quantities queried for all nodes; the others only for a selected node."""
_HISTORY = tuple(f"{METRIC_PREFIX}{name}" for name in KEPT if CATALOG[name].kind is Kind.GAUGE)
NAMES = RECORDED | {nodes.INSTANCE, _INCIDENT_COUNT, _OPENED}
"""The metrics whose presence changes the queries."""

# Escapes only what is special in a regular expression: with more, Prometheus does not recognize a
# list of words and compares it with each series.
_SPECIAL = re.compile(r"([.+*?()|\[\]{}^$\\])")


def quoted(text: str) -> str:
    """A PromQL string literal."""
    inside = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{inside}"'


def one_of(label: str, values: Iterable[str]) -> str:
    """The matcher for a label with one of these values.

    Raises:
        ValueError: there is no value; in PromQL that would match all series without the label.
    """
    words = [_SPECIAL.sub(r"\\\1", value) for value in values]
    if not any(words):
        raise ValueError(f"no value of {label}")
    return f"{label}=~{quoted('|'.join(words))}"


def _metrics(quantities: Iterable[str]) -> list[str]:
    return [f"{METRIC_PREFIX}{name}" for name in quantities]


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries to one backend.

    Args:
        match: the user's label matchers, joined by commas.
        names: the metrics of `NAMES` that the backend has.
        interval: seconds between the samples of a node.
        jobs: the scrape jobs of trntop's pages.
    """

    match: str
    names: frozenset[str]
    interval: float = DEFAULT_INTERVAL
    jobs: tuple[str, ...] = ()

    @property
    def recorded(self) -> bool:
        """Whether the recording rules are loaded."""
        return _COUNT in self.names and not self.names.isdisjoint(WORST)

    @property
    def window(self) -> str:
        """The range that includes the two newest samples of a counter."""
        return f"{max(MIN_WINDOW, MIN_WINDOW_INTERVALS * self.interval):.0f}s"

    def select(self, name: str, *matchers: str) -> str:
        """The selector of one metric."""
        inside = ",".join(filter(None, (self.match, *matchers)))
        return f"{name}{{{inside}}}" if inside else name

    def _named(self, names: Iterable[str], *matchers: str) -> str:
        return self.select("", one_of("__name__", sorted(names)), *matchers)

    def _like(self, pattern: str, *matchers: str) -> str:
        return self.select("", f"__name__=~{quoted(pattern)}", *matchers)

    def _rate(self, name: str, *matchers: str) -> str:
        return f"irate({self.select(name, *matchers)}[{self.window}])"

    def _times(self, *matchers: str) -> str:
        """The times of the newest samples, with the facts of the nodes as labels."""
        return f"timestamp({self.select(nodes.INSTANCE, *matchers)})"

    def count(self) -> str:
        """The number of nodes."""
        return f"count({self.select(nodes.INSTANCE)})"

    def all_nodes(self, efa_nodes: Sequence[str] | None) -> dict[str, str]:
        """All nodes.

        Args:
            efa_nodes: the nodes whose EFA devices are queried; None for all, and for all sources
            that are down.
        """
        queries = {
            "about": self._named(_NODE_FACTS),
            "nodes": self._named(_metrics(_COMPARED)),
            "jobs": self._named(_metrics(_OF_JOBS)),
            "times": self._times(),
            "completed": self._rate(f"{METRIC_PREFIX}node_executions_completed_total"),
        }
        if efa_nodes is None or efa_nodes:
            which = () if efa_nodes is None else (one_of("node", efa_nodes),)
            queries["tx"] = self._rate(_TX, *which)
            queries["retransmitted"] = self.select(_RETRANSMITTED, *which)
        if efa_nodes is None:
            queries["silent"] = f"{self.select(nodes.SOURCE_UP)} == 0"
        return queries | self._problems()

    def totals(self) -> dict[str, str]:
        """A large cluster: its totals and its worst nodes."""
        return {
            "recorded": self._like(f"({CLUSTER}|{TRAINING}).+"),
            "worst": self._named(WORST),
            **self._problems(),
        }

    def some_nodes(self, labels: Sequence[str]) -> dict[str, str]:
        """Some nodes of a large cluster."""
        if not labels:
            return {}
        which = one_of("node", labels)
        names = [*_NODE_FACTS, *_metrics((*_COMPARED, *_OF_JOBS)), _RETRANSMITTED, nodes.SOURCE_UP]
        return {
            "nodes": self._named(names, which),
            "times": self._times(which),
            "tx": self._rate(_TX, which),
        }

    def incidents(self) -> str:
        """The starts of open incidents; empty if there are none to query."""
        if not self.names.intersection((_INCIDENT_COUNT, _OPENED)):
            return ""
        # Recorded incidents outlive the agents that reported them.
        aggregated = f"on (job, instance) ({self.select('trntop_aggregated')} == 1)"
        found = (
            f"{self.select(_RECORDED_INCIDENTS)} or ({self.select(_OPENED)} unless {aggregated})"
        )
        return f"min by ({_INCIDENT}) ({found})"

    def _problems(self) -> dict[str, str]:
        """Incidents, and targets that cannot be scraped."""
        queries = {}
        if query := self.incidents():
            queries["incidents"] = query
        if self.jobs:
            queries["down"] = f"{self.select('up', one_of('job', self.jobs))} == 0"
        return queries

    def node(self, label: str) -> dict[str, str]:
        """Everything about one node."""
        which = one_of("node", (label,))
        counters = self._like(f"{METRIC_PREFIX}.+_total", which)
        return {
            "all": self._like(f"{METRIC_PREFIX}.+|{nodes.SOURCE_UP}", which),
            "counters": f"{counters}[{self.window}]",
            "times": self._times(which),
        }

    def node_history(self, labels: Iterable[str]) -> dict[str, str]:
        """Series of these nodes over time."""
        return {"nodes": self._named(_HISTORY, one_of("node", labels))}

    def total_history(self) -> dict[str, str]:
        """Series of the cluster and its jobs over time."""
        return {"recorded": self._like(f"({CLUSTER}|{TRAINING}).+")} if self.recorded else {}

    def scrape_jobs(self) -> str:
        """The scrape jobs of trntop's pages within the last hour."""
        name = _COUNT if self.recorded else nodes.INSTANCE
        return f"group by (job) (last_over_time({self.select(name)}[1h]))"

    def samples(self, label: str) -> str:
        """The samples of a node, for its scrape interval."""
        return f"{self.select(nodes.INSTANCE, one_of('node', (label,)))}[5m]"


async def probe(client: Client, match: str, now: float) -> Queries:
    """The queries that a server supports.

    Raises:
        BackendError: it does not respond, or has no series of trntop.
    """
    all_names = await client.names(now - 3600.0, now, PROBE_SECONDS)
    queries = Queries(match, all_names & NAMES)
    if nodes.INSTANCE not in queries.names:
        raise BackendError(
            f"it has {len(all_names):,} metrics, but none of trntop within the last hour",
            reprobe=True,
        )
    jobs = (await client.instant(queries.scrape_jobs(), now, PROBE_SECONDS)).series
    if not jobs and queries.recorded:
        # `match` may select by a label of nodes, which recorded values do not have.
        queries = replace(queries, names=queries.names - RECORDED)
        jobs = (await client.instant(queries.scrape_jobs(), now, PROBE_SECONDS)).series
    if not jobs:
        where = f" with {match}" if match else ""
        raise BackendError(f"it has no node of trntop{where} within the last hour", reprobe=True)
    return replace(
        queries,
        jobs=tuple(sorted({row.metric["job"] for row in jobs if row.metric.get("job")})[:MAX_JOBS]),
        interval=await _scrape_interval(client, queries, now),
    )


async def _scrape_interval(client: Client, queries: Queries, now: float) -> float:
    """Seconds between the samples of one node."""
    with suppress(BackendError):
        any_node = f"topk(1, {queries.select(nodes.INSTANCE)})"
        # A server that answers with more than one must not cause a query for each.
        for row in (await client.instant(any_node, now, PROBE_SECONDS)).series[:1]:
            if label := row.metric.get("node"):
                found = await client.instant(queries.samples(label), now, PROBE_SECONDS)
                for series in found.series:
                    gaps = [after - before for (before, _), (after, _) in pairwise(series.values)]
                    if gaps:
                        return max(0.1, round(median(gaps), 1))
    return DEFAULT_INTERVAL
