"""Counters of EFA cards from look to look."""

import numpy as np

from trntop.analysis.counters import Counters
from trntop.analysis.tick import Axes
from trntop.catalog import EFA_SOURCE, HOST, Entity
from trntop.core.model import Cluster, Frame, Inventory, NodeView, SourceState, State

NAN = float("nan")


def node(name: str, read: float | None, *totals: float, first: bool = True) -> NodeView:
    """A node whose cards were read at `read`; none of its columns where that is None."""
    inventory = Inventory(name, keys={Entity.EFA: tuple(f"c{card}" for card in range(2))})
    sources = [SourceState(EFA_SOURCE, State.FRESH, time=read), SourceState(HOST, State.FRESH)]
    columns = {} if read is None else {"efa_tx_pkts_total": np.array(totals, np.float64)}
    return NodeView(inventory, Frame(name, 0.0, columns, tuple(sources[:: 1 if first else -1])))


def looks(*clusters: list[NodeView]) -> Counters:
    counters, axes = Counters(["tx_pkts"]), Axes()
    for time, views in enumerate(clusters):
        counters.take(axes.tick(Cluster(float(time), {view.name: view for view in views})))
    return counters


def grown(counters: Counters) -> list[float | None]:
    values = counters.growth["tx_pkts"].tolist()
    return [None if value != value else value for value in values]


def test_the_growth_per_second_between_two_readings() -> None:
    found = looks([node("a", 10.0, 100, 200)], [node("a", 12.0, 110, 260)])
    assert grown(found) == [5.0, 30.0]
    assert found.fresh.all()
    assert found.elapsed.tolist() == [2.0, 2.0]


def test_the_first_sight_is_no_growth() -> None:
    found = looks([node("a", 10.0, 100, 200)])
    assert found.fresh.all()
    assert grown(found) == [None, None]


def test_a_node_that_was_not_read_anew_is_not_fresh_and_loses_nothing() -> None:
    first = [node("a", 1.0, 0, 0), node("b", 1.0, 0, 0, first=False)]
    second = [node("a", 2.0, 5, 5), node("b", 1.0, 0, 0, first=False)]
    third = [node("a", 3.0, 6, 7), node("b", 3.0, 8, 4, first=False)]
    found = looks(first, second)
    assert found.fresh.tolist() == [True, True, False, False]
    assert found.elapsed.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert grown(found) == [5.0, 5.0, None, None]
    assert grown(looks(first, second, third)) == [1.0, 2.0, 4.0, 2.0]


def test_what_was_reset_is_damaged_or_absent_has_no_growth() -> None:
    found = looks([node("a", 1.0, 100, 0)], [node("a", 2.0, 7, 1e18)])
    assert grown(found) == [None, None]
    assert grown(looks([node("a", 1.0, 1, NAN)], [node("a", 2.0, NAN, 5)])) == [None, None]


def test_a_node_that_falls_silent() -> None:
    found = looks([node("a", 1.0, 0, 0)], [node("a", 2.0, 1, 1)], [node("a", None)])
    assert not found.fresh.any()
    assert found.pace.tolist() == [1.0, 1.0]


def test_a_node_joins() -> None:
    a, b = [node("a", 1.0, 0, 0)], [node("b", 2.0, 9, 9)]
    found = looks(a, [node("a", 2.0, 3, 4), *b])
    assert grown(found) == [3.0, 4.0, None, None]
