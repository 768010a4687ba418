import numpy as np

from tests.analysis.test_siblings import axis
from trntop.analysis.outliers import stands_out
from trntop.analysis.siblings import Siblings


def found(values: list[float], *cards: str, sure: bool = True) -> list[int]:
    """Places of those that stand out; the limit is 1."""
    siblings = Siblings(axis(*cards), {})
    column = np.array(values, np.float64)
    excess = stands_out(column, 1.0, np.full(len(column), sure), siblings)
    return np.flatnonzero(excess > 1.0).tolist()


def test_far_above_its_siblings() -> None:
    assert found([0.1, 0.1, 5, 0.1], "abcd") == [2]
    assert found([0.9, 0.9, 5, 0.9], "abcd") == []
    assert found([0.1, 0.1, 0.9, 0.1], "abcd") == []


def test_what_may_be_chance_does_not() -> None:
    assert found([0, 0, 5, 0], "abcd", sure=False) == []


def test_what_the_whole_fleet_has_is_nobodys() -> None:
    assert found([5] * 8, "abcd", "abcd") == []


def test_a_whole_node() -> None:
    assert found([5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0], "abcd", "abcd", "abcd") == [0, 1, 2, 3]
    assert found([6, 6, 6, 6], "abcd") == [0, 1, 2, 3]
    assert found([3, 3, 3, 3], "abcd") == []


def test_those_that_talk_to_the_worst_are_not_named() -> None:
    assert found([0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 3, 0], "abcd", "abcd", "abcd") == [2]
    assert found([0, 20, 0, 0, 3, 0, 0, 0], "abcd", "abcd") == [1, 4]


def test_a_rail_that_has_it_alike_is_nobodys() -> None:
    assert found([0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 4, 0], "abcd", "abcd", "abcd") == []


def test_one_card_alone() -> None:
    assert found([4.9], "a") == []
    assert found([5.1], "a") == [0]


def test_nothing_known() -> None:
    assert found([float("nan")] * 4, "abcd") == []
