"""What is true of the cluster as a whole: from recorded series, from sums, or from all nodes."""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from trntop.catalog import CATALOG, METRIC_PREFIX
from trntop.core.text import clean

from .client import Labels
from .nodes import Draft
from .queries import CLUSTER, OVER_NODES, TRAINING, UTILIZATION
from .query_client import Rows

Weighed = tuple[float, float]
"""A value, and how many nodes or cores it is of."""

_CORES = f"{CLUSTER}node_neuroncores:sum"
_SHARE = f"{CLUSTER}neuroncore_utilization:ratio"
_COUNT = f"{CLUSTER}instance_info:count"
_JOB_COUNT = f"{TRAINING}job_info:count"
_JOB_SHARES = {
    f"{TRAINING}job_comm_share:ratio": "job_comm_share_ratio",
    f"{TRAINING}job_exposed_comm_share:ratio": "job_exposed_comm_share_ratio",
}
_NODES = "nodes"
"""Among a job's values, how many nodes it is on."""


class Sums:
    """A cluster's values, as they come together."""

    def __init__(self) -> None:
        self.nodes = 0
        self.simulated = False
        self.values: dict[str, float] = {}
        self.jobs: dict[str, dict[str, float]] = {}
        self.shared: list[str] = []
        """Jobs that several clusters tell of."""

    def take_recorded(self, rows: Rows) -> None:
        """Takes what recording rules summed up; several rows are several clusters, or jobs.

        A job that several clusters tell of counts as one, as a job of nodes with the same name
        does.
        """
        rows = list(rows)
        cores = {_place(labels): value for labels, value in rows if _name(labels) == _CORES}
        sizes = {_place(labels): value for labels, value in rows if _name(labels) == _JOB_COUNT}
        used: list[Weighed] = []
        told: dict[tuple[str, str], list[Weighed]] = {}
        for labels, value in rows:
            name, place = _name(labels), _place(labels)
            if name == _COUNT:
                self.nodes += int(value)
                self.simulated |= labels.get("simulated") == "true"
            elif name == _SHARE:
                used.append((value, cores.get(place, 1.0)))
            elif name.startswith(CLUSTER):
                self._cluster(name.removeprefix("cluster:"), value)
            elif quantity := _of_job(name):
                job = clean(labels.get("training_job", ""))
                told.setdefault((job, quantity), []).append((value, sizes.get(place, 1.0)))
        if used:
            self.values[UTILIZATION] = _mean(used)
        for (job, quantity), parts in told.items():
            if job:
                combine = _OF_JOB.get(quantity, _mean)
                self.jobs.setdefault(job, {})[quantity] = combine(parts)
                if quantity == _NODES and len(parts) > 1:
                    self.shared.append(job)

    def _cluster(self, name: str, value: float) -> None:
        """`trn_node_devices:sum` and the like."""
        metric, _, how = name.rpartition(":")
        quantity = metric.removeprefix(METRIC_PREFIX)
        if quantity not in CATALOG or how not in _COMBINED:
            return
        before = self.values.get(quantity)
        self.values[quantity] = value if before is None else _COMBINED[how](before, value)

    def take_counted(self, rows: Rows) -> None:
        """Takes how many nodes there are of each kind."""
        for labels, value in rows:
            self.nodes += int(value)
            self.simulated |= labels.get("simulated") == "true"

    def take_combined(self, rows: Rows, sizes: Rows) -> None:
        """Takes means and sums over nodes, and on how many nodes each job is."""
        for labels, value in rows:
            quantity = _name(labels).partition(METRIC_PREFIX)[2]
            job = clean(labels.get("training_job", ""))
            if quantity in CATALOG:
                (self.jobs.setdefault(job, {}) if job else self.values)[quantity] = value
        for labels, count in sizes:
            if job := clean(labels.get("training_job", "")):
                self.jobs.setdefault(job, {})[_NODES] = count

    def take_nodes(self, drafts: Iterable[Draft], since: float) -> None:
        """Takes all nodes themselves; the values of those that were heard since then."""
        drafts = tuple(drafts)
        self.nodes += len(drafts)
        self.simulated |= any(draft.simulated for draft in drafts)
        for quantity, how in OVER_NODES.items():
            values = [
                value for draft in drafts if (draft.time or -math.inf) >= since
                for value in draft.values.get(quantity, {}).values()
            ]  # fmt: skip
            if values:
                self.values[quantity] = float(getattr(np, how)(values))


_COMBINED: Mapping[str, Callable[[float, float], float]] = {
    "sum": operator.add,
    "max": max,
    "min": min,
}


def past(rows: Sequence[tuple[Labels, float]]) -> Iterator[tuple[str, float]]:
    """What was true of the cluster and its jobs at one moment, by the history's names."""
    total = Sums()
    total.take_recorded(rows)
    total.take_combined(rows, ())
    for job, values in (("", total.values), *total.jobs.items()):
        yield from ((f"{job}/{name}", one) for name, one in values.items() if name in CATALOG)


def _of_job(name: str) -> str | None:
    """The quantity that a recorded value of a job is; None for others."""
    if name == _JOB_COUNT:
        return _NODES
    metric, _, how = name.partition(TRAINING)[2].rpartition(":")
    if name not in _JOB_SHARES and how == ("max" if metric.endswith("_step") else "avg"):
        return metric
    return _JOB_SHARES.get(name)


def _mean(parts: Sequence[Weighed]) -> float:
    weight = sum(one for _, one in parts)
    return sum(value * one for value, one in parts) / weight if weight else math.nan


_OF_JOB: Mapping[str, Callable[[Sequence[Weighed]], float]] = {
    _NODES: lambda parts: sum(value for value, _ in parts),
    "job_step": lambda parts: max(value for value, _ in parts),
}
"""How the values of one job in several clusters become one; a mean, unless told here."""


def _name(labels: Labels) -> str:
    return labels.get("__name__", "")


def _place(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(pair for pair in labels.items() if pair[0] != "__name__")
