"""The numbers by which nodes are compared: in columns, filters and sorting.

A measure has one value per node in the base unit of the catalog, and a format for people. Its name
is that of its column and of its field in a filter.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trntop.catalog import CATALOG, Entity
from trntop.core.model import NO_VALUE, Cluster, Column, NodeView

UTILIZATION = "node_neuroncore_utilization_mean_ratio"
TENSOR_ENGINE = "node_tensor_engine_busy_mean_ratio"
MEMORY = "node_device_memory_used_max_ratio"
BANDWIDTH = "node_hbm_bandwidth_ratio"
TRANSMIT = "node_efa_tx_bytes_per_second"
RECEIVE = "node_efa_rx_bytes_per_second"
RETRANSMIT = "node_efa_retransmit_max_ratio"
COMM = "job_comm_share_ratio"
EXPOSED = "job_exposed_comm_share_ratio"
EXECUTIONS = "node_executions_completed_per_second"
STEP = "job_step_seconds"
TOKENS = "job_tokens_per_second"
LOG_STEP = "job_step_pace_seconds"
"""Interval of the steps in the log, if no job reports its step time."""
POWER = "node_device_power_mean_ratio"
PROCESSOR = "node_cpu_busy_ratio"

PERCENT, GIGABIT = 0.01, 1e9 / 8
"""In base units: a ratio, bytes per second."""

_NOTHING = np.empty(0)


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a node."""

    name: str
    title: str
    quantity: str
    unit: str
    """In columns."""
    scale: float
    """The unit in base units."""
    decimals: int
    help: str
    fallback: str = ""
    """The quantity to use if the first is absent."""

    def quantity_of(self, node: NodeView) -> str:
        """The quantity of the value of a node."""
        return (
            self.fallback
            if self.fallback and _value(node, self.quantity) is None
            else self.quantity
        )

    def value(self, node: NodeView) -> float | None:
        """The value of a node; the largest of several jobs."""
        return _value(node, self.quantity_of(node))

    def values(self, cluster: Cluster) -> Column:
        """The values of all nodes, `[node]`, NaN if absent."""
        column = largest(cluster, self.quantity)
        if not self.fallback:
            return column
        return np.where(np.isnan(column), largest(cluster, self.fallback), column)


def job_worst(node: NodeView, quantity: str) -> float | None:
    """A job quantity of a node; the largest of several jobs."""
    column = node.frame.columns.get(quantity)
    known = [] if column is None else [value for value in column.tolist() if value == value]
    return max(known, default=None)


def _value(node: NodeView, quantity: str) -> float | None:
    if CATALOG[quantity].entity is Entity.NODE:
        return node.frame.value(quantity)
    return job_worst(node, quantity)


def parts(cluster: Cluster, quantity: str) -> tuple[Column, npt.NDArray[np.int64]]:
    """The values of all parts of all nodes, `[part]`, and the index of the node of each."""
    columns = [view.frame.columns.get(quantity, _NOTHING) for view in cluster.nodes.values()]
    if not columns:
        return _NOTHING, np.empty(0, np.int64)
    sizes = np.fromiter(map(len, columns), np.int64, len(columns))
    return np.concatenate(columns), np.repeat(np.arange(len(columns)), sizes)


def largest(cluster: Cluster, quantity: str) -> Column:
    """The largest value of a quantity on each node, `[node]`, NaN if absent."""
    if CATALOG[quantity].entity is Entity.NODE:
        return cluster.column(quantity)
    found = np.full(len(cluster.nodes), NO_VALUE)
    values, owner = parts(cluster, quantity)
    np.fmax.at(found, owner, values)
    return found


def _share(name: str, title: str, quantity: str, what: str, decimals: int = 0) -> Measure:
    return Measure(name, title, quantity, "%", PERCENT, decimals, what)


def _rate(name: str, title: str, quantity: str, what: str) -> Measure:
    return Measure(name, title, quantity, "Gb/s", GIGABIT, 0, what)


MEASURES: Mapping[str, Measure] = {
    measure.name: measure
    for measure in (
        _share("util", "util", UTILIZATION, "cores busy or waiting, mean over the cores"),
        _share("te", "TE", TENSOR_ENGINE, "tensor engines busy, mean over the cores and 20 s"),
        _share("hbm", "HBM", MEMORY, "memory in use of the fullest device"),
        _share("hbm_bw", "HBM bw", BANDWIDTH, "share of the peak bandwidth, mean of 20 s"),
        _rate("efa_tx", "EFA tx", TRANSMIT, "sent by all EFA devices"),
        _rate("efa_rx", "EFA rx", RECEIVE, "received by all EFA devices"),
        _share("retx", "retx", RETRANSMIT, "retransmitted packets of the worst EFA device", 1),
        _share("comm", "comm", COMM, "share of a step in which a collective runs"),
        _share("exposed", "exposed", EXPOSED, "share of a step spent in collectives alone"),
        Measure("step", "step", STEP, "s", 1.0, 2, "time of a step", LOG_STEP),
        _share("power", "power", POWER, "share of the maximum power of the devices, mean"),
        _share("cpu", "cpu", PROCESSOR, "processors of the host busy"),
    )
}
"""By name, in the order of the columns."""
