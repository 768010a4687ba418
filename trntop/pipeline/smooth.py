"""Values of nodes and devices over the length of a few training steps.

A second is shorter than a step: it falls into compute on one node and into a collective on the
next, and says nothing of either. What is compared is therefore a mean; cores keep their seconds.
"""

from collections import deque
from collections.abc import MutableMapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from trntop.core.model import Column

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


Layout = tuple[tuple[str, int], ...]
"""Names and lengths of columns."""


@dataclass(frozen=True, slots=True)
class _Tick:
    """The columns of a tick, one after another."""

    time: float
    layout: Layout
    values: Column

    def along(self, layout: Layout) -> Column:
        """Its values in another layout; what it lacks, or has of another length, is absent."""
        if layout == self.layout:
            return self.values
        start = dict(zip(self.layout, _starts(self.layout), strict=True))
        parts = [
            self.values[start[one] : start[one] + one[1]]
            if one in start
            else np.full(one[1], np.nan)
            for one in layout
        ]
        return np.concatenate(parts)


def _starts(layout: Layout) -> list[int]:
    return [0, *accumulate(length for _, length in layout)][:-1]


class Smoother:
    """The means of one node's columns over the last WINDOW seconds."""

    def __init__(self) -> None:
        self._ticks: deque[_Tick] = deque()

    def update(self, now: float, columns: MutableMapping[str, Column]) -> None:
        """Takes the columns of a tick, and puts means in the place of their values.

        What is absent now stays absent.
        """
        newest = {name: columns[name] for name in SMOOTHED if name in columns}
        layout = tuple([(name, len(values)) for name, values in newest.items()])
        values = np.concatenate([*newest.values()]) if newest else np.empty(0)
        self._ticks.append(_Tick(now, layout, values))
        while self._ticks[0].time <= now - WINDOW:
            self._ticks.popleft()
        if not layout:
            return
        # Before a device came or went, the places were others.
        table = np.array([tick.along(layout) for tick in self._ticks])
        known = ~np.isnan(table)
        means = np.add.reduce(np.where(known, table, 0.0), axis=0)
        means /= np.maximum(np.add.reduce(known, axis=0), 1)
        means[~known[-1]] = np.nan
        for (name, length), start in zip(layout, _starts(layout), strict=True):
            columns[name] = means[start : start + length]

    def clear(self) -> None:
        """Forgets the past: the stream's clock was set back."""
        self._ticks.clear()
