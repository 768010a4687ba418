import numpy as np
import pytest

from trntop.analysis.roles import lone_slow, roles

NAN = float("nan")


def test_levels_that_lie_close_together_are_one_role() -> None:
    levels = np.array([0.0, 0.31, 0.01, 0.3, -0.005, 0.6])
    assert roles(levels, 0.004).tolist() == [0, 1, 0, 1, 0, 2]


def test_noise_makes_roles_coarser() -> None:
    levels = np.array([0.0, 0.05, 0.1, 0.15])
    assert len(set(roles(levels, 0.004).tolist())) == 4
    assert set(roles(levels, 0.02).tolist()) == {0}


def test_an_unknown_node_has_no_role() -> None:
    assert roles(np.array([NAN, 0.0, NAN, 0.5]), 0.004).tolist() == [-1, 0, -1, 1]
    assert roles(np.array([NAN, NAN]), 0.004).tolist() == [-1, -1]
    assert roles(np.array([]), 0.004).tolist() == []


def lone(levels: list[float], nodes: list[int] | None = None) -> list[bool]:
    values = np.array(levels)
    where = np.arange(len(values)) if nodes is None else np.array(nodes)
    return (lone_slow(values, roles(values, 0.004), where) >= 0).tolist()


def test_a_lone_slow_node_among_many() -> None:
    assert lone([0.0] * 7 + [0.4]) == [False] * 7 + [True]


def test_all_ranks_of_one_node() -> None:
    levels = [0.0] * 16 + [0.4] * 4
    assert lone(levels, [rank // 4 for rank in range(20)]) == [False] * 16 + [True] * 4


def test_it_is_slow_in_the_slowest_stage() -> None:
    levels = np.array([0.0, 0.3, 0.3, 0.6, 0.01, 0.3, 0.0])
    assert lone_slow(levels, roles(levels, 0.004), np.arange(7)).tolist() == [
        -1, -1, -1, 1, -1, -1, -1
    ]  # fmt: skip


@pytest.mark.parametrize(
    "levels",
    [
        [0.0, 0.2, 0.4, 0.6],  # each node a stage of its own
        [0.0] * 6 + [0.4] * 2,  # two nodes are slower: a stage
        [0.0] * 7 + [-0.4],  # a faster one slows no other
        [0.0, 0.0, 0.0, 0.4],  # too few to decide
        [0.0] * 3 + [0.3] * 2 + [0.6],  # stages of fewer nodes: it may be one
        [0.0] * 7 + [0.08],  # that little may be its design
        [NAN] * 8,
        [0.0] * 8,
    ],
)
def test_ranks_that_are_slower_by_design(levels: list[float]) -> None:
    assert not any(lone(levels))
