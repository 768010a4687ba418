"""Totals of the cluster and its jobs, from recorded series or from all nodes."""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from trntop.catalog import CATALOG, METRIC_PREFIX
from trntop.core.text import clean
from trntop.pipeline.totals import NODES, OVER_NODES, UTILIZATION

from .client import Labels
from .nodes import Draft
from .queries import CLUSTER, TRAINING

Weighted = tuple[float, float]
"""A value, and its weight: a number of nodes or cores."""

_CORES = f"{CLUSTER}node_neuroncores:sum"
_SHARE = f"{CLUSTER}neuroncore_utilization:ratio"
_COUNT = f"{CLUSTER}instance_info:count"
_JOB_COUNT = f"{TRAINING}job_info:count"
_JOB_SHARES = {
    f"{TRAINING}job_comm_share:ratio": "job_comm_share_ratio",
    f"{TRAINING}job_exposed_comm_share:ratio": "job_exposed_comm_share_ratio",
}
_COMBINE: Mapping[str, Callable[[float, float], float]] = {
    "sum": operator.add,
    "max": max,
    "min": min,
}


class Totals:
    """Totals; the methods add values to them."""

    def __init__(self) -> None:
        self.nodes = 0
        self.simulated = False
        self.values: dict[str, float] = {}
        self.jobs: dict[str, dict[str, float]] = {}

    def add_recorded(self, rows: Iterable[tuple[Labels, float]]) -> None:
        """Adds values of recording rules; several rows of a rule are from several scrape jobs."""
        rows = list(rows)
        cores = {_origin(labels): value for labels, value in rows if _name(labels) == _CORES}
        sizes = {_origin(labels): value for labels, value in rows if _name(labels) == _JOB_COUNT}
        shares: list[Weighted] = []
        of_jobs: dict[tuple[str, str], list[Weighted]] = {}
        for labels, value in rows:
            name, origin = _name(labels), _origin(labels)
            if name == _COUNT:
                self.nodes += int(value)
                self.simulated |= labels.get("simulated") == "true"
            elif name == _SHARE:
                shares.append((value, cores.get(origin, 1.0)))
            elif name.startswith(CLUSTER):
                self._add_total(name.removeprefix("cluster:"), value)
            elif quantity := _of_job(name):
                job = clean(labels.get("training_job", ""))
                of_jobs.setdefault((job, quantity), []).append((value, sizes.get(origin, 1.0)))
        if shares:
            self.values[UTILIZATION] = _mean(shares)
        for (job, quantity), parts in of_jobs.items():
            if job:
                combine = _COMBINE_JOB.get(quantity, _mean)
                self.jobs.setdefault(job, {})[quantity] = combine(parts)

    def _add_total(self, name: str, value: float) -> None:
        """Adds a recorded total such as `trn_node_devices:sum`."""
        metric, _, how = name.rpartition(":")
        quantity = metric.removeprefix(METRIC_PREFIX)
        if quantity in CATALOG and how in _COMBINE:
            before = self.values.get(quantity)
            self.values[quantity] = value if before is None else _COMBINE[how](before, value)

    def add_nodes(self, drafts: Iterable[Draft], since: float) -> None:
        """Adds all nodes, and the values of those with samples since a time."""
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


def recorded_history(rows: Sequence[tuple[Labels, float]]) -> Iterator[tuple[str, float]]:
    """Recorded values at one time, by the keys of the history."""
    total = Totals()
    total.add_recorded(rows)
    for job, values in (("", total.values), *total.jobs.items()):
        yield from ((f"{job}/{name}", value) for name, value in values.items() if name in CATALOG)


def _of_job(name: str) -> str | None:
    """The quantity of a recorded value of a job; None for others."""
    if name == _JOB_COUNT:
        return NODES
    metric, _, how = name.partition(TRAINING)[2].rpartition(":")
    if name not in _JOB_SHARES and how == ("max" if metric.endswith("_step") else "avg"):
        return metric
    return _JOB_SHARES.get(name)


def _mean(parts: Sequence[Weighted]) -> float:
    total = sum(weight for _, weight in parts)
    return sum(value * weight for value, weight in parts) / total if total else math.nan


_COMBINE_JOB: Mapping[str, Callable[[Sequence[Weighted]], float]] = {
    NODES: lambda parts: sum(value for value, _ in parts),
    "job_step": lambda parts: max(value for value, _ in parts),
}
"""How the values of one job from several scrape jobs are combined, if not by their mean."""


def _name(labels: Labels) -> str:
    return labels.get("__name__", "")


def _origin(labels: Labels) -> frozenset[tuple[str, str]]:
    return frozenset(pair for pair in labels.items() if pair[0] != "__name__")
