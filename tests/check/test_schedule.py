"""Rounds: each pair once, no node twice at a time, as few rounds as can be."""

from collections import Counter
from itertools import chain, combinations

import pytest

from trntop.check import schedule
from trntop.check.schedule import Round


def disjoint(rounds: list[Round]) -> bool:
    return all(len(set(chain(*each))) == 2 * len(each) for each in rounds)


def pairs(rounds: list[Round]) -> Counter[frozenset[int]]:
    return Counter(map(frozenset, chain(*rounds)))


def partners(rounds: list[Round], node: int) -> set[int]:
    return {other for pair in chain(*rounds) if node in pair for other in pair} - {node}


@pytest.mark.parametrize("count", range(2, 65))
def test_a_tournament_has_each_pair_once(count: int) -> None:
    rounds = schedule.tournament(count)
    assert pairs(rounds) == Counter(map(frozenset, combinations(range(count), 2)))
    assert disjoint(rounds)
    assert len(rounds) == (count - 1 if count % 2 == 0 else count)


def test_a_tournament_begins_as_others_of_its_kind_do() -> None:
    assert schedule.tournament(8)[0] == ((0, 7), (1, 6), (2, 5), (3, 4))


@pytest.mark.parametrize("count", range(3, 65))
def test_a_quick_check_gives_each_node_two_partners(count: int) -> None:
    rounds = schedule.quick(count)
    assert all(len(partners(rounds, node)) == 2 for node in range(count))
    assert set(pairs(rounds).values()) == {1}
    assert disjoint(rounds)
    assert len(rounds) == 2 + count % 2


def test_few_nodes() -> None:
    assert schedule.tournament(0) == schedule.tournament(1) == []
    assert schedule.quick(0) == schedule.quick(1) == []
    assert schedule.quick(2) == schedule.tournament(2) == [((0, 1),)]


def test_suspects_meet_good_nodes_that_they_have_not_met() -> None:
    rounds = schedule.against([0, 1], [2, 3, 4], {(0, 2), (3, 1)}, {0: 2, 1: 1})
    assert disjoint(rounds)
    assert partners(rounds, 0) == {3, 4}
    assert partners(rounds, 1) in ({2}, {4})
    assert set(pairs(rounds).values()) == {1}


def test_more_suspects_than_good_nodes_take_turns() -> None:
    rounds = schedule.against(range(10), [10], set(), dict.fromkeys(range(10), 2))
    assert len(rounds) == 10
    assert disjoint(rounds)
    assert schedule.against([0, 1], [], set(), {0: 2, 1: 2}) == []


def test_given_pairs_are_kept_apart() -> None:
    pairs = [(0, 1), (1, 2), (3, 4), (2, 0)]
    rounds = schedule.apart(pairs)
    assert rounds == [((0, 1), (3, 4)), ((1, 2),), ((2, 0),)]
    assert schedule.apart([]) == []
