"""From numbers as sources write them to columns: out-of-range values become absent (NaN)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from trntop.core.model import Column

Values = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64] | slice
"""Places of values in a column."""
Number = float | None

UINT32_SENTINEL = 2.0**32 - 1


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
        self.bounds = np.array([(one.scale, one.limit, one.cap) for _, one in columns]).T
        """Scale, limit and cap of each column, `[3, column]`."""

    def read(self, rows: Sequence[Sequence[Number]]) -> Values:
        """Rows of numbers as written, None for absent, to values in range: `[row, column]`."""
        # A flat list converts twice as fast as a list of rows.
        return self.read_flat(list(chain.from_iterable(rows)))

    def read_flat(self, numbers: Sequence[Number]) -> Values:
        """The same from the rows' numbers one after another."""
        return read_tables([(self, numbers)])[0]

    def within(self, raw: Values) -> Values:
        """Numbers that are columns already, NaN for absent, to values in range."""
        return _within(raw, *self.bounds)

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


Table = tuple[Layout, Sequence[Number]]
"""A layout and the numbers of its rows, one after another, None for absent."""


def read_tables(tables: Sequence[Table]) -> list[Values]:
    """Numbers as written to values in range: `[row, column]` of each table.

    All go through NumPy at once, since for a hundred numbers its calls cost more than these.
    """
    if not tables:
        return []
    raw = np.array(list(chain.from_iterable([numbers for _, numbers in tables])), dtype=np.float64)
    shape = tuple([(layout, len(numbers)) for layout, numbers in tables])
    scale, limit, cap = _bounds(shape) if len(raw) <= _REMEMBERED else _bounds_of(shape)
    read = _within(raw, scale, limit, cap)
    result = []
    start = 0
    for layout, count in shape:
        result.append(read[start : start + count].reshape(-1, len(layout.names)))
        start += count
    return result


def _within(raw: Values, scale: Values, limit: Values, cap: Values) -> Values:
    with np.errstate(over="ignore"):  # infinite is out of range as well
        values = raw * scale
    good = values >= 0
    good &= values <= limit
    good &= raw != UINT32_SENTINEL
    np.minimum(values, cap, out=values)
    if not good.all():
        values[~good] = np.nan
    return values


_REMEMBERED = 16_384
"""Numbers of a payload up to which its bounds are kept for the next one."""


def _bounds_of(shape: tuple[tuple[Layout, int], ...]) -> Values:
    """Scale, limit and cap of each number of several tables, `[3, number]`."""
    return np.concatenate(
        [np.tile(layout.bounds, count // len(layout.names)) for layout, count in shape], axis=1
    )


_bounds = lru_cache(maxsize=64)(_bounds_of)


def merge(
    total: Values, index: Index, values: Values, how: Callable[[Values, Values], Values] | None
) -> None:
    """Merges `values` into `total[index]`, in place; without `how`, there was nothing yet."""
    total[index] = values if how is None else how(total[index], values)


def add(before: Values, values: Values) -> Values:
    """The sum; absent counts as nothing, not as poison."""
    both = before + values
    return np.where(np.isnan(both), np.fmax(before, values), both)


def any_known(values: Column) -> bool:
    """Whether there is any value; the first one mostly tells."""
    return bool(len(values)) and ((first := values.item(0)) == first or not np.isnan(values).all())
