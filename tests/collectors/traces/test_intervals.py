import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trntop.collectors.traces.intervals import EMPTY, Intervals, clip, length, overlap, union

RASTER = 60
ROWS = st.lists(
    st.tuples(st.integers(0, RASTER), st.integers(0, RASTER)).map(lambda pair: tuple(sorted(pair))),
    max_size=20,
)


def rows(pairs: list[tuple[int, ...]]) -> Intervals:
    return np.array(pairs, np.int64).reshape(-1, 2)


def raster(intervals: Intervals) -> set[int]:
    """The unit cells that are covered."""
    return {cell for start, stop in intervals.tolist() for cell in range(start, stop)}


@given(ROWS)
def test_a_union_covers_the_same_time_in_disjoint_ordered_rows(
    pairs: list[tuple[int, ...]],
) -> None:
    joined = union(rows(pairs))
    assert raster(joined) == raster(rows(pairs))
    assert length(joined) == len(raster(joined))
    edges = joined.ravel().tolist()
    assert edges == sorted(set(edges)), "rows overlap, touch or are empty"


@given(ROWS, ROWS)
def test_an_overlap_is_what_both_cover(
    left: list[tuple[int, ...]], two: list[tuple[int, ...]]
) -> None:
    first, second = rows(left), rows(two)
    assert overlap(union(first), union(second)) == len(raster(first) & raster(second))


@given(ROWS, st.integers(-5, RASTER + 5), st.integers(0, RASTER))
def test_a_clip_is_what_lies_between(pairs: list[tuple[int, ...]], start: int, width: int) -> None:
    inside = clip(union(rows(pairs)), start, start + width)
    assert raster(inside) == raster(rows(pairs)) & set(range(start, start + width))
    assert length(inside) == len(raster(inside))


def test_nothing_has_no_length() -> None:
    assert length(union(EMPTY)) == 0
    assert overlap(EMPTY, EMPTY) == 0
    assert length(clip(EMPTY, 0, 10)) == 0


def test_times_of_day_in_nanoseconds_stay_exact() -> None:
    now = 1_763_650_000_123_456_789
    assert length(union(rows([(now, now + 1), (now + 1, now + 3)]))) == 3
