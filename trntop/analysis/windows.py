"""Statistics over the recent past of columns whose members come and go.

A tick costs a few passes over the column, however long the window. They are made in pieces that
stay in the processor's cache: a large cluster has millions of cores.
"""

from collections import deque
from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from trntop.analysis.axis import Along, Places
from trntop.model import Column

LARGEST = 1e30
"""Whatever is beyond is damage: it counts as absent, as NaN and infinities do."""
MAX_TICKS = 4096
"""Ticks that a window keeps at most."""
RECOMPUTE_EVERY = 256
"""Ticks within which every running sum is made anew, against drift."""
PIECE = 16_384
"""Members treated at once."""
SLACK = 1e-3
"""Seconds; ticks that should be one length apart are, though their times are rounded."""

FAR = 32.0
"""A value that is so many times nearer to the one before than to the reference: the level may
have shifted, and float32 would keep too little of what goes on at the new one.
"""
SHIFTED = 3.0
"""Variances of the window that lie between the reference and a shifted level, squared, at least.
Two levels give 4 or more; noise that is near the value before by chance seldom does.
"""
DWARFED = 1e-4
"""A running sum of squares below this share of a square taken out of it has lost its digits."""
FORGOTTEN = 2.0**-40
"""A member whose whole past weighs less than this, its newest value having weighed 1, starts
anew.
"""

Mask = npt.NDArray[np.bool_]
Row = npt.NDArray[np.float32]
Cell = TypeVar("Cell", bound=np.generic)


class Window:
    """The newest seconds of each member: mean, variance and, on demand, quantiles.

    What counts is time: of ticks at any distance the window holds those after
    `time - length_seconds`. NaN, infinities and values beyond `LARGEST` are left out. A member
    that leaves the axis and returns starts anew, and all do where time goes back.

    Values are kept as float32 distances from a reference of their member, which follows shifts
    of the level; sums run in float64. So the variance of what is large and nearly constant is
    right, and a single huge value spoils nothing beyond its stay in the window. Mean and
    variance are those of the values themselves within 1e-6 of the largest distance between two
    values of the last two windows, squared for the variance.
    """

    def __init__(self, length_seconds: float) -> None:
        self._length = length_seconds
        self._scratch = _Scratch()
        self.clear()

    def clear(self) -> None:
        """Forgets everything: what follows belongs to another time."""
        self._axis: Along | None = None
        self._times: deque[float] = deque()
        self._rows: deque[Row] = deque()
        """Distances from the reference, one row a tick; NaN where there was no value."""
        self._refresh_from = 0
        self._reference: Column = np.zeros(0)
        self._newest: Column = np.zeros(0)
        """The newest value known of each member; NaN where there never was one."""
        self._sum: Column = np.zeros(0)
        self._squares: Column = np.zeros(0)
        self._count = np.zeros(0, np.uint16)

    def push(self, time: float, axis: Along, values: Column) -> None:
        """Takes the values of one tick, `[n]`, at `time` in seconds."""
        if self._times and time < self._times[-1]:
            self.clear()
        if axis is not self._axis:
            self._move(axis)
        leaving = self._leaving(time)
        # A row that leaves is read before the new one is written into its place.
        row = leaving[-1] if leaving else np.empty(len(axis), np.float32)
        if not self._rows:
            self._count.fill(0)
            leaving = []
        worn: list[Places] = []
        shifted: list[Places] = []
        for piece in _pieces(len(axis)):
            for old in leaving:
                worn += self._take_out(old, piece)
            shifted += self._add(row, values, piece)
        self._times.append(time)
        self._rows.append(row)
        for members in shifted:
            self._shift(members)
        for members in worn:
            self._recompute(members)
        self._refresh()

    @property
    def mean(self) -> Column:
        """Mean of each member, `[n]`; NaN where nothing is known."""
        mean = self._mean_distance()
        mean += self._reference
        return mean

    @property
    def variance(self) -> Column:
        """Variance of each member (of the values themselves, not of a population), `[n]`."""
        variance = self._mean_distance()
        for piece in _pieces(len(variance)):
            part, square = variance[piece], self._scratch.first[: piece.stop - piece.start]
            np.multiply(part, part, out=square)
            np.divide(self._squares[piece], self._count[piece], out=part, where=part == part)
            part -= square
            np.maximum(part, 0.0, out=part)
        return variance

    @property
    def count(self) -> npt.NDArray[np.int64]:
        """How many values of each member are known, `[n]`."""
        return self._count.astype(np.int64)

    @property
    def sum(self) -> Column:
        """Sum of each member's values, `[n]`; NaN where nothing is known."""
        total = self._reference * self._count
        total += self._sum
        total[self._count == 0] = np.nan
        return total

    def quantile(self, q: float, places: Places) -> Column:
        """The `q` quantile of chosen members, `[len(places)]`, between values linearly.

        NaN where nothing is known.
        """
        if not self._rows:
            return np.full(len(places), np.nan)
        table = np.sort(self._table(places), axis=0)
        last = np.maximum(self._count[places].astype(np.int64) - 1, 0)  # NaN sorts behind
        rank = q * last
        low = np.floor(rank).astype(np.int64)
        column = np.arange(len(places))
        below, above = table[low, column], table[np.minimum(low + 1, last), column]
        result: Column = below + (above - below) * (rank - low) + self._reference[places]
        return result

    def _table(self, members: Places) -> npt.NDArray[np.float64]:
        """Distances of chosen members, `[tick, member]`."""
        return np.array([row[members] for row in self._rows], dtype=np.float64)

    def _mean_distance(self) -> Column:
        mean = np.full(len(self._sum), np.nan)
        np.divide(self._sum, self._count, out=mean, where=self._count > 0)
        return mean

    def _move(self, axis: Along) -> None:
        """Lays everything out along another axis, one row after the other."""
        old = self._axis
        places = np.full(len(axis), -1) if old is None else axis.places_in(old)
        if (places < 0).all():
            self.clear()
        for index, row in enumerate(self._rows):
            self._rows[index] = _moved(row, places, np.nan)
        self._axis = axis
        self._reference = _moved(self._reference, places, 0.0)
        self._newest = _moved(self._newest, places, np.nan)
        self._sum = _moved(self._sum, places, 0.0)
        self._squares = _moved(self._squares, places, 0.0)
        self._count = _moved(self._count, places, 0)

    def _leaving(self, time: float) -> list[Row]:
        """Takes off the ticks that are too old at `time`, or too many."""
        rows = []
        while self._times and (
            self._times[0] <= time - self._length + SLACK or len(self._times) >= MAX_TICKS
        ):
            self._times.popleft()
            rows.append(self._rows.popleft())
        return rows

    def _take_out(self, row: Row, piece: slice) -> list[Places]:
        """Takes a row's piece out of the sums; gives the members whose sums are worn by that."""
        scratch, size = self._scratch, piece.stop - piece.start
        distance, square = scratch.first[:size], scratch.second[:size]
        absent = np.isnan(row[piece], out=scratch.flag[:size])
        distance[:] = row[piece]
        np.copyto(distance, 0.0, where=absent)
        self._sum[piece] -= distance
        self._squares[piece] -= np.multiply(distance, distance, out=square)
        self._count[piece] -= np.logical_not(absent, out=absent)
        square *= DWARFED
        worn = np.less(self._squares[piece], square, out=scratch.flag[:size])
        return [np.flatnonzero(worn) + piece.start] if worn.any() else []

    def _add(self, row: Row, values: Column, piece: slice) -> list[Places]:
        """Adds a piece of the new tick; gives the members whose level has shifted."""
        scratch, size = self._scratch, piece.stop - piece.start
        value, reference = values[piece], self._reference[piece]
        total, squares, count = self._sum[piece], self._squares[piece], self._count[piece]
        distance, other, known = scratch.first[:size], scratch.second[:size], scratch.known[:size]
        np.less_equal(np.abs(value, out=other), LARGEST, out=known)

        flag = np.equal(count, 0, out=scratch.flag[:size])
        if flag.any():
            np.copyto(total, 0.0, where=flag)
            np.copyto(squares, 0.0, where=flag)
            np.copyto(reference, value, where=np.logical_and(flag, known, out=flag))

        np.subtract(value, reference, out=distance)
        absent = np.logical_not(known, out=scratch.flag[:size])
        np.copyto(distance, np.nan, where=absent)
        row[piece] = distance
        distance[:] = row[piece]  # what is taken out later is what was added
        np.copyto(distance, 0.0, where=absent)
        total += distance
        squares += np.multiply(distance, distance, out=other)
        count += known

        newest = self._newest[piece]
        np.abs(np.subtract(value, newest, out=other), out=other)
        np.copyto(newest, value, where=known)
        np.multiply(np.abs(distance, out=distance), 1.0 / FAR, out=distance)
        near = np.less(other, distance, out=scratch.flag[:size])
        if not near.any():
            return []
        places = np.flatnonzero(near)
        mean = total[places] / count[places]
        variance = squares[places] / count[places] - mean * mean
        shifted = (FAR * distance[places]) ** 2 > SHIFTED * variance
        return [places[shifted] + piece.start]

    def _shift(self, members: Places) -> None:
        """Makes the newest value of each of these the reference."""
        change = self._reference[members] - self._newest[members]
        for row in self._rows:
            row[members] = row[members] + change
        self._reference[members] = self._newest[members]
        self._recompute(members)

    def _refresh(self) -> None:
        """Makes the sums of one part of the members anew: drift ends, no tick is slow."""
        size = len(self._sum)
        start = self._refresh_from if self._refresh_from < size else 0
        self._refresh_from = min(start + size // RECOMPUTE_EVERY + 1, size)
        self._recompute(np.arange(start, self._refresh_from))

    def _recompute(self, members: Places) -> None:
        for piece in _pieces(len(members)):
            chosen = members[piece]
            table = self._table(chosen)
            np.copyto(table, 0.0, where=np.isnan(table))
            self._sum[chosen] = table.sum(axis=0)
            self._squares[chosen] = np.einsum("ij,ij->j", table, table)


class Ewma:
    """Mean and variance of each member's past, in which a value weighs half as much each
    `half_life_seconds`.

    Weights go by age alone, so ticks may come at any distance. NaN, infinities and values beyond
    `LARGEST` are left out. A member that leaves the axis and returns starts anew, as does one
    silent for forty half-lives, and all do where time goes back.
    """

    def __init__(self, half_life_seconds: float) -> None:
        self._half_life = half_life_seconds
        self._scratch = _Scratch()
        self.clear()

    def clear(self) -> None:
        """Forgets everything: what follows belongs to another time."""
        self._axis: Along | None = None
        self._time: float | None = None
        self._mean: Column = np.zeros(0)
        self._weight: Column = np.zeros(0)
        self._squares: Column = np.zeros(0)
        """Weighted sum of squared distances from the mean."""
        self._age: Column = np.zeros(0)

    def push(self, time: float, axis: Along, values: Column) -> None:
        """Takes the values of one tick, `[n]`, at `time` in seconds."""
        if self._time is not None and time < self._time:
            self.clear()
        if axis is not self._axis:
            self._move(axis)
        passed = 0.0 if self._time is None else time - self._time
        self._time = time
        for piece in _pieces(len(axis)):
            self._add(values[piece], piece, passed)

    @property
    def mean(self) -> Column:
        """Weighted mean of each member, `[n]`; NaN where nothing is known."""
        return np.where(self._weight > 0, self._mean, np.nan)

    @property
    def variance(self) -> Column:
        """Weighted variance of each member, `[n]`; NaN where nothing is known."""
        variance = np.full(len(self._weight), np.nan)
        np.divide(self._squares, self._weight, out=variance, where=self._weight > 0)
        return variance

    @property
    def age(self) -> Column:
        """Seconds of data behind each member's mean, `[n]`; a gap counts as a half-life at
        most.
        """
        return self._age.copy()

    def _move(self, axis: Along) -> None:
        old = self._axis
        places = np.full(len(axis), -1) if old is None else axis.places_in(old)
        self._axis = axis
        self._mean = _moved(self._mean, places, 0.0)
        self._weight = _moved(self._weight, places, 0.0)
        self._squares = _moved(self._squares, places, 0.0)
        self._age = _moved(self._age, places, 0.0)

    def _add(self, value: Column, piece: slice, passed: float) -> None:
        scratch, size = self._scratch, len(value)
        mean, weight = self._mean[piece], self._weight[piece]
        squares, age = self._squares[piece], self._age[piece]
        distance, step, known = scratch.first[:size], scratch.second[:size], scratch.known[:size]
        if passed:
            decay = 0.5 ** (passed / self._half_life)
            weight *= decay
            squares *= decay
            flag = np.less(weight, FORGOTTEN, out=scratch.flag[:size])
            if flag.any():
                for column in (mean, weight, squares, age):
                    np.copyto(column, 0.0, where=flag)
            new = np.equal(weight, 0.0, out=flag)
        else:
            new = np.equal(weight, 0.0, out=scratch.flag[:size])
        np.less_equal(np.abs(value, out=step), LARGEST, out=known)
        # A member's first value has no time behind it.
        np.add(age, min(passed, self._half_life), out=age, where=known & ~new)
        np.subtract(value, mean, out=distance)
        np.copyto(distance, 0.0, where=np.logical_not(known, out=scratch.flag[:size]))
        weight += known
        step[:] = 0.0
        np.divide(distance, weight, out=step, where=known)
        mean += step
        np.subtract(distance, step, out=step)  # from the new mean
        squares += np.multiply(step, distance, out=step)


class _Scratch:
    """Working memory for one piece."""

    def __init__(self) -> None:
        self.first: Column = np.empty(PIECE)
        self.second: Column = np.empty(PIECE)
        self.known: Mask = np.empty(PIECE, np.bool_)
        self.flag: Mask = np.empty(PIECE, np.bool_)


_NOWHERE: Places = np.empty(0, np.int64)


def _pieces(size: int) -> Iterator[slice]:
    for start in range(0, size, PIECE):
        yield slice(start, min(start + PIECE, size))


def _moved(column: npt.NDArray[Cell], places: Places, absent: float) -> npt.NDArray[Cell]:
    """A column laid out along a new axis; `absent` stands for members that the old one lacked."""
    result = np.empty(len(places), column.dtype)
    if len(column):
        column.take(places, out=result, mode="clip")
        result[places < 0] = absent
    else:
        result.fill(absent)
    return result
