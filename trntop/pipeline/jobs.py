"""Jobs across nodes: every node has its own ranks, a job has all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from trntop.catalog import Entity, Provenance
from trntop.core import units
from trntop.core.model import Allocation, Cluster, Incident, Inventory, NodeView, Phase, Stage

JOB_HISTORY = (
    "job_step_seconds",
    "job_step_pace_seconds",
    "job_comm_share_ratio",
    "job_exposed_comm_share_ratio",
    "job_tokens_per_second",
    "job_tokens_per_second_per_device",
    "job_mfu_ratio",
    "job_loss",
    "job_grad_norm",
)
"""The job quantities of which the history keeps the means."""
PROGRESS_RATES = (
    "job_tokens_per_second",
    "job_tokens_per_second_per_device",
    "job_samples_per_second",
    "job_mfu_ratio",
)
"""What a stalled job has none of, whatever its newest record reports."""
STAGE = "stage"
"""`job/stage` has the index of the stage of a job in STAGES, `/stage` that of all nodes."""
STAGES = tuple(Stage)


MAX_HOLDERS = 3
"""Jobs or containers that are named; the others are counted."""


def holders(inventory: Inventory) -> str:
    """The holders of a node: `job 4711`, `ml/train-0/main (devices 0-3)`, `nobody`.

    Empty where no scheduler reports.
    """
    if inventory.allocations is None:
        return ""
    named = [_holder(allocation, inventory) for allocation in inventory.allocations[:MAX_HOLDERS]]
    if (more := len(inventory.allocations) - len(named)) > 0:
        named.append(f"{more} more")
    return ", ".join(named) or "nobody"


def _holder(allocation: Allocation, inventory: Inventory) -> str:
    """The holder, and its part of the node if that is not everything."""
    name = f"{'job ' * bool(allocation.job)}{allocation.holder}"
    held = inventory.held_devices(allocation)
    if allocation.whole or (held and held == inventory.of(Entity.DEVICE)):
        return name
    if allocation.cores and not allocation.devices:
        return f"{name} (cores {units.ranges(allocation.cores)})"
    return f"{name} (devices {units.ranges(held)})" if held else name


def job_value(view: NodeView, job: str, quantity: str) -> float | None:
    """One job quantity on one node, None when absent."""
    column = view.frame.columns.get(quantity)
    keys = view.inventory.of(Entity.JOB)
    if column is None or job not in keys:
        return None
    value = float(column[keys.index(job)])
    return None if value != value else value


def newest_step(cluster: Cluster, job: str) -> float | None:
    """The newest step that any node of a job reports."""
    newest = np.fmax.reduce(cluster.job_column(job, "job_step"), initial=np.nan)
    return None if newest != newest else float(newest)


def job_mean(cluster: Cluster, job: str, quantity: str) -> float | None:
    """Mean of a job quantity over the nodes that report it, None without any."""
    return means_of(cluster, job, (quantity,)).get(quantity)


def means_of(cluster: Cluster, job: str, quantities: Sequence[str]) -> dict[str, float]:
    """Means of several job quantities over the nodes that report them.

    Where only the worst nodes are shown, the Prometheus backend's values count: it has the others.
    """
    if cluster.whole is not None and (totals := cluster.whole.jobs.get(job)) is not None:
        return {name: totals[name] for name in quantities if name in totals}
    means = {}
    for quantity in quantities:
        values = cluster.job_column(job, quantity)
        if known := values[~np.isnan(values)].tolist():
            means[quantity] = sum(known) / len(known)
    return means


def job_phase(cluster: Cluster, job: str) -> Phase | None:
    """What a job is doing; without a job, what most nodes are doing.

    Where the rules do not see the whole job, its nodes' phases decide: what any of its processes
    announced, as not all of them need to, else what most nodes do.
    """
    if job and (phase := cluster.phases.get(job)) is not None:
        return phase
    nodes = cluster.jobs.get(job, ()) if job else cluster.names
    phases = [phase for name in nodes if (phase := cluster.nodes[name].frame.phase) is not None]
    stages = [phase.stage for phase in phases]
    stage = max(STAGES, key=stages.count)
    reported = (phase.stage for phase in phases if phase.provenance is Provenance.REPORTED)
    stage = next(reported, stage)
    found = (phase for phase in phases if phase.stage is stage)
    return min(found, key=lambda phase: phase.since or float("inf"), default=None)


def with_stalled(
    cluster: Cluster, incidents: Iterable[Incident], job_of: Mapping[str, str]
) -> Cluster:
    """The cluster in which the nodes of jobs with an open hang are stalled, without rates.

    Args:
        cluster: of one tick.
        incidents: of the same tick.
        job_of: node → its job, also while the job reports nothing.
    """
    phases = {
        incident.job: Phase(
            Stage.STALLED,
            incident.opened_at,
            "no progress",
        )
        for incident in incidents
        if incident.open and incident.kind == "hang" and incident.job is not None
    }
    if not phases:
        return cluster
    nodes = dict(cluster.nodes)
    for name, job in job_of.items():
        if name in nodes and (phase := phases.get(job)) is not None:
            frame = nodes[name].frame
            columns = {k: v for k, v in frame.columns.items() if k not in PROGRESS_RATES}
            reasons = {**frame.reasons, **dict.fromkeys(PROGRESS_RATES, phase.why)}
            frame = replace(frame, columns=columns, reasons=reasons, phase=phase)
            nodes[name] = replace(nodes[name], frame=frame)
    return replace(cluster, nodes=nodes, phases={**cluster.phases, **phases})


def job_means(cluster: Cluster) -> Mapping[str, float]:
    """The series that the history keeps: `job/quantity` → mean over its nodes; and the stages.

    Of a cluster behind a Prometheus backend also `/quantity` → value over all nodes.
    """
    means = {
        f"{job}/{quantity}": mean
        for job in cluster.jobs
        for quantity, mean in means_of(cluster, job, JOB_HISTORY).items()
    }
    if cluster.whole is not None:
        means.update((f"/{name}", value) for name, value in cluster.whole.values.items())
    for job in (*cluster.jobs, ""):
        if (phase := job_phase(cluster, job)) is not None:
            means[f"{job}/{STAGE}"] = float(STAGES.index(phase.stage))
    return means
