"""Retransmits that come and go, on made-up readings of one device."""

import numpy as np
import pytest

from trntop.analysis.efa_bursts import TUNING, Bursts
from trntop.pipeline.axis import Axis, PartAxis

AXIS = PartAxis(Axis(["n"]), [("rdmap16s27",)])


def fed(pattern: str, interval: float = 5.0) -> Bursts:
    """After one reading per character: `x` bad, `.` clean, ` ` with too few packets."""
    bursts = Bursts()
    for index, sort in enumerate(pattern):
        packets = np.array([30.0 * (sort == "x")]), np.array([1000.0 * (sort != " ")])
        excess = np.array([{"x": 1.0, ".": -1.0, " ": np.nan}[sort]])
        kept = np.array([0.5 ** (interval / TUNING.half_life)])
        bursts.update(index * interval, AXIS, packets, kept, excess)
    return bursts


@pytest.mark.parametrize(
    ("pattern", "lasting"),
    [
        ("xx....xx....xx....", True),
        ("xx....xx....", False),  # two bursts
        ("x.x.x", False),  # too short
        ("x" * 40, False),  # one burst
        ("x" * 10 + " x" * 10, False),  # one burst, with readings that show nothing
    ],
)
def test_bursts_are_a_fault_when_several_last(pattern: str, lasting: bool) -> None:
    assert fed(pattern).lasting.tolist() == [lasting]


def test_the_share_is_that_since_the_first_burst() -> None:
    bursts = fed("." * 100 + "xx....xx....xx....")
    assert bursts.share == pytest.approx(0.01, rel=0.1)
    assert bursts.since == 500.0


def test_bursts_are_over_after_a_clean_while() -> None:
    clean = "." * (round(TUNING.clean / 5.0) + 2)
    bursts = fed("xx....xx....xx" + clean)
    assert not bursts.lasting.any()
    assert np.isnan(bursts.since).all()
    assert fed("xx....xx....xx" + clean + "x").count == 1
