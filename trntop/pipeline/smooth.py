"""Values over the length of a few training steps: means, and bounds of the communication share.

A second is shorter than a step: it falls into compute on one node and into a collective on the
next. Cores keep their seconds.

Where no training process reports the communication share, it has bounds. At least: while the
busiest EFA device moves its bytes at line rate, communication goes on. At most: a core that waits
in a collective counts as utilized while its tensor engine idles, so exposed communication cannot
exceed what utilization has above tensor-engine work. Memory-bound work idles the engine as well,
so that this is a ceiling, not an estimate.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass

import numpy as np

from trntop.core.model import Column
from trntop.pipeline.statistics import RollingMean

Columns = MutableMapping[str, Column]


@dataclass(frozen=True, slots=True)
class SmoothTuning:
    window: float = 20.0
    """Seconds of the means; steps of large models take several."""
    bounds_window: float = 60.0
    bounds_after: float = 10.0
    """Seconds of data before there are bounds."""
    max_range: float = 0.95
    """Between the bounds; a wider range states nothing."""


TUNING = SmoothTuning()
SMOOTHED = (
    "device_tensor_engine_busy_ratio",
    "device_hbm_bytes_per_second",
    "device_hbm_bandwidth_ratio",
    "device_hbm_bandwidth_floor_ratio",
    "node_tensor_engine_busy_mean_ratio",
    "node_hbm_bytes_per_second",
    "node_hbm_bandwidth_ratio",
    "node_hbm_bandwidth_floor_ratio",
)
FLOOR = "node_comm_share_floor_ratio"
CEILING = "node_comm_share_ceiling_ratio"
BOUNDS = (FLOOR, CEILING)
WIRE = ("efa_tx_bytes_per_second", "efa_rx_bytes_per_second", "efa_link_bytes_per_second")
"""Inputs of the floor."""
BUSY_AND_WORKS = ("node_neuroncore_utilization_mean_ratio", "node_tensor_engine_busy_mean_ratio")
"""Inputs of the ceiling."""


class Smoother:
    """The rolling means of one node."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Starts over: the stream's clock was set back."""
        self._means = {name: RollingMean(TUNING.window) for name in SMOOTHED}
        self._bounds = RollingMean(TUNING.bounds_window)

    def update(self, now: float, columns: Columns) -> None:
        """Replaces the values of a tick by means. What is absent now stays absent."""
        for name, mean in self._means.items():
            if (values := columns.get(name)) is not None:
                columns[name] = np.where(np.isnan(values), np.nan, mean.push(now, values))

    def add_bounds(self, now: float, columns: Columns) -> str:
        """Adds the bounds of the communication share where they are known, else states why not."""
        values = np.array([_wire_share(columns), _idle_while_busy(columns)])
        means = self._bounds.push(now, values)
        if self._bounds.seconds < TUNING.bounds_after:
            return "" if np.isnan(values).all() else f"needs {TUNING.bounds_after:g} s of data"
        if means[1] - means[0] > TUNING.max_range:
            return "anything from the floor to the ceiling is possible"
        for name, mean, known in zip(BOUNDS, means, self._bounds.known, strict=True):
            if known >= 0.5:
                columns[name] = np.array([mean])
        return ""


def _wire_share(columns: Columns) -> float:
    if any(name not in columns for name in WIRE):
        return float("nan")
    sent, received, link = (columns[name] for name in WIRE)
    shares = np.fmax(sent, received) / link
    return float(np.minimum(np.fmax.reduce(shares), 1.0)) if len(shares) else float("nan")


def _idle_while_busy(columns: Columns) -> float:
    busy, works = map(columns.get, BUSY_AND_WORKS)
    if busy is None or works is None:
        return float("nan")
    return max(0.0, float(busy[0] - works[0]))
