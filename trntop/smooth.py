"""Node values over the length of a few training steps.

A second is shorter than a step: it falls into compute on one node and into a collective on the
next, and says nothing of either. What is compared between nodes is therefore a mean.
"""

from collections import deque
from collections.abc import MutableMapping

import numpy as np

from trntop.model import NO_VALUE, Column

WINDOW = 20.0
"""Seconds."""
SMOOTHED = (
    "node_tensor_engine_busy_mean_ratio",
    "node_hbm_bytes_per_second",
    "node_hbm_bandwidth_ratio",
)


class Smoother:
    """The means of one node's values over the last WINDOW seconds."""

    def __init__(self) -> None:
        self._ticks: deque[tuple[float, ...]] = deque()

    def update(self, now: float, columns: MutableMapping[str, Column]) -> None:
        """Takes the columns of a tick, and puts means in the place of their values.

        What is absent now stays absent.
        """
        values = (columns[name][0] if name in columns else NO_VALUE for name in SMOOTHED)
        self._ticks.append((now, *values))
        while self._ticks[0][0] <= now - WINDOW:
            self._ticks.popleft()
        for place, name in enumerate(SMOOTHED, 1):
            if name in columns:
                known = [value for tick in self._ticks if (value := tick[place]) == value]
                columns[name] = np.array([sum(known) / len(known)])

    def clear(self) -> None:
        """Forgets the past: the stream's clock was set back."""
        self._ticks.clear()
