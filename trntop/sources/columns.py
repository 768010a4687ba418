"""From numbers as sources write them to columns: out-of-range values become absent (NaN)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from trntop.core.model import Column

Values = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64] | slice
"""Places of values in a column."""
Number = float | None

UINT32_SENTINEL = 2.0**32 - 1
MAX_INDEX = 4097
INDICES = {str(index): index for index in range(MAX_INDEX)}
"""Numbers of devices and cores, by how they are written."""


@dataclass(frozen=True, slots=True)
class Range:
    """What a number is multiplied with, and what it can then be; beyond, it is damaged.

    `limit` leaves room for rounding in the source: up to it, `cap` is taken.
    """

    limit: float
    scale: float = 1.0
    cap: float = np.inf


PERCENT = Range(limit=1.05, scale=0.01, cap=1.0)
"""Percent, kept as a ratio."""
SIZE = Range(limit=2.0**53 - 1)
"""Bytes or a count; no size is larger: 1.4e16 and 2^63 - 14 are sentinels or garbage."""
COUNTER = Range(limit=2.0**64)
"""A cumulative 64-bit counter."""
SECONDS = Range(limit=1e6)
RATE = Range(limit=1e18)
"""Operations per second."""


class Layout:
    """The columns of a table: a name and a range each."""

    def __init__(self, *groups: tuple[Sequence[str], Range]) -> None:
        columns = [(name, bounds) for names, bounds in groups for name in names]
        self.names = tuple(name for name, _ in columns)
        self._scale, self._limit, self._cap = np.array(
            [(bounds.scale, bounds.limit, bounds.cap) for _, bounds in columns]
        ).T

    def read(self, rows: Iterable[Sequence[Number]]) -> Values:
        """Rows of numbers as written, None for absent, to values in range: `[row, column]`."""
        # A flat list converts twice as fast as a list of rows.
        raw = np.array(list(chain.from_iterable(rows)), dtype=np.float64)
        return self.within(raw.reshape(-1, len(self.names)))

    def within(self, raw: Values) -> Values:
        """Numbers as columns, NaN for absent, to values in range."""
        with np.errstate(over="ignore"):  # infinite is out of range as well
            values: Values = raw * self._scale
        good = values >= 0
        good &= values <= self._limit
        good &= raw != UINT32_SENTINEL
        np.minimum(values, self._cap, out=values)
        if not good.all():
            values[~good] = np.nan
        return values

    def split(self, values: Values) -> dict[str, Column]:
        """`[row, column]` to columns by name, without those that have no value at all."""
        columns = dict(zip(self.names, np.ascontiguousarray(values.T), strict=True))
        # NaN if any is: in range, nothing is infinite.
        total = np.add.reduce(values, axis=None)
        if total == total:
            return columns
        return {name: column for name, column in columns.items() if any_known(column)}

    def columns(self, rows: Sequence[Sequence[Number]]) -> dict[str, Column]:
        """`read`, then `split`; no rows, no columns."""
        return self.split(self.read(rows)) if rows else {}


def merge(
    total: Values, index: Index, values: Values, how: Callable[[Values, Values], Values] | None
) -> None:
    """Merges `values` into `total[index]` in place; without `how`, it was empty."""
    total[index] = values if how is None else how(total[index], values)


def add(before: Values, values: Values) -> Values:
    """The sum of what is known."""
    both = before + values
    return np.where(np.isnan(both), np.fmax(before, values), both)


def any_known(values: Column) -> bool:
    """Whether there is any value, mostly the first one."""
    return bool(len(values)) and ((first := values.item(0)) == first or not np.isnan(values).all())
