"""Statistics of the members of an axis: one value per node, device, core or rank and tick.

Absent values are NaN everywhere: they take no part, and what is unknown of a member is NaN.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from trntop.core.model import NO_VALUE, Column
from trntop.pipeline.axis import Along, Axis, PartAxis, Places, carried

Mask = npt.NDArray[np.bool_]
Scalar = TypeVar("Scalar", bound=np.generic)
Table = npt.NDArray[np.float64]

MAX_VALUE = 1e30
"""Larger values are damaged, and count as absent in an `Ewma`."""
MIN_WEIGHT = 2.0**-40
"""A member of an `Ewma` whose values weigh less than this, a new one weighing 1, starts over."""
TICK_JITTER = 0.1
"""Seconds by which a row of `Sums` may be younger than the span."""
SAMPLED = 2048
"""Members from which the median of one large group is taken."""


class Members:
    """Columns, `[…, member]`, that follow an axis: members that stay keep their values, new ones
    start blank.
    """

    BLANK: ClassVar[Mapping[str, float]]
    """Attribute → value of a new member."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.axis: Any = None
        for name, blank in self.BLANK.items():
            setattr(self, name, np.full(0, blank))

    def follow(self, axis: Along) -> bool:
        """Moves to another axis; whether it is another one."""
        if axis is self.axis:
            return False
        old = np.full(len(axis), -1) if self.axis is None else axis.places_in(self.axis)
        known = old >= 0
        for name, blank in self.BLANK.items():
            before = getattr(self, name)
            values = np.full((*before.shape[:-1], len(axis)), blank)
            values[..., known] = before[..., old[known]]
            setattr(self, name, values)
        self.axis = axis
        return True

    def reset(self, chosen: Mask) -> None:
        """Makes the chosen members blank again."""
        for name, blank in self.BLANK.items():
            setattr(self, name, np.where(chosen, blank, getattr(self, name)))


class Ewma(Members):
    """Mean of each member's values, where a value's weight halves every `half_life_seconds`.

    Weights depend on age alone, so ticks may be any time apart. A member that leaves the axis and
    returns starts over, and all do when time goes back.
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
    it, never below 0. It finds a shift of the mean by twice the allowance soonest; a single odd
    value raises it by no more than that value.

    Args:
        allowance: what a value may exceed 0 by without raising the score, in the values' own
            unit: half of the shift to be found.
        ceiling: highest score, which bounds the time that a score takes to come down again.
    """

    BLANK: ClassVar = {"score": 0.0, "since": NO_VALUE}
    score: Column
    since: Column
    """Time of the first value that raised the score from 0: an estimate of the onset; NaN at 0."""

    def __init__(self, allowance: float, ceiling: float) -> None:
        super().__init__()
        self._allowance = allowance
        self._ceiling = ceiling

    def step(self, time: float, axis: Along, values: Column) -> Column:
        """The scores after one value per member; an absent value leaves its score unchanged."""
        self.follow(axis)
        score = np.clip(self.score + (values - self._allowance), 0.0, self._ceiling)
        score = np.where(np.isnan(values), self.score, score)
        begun = (score > 0) & (self.score == 0)
        self.since = np.where(begun, time, np.where(score > 0, self.since, NO_VALUE))
        self.score = score
        return score


class Onset(Members):
    """Since when values have been above 0; NaN where they are not."""

    BLANK: ClassVar = {"since": NO_VALUE, "lasted": 0.0}
    since: Column
    lasted: Column
    """Seconds from then to the newest value above 0."""

    def step(self, time: float, axis: Along, values: Column) -> None:
        self.follow(axis)
        begun = np.where(np.isnan(self.since), time, self.since)
        holds, unknown = values > 0, np.isnan(values)
        self.since = np.where(holds, begun, np.where(unknown, self.since, NO_VALUE))
        self.lasted = np.where(holds, time - begun, np.where(unknown, self.lasted, 0.0))


def grown(before: Column, now: Column) -> Column:
    """By how much counts are larger than before; one that went back was reset to 0."""
    growth = now - before
    reset = now < before
    growth[reset] = now[reset]
    return growth


class Growth:
    """How much counts have grown since the tick before.

    The first value of a count is no growth, and an absent one keeps the one before.
    """

    def __init__(self) -> None:
        self._axis: Axis | PartAxis | None = None
        self._before: Column = np.empty(0)

    def push(self, axis: Axis | PartAxis, totals: Column) -> Column:
        """The growth of `totals`, `[member]` or `[count, member]`."""
        if self._axis is None:
            self._before = np.full(totals.shape, NO_VALUE)
        elif axis is not self._axis:
            self._before = carried(self._before, self._axis, axis)
        self._axis = axis
        present = ~np.isnan(totals)
        growth = grown(self._before, totals)
        growth[np.isnan(growth) & present] = 0.0
        np.copyto(self._before, totals, where=present)
        return growth

    def clear(self) -> None:
        self._axis = None


class Sums:
    """Sums of several quantities of each member over the newest `span` seconds.

    A row costs three passes, whatever the span: the total now less the total then.
    """

    def __init__(self, span: float) -> None:
        self._span = span
        self.clear()

    def clear(self) -> None:
        self._axis: Axis | PartAxis | None = None
        self._past: deque[tuple[float, Table]] = deque()
        """Times, and the totals by then; the oldest is as old as the span."""

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
        while self._past[1][0] <= time - self._span + TICK_JITTER:
            self._past.popleft()
        sums: Table = total - self._past[0][1]
        return sums


class Mean:
    """The mean of some ticks, member by member; two passes a tick while all values are known."""

    def __init__(self, shape: int | tuple[int, ...] = 0) -> None:
        self.total: Column = np.zeros(shape)
        """Sums of the known values."""
        self._ticks = 0
        self._missed: Column | None = None
        """Ticks in which each member was absent; None while there are none."""

    def add(self, values: Column, unusable: Mask | None = None) -> None:
        self._ticks += 1
        total = values.sum()
        if total == total and unusable is None:
            self.total += values
            return
        missed = np.isnan(values) if unusable is None else unusable | np.isnan(values)
        np.add(self.total, values, out=self.total, where=~missed)
        if self._missed is None:
            self._missed = np.zeros(values.shape)
        self._missed += missed

    @property
    def counts(self) -> Column:
        """How many values each is the sum of."""
        counts = np.full(self.total.shape, float(self._ticks))
        return counts if self._missed is None else counts - self._missed

    @property
    def mean(self) -> Column:
        if self._missed is None and self._ticks:
            return self.total / self._ticks
        with np.errstate(invalid="ignore"):
            mean: Column = self.total / self.counts
        return mean

    def clear(self) -> None:
        """Starts over with the same members."""
        self.total[:], self._ticks, self._missed = 0.0, 0, None


class RollingMean:
    """The mean of each member over the newest `span` seconds.

    Sums are of few rows each and never subtracted from, so that nothing remains of a row that is
    over: a row is added three times at most, whatever the span.
    """

    def __init__(self, span: float) -> None:
        self._span = span
        self._axis: Axis | PartAxis | None = None
        self._clear(0)

    def _clear(self, size: int) -> None:
        self._older: list[tuple[float, Table]] = []
        """Times, newest first, and the sums and counts of the rows from then to the first of
        these, `[2, member]`.
        """
        self._newer: list[tuple[float, Table]] = []
        """Rows after these, in the order of time."""
        self._total: Table = np.zeros((2, size))
        """Of the newer rows."""
        self._time = -np.inf

    def push(self, time: float, values: Column, axis: Axis | PartAxis | None = None) -> Column:
        """The means with `values`. Without an axis, other members start over."""
        if axis is not None and self._axis is not None and axis is not self._axis:
            self._follow(self._axis, axis)
        self._axis = axis
        if time < self._time or len(values) != self._total.shape[1]:
            self._clear(len(values))
        self._time = time
        row = np.empty((2, len(values)))
        np.equal(values, values, out=row[1])
        row[0] = values if row[1].all() else np.where(row[1], values, 0.0)
        self._newer.append((time, row))
        self._total = self._total + row
        while self._begin <= time - self._span:
            self._drop()
        total = self._total + self._older[-1][1] if self._older else self._total
        self.known = total[1] / (len(self._older) + len(self._newer))
        with np.errstate(invalid="ignore"):
            mean: Column = total[0] / total[1]
        return mean

    @property
    def _begin(self) -> float:
        return (self._older[-1] if self._older else self._newer[0])[0]

    def _drop(self) -> None:
        """Drops the oldest row."""
        if not self._older:
            total = np.zeros_like(self._total)
            for time, row in reversed(self._newer):
                total = total + row
                self._older.append((time, total))
            self._newer, self._total = [], np.zeros_like(self._total)
        self._older.pop()

    def _follow(self, before: Axis | PartAxis, axis: Axis | PartAxis) -> None:
        def moved(table: Table) -> Table:
            return np.nan_to_num(carried(table, before, axis))

        self._older = [(time, moved(table)) for time, table in self._older]
        self._newer = [(time, moved(table)) for time, table in self._newer]
        self._total = moved(self._total)

    @property
    def seconds(self) -> float:
        """Seconds from the oldest to the newest row."""
        return self._time - self._begin


def excess(values: Column, groups: Places) -> Column:
    """By which share each value is above the median of its group.

    NaN also in groups whose median is 0: they do nothing.
    """
    median = group_median(values, groups)
    return values / np.where(median > 0, median, NO_VALUE) - 1.0


def group_median(values: Column, groups: Places) -> Column:
    """The median of each member's group."""
    result = np.full(len(values), NO_VALUE)
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return result
    if (groups == groups[0]).all():  # one job on all nodes: no sorting by group
        result[:] = np.median(values[sampled(known)])
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


def group_mean(values: Column, groups: Places, size: int) -> Column:
    """The mean of each group, `[group]`."""
    known = ~np.isnan(values)
    counts = np.bincount(groups[known], minlength=size)
    sums = np.bincount(groups[known], values[known], size)
    means: Column = np.where(counts > 0, sums / np.maximum(counts, 1), NO_VALUE)
    return means


def deviation(values: npt.ArrayLike) -> float:
    """Standard deviation of normal values by their median deviation: outliers do not move it."""
    known = np.asarray(values)
    return 1.4826 * float(np.median(np.abs(known - np.median(known))))


def lower_median(values: Column) -> float:
    """The median, the lower one of two, so that half of all being odd does not move it."""
    known = values[~np.isnan(values)]
    if not len(known):
        return NO_VALUE
    middle = (len(known) - 1) // 2
    return float(np.partition(known, middle)[middle])


def sampled(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """About `SAMPLED` of the values, if they are more."""
    # An odd step: nodes have even numbers of parts, and each place on a node shall be in it.
    return values[:: len(values) // SAMPLED | 1]
