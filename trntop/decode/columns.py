"""From numbers as sources write them to columns: out-of-range values become absent (NaN)."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

MAX_BYTES = 2.0**53
"""No size is larger; what is (1.4e16, 2^63 - 14) is a sentinel or garbage."""
UINT32_SENTINEL = 2.0**32 - 1


def table(rows: Sequence[Sequence[float | None]]) -> Values:
    """Rows of equal length, at least one, with None as absent: `[row, column]`."""
    # A flat list converts twice as fast as a list of rows.
    return np.array(list(chain.from_iterable(rows)), dtype=np.float64).reshape(len(rows), -1)


def percent(values: Values) -> Values:
    """Percent to a ratio; below 0 or well above 100 is absent, slightly above is 1."""
    ratio = values / 100
    return np.where((ratio >= 0) & (ratio <= 1.05), np.minimum(ratio, 1.0), np.nan)


def size(values: Values) -> Values:
    """Bytes or a count; negative, infinite and sentinel values are absent."""
    good = (values >= 0) & (values < MAX_BYTES) & (values != UINT32_SENTINEL)
    return np.where(good, values, np.nan)


def quantity(values: Values, limit: float) -> Values:
    """Any non-negative quantity up to `limit`."""
    return np.where((values >= 0) & (values <= limit), values, np.nan)


def combine_max(total: Values, index: list[int], values: Values) -> None:
    """Merges `values` into `total[index]` by the larger, in place; absent loses."""
    total[index] = np.fmax(total[index], values)


def combine_sum(total: Values, index: list[int], values: Values) -> None:
    """Adds `values` to `total[index]` in place; absent counts as nothing, not as poison."""
    before = total[index]
    both = before + values
    total[index] = np.where(np.isnan(both), np.fmax(before, values), both)
