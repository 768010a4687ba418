"""Bounds of the communication share where no training process reports it.

At least: while the busiest EFA card moves its bytes at line rate, communication goes on.
At most: a core that waits in a collective counts as utilized, while its tensor engine idles, so
exposed communication cannot take more than what utilization has above tensor-engine work. Memory
bound work idles the engine as well, which is why this is a ceiling and no more.
"""

from collections import deque
from collections.abc import MutableMapping

import numpy as np

from trntop.core.model import Column

WINDOW = 60.0
"""Seconds; a single one lies somewhere within a step and says nothing of the whole."""
MIN_SPAN = 10.0
"""Seconds that must have been seen before there is a mean of them."""

FLOOR = "node_comm_share_floor_ratio"
CEILING = "node_comm_share_ceiling_ratio"
WINDOWED = (FLOOR, CEILING)
"""The catalog's quantities that are computed here."""
WIRE = ("efa_tx_bytes_per_second", "efa_rx_bytes_per_second", "efa_link_bytes_per_second")
"""What the floor is computed from."""
BUSY_AND_WORKS = ("node_neuroncore_utilization_mean_ratio", "node_tensor_engine_busy_mean_ratio")
"""What the ceiling is computed from."""


class CommEstimate:
    """The bounds of one node: means over the last WINDOW seconds."""

    def __init__(self) -> None:
        self._ticks: deque[tuple[float, float, float]] = deque()

    def update(self, now: float, columns: MutableMapping[str, Column]) -> None:
        """Takes the columns of a tick, and adds the bounds to them where they are known."""
        self._ticks.append((now, _wire(columns), _idle_while_busy(columns)))
        while self._ticks[0][0] < now - WINDOW:
            self._ticks.popleft()
        if now - self._ticks[0][0] < MIN_SPAN:
            return
        for place, name in ((1, FLOOR), (2, CEILING)):
            known = [value for tick in self._ticks if (value := tick[place]) == value]
            if 2 * len(known) >= len(self._ticks):
                columns[name] = np.array([sum(known) / len(known)])

    def clear(self) -> None:
        """Forgets the past: the stream's clock was set back."""
        self._ticks.clear()


def _wire(columns: MutableMapping[str, Column]) -> float:
    if any(name not in columns for name in WIRE):
        return float("nan")
    sent, received, link = (columns[name] for name in WIRE)
    shares = np.fmax(sent, received) / link
    return float(np.minimum(np.fmax.reduce(shares), 1.0)) if len(shares) else float("nan")


def _idle_while_busy(columns: MutableMapping[str, Column]) -> float:
    busy, works = map(columns.get, BUSY_AND_WORKS)
    if busy is None or works is None:
        return float("nan")
    return max(0.0, float(busy[0] - works[0]))
