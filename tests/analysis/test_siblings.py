import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trntop.analysis.axis import Axis, PartAxis
from trntop.analysis.siblings import (
    Groups,
    Siblings,
    lower_median,
    node_largest,
    of_whole_nodes,
    whole,
)

NAN = float("nan")


def axis(*cards: str) -> PartAxis:
    """Nodes with cards named by single letters: `axis("abc", "ab")`."""
    nodes = Axis([f"n{number}" for number in range(len(cards))])
    return PartAxis(nodes, [tuple(names) for names in cards])


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([NAN, -1.0, 0.0]) | st.floats(-9, 9)),
        max_size=20,
    )
)
def test_the_median_of_the_others(members: list[tuple[int, float]]) -> None:
    groups = np.array([group for group, _ in members], np.int64)
    values = np.array([value for _, value in members], np.float64)
    got = Groups(groups).median(values)
    for place, group in enumerate(groups):
        others = np.delete(values, place)[np.delete(groups, place) == group]
        others = others[~np.isnan(others)]
        if len(others):
            np.testing.assert_allclose(got[place], np.median(others))
        else:
            assert np.isnan(got[place])


def test_the_siblings_are_on_the_same_node() -> None:
    siblings = Siblings(axis("abc", "abc"), {})
    assert siblings.median(np.array([1.0, 2, 4, 10, 20, 40])).tolist() == [3, 2.5, 1.5, 30, 25, 15]


def test_a_node_with_few_cards_has_its_siblings_on_other_nodes_of_the_job() -> None:
    cards = axis("ab", "ab", "ab", "a", "abc")
    jobs = {"n0": "x", "n1": "x", "n2": "y"}
    siblings = Siblings(cards, jobs)
    values = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    got = siblings.median(values)
    assert got[:6].tolist() == [3, 4, 1, 2, 6, 5]  # n2 is alone in its job, n3 without one
    assert np.isnan(got[6])
    assert siblings.still(cards, dict(jobs))
    assert not siblings.still(cards, jobs | {"n3": "x"})
    assert siblings.rails.median(values)[-1:].tolist() != got[-1:].tolist()


def test_the_busiest_card_of_each_node() -> None:
    cards = axis("ab", "", "abc")
    largest = node_largest(cards, np.array([1.0, NAN, 3, 5, 4]))
    assert largest.tolist() == [1, 1, 5, 5, 5]
    assert len(node_largest(axis(), np.zeros(0))) == 0


def test_the_lower_median() -> None:
    assert lower_median(np.array([3.0, NAN, 1.0])) == 1
    assert np.isnan(lower_median(np.array([NAN])))


def test_one_card_stands_for_most_of_its_node() -> None:
    cards = axis("abc", "abc")
    values = np.array([2.0, 3.0, 0.0, 2.0, 0.0, 0.0])
    assert whole(cards, values > 1).tolist() == [True, False]
    since = np.array([9.0, 5.0, NAN, 1.0, NAN, NAN])
    assert of_whole_nodes(cards, values, since).tolist() == [0, 3, 0, 2, 0, 0]
