"""From numbers as sources write them to columns: out-of-range values become absent (NaN)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from trntop.model import Column

Values = npt.NDArray[np.float64]
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
        self._scale = np.array([bounds.scale for _, bounds in columns])
        self._limit = np.array([bounds.limit for _, bounds in columns])
        self._cap = np.array([bounds.cap for _, bounds in columns])

    def read(self, rows: Sequence[Sequence[Number]]) -> Values:
        """Rows of numbers as written, None for absent, to values in range: `[row, column]`."""
        # A flat list converts twice as fast as a list of rows.
        return self.read_flat(list(chain.from_iterable(rows)))

    def read_flat(self, numbers: Sequence[Number]) -> Values:
        """The same from the rows' numbers one after another."""
        raw = np.array(numbers, dtype=np.float64).reshape(-1, len(self.names))
        with np.errstate(over="ignore"):  # infinite is out of range as well
            values = raw * self._scale
        good = (values >= 0) & (values <= self._limit) & (raw != UINT32_SENTINEL)
        return np.where(good, np.minimum(values, self._cap), np.nan)

    def split(self, values: Values) -> dict[str, Column]:
        """`[row, column]` to columns by name, without those that have no value at all."""
        columns = zip(self.names, values.T, strict=True)
        absent = np.isnan(values)
        if not absent.any():
            return dict(columns)
        return {name: column for name, column in columns if not np.isnan(column).all()}

    def columns(self, rows: Sequence[Sequence[Number]]) -> dict[str, Column]:
        """`read`, then `split`; no rows, no columns."""
        return self.split(self.read(rows)) if rows else {}


def combine_max(total: Values, index: list[int], values: Values) -> None:
    """Merges `values` into `total[index]` by the larger, in place; absent loses."""
    total[index] = np.fmax(total[index], values)


def combine_min(total: Values, index: list[int], values: Values) -> None:
    """Merges `values` into `total[index]` by the smaller, in place; absent loses."""
    total[index] = np.fmin(total[index], values)


def combine_sum(total: Values, index: list[int], values: Values) -> None:
    """Adds `values` to `total[index]` in place; absent counts as nothing, not as poison."""
    before = total[index]
    both = before + values
    total[index] = np.where(np.isnan(both), np.fmax(before, values), both)
