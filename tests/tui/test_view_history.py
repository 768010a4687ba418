"""The views that the screen keeps, and series that end at one of them."""

import numpy as np

from tests.builders import NOON, view_of
from tests.tui.scenes import node
from trntop.catalog import CATALOG, Entity
from trntop.core.model import Cluster, View
from trntop.pipeline.history import History
from trntop.tui.view_history import EVICTED_TOGETHER, HistoryUntil, ViewHistory


def views(count: int, nodes: int = 2, step: int = 1) -> list[View]:
    return [
        view_of(*(node(index, time=NOON + second) for index in range(nodes)), time=NOON + second)
        for second in range(0, count * step, step)
    ]


def test_the_view_at_a_time() -> None:
    history = ViewHistory()
    assert history.span is None
    assert history.at(NOON) is None
    made = views(5)
    for view in made:
        history.append(view)
    assert history.span == (NOON, NOON + 4)
    assert history.at(NOON + 2) is made[2]
    assert history.at(NOON + 2.9) is made[2]
    assert history.at(NOON - 100) is made[0]
    assert history.at(NOON + 100) is made[4]


def test_the_neighbors_of_a_time() -> None:
    history = ViewHistory()
    assert history.neighbor(NOON, 1) is None
    times = [NOON + second for second in (0, 12, 13, 14.3, 15)]
    for time in times:
        history.append(view_of(time=time))
    assert [history.neighbor(time, 1) for time in times] == [*times[1:], None]
    assert [history.neighbor(time, -1) for time in times] == [None, *times[:-1]]
    assert history.neighbor(NOON + 12.4, -1) == NOON + 12
    assert history.neighbor(NOON + 15, -1, 2.0) == NOON + 13
    # At least one away, however far that is.
    assert history.neighbor(NOON + 12, -1, 5.0) == NOON
    assert history.neighbor(NOON, 1, 60.0) == NOON + 15


def sparse(history: ViewHistory, gap: float) -> None:
    """Keeps views so far apart, whatever they take."""
    history._dense.gap, history._measure = gap, lambda *_: None  # type: ignore[method-assign]


def test_a_sparse_history_has_the_newest_view() -> None:
    history = ViewHistory()
    sparse(history, 10.0)
    made = views(5)
    for view in made:
        history.append(view)
    assert history.at(NOON + 3) is made[0]
    assert history.at(NOON + 4) is made[4]
    assert history.span == (NOON, NOON + 4)
    assert history.neighbor(NOON + 4, -1) == NOON


def test_old_views_are_evicted() -> None:
    history = ViewHistory(seconds=40.0, dense=10.0)
    for view in views(100, nodes=1):
        history.append(view)
    span = history.span
    assert span is not None
    assert span[1] == NOON + 99
    assert 40 <= span[1] - span[0] <= 40 + EVICTED_TOGETHER


def test_a_clock_that_goes_back_starts_over() -> None:
    history = ViewHistory()
    made = views(5)
    for view in (*made[3:], *made[:2]):
        history.append(view)
    assert history.span == (NOON, NOON + 1)


def test_a_small_budget_spaces_views_out_and_then_reduces_them() -> None:
    made = views(200, nodes=1)
    columns = made[0].cluster.nodes["trn-000"].frame.columns
    size = sum(column.nbytes for column in columns.values()) + 150 * len(columns)
    dense = ViewHistory(seconds=200.0, dense=50.0, budget=100 * size)
    small = ViewHistory(seconds=200.0, dense=50.0, budget=20 * size)
    for view in made:
        dense.append(view)
        small.append(view)
    assert not dense.reduced
    near, far = dense.at(NOON + 170), dense.at(NOON + 120)
    assert near is made[170]
    assert far is not None
    assert NOON + 115 <= far.time <= NOON + 120
    assert len(dense._sparse.times) < 80
    assert small.reduced
    reduced = small.at(NOON + 150)
    assert reduced is not None
    columns = reduced.cluster.nodes["trn-000"].frame.columns
    assert columns
    assert {CATALOG[name].entity for name in columns} <= {Entity.NODE, Entity.JOB}


def test_frequent_ticks_are_reduced_before_rare_ones() -> None:
    frequent, rare = views(10, nodes=1), views(10, nodes=1, step=10)
    columns = frequent[0].cluster.nodes["trn-000"].frame.columns
    size = sum(column.nbytes for column in columns.values()) + 150 * len(columns)
    for made, reduced in ((frequent, True), (rare, False)):
        history = ViewHistory(seconds=200.0, dense=50.0, budget=20 * size)
        for view in made:
            history.append(view)
        assert history.reduced is reduced


def test_nodes_that_join_are_measured_early() -> None:
    few, many = views(4, nodes=1), views(20, nodes=12)
    columns = few[0].cluster.nodes["trn-000"].frame.columns
    size = sum(column.nbytes for column in columns.values()) + 150 * len(columns)
    history = ViewHistory(seconds=200.0, dense=50.0, budget=100 * size)
    for view in few:
        history.append(view)
    assert not history.reduced
    for view in many[4:]:
        history.append(view)
    assert history.reduced
    oldest = history.at(NOON)
    assert oldest is not None
    columns = oldest.cluster.nodes["trn-000"].frame.columns
    assert {CATALOG[name].entity for name in columns} <= {Entity.NODE, Entity.JOB}


def test_a_history_that_ends_earlier() -> None:
    history = History(seconds=100)
    for second in range(60):
        cluster = Cluster(NOON + second, {"n": node(0, time=NOON + second, name="n")})
        history.append(cluster, {"job/x": float(second)})
    cut = HistoryUntil(history, NOON + 29.5, NOON + 59)
    times, values = cut.scalar("job/x", 10)
    assert times.tolist() == [NOON + second for second in range(20, 30)]
    assert values.tolist() == list(range(20, 30))
    times, table = cut.nodes("node_efa_tx_bytes_per_second", ["n"], 5)
    assert times[-1] == NOON + 29
    assert table.shape == (5, 1)
    times, row = cut.node("node_efa_tx_bytes_per_second", "n", 5)
    assert (len(times), len(row)) == (5, 5)
    assert not np.isnan(row).any()
    assert len(HistoryUntil(history, NOON - 1, NOON + 59).scalar("job/x", 10)[0]) == 0
