"""Means that weigh recent values more."""

import numpy as np

from trntop.analysis.axis import Axis, carried
from trntop.core.model import Column

LARGEST = 1e30
"""Values beyond are damage: they count as absent, as NaN and infinities do."""
FORGOTTEN = 2.0**-40
"""A member whose values weigh less than this in total, a new one weighing 1, starts over."""


class Ewma:
    """Mean of each member's values, where a value's weight halves every `half_life_seconds`.

    Weights depend on age alone, so ticks may be any time apart. A member that leaves the axis and
    returns starts over, and all do when time goes back.
    """

    def __init__(self, half_life_seconds: float) -> None:
        self._half_life = half_life_seconds
        self._time: float | None = None
        self._axis = Axis()
        self._mean: Column = np.zeros(0)
        self._weight: Column = np.zeros(0)
        self._age: Column = np.zeros(0)

    def push(self, time: float, axis: Axis, values: Column) -> None:
        """Adds the values of one tick, `[n]`, at `time` in seconds."""
        if self._time is not None and time < self._time:
            self.__init__(self._half_life)  # type: ignore[misc]
        if axis is not self._axis:
            self._mean, self._weight, self._age = (
                np.nan_to_num(carried(column, self._axis, axis))
                for column in (self._mean, self._weight, self._age)
            )
            self._axis = axis
        passed = 0.0 if self._time is None else time - self._time
        self._time = time
        self._weight *= 0.5 ** (passed / self._half_life)
        self._weight[self._weight < FORGOTTEN] = 0.0
        new = self._weight == 0.0
        self._age[new] = 0.0
        known = np.abs(values) <= LARGEST
        # A member's first value has no time behind it; a gap counts as a half-life at most.
        self._age[known & ~new] += min(passed, self._half_life)
        self._mean[new] = 0.0
        self._weight += known
        self._mean[known] += (values[known] - self._mean[known]) / self._weight[known]

    @property
    def mean(self) -> Column:
        """Weighted mean of each member, `[n]`; NaN where nothing is known."""
        return np.where(self._weight > 0, self._mean, np.nan)

    @property
    def age(self) -> Column:
        """Seconds of data behind each member's mean, `[n]`."""
        return self._age
