"""Statistics of the members of an axis: one value per node, device, core or rank and tick.

Absent values are NaN and are ignored; a result that is unknown is NaN too.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from trntop.core.model import NO_VALUE, Column
from trntop.pipeline.axis import Axis, AxisLike, Indices, PartAxis, realigned

Mask = npt.NDArray[np.bool_]
Scalar = TypeVar("Scalar", bound=np.generic)
Table = npt.NDArray[np.float64]
Counts = float | npt.NDArray[np.float64]

MAX_VALUE = 1e30
"""Larger values are damaged, and count as absent in an `Ewma`."""
MIN_WEIGHT = 2.0**-40
"""A member of an `Ewma` whose values weigh less than this, a new one weighing 1, starts over."""
TICK_JITTER = 0.1
"""Seconds by which a row of `Sums` may be younger than the span."""
SAMPLED = 2048
"""Number of members whose median represents a large group."""


class Members:
    """Columns, `[…, member]`, that are realigned when the axis changes: members that stay keep
    their values, new ones start blank.
    """

    BLANK: ClassVar[Mapping[str, float]]
    """Attribute → value of a new member."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.axis: Any = None
        for name, blank in self.BLANK.items():
            setattr(self, name, np.full(0, blank))

    def follow(self, axis: AxisLike) -> bool:
        """Realigns the columns with an axis; returns whether it is a new one."""
        if axis is self.axis:
            return False
        old = np.full(len(axis), -1) if self.axis is None else axis.indices_in(self.axis)
        known = old >= 0
        for name, blank in self.BLANK.items():
            before = getattr(self, name)
            values = np.full((*before.shape[:-1], len(axis)), blank)
            values[..., known] = before[..., old[known]]
            setattr(self, name, values)
        self.axis = axis
        return True

    def reset(self, chosen: Mask) -> None:
        """Resets the chosen members to blank."""
        for name, blank in self.BLANK.items():
            setattr(self, name, np.where(chosen, blank, getattr(self, name)))


class Ewma(Members):
    """Mean of each member's values; the weight of a value halves every `half_life_seconds`.

    Weights depend only on age, so the interval between ticks may vary. A member that leaves the
    axis and returns starts over, and so do all members when time goes back.
    """

    BLANK: ClassVar = {"_mean": 0.0, "_weight": 0.0, "age": 0.0}
    _mean: Column
    _weight: Column
    age: Column
    """Seconds of data behind each member's mean."""

    def __init__(self, half_life_seconds: float) -> None:
        super().__init__()
        self._half_life = half_life_seconds
        self._time: float | None = None

    def push(self, time: float, axis: Axis, values: Column) -> None:
        if self._time is not None and time < self._time:
            self.clear()
            self._time = None
        self.follow(axis)
        passed = 0.0 if self._time is None else time - self._time
        self._time = time
        self._weight *= 0.5 ** (passed / self._half_life)
        self._weight[self._weight < MIN_WEIGHT] = 0.0
        new = self._weight == 0.0
        self.age[new] = 0.0
        known = np.abs(values) <= MAX_VALUE
        # A member's first value has no time behind it; a gap counts as a half-life at most.
        self.age[known & ~new] += min(passed, self._half_life)
        self._mean[new] = 0.0
        self._weight += known
        self._mean[known] += (values[known] - self._mean[known]) / self._weight[known]

    @property
    def mean(self) -> Column:
        return np.where(self._weight > 0, self._mean, NO_VALUE)


class Cusum(Members):
    """One-sided CUSUM of standardized values (E. S. Page, Continuous Inspection Schemes, 1954).

    The score grows by what a value exceeds the allowance and shrinks by what it falls short of
    it, never below 0. It detects a shift of the mean by twice the allowance fastest; a single
    outlier raises it by no more than its own value.

    Args:
        allowance: limit up to which a value does not raise the score, in the unit of the values:
            half of the shift to detect.
        ceiling: highest score, which limits the time until a score returns to 0.
    """

    BLANK: ClassVar = {"score": 0.0, "since": NO_VALUE}
    score: Column
    since: Column
    """Time of the first value that raised the score from 0: an estimate of the onset; NaN at 0."""

    def __init__(self, allowance: float, ceiling: float) -> None:
        super().__init__()
        self._allowance = allowance
        self._ceiling = ceiling

    def step(self, time: float, axis: AxisLike, values: Column) -> Column:
        """The scores after one value per member; an absent value leaves its score unchanged."""
        self.follow(axis)
        score = np.clip(self.score + (values - self._allowance), 0.0, self._ceiling)
        score = np.where(np.isnan(values), self.score, score)
        raised = score > 0
        np.copyto(self.since, time, where=raised & (self.score == 0))
        np.copyto(self.since, NO_VALUE, where=~raised)
        self.score = score
        return score


class Onset(Members):
    """The time since which values have been above 0; NaN where they are not."""

    BLANK: ClassVar = {"since": NO_VALUE, "duration": 0.0}
    since: Column
    duration: Column
    """Seconds from then to the newest value above 0."""

    def step(self, time: float, axis: AxisLike, values: Column) -> None:
        self.follow(axis)
        begun = np.where(np.isnan(self.since), time, self.since)
        holds, unknown = values > 0, np.isnan(values)
        self.since = np.where(holds, begun, np.where(unknown, self.since, NO_VALUE))
        self.duration = np.where(holds, time - begun, np.where(unknown, self.duration, 0.0))


def increase(before: Column, now: Column) -> Column:
    """The increase of counts; a count that is lower than before was reset to 0."""
    growth = now - before
    reset = now < before
    growth[reset] = now[reset]
    return growth


class Growth:
    """The growth of counts since the previous tick.

    The growth of a first value is 0. An absent value does not replace the previous one.
    """

    def __init__(self) -> None:
        self._axis: Axis | PartAxis | None = None
        self._before: Column = np.empty(0)

    def push(self, axis: Axis | PartAxis, totals: Column) -> Column:
        """The growth of `totals`, `[member]` or `[count, member]`."""
        if self._axis is None:
            self._before = np.full(totals.shape, NO_VALUE)
        elif axis is not self._axis:
            self._before = realigned(self._before, self._axis, axis)
        self._axis = axis
        present = ~np.isnan(totals)
        growth = increase(self._before, totals)
        growth[np.isnan(growth) & present] = 0.0
        np.copyto(self._before, totals, where=present)
        return growth

    def clear(self) -> None:
        self._axis = None


class Sums:
    """Sums of several quantities of each member over the newest `span` seconds.

    A row costs three passes, whatever the span: the total now minus the total at the start of the
    span.
    """

    def __init__(self, span: float) -> None:
        self._span = span
        self.clear()

    def clear(self) -> None:
        self._axis: Axis | PartAxis | None = None
        self._totals: deque[tuple[float, Table]] = deque()
        """Times and the totals at them; the oldest is as old as the span."""

    def push(self, time: float, axis: Axis | PartAxis, values: Table) -> Table:
        """Adds values, `[quantity, member]`, absent ones as 0; returns the sums, same shape."""
        if self._totals and time < self._totals[-1][0]:
            self.clear()
        if self._axis is None:
            self._totals.append((-np.inf, np.zeros(values.shape)))
        elif axis is not self._axis:
            for index, (time_then, total) in enumerate(self._totals):
                self._totals[index] = time_then, np.nan_to_num(realigned(total, self._axis, axis))
        self._axis = axis
        total = self._totals[-1][1] + values
        self._totals.append((time, total))
        while self._totals[1][0] <= time - self._span + TICK_JITTER:
            self._totals.popleft()
        sums: Table = total - self._totals[0][1]
        return sums


class Mean:
    """The mean of each member over some ticks; two passes per tick while all values are known."""

    def __init__(self, shape: int | tuple[int, ...] = 0) -> None:
        self._total: Column = np.zeros(shape)
        """Sums of the known values."""
        self._ticks = 0
        self._missed: Column | None = None
        """Ticks in which each member was absent; None while there are none."""

    def add(self, values: Column, unusable: Mask | None = None) -> None:
        self._ticks += 1
        total = values.sum()
        if total == total and unusable is None:
            self._total += values
            return
        missed = np.isnan(values) if unusable is None else unusable | np.isnan(values)
        np.add(self._total, values, out=self._total, where=~missed)
        if self._missed is None:
            self._missed = np.zeros(values.shape)
        self._missed += missed

    @property
    def mean(self) -> Column:
        """NaN where all values were absent."""
        missed = 0.0 if self._missed is None else self._missed
        with np.errstate(invalid="ignore"):
            mean: Column = self._total / (self._ticks - missed)
        return mean

    def clear(self) -> None:
        """Starts over with the same members."""
        self._total[:], self._ticks, self._missed = 0.0, 0, None


class RollingMean:
    """The mean of each member over the newest `span` seconds.

    Each sum has few rows, and nothing is ever subtracted from it, so that no rounding error of an
    expired row remains. A row is added three times at most, whatever the span. Counts are one
    number while all values are known.
    """

    def __init__(self, span: float) -> None:
        self._span = span
        self._axis: Axis | PartAxis | None = None
        self._clear(0)

    def _clear(self, size: int) -> None:
        self._older: list[tuple[float, Column, Counts]] = []
        """Times, newest first, and the sums and counts of the rows from then to the first of
        these, `[member]`.
        """
        self._newer: list[tuple[float, Column, Counts]] = []
        """Rows after these, in the order of time."""
        self._sums: Column = np.zeros(size)
        self._counts: Counts = 0.0
        """Of the newer rows."""
        self._time = -np.inf

    def push(self, time: float, values: Column, axis: Axis | PartAxis | None = None) -> Column:
        """Adds values; returns the means. Without an axis, a change of the members starts over."""
        if axis is not None and self._axis is not None and axis is not self._axis:
            self._follow(self._axis, axis)
        self._axis = axis
        if time < self._time or len(values) != len(self._sums):
            self._clear(len(values))
        self._time = time
        known: Counts = 1.0
        if (absent := np.isnan(values)).any():
            values, known = np.where(absent, 0.0, values), 1.0 - absent
        self._newer.append((time, values, known))
        self._sums, self._counts = self._sums + values, self._counts + known
        while self._begin <= time - self._span:
            self._drop()
        sums, counts = self._sums, self._counts
        if self._older:
            _, older, older_counts = self._older[-1]
            sums, counts = sums + older, counts + older_counts
        rows = len(self._older) + len(self._newer)
        self.known: Column = np.broadcast_to(counts / rows, sums.shape)
        with np.errstate(invalid="ignore"):
            return sums / counts

    @property
    def _begin(self) -> float:
        return (self._older[-1] if self._older else self._newer[0])[0]

    def _drop(self) -> None:
        """Drops the oldest row."""
        if not self._older:
            sums: Column = np.zeros_like(self._sums)
            counts: Counts = 0.0
            for time, row, known in reversed(self._newer):
                sums, counts = sums + row, counts + known
                self._older.append((time, sums, counts))
            self._newer, self._sums, self._counts = [], np.zeros_like(sums), 0.0
        self._older.pop()

    def _follow(self, before: Axis | PartAxis, axis: Axis | PartAxis) -> None:
        def moved(values: Column) -> Column:
            return np.nan_to_num(realigned(values, before, axis))

        def counted(counts: Counts) -> Column:
            return moved(np.broadcast_to(counts, len(before)))

        self._older = [(time, moved(row), counted(known)) for time, row, known in self._older]
        self._newer = [(time, moved(row), counted(known)) for time, row, known in self._newer]
        self._sums, self._counts = moved(self._sums), counted(self._counts)

    @property
    def seconds(self) -> float:
        """Seconds from the oldest to the newest row."""
        return self._time - self._begin


def excess(values: Column, groups: Indices, bias: Column | float = 0.0) -> Column:
    """The share by which each value exceeds the median of its group.

    The median is that of the values without the members' biases, so members of one group may do
    different work: a round in which some of them lag does not move it from one sort of member to
    another. NaN also in groups whose median is 0, which do nothing.
    """
    median = group_median(values / (1.0 + bias), groups)
    return values / np.where(median > 0, median, NO_VALUE) - 1.0


def group_median(values: Column, groups: Indices) -> Column:
    """The median of each member's group."""
    result = np.full(len(values), NO_VALUE)
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return result
    if (groups == groups[0]).all():  # one job on all nodes: no sorting by group
        result[:] = median(values[sampled(known)])
        return result
    order = known[np.lexsort((values[known], groups[known]))]
    sorted_groups, sorted_values = groups[order], values[order]
    begins = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1]])
    sizes = np.diff(np.r_[begins, len(order)])
    middle = 0.5 * (sorted_values[begins + (sizes - 1) // 2] + sorted_values[begins + sizes // 2])
    medians = np.full(int(groups.max()) + 1, NO_VALUE)
    medians[sorted_groups[begins]] = middle
    result[:] = medians[groups]
    return result


def node_median(values: Column, axis: PartAxis) -> Column:
    """The median of each part's node, `[part]`."""
    size = axis.widths[0] if axis.widths else 0
    if not size or axis.widths.count(size) < len(axis.widths):
        return group_median(values, axis.owner)
    table = values.reshape(-1, size)
    absent = np.isnan(table)
    if (absent.any(axis=1) & ~absent.all(axis=1)).any():
        return group_median(values, axis.owner)
    low, high = (size - 1) // 2, size // 2
    ordered = np.partition(table, (low, high), axis=1)
    return np.repeat(0.5 * (ordered[:, low] + ordered[:, high]), size)


def node_largest(axis: PartAxis, values: Column) -> Column:
    """The largest value of the parts of each node, `[node]`."""
    filled = axis.sizes > 0
    largest = np.full(len(axis.sizes), NO_VALUE)
    if filled.any():
        largest[filled] = np.fmax.reduceat(values, axis.starts[:-1][filled])
    return largest


def group_mean(values: Column, groups: Indices, size: int) -> Column:
    """The mean of each group, `[group]`."""
    known = ~np.isnan(values)
    if not known.all():
        values, groups = values[known], groups[known]
    counts = np.bincount(groups, minlength=size)
    sums = np.bincount(groups, values, size)
    means: Column = np.where(counts > 0, sums / np.maximum(counts, 1), NO_VALUE)
    return means


def deviation(values: npt.ArrayLike) -> float:
    """Standard deviation, estimated from the median absolute deviation: robust to outliers."""
    known = np.asarray(values)
    return 1.4826 * median(np.abs(known - median(known)))


def median(values: npt.ArrayLike) -> float:
    """The median of the known values, NaN without any.

    NumPy's takes three times as long and imports numpy.ma, 1.7 MiB.
    """
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    if not len(known):
        return NO_VALUE
    half = len(known) // 2
    ordered = np.partition(known, (half - 1, half) if half else half)
    return float(ordered[half] if len(known) % 2 else 0.5 * (ordered[half - 1] + ordered[half]))


def lower_median(values: Column) -> float:
    """The median, or the lower middle value, so that half of the values can be outliers."""
    known = values[~np.isnan(values)]
    if not len(known):
        return NO_VALUE
    middle = (len(known) - 1) // 2
    return float(np.partition(known, middle)[middle])


def sampled(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """At most about `SAMPLED` of the values."""
    # An odd step: nodes have even numbers of parts, and parts at all positions must be included.
    return values[:: len(values) // SAMPLED | 1]
