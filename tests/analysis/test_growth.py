"""Counts that grow, along axes whose members come and go."""

import numpy as np
from numpy.testing import assert_array_equal

from trntop.analysis.axis import Axis, PartAxis, carried
from trntop.analysis.growth import Growth

NAN = float("nan")


def test_the_first_sight_is_no_growth_and_absence_forgets_nothing() -> None:
    growth, axis = Growth(), Axis("ab")
    assert_array_equal(growth.push(axis, np.array([7.0, NAN])), [0, NAN])
    assert_array_equal(growth.push(axis, np.array([NAN, 3.0])), [NAN, 0])
    assert_array_equal(growth.push(axis, np.array([9.0, 3.0])), [2, 0])


def test_a_count_that_went_back_is_what_it_shows() -> None:
    growth, axis = Growth(), Axis("ab")
    growth.push(axis, np.array([7.0, 7.0]))
    assert_array_equal(growth.push(axis, np.array([2.0, 0.0])), [2, 0])


def test_members_keep_their_counts_when_others_come_and_go() -> None:
    growth = Growth()
    growth.push(Axis("ab"), np.array([[1.0, 2.0], [10.0, 20.0]]))
    grown = growth.push(Axis("bc"), np.array([[5.0, 9.0], [20.0, 9.0]]))
    assert_array_equal(grown, [[3, 0], [0, 0]])
    growth.clear()
    assert_array_equal(growth.push(Axis("b"), np.array([99.0])), [0])


def test_parts_are_carried_by_their_keys() -> None:
    old = PartAxis(Axis("ab"), [(0, 1), (0,)])
    new = PartAxis(Axis("ab"), [(1, 2), (0,)])
    assert_array_equal(carried(np.array([1.0, 2.0, 3.0]), old, new), [2, NAN, 3])
