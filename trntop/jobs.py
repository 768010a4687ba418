"""Jobs across nodes: every node has its own ranks, a job has all of them."""

from collections.abc import Mapping

from trntop.catalog import Entity
from trntop.model import Cluster, NodeView

JOB_HISTORY = (
    "job_step_seconds",
    "job_step_pace_seconds",
    "job_comm_share_ratio",
    "job_exposed_comm_share_ratio",
    "job_tokens_per_second",
)


def job_value(view: NodeView, job: str, quantity: str) -> float | None:
    """One job quantity on one node, None when absent."""
    column = view.frame.columns.get(quantity)
    keys = view.inventory.of(Entity.JOB)
    if column is None or job not in keys:
        return None
    value = float(column[keys.index(job)])
    return None if value != value else value


def job_mean(cluster: Cluster, job: str, quantity: str) -> float | None:
    """Mean of a job quantity over the nodes that report it, None when nobody does."""
    total, count = 0.0, 0
    for name in cluster.jobs.get(job, ()):
        view = cluster.nodes[name]
        column = view.frame.columns.get(quantity)
        if column is not None:
            value = column.item(view.inventory.keys[Entity.JOB].index(job))
            if value == value:
                total += value
                count += 1
    return total / count if count else None


def job_means(cluster: Cluster) -> Mapping[str, float]:
    """The job series that the history keeps: `job/quantity` → mean over its nodes."""
    return {
        f"{job}/{quantity}": mean
        for job in cluster.jobs
        for quantity in JOB_HISTORY
        if (mean := job_mean(cluster, job, quantity)) is not None
    }
