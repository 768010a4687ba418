"""Nodes whose ranks report their steps, for what draws ranks."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tests.builders import NOON, make_node, view_of
from trntop.catalog import Entity
from trntop.core.model import Column, Incident, NodeView, View
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.pipeline.jobs import job_means
from trntop.tui.view_model import ViewModel

JOB = "pretrain-13b"
STEP, COMPUTE, COVERED = 4.0, 3.0, 0.5
"""Seconds of a step, of compute in it, and of what communication compute covers."""


def node_with_ranks(
    index: int,
    compute: Sequence[float],
    *,
    job: str = JOB,
    step: float = 1204,
    stage: Sequence[float] | None = None,
    comm: bool = True,
) -> NodeView:
    """A node with one rank for each compute time; a rank waits for what is left of the step."""
    ranks = len(compute)
    worked = np.array(compute)
    waits = STEP - worked
    columns = {
        "rank_step": np.full(ranks, float(step)),
        "rank_step_seconds": np.full(ranks, STEP),
        "rank_compute_seconds": worked,
    }
    if comm:
        columns["rank_comm_seconds"] = waits + COVERED
        columns["rank_exposed_comm_seconds"] = waits
    if stage is not None:
        columns["rank_pipeline_stage"] = np.array(stage, np.float64)
    return with_ranks(make_node(index, jobs=(job,)), job, ranks * index, columns)


def with_ranks(node: NodeView, job: str, first: int, columns: Mapping[str, Column]) -> NodeView:
    """The same node with ranks from `first` on, and their columns."""
    ranks = len(next(iter(columns.values())))
    # Sorted as text, as the nodes' own keys are.
    names = sorted(f"{job}/{first + rank}" for rank in range(ranks))
    order = [int(name.rpartition("/")[2]) - first for name in names]
    ordered = {name: values[order] for name, values in columns.items()}
    keys = {**node.inventory.keys, Entity.RANK: tuple(names)}
    return NodeView(
        dataclasses.replace(node.inventory, keys=keys),
        dataclasses.replace(node.frame, columns={**node.frame.columns, **ordered}),
    )


def nodes_with_ranks(
    nodes: int = 2, ranks: int = 4, slow: Mapping[tuple[int, int], float] | None = None
) -> list[NodeView]:
    """Nodes of even ranks but for those in `slow`: (node, rank) → seconds of compute."""
    return [
        node_with_ranks(index, [(slow or {}).get((index, rank), COMPUTE) for rank in range(ranks)])
        for index in range(nodes)
    ]


def view_model_of(
    *nodes: NodeView, incidents: Sequence[Incident] = (), history: History | None = None
) -> ViewModel:
    """A picture of these nodes, with a minute of history of the same unless another is given."""
    view = view_of(*nodes, incidents=incidents)
    return ViewModel(
        view=view, history=history or constant_history(view), limits=Analysis(), utc=True
    )


def constant_history(view: View, seconds: int = 60) -> History:
    """A history in which all was as in `view`."""
    recorded = History(1000)
    for second in range(seconds, -1, -1):
        object.__setattr__(view.cluster, "time", NOON - second)
        recorded.append(view.cluster, job_means(view.cluster))
    return recorded
