"""EFA devices, their peers, and the growth of their counters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from trntop.analysis.detectors.efa import _by_node, _is_whole, stands_out
from trntop.analysis.efa_devices import TUNING, EfaDevices, EfaPeers, Groups
from trntop.catalog import EFA_SOURCE, HOST, Entity
from trntop.catalog.efa import is_up
from trntop.core.model import Cluster, Frame, Inventory, NodeView, SourceState, State
from trntop.pipeline.axis import Axis, PartAxis
from trntop.pipeline.runs import Runs
from trntop.pipeline.statistics import lower_median, node_largest
from trntop.pipeline.tick import Axes

NAN = float("nan")


def axis(*devices: str) -> PartAxis:
    """Nodes with devices named by single letters: `axis("abc", "ab")`."""
    nodes = Axis([f"n{number}" for number in range(len(devices))])
    return PartAxis(nodes, [tuple(names) for names in devices])


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([NAN, -1.0, 0.0]) | st.floats(-9, 9)),
        max_size=20,
    )
)
def test_the_median_of_the_others(members: list[tuple[int, float]]) -> None:
    groups = np.array([group for group, _ in members], np.int64)
    values = np.array([value for _, value in members], np.float64)
    median = Groups(groups).median(values)
    for index, group in enumerate(groups):
        others = np.delete(values, index)[np.delete(groups, index) == group]
        others = others[~np.isnan(others)]
        if len(others):
            np.testing.assert_allclose(median[index], np.median(others))
        else:
            assert np.isnan(median[index])


def test_the_peers_are_on_the_same_node() -> None:
    peers = EfaPeers(axis("abc", "abc"), {})
    assert peers.median(np.array([1.0, 2, 4, 10, 20, 40])).tolist() == [3, 2.5, 1.5, 30, 25, 15]


def test_a_node_with_few_devices_has_its_peers_on_other_nodes_of_the_job() -> None:
    devices = axis("ab", "ab", "ab", "a", "abc")
    jobs = {"n0": "x", "n1": "x", "n2": "y"}
    peers = EfaPeers(devices, jobs)
    values = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    median = peers.median(values)
    assert median[:6].tolist() == [3, 4, 1, 2, 6, 5]  # n2 is alone in its job, n3 without one
    assert np.isnan(median[6])
    assert peers.is_valid(devices, dict(jobs))
    assert not peers.is_valid(devices, jobs | {"n3": "x"})
    assert peers.rails.median(values)[-1:].tolist() != median[-1:].tolist()


def test_the_busiest_device_of_each_node() -> None:
    devices = axis("ab", "", "abc")
    largest = node_largest(devices, np.array([1.0, NAN, 3, 5, 4]))
    assert_array_equal(largest, [1, NAN, 5])
    assert len(node_largest(axis(), np.zeros(0))) == 0


def test_the_lower_median() -> None:
    assert lower_median(np.array([3.0, NAN, 1.0])) == 1
    assert np.isnan(lower_median(np.array([NAN])))


def test_one_device_represents_most_of_its_node() -> None:
    devices = axis("abc", "abc")
    values = np.array([2.0, 3.0, 0.0, 2.0, 0.0, 0.0])
    assert _is_whole(devices, values > 1).tolist() == [True, False]
    since = np.array([9.0, 5.0, NAN, 1.0, NAN, NAN])
    assert _by_node(devices, values, since).tolist() == [0, 3, 0, 2, 0, 0]


def found(values: list[float], *devices: str, sure: bool = True) -> list[int]:
    """Indices of those above the limit, which is 1."""
    column = np.array(values, np.float64)
    peers = EfaPeers(axis(*devices), {})
    return np.flatnonzero(stands_out(column, 1.0, np.full(len(column), sure), peers) > 1).tolist()


def test_well_above_its_peers() -> None:
    assert found([0.1, 0.1, 5, 0.1], "abcd") == [2]
    assert found([0.9, 0.9, 5, 0.9], "abcd") == []
    assert found([0.1, 0.1, 0.9, 0.1], "abcd") == []


def test_what_may_be_chance_does_not() -> None:
    assert found([0, 0, 5, 0], "abcd", sure=False) == []


def test_what_the_whole_fleet_has_names_no_device() -> None:
    assert found([5] * 8, "abcd", "abcd") == []


def test_a_whole_node() -> None:
    assert found([5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0], "abcd", "abcd", "abcd") == [0, 1, 2, 3]
    assert found([6, 6, 6, 6], "abcd") == [0, 1, 2, 3]
    assert found([3, 3, 3, 3], "abcd") == []


def test_those_that_talk_to_the_worst_are_not_named() -> None:
    assert found([0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 3, 0], "abcd", "abcd", "abcd") == [2]
    assert found([0, 20, 0, 0, 3, 0, 0, 0], "abcd", "abcd") == [1, 4]


def test_a_rail_with_equal_values_names_no_device() -> None:
    assert found([0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 4, 0], "abcd", "abcd", "abcd") == []


def test_one_device_alone() -> None:
    assert found([4.9], "a") == []
    assert found([5.1], "a") == [0]


def test_nothing_known() -> None:
    assert found([float("nan")] * 4, "abcd") == []


def node(name: str, read: float | None, *totals: float, first: bool = True) -> NodeView:
    """A node whose devices were read at `read`; none of its columns where that is None."""
    inventory = Inventory(name, keys={Entity.EFA: tuple(f"c{device}" for device in range(2))})
    sources = [SourceState(EFA_SOURCE, State.FRESH, time=read), SourceState(HOST, State.FRESH)]
    columns = {} if read is None else {"efa_tx_bytes_total": np.array(totals, np.float64)}
    return NodeView(inventory, Frame(name, 0.0, columns, tuple(sources[:: 1 if first else -1])))


def polled(*clusters: list[NodeView]) -> EfaDevices:
    devices, axes, runs = EfaDevices(), Axes(), Runs()
    for number, views in enumerate(clusters):
        time = number * TUNING.interval
        tick = axes.tick(Cluster(time, {view.name: view for view in views}))
        runs.update(tick)
        assert devices.poll(tick)
    return devices


def grown(devices: EfaDevices) -> list[float | None]:
    values = devices.growth["tx_bytes"].tolist()
    return [None if value != value else value for value in values]


def test_the_growth_per_second_between_two_readings() -> None:
    found = polled([node("a", 10.0, 100, 200)], [node("a", 12.0, 110, 260)])
    assert grown(found) == [5.0, 30.0]
    assert found.fresh.all()
    assert found.elapsed.tolist() == [2.0, 2.0]


def test_the_first_sight_is_no_growth() -> None:
    found = polled([node("a", 10.0, 100, 200)])
    assert found.fresh.all()
    assert grown(found) == [None, None]


def test_a_node_that_was_not_read_again_is_not_fresh_and_loses_nothing() -> None:
    first = [node("a", 1.0, 0, 0), node("b", 1.0, 0, 0, first=False)]
    second = [node("a", 2.0, 5, 5), node("b", 1.0, 0, 0, first=False)]
    third = [node("a", 3.0, 6, 7), node("b", 3.0, 8, 4, first=False)]
    found = polled(first, second)
    assert found.fresh.tolist() == [True, True, False, False]
    assert found.elapsed.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert grown(found) == [5.0, 5.0, None, None]
    assert grown(polled(first, second, third)) == [1.0, 2.0, 4.0, 2.0]


def test_what_was_reset_is_damaged_or_absent_has_no_growth() -> None:
    found = polled([node("a", 1.0, 100, 0)], [node("a", 2.0, 7, 1e18)])
    assert grown(found) == [None, None]
    assert grown(polled([node("a", 1.0, 1, NAN)], [node("a", 2.0, NAN, 5)])) == [None, None]


def test_a_node_that_falls_silent() -> None:
    found = polled([node("a", 1.0, 0, 0)], [node("a", 2.0, 1, 1)], [node("a", None)])
    assert not found.fresh.any()


def test_a_node_joins() -> None:
    a, b = [node("a", 1.0, 0, 0)], [node("b", 2.0, 9, 9)]
    found = polled(a, [node("a", 2.0, 3, 4), *b])
    assert grown(found) == [3.0, 4.0, None, None]


@pytest.mark.parametrize(
    ("state", "up"),
    [
        ("4: ACTIVE", True),
        ("ACTIVE", True),
        ("active", True),
        ("", True),
        (None, True),
        ("1: DOWN", False),
        ("INACTIVE", False),
        ("2: INIT", False),
    ],
)
def test_the_state_of_a_port(state: str | None, up: bool) -> None:
    assert is_up(state) is up
