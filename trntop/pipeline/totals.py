"""Totals of a cluster of which not all nodes are at hand: an aggregator's, joined from several."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from trntop.catalog import AGENT
from trntop.core.model import Cluster, ClusterTotals, NodeView, State
from trntop.pipeline.jobs import JOB_HISTORY, means_of, newest_step

UTILIZATION = "node_neuroncore_utilization_mean_ratio"
OVER_NODES: Mapping[str, str] = {
    UTILIZATION: "mean",
    "node_tensor_engine_busy_mean_ratio": "mean",
    "node_device_memory_used_max_ratio": "max",
    "node_hbm_bandwidth_ratio": "mean",
    "node_efa_tx_bytes_per_second": "sum",
}
"""Quantities of the whole cluster → how the values of nodes are combined."""
NODES = "nodes"
"""The number of nodes of a job, among its values."""
_OF_JOBS = {NODES: "sum", "job_step": "max"}
"""How the values of a job are combined, if not by their mean."""


def totals_of(cluster: Cluster) -> ClusterTotals:
    """The totals of all nodes."""
    if cluster.whole is not None:
        return cluster.whole
    values = {name: cluster.over_nodes(name, getattr(np, how)) for name, how in OVER_NODES.items()}
    jobs = {}
    for job, nodes in cluster.jobs.items():
        jobs[job] = {NODES: float(len(nodes)), **means_of(cluster, job, JOB_HISTORY)}
        if (step := newest_step(cluster, job)) is not None:
            jobs[job]["job_step"] = step
    return ClusterTotals(
        nodes=len(cluster.nodes),
        down=sum(map(_is_down, cluster.nodes.values())),
        simulated=cluster.simulated,
        values={name: value for name, value in values.items() if value is not None},
        jobs=jobs,
    )


def joined(parts: Sequence[ClusterTotals]) -> ClusterTotals:
    """The totals of several parts of a cluster."""
    jobs = {
        job: _combined(
            [(known[job], known[job].get(NODES, 1.0)) for known in (part.jobs for part in parts)
             if job in known],
            _OF_JOBS,
        )
        for job in dict.fromkeys(job for part in parts for job in part.jobs)
    }  # fmt: skip
    return ClusterTotals(
        nodes=sum(part.nodes for part in parts),
        down=sum(part.down for part in parts),
        simulated=any(part.simulated for part in parts),
        values=_combined([(part.values, part.nodes) for part in parts], OVER_NODES),
        jobs=jobs,
    )


def lost(totals: ClusterTotals) -> ClusterTotals:
    """What remains of totals that are out of date: the number of nodes."""
    return replace(totals, down=totals.nodes, values={}, jobs={})


def _combined(
    tables: Iterable[tuple[Mapping[str, float], float]], how: Mapping[str, str]
) -> dict[str, float]:
    """One table from several, each with its weight."""
    found: dict[str, list[tuple[float, float]]] = {}
    for table, weight in tables:
        for name, value in table.items():
            found.setdefault(name, []).append((value, weight))
    combined = {}
    for name, pairs in found.items():
        values, weights = zip(*pairs, strict=True)
        if (operation := how.get(name, "mean")) != "mean":
            combined[name] = float(getattr(np, operation)(values))
        elif sum(weights) > 0:
            combined[name] = float(np.average(values, weights=weights))
    return combined


def _is_down(view: NodeView) -> bool:
    agent = next((source for source in view.frame.sources if source.name == AGENT), None)
    return agent is not None and agent.state in (State.DOWN, State.STALE)
