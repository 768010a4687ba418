import numpy as np

from trntop.core.model import Cluster, Frame, Inventory, NodeView
from trntop.pipeline.history import History, Ring

UTILIZATION = "node_neuroncore_utilization_mean_ratio"


def cluster(time: float, **values: float) -> Cluster:
    return Cluster(
        time,
        {
            name: NodeView(Inventory(name), Frame(name, time, {UTILIZATION: np.array([value])}, ()))
            for name, value in sorted(values.items())
        },
    )


def test_a_ring_keeps_the_newest_rows() -> None:
    ring = Ring(3, 1)
    for t in range(5):
        ring.append(t, [t * 10])
    times, rows = ring.last(10)
    assert times.tolist() == [2, 3, 4]
    assert rows[:, 0].tolist() == [20, 30, 40]


def test_nodes_that_join_and_leave() -> None:
    history = History(seconds=4, coarse=4, step=2)
    history.append(cluster(0, b=0.5))
    history.append(cluster(1, a=0.1, b=0.6))
    history.append(cluster(2, a=0.2))
    times, values = history.nodes(UTILIZATION, ["a", "b", "unknown"], 10)
    assert times.tolist() == [0, 1, 2]
    np.testing.assert_allclose(
        values, [[np.nan, 0.5, np.nan], [0.1, 0.6, np.nan], [0.2, np.nan, np.nan]], rtol=1e-6
    )
    assert history.node(UTILIZATION, "b", 2)[1][0] == np.float32(0.6)
    assert len(history.node(UTILIZATION, "unknown", 2)[0]) == 0


def test_nodes_that_come_and_go_for_ever_take_no_more_room() -> None:
    history = History(seconds=4, coarse=4, step=2)
    for t in range(200):
        history.append(cluster(t, **{f"n{t // 2}": 0.5, "stays": 0.1}))
    assert history._series[UTILIZATION].coarse.width < 12
    _, values = history.nodes(UTILIZATION, ["n99", "n98", "n90", "stays"], 4)
    np.testing.assert_allclose(
        values,
        [[np.nan, 0.5, np.nan, 0.1]] * 2 + [[0.5, np.nan, np.nan, 0.1]] * 2,
        rtol=1e-6,
    )
    _, values = history.nodes(UTILIZATION, ["n99"], 4, coarse=True)
    np.testing.assert_allclose(values[:, 0], [np.nan, np.nan, np.nan, 0.5], rtol=1e-6)


def test_the_coarse_ring_holds_means() -> None:
    history = History(seconds=10, coarse=4, step=2)
    for t, value in enumerate([0.0, 1.0, float("nan"), 0.5]):
        history.append(cluster(t, a=value))
    times, values = history.nodes(UTILIZATION, ["a"], 10, coarse=True)
    assert times.tolist() == [1, 3]
    assert values[:, 0].tolist() == [0.5, 0.5]


def test_a_job_that_is_gone_is_forgotten() -> None:
    history = History(seconds=5, coarse=4, step=2)
    history.append(cluster(0), {"job/x": 1.0})
    for t in range(1, 10):
        history.append(cluster(t))
    assert history.scalar("job/x", 10)[0].tolist() == []


def test_scalars_have_gaps_where_nothing_was_reported() -> None:
    history = History(seconds=10, coarse=4, step=2)
    history.append(cluster(0), {"job/x": 1.0})
    history.append(cluster(1))
    history.append(cluster(2), {"job/x": 3.0})
    times, values = history.scalar("job/x", 10)
    assert times.tolist() == [0, 1, 2]
    assert np.isnan(values[1])
    assert history.scalar("nothing", 3)[0].tolist() == []
