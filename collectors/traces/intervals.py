"""Sets of time: rows of start and stop in whole nanoseconds, `[n, 2]`."""

import numpy as np
import numpy.typing as npt

Intervals = npt.NDArray[np.int64]
EMPTY: Intervals = np.empty((0, 2), np.int64)


def union(intervals: Intervals) -> Intervals:
    """The same time as disjoint rows in order; rows that touch are joined, empty ones left out."""
    rows = intervals[intervals[:, 0] < intervals[:, 1]]
    if not len(rows):
        return EMPTY
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    reach = np.maximum.accumulate(rows[:, 1])
    apart = rows[1:, 0] > reach[:-1]
    first = np.concatenate(([True], apart))
    last = np.concatenate((apart, [True]))
    return np.column_stack((rows[first, 0], reach[last]))


def clip(disjoint: Intervals, start: int, stop: int) -> Intervals:
    """What of a union lies between two times."""
    low = np.searchsorted(disjoint[:, 1], start, side="right")
    high = np.searchsorted(disjoint[:, 0], stop, side="left")
    return np.clip(disjoint[low:high], start, stop) if low < high else EMPTY


def length(disjoint: Intervals) -> int:
    """Nanoseconds in a union."""
    return int((disjoint[:, 1] - disjoint[:, 0]).sum())


def overlap(intervals: Intervals, other: Intervals) -> int:
    """Nanoseconds that two unions have in common."""
    return length(intervals) + length(other) - length(union(np.concatenate((intervals, other))))
