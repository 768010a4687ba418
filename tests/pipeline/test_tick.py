"""Columns side by side."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from trntop.catalog import Entity
from trntop.core.model import Cluster, Frame, Inventory, NodeView
from trntop.pipeline.tick import Axes

NAN = float("nan")
UTILIZATION = "neuroncore_utilization_ratio"
MEAN = "node_neuroncore_utilization_mean_ratio"


def node(name: str, cores: int, **columns: list[float]) -> NodeView:
    inventory = Inventory(name, keys={Entity.CORE: tuple(range(cores))})
    values = {key: np.array(value) for key, value in columns.items()}
    return NodeView(inventory, Frame(name, 0.0, values, ()))


def cluster(*nodes: NodeView, time: float = 0.0) -> Cluster:
    return Cluster(time, {view.name: view for view in nodes})


def column(views: Cluster, name: str) -> list[float]:
    return Axes().tick(views).column(name).tolist()


def same(values: list[float], expected: list[float]) -> bool:
    return np.array_equal(values, expected, equal_nan=True)


def test_a_quantity_of_nodes() -> None:
    views = cluster(node("a", 0, **{MEAN: [0.5]}), node("b", 0), node("c", 0, **{MEAN: [0.25]}))
    assert same(column(views, MEAN), [0.5, NAN, 0.25])


def test_a_quantity_of_parts() -> None:
    views = cluster(
        node("a", 2, **{UTILIZATION: [0.1, 0.2]}), node("b", 3), node("c", 0),
        node("d", 1, **{UTILIZATION: [0.3]}),
    )  # fmt: skip
    assert same(column(views, UTILIZATION), [0.1, 0.2, NAN, NAN, NAN, 0.3])


def test_a_column_of_another_length_is_unknown() -> None:
    views = cluster(node("a", 2, **{UTILIZATION: [0.1, 0.2]}), node("b", 2, **{UTILIZATION: [0.3]}))
    assert same(column(views, UTILIZATION), [0.1, 0.2, NAN, NAN])


def test_what_no_node_reports_is_absent() -> None:
    assert same(column(cluster(node("a", 2), node("b", 0)), UTILIZATION), [NAN, NAN])
    assert same(column(cluster(node("a", 2), node("b", 0)), MEAN), [NAN, NAN])
    assert column(cluster(), MEAN) == []
    assert column(cluster(), UTILIZATION) == []


def test_all_nodes_report() -> None:
    views = cluster(*(node(name, 1, **{UTILIZATION: [0.5]}) for name in "abc"))
    assert column(views, UTILIZATION) == [0.5] * 3


def test_axes_stay_while_nothing_comes_or_goes() -> None:
    axes = Axes()
    views = {name: node(name, 2) for name in "ab"}
    first = axes.tick(Cluster(0.0, views))
    cores = first.parts(Entity.CORE)
    second = axes.tick(Cluster(1.0, views))
    assert second.nodes is first.nodes
    assert second.parts(Entity.CORE) is cores
    # Another fact of a node is no other axis.
    expected = views["a"]
    learnt = dataclasses.replace(expected.inventory, facts={"instance_type": "trn2.48xlarge"})
    third = axes.tick(Cluster(2.0, {**views, "a": NodeView(learnt, expected.frame)}))
    assert third.parts(Entity.CORE) is cores
    # Another core is.
    more = node("a", 3)
    fourth = axes.tick(Cluster(3.0, {**views, "a": more}))
    assert fourth.nodes is first.nodes
    assert fourth.parts(Entity.CORE) is not cores
    assert fourth.parts(Entity.CORE).widths == [3, 2]


def test_a_node_joins() -> None:
    axes = Axes()
    first = axes.tick(cluster(node("a", 2)))
    cores = first.parts(Entity.CORE)
    second = axes.tick(cluster(node("a", 2), node("b", 1)))
    assert second.nodes.keys == ("a", "b")
    assert second.parts(Entity.CORE).indices_in(cores).tolist() == [0, 1, -1]


def test_a_column_is_gathered_once() -> None:
    tick = Axes().tick(cluster(node("a", 0, **{MEAN: [0.5]})))
    assert tick.column(MEAN) is tick.column(MEAN)


def test_columns_at_once_are_what_they_are_one_by_one() -> None:
    views = cluster(
        node("a", 2, **{UTILIZATION: [0.1, 0.2], MEAN: [0.15]}), node("b", 1, **{MEAN: [0.3]})
    )
    utilization, mean = Axes().tick(views).columns((UTILIZATION, MEAN))
    assert same(utilization.tolist(), [0.1, 0.2, NAN])
    assert same(mean.tolist(), [0.15, 0.3])
    empty = Axes().tick(cluster()).columns((UTILIZATION, MEAN))
    assert [values.tolist() for values in empty] == [[], []]


def test_values_that_do_not_lie_side_by_side() -> None:
    view = node("a", 2)
    table = np.array([[0.1, 5.0], [0.2, 6.0]])
    strided = dataclasses.replace(view.frame, columns={UTILIZATION: table[:, 0]})
    assert column(cluster(NodeView(view.inventory, strided)), UTILIZATION) == [0.1, 0.2]


def test_changed_values_are_laid_out_again() -> None:
    axes = Axes()
    views = {name: node(name, 1, **{UTILIZATION: [0.5]}) for name in "ab"}
    first = axes.tick(Cluster(0.0, views)).column(UTILIZATION)
    assert axes.tick(Cluster(1.0, views)).column(UTILIZATION) is first
    later = {**views, "b": node("b", 1, **{UTILIZATION: [0.7]})}
    assert axes.tick(Cluster(2.0, later)).column(UTILIZATION).tolist() == [0.5, 0.7]
    assert first.tolist() == [0.5, 0.5]
    assert not first.flags.writeable


def test_what_detectors_share_is_one() -> None:
    axes = Axes()
    first, second = axes.tick(cluster(node("a", 1))), axes.tick(cluster(node("a", 1)))
    assert first.shared(dict) is second.shared(dict)
    assert Axes().tick(cluster()).shared(dict) is not first.shared(dict)
    assert second.number == first.number + 1


def test_no_backend_is_quiet_at_first() -> None:
    tick = Axes().tick(cluster(node("a", 0), node("b", 0)))
    assert not tick.quiet.any()
    empty: Mapping[str, str] = {}
    assert tick.job_of == empty
    assert tick.view("b").name == "b"
