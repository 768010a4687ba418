"""Sums over the newest seconds of what only grows."""

from collections import deque

import numpy as np
import numpy.typing as npt

from trntop.analysis.axis import Axis, PartAxis, carried
from trntop.core.model import Column

SLACK = 0.1
"""Seconds by which a row may be younger than the span: ticks are no clockwork."""

Mask = npt.NDArray[np.bool_]
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


class Mean:
    """The mean of some ticks, member by member; two passes a tick as long as all is known."""

    def __init__(self, size: int = 0) -> None:
        self._total: Column = np.zeros(size)
        self._ticks = 0
        self._missed: Column | None = None
        """Ticks that each member had no part in; None while there are none."""

    def add(self, values: Column, unusable: Mask | None = None) -> None:
        """Takes one tick, `[n]`: NaN, and what is unusable, has no part in it."""
        self._ticks += 1
        total = values.sum()
        if total == total and unusable is None:
            self._total += values
            return
        missed = np.isnan(values) if unusable is None else unusable | np.isnan(values)
        np.add(self._total, values, out=self._total, where=~missed)
        if self._missed is None:
            self._missed = np.zeros(len(values))
        self._missed += missed

    @property
    def total(self) -> Column:
        """Sums of what was taken, `[n]`."""
        return self._total

    @property
    def counts(self) -> Column:
        """How many values each is the sum of, `[n]`."""
        counts = np.full(len(self._total), float(self._ticks))
        return counts if self._missed is None else counts - self._missed

    @property
    def mean(self) -> Column:
        """`[n]`; NaN where nothing is known."""
        if self._missed is None and self._ticks:
            return self._total / self._ticks
        with np.errstate(invalid="ignore"):
            mean: Column = self._total / self.counts
        return mean

    def clear(self) -> None:
        """Begins anew with the same members."""
        self._total[:], self._ticks, self._missed = 0.0, 0, None
