"""The history of views, and series that end at one of them."""

from dataclasses import replace

import numpy as np

from tests.builders import NOON, view_of
from tests.tui.sample_run import node
from trntop.catalog import CATALOG, Entity
from trntop.core.model import Cluster, View
from trntop.pipeline.history import History
from trntop.remote.backfill import STEP
from trntop.remote.wire import is_wide
from trntop.tui.view_history import EVICTED_TOGETHER, HistoryUntil, ViewHistory, _pack


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
    assert time_at(history, NOON + 2) == NOON + 2
    assert time_at(history, NOON + 2.9) == NOON + 2
    assert time_at(history, NOON - 100) == NOON
    assert history.at(NOON + 100) is made[4]


def test_an_earlier_view_is_as_it_was() -> None:
    history = ViewHistory()
    made = [replace(view, generation=number) for number, view in enumerate(views(3))]
    for view in made:
        history.append(view)
    found = history.at(NOON + 1)
    assert found is not None
    assert (found.generation, found.cluster.time) == (1, NOON + 1)
    assert found.cluster.names == made[1].cluster.names
    for name, before in made[1].cluster.nodes.items():
        after = found.cluster.nodes[name]
        assert after.inventory is before.inventory
        for part in ("node", "time", "sources", "simulated", "reasons", "phase"):
            assert getattr(after.frame, part) == getattr(before.frame, part)
        assert after.frame.columns.keys() == before.frame.columns.keys()
        for quantity, values in before.frame.columns.items():
            same = values if is_wide(quantity) else values.astype(np.float32)
            np.testing.assert_array_equal(after.frame.columns[quantity], same, quantity)


def time_at(history: ViewHistory, time: float) -> float:
    view = history.at(time)
    assert view is not None
    return view.time


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
    assert history.neighbor(NOON + 12, -1, 5.0) == NOON
    assert history.neighbor(NOON, 1, 60.0) == NOON + 15


def test_old_views_are_evicted() -> None:
    history = ViewHistory(seconds=40.0)
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


def size_of(view: View) -> int:
    """Approximate bytes of a compressed view."""
    return _pack(view, summary=False).size


def test_a_small_budget_keeps_recent_ticks_and_fewer_older_ones() -> None:
    made = views(200, nodes=1)
    history = ViewHistory(seconds=200.0, budget=100 * size_of(made[0]))
    for view in made:
        history.append(view)
    assert not history.reduced
    assert history.span == (NOON, NOON + 199)
    kept = {time_at(history, NOON + second) for second in range(200)}
    assert kept >= {NOON + second for second in range(170, 200)}
    assert len(kept) <= 110
    assert any(time < NOON + 60 for time in kept)


def test_a_large_cluster_keeps_the_quantities_of_nodes_and_jobs() -> None:
    made = views(20, nodes=12)
    history = ViewHistory(budget=20 * size_of(made[0]))
    for view in views(4, nodes=1):
        history.append(view)
    assert not history.reduced
    for view in made[4:]:
        history.append(view)
    assert history.reduced
    assert history.span == (NOON, NOON + 19)
    assert history.at(NOON + 19) is made[19], "the newest is complete"
    kept = [time_at(history, NOON + second) for second in range(5, 19)]
    assert max(np.diff(sorted(set(kept)))) == STEP
    for second in (0, 15):
        view = history.at(NOON + second)
        assert view is not None
        columns = view.cluster.nodes["trn-000"].frame.columns
        assert columns
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
