"""Sums over the newest seconds of what only grows."""

from collections import deque

import numpy as np
import numpy.typing as npt

from trntop.analysis.axis import Axis, PartAxis, carried

SLACK = 0.1
"""Seconds by which a row may be younger than the span: ticks are no clockwork."""

Table = npt.NDArray[np.float64]


class Sums:
    """Several quantities of each member, summed up over the newest seconds.

    What was summed up by now, less what had been by then: a row costs three passes, whatever the
    span. Who is new begins at 0.

    Args:
        span: seconds.
    """

    def __init__(self, span: float) -> None:
        self._span = span
        self.clear()

    def clear(self) -> None:
        """Forgets everything."""
        self._axis: Axis | PartAxis | None = None
        self._past: deque[tuple[float, Table]] = deque()
        """Times, and what was summed up by then, the oldest as old as the span."""

    def push(self, time: float, axis: Axis | PartAxis, values: Table) -> Table:
        """Adds values, `[quantity, member]`, absent ones as 0; the sums, in the same shape."""
        if self._past and time < self._past[-1][0]:
            self.clear()
        if self._axis is None:
            self._past.append((-np.inf, np.zeros(values.shape)))
        elif axis is not self._axis:
            for place, (when, total) in enumerate(self._past):
                self._past[place] = when, np.nan_to_num(carried(total, self._axis, axis))
        self._axis = axis
        total = self._past[-1][1] + values
        self._past.append((time, total))
        while self._past[1][0] <= time - self._span + SLACK:
            self._past.popleft()
        sums: Table = total - self._past[0][1]
        return sums
