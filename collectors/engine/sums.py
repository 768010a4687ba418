"""What is true of the cluster as a whole: from recorded series, from sums, or from all nodes."""

import operator
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from trntop.catalog import CATALOG, METRIC_PREFIX
from trntop.text import clean

from .client import Labels
from .nodes import Draft
from .questions import CLUSTER, OVER_NODES, TRAINING, UTILIZATION

Rows = Iterable[tuple[Labels, float]]

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

    def take_recorded(self, rows: Rows) -> None:
        """Takes what recording rules summed up; several rows are several clusters, or jobs."""
        rows = list(rows)
        cores = {_place(labels): value for labels, value in rows if _name(labels) == _CORES}
        used: list[tuple[float, float]] = []
        for labels, value in rows:
            name = _name(labels)
            if name == _COUNT:
                self.nodes += int(value)
                self.simulated |= labels.get("simulated") == "true"
            elif name == _SHARE:
                used.append((value, cores.get(_place(labels), 1.0)))
            elif name.startswith(CLUSTER):
                self._cluster(name.removeprefix("cluster:"), value)
            elif name.startswith(TRAINING):
                self._job(name, labels, value)
        if weight := sum(count for _, count in used):
            self.values[UTILIZATION] = sum(share * count for share, count in used) / weight

    def _cluster(self, name: str, value: float) -> None:
        """`trn_node_devices:sum` and the like."""
        metric, _, how = name.rpartition(":")
        quantity = metric.removeprefix(METRIC_PREFIX)
        if quantity not in CATALOG or how not in _COMBINED:
            return
        before = self.values.get(quantity)
        self.values[quantity] = value if before is None else _COMBINED[how](before, value)

    def _job(self, name: str, labels: Labels, value: float) -> None:
        job = clean(labels.get("training_job", ""))
        metric, _, how = name.removeprefix("training_job:").rpartition(":")
        quantity = _NODES if name == _JOB_COUNT else _JOB_SHARES.get(name)
        if quantity is None and how == ("max" if metric.endswith("_step") else "avg"):
            quantity = metric.removeprefix(METRIC_PREFIX)
        if job and quantity is not None:
            self.jobs.setdefault(job, {})[quantity] = value

    def take_counted(self, rows: Rows) -> None:
        """Takes how many nodes there are of each kind."""
        for labels, value in rows:
            self.nodes += int(value)
            self.simulated |= labels.get("simulated") == "true"

    def take_combined(self, rows: Rows, sizes: Rows) -> None:
        """Takes means and sums over nodes, and on how many nodes each job is."""
        for labels, value in rows:
            quantity = _name(labels).removeprefix(METRIC_PREFIX)
            job = clean(labels.get("training_job", ""))
            if quantity in CATALOG:
                (self.jobs.setdefault(job, {}) if job else self.values)[quantity] = value
        for labels, count in sizes:
            if job := clean(labels.get("training_job", "")):
                self.jobs.setdefault(job, {})[_NODES] = count

    def take_nodes(self, drafts: Iterable[Draft]) -> None:
        """Takes all nodes themselves."""
        for draft in drafts:
            self.nodes += 1
            self.simulated |= draft.simulated
        drafts = list(drafts)
        for quantity, how in OVER_NODES.items():
            values = [
                value for draft in drafts
                for value in draft.values.get(quantity, {}).values()
            ]  # fmt: skip
            if values:
                self.values[quantity] = float(getattr(np, how)(values))


_COMBINED: Mapping[str, Callable[[float, float], float]] = {
    "sum": operator.add,
    "max": max,
    "min": min,
}


def key_of(labels: Labels) -> str:
    """The name under which the history keeps a series of the cluster or a job; empty for none."""
    name = _name(labels)
    job = clean(labels.get("training_job", ""))
    sums = Sums()
    if ":" in name:
        sums.take_recorded([(labels, 1.0)])
    elif name.startswith(METRIC_PREFIX) and name.removeprefix(METRIC_PREFIX) in CATALOG:
        return f"{job}/{name.removeprefix(METRIC_PREFIX)}"
    if job:
        return next((f"{job}/{one}" for one in sums.jobs.get(job, {}) if one != _NODES), "")
    return next((f"/{one}" for one in sums.values), "")


def _name(labels: Labels) -> str:
    return labels.get("__name__", "")


def _place(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(pair for pair in labels.items() if pair[0] != "__name__")
