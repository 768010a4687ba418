import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from trntop.analysis.windows import RECOMPUTE_EVERY, RollingMean

VALUES = st.sampled_from([float("nan"), float("inf"), -1e9, 1e9]) | st.floats(0, 1e6)


@settings(deadline=None)
@given(
    st.integers(1, 7),
    st.lists(st.tuples(st.sets(st.sampled_from("abc")), st.lists(VALUES, min_size=3, max_size=3))),
)
def test_equal_to_a_plain_recomputation(
    length: int, ticks: list[tuple[set[str], list[float]]]
) -> None:
    window = RollingMean(length)
    past: dict[str, list[float]] = {}
    for names, numbers in ticks:
        keys = tuple(sorted(names))
        values = dict(zip("abc", numbers, strict=True))
        mean = window.push(keys, np.array([values[key] for key in keys], dtype=np.float64))
        # A key that left starts anew.
        past = {key: [*past.get(key, []), values[key]][-length:] for key in keys}
        for key, got in zip(keys, mean.tolist(), strict=True):
            known = [value for value in past[key] if np.isfinite(value)]
            if known:
                np.testing.assert_allclose(got, np.mean(known), rtol=1e-6, atol=1e-3)
            else:
                assert np.isnan(got)


def test_no_drift_over_100_000_ticks_with_gaps() -> None:
    rng = np.random.default_rng(1)
    window = RollingMean(60)
    keys = tuple(range(8))
    rows = rng.normal(1e3, 1.0, (100_000, 8)) * rng.choice([1.0, 1e6], (100_000, 1))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    for row in rows[:-1]:
        window.push(keys, row)
    np.testing.assert_allclose(window.push(keys, rows[-1]), np.nanmean(rows[-60:], axis=0), 1e-6)
    assert RECOMPUTE_EVERY < 100_000
