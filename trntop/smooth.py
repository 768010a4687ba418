"""Values of nodes and devices over the length of a few training steps.

A second is shorter than a step: it falls into compute on one node and into a collective on the
next, and says nothing of either. What is compared is therefore a mean; cores keep their seconds.
"""

from collections import deque
from collections.abc import MutableMapping

import numpy as np

from trntop.model import Column

WINDOW = 20.0
"""Seconds."""
SMOOTHED = (
    "device_tensor_engine_busy_ratio",
    "device_hbm_bytes_per_second",
    "device_hbm_bandwidth_ratio",
    "node_tensor_engine_busy_mean_ratio",
    "node_hbm_bytes_per_second",
    "node_hbm_bandwidth_ratio",
)


class Smoother:
    """The means of one node's columns over the last WINDOW seconds."""

    def __init__(self) -> None:
        self._ticks: deque[tuple[float, dict[str, Column]]] = deque()

    def update(self, now: float, columns: MutableMapping[str, Column]) -> None:
        """Takes the columns of a tick, and puts means in the place of their values.

        What is absent now stays absent.
        """
        self._ticks.append((now, {name: columns[name] for name in SMOOTHED if name in columns}))
        while self._ticks[0][0] <= now - WINDOW:
            self._ticks.popleft()
        for name, newest in self._ticks[-1][1].items():
            rows = [tick[name] for _, tick in self._ticks if name in tick]
            # Before a device came or went, the places were others.
            table = np.array([row for row in rows if len(row) == len(newest)])
            known = ~np.isnan(table)
            means = np.where(known, table, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
            columns[name] = np.where(np.isnan(newest), np.nan, means)

    def clear(self) -> None:
        """Forgets the past: the stream's clock was set back."""
        self._ticks.clear()
