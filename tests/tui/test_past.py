"""Going back in time: what is kept, and what the screens show of it."""

import numpy as np
import pytest
from textual.pilot import Pilot

from tests.builders import NOON, view_of
from tests.tui.scenes import make_app, node
from trntop.catalog import CATALOG, Entity
from trntop.core.model import Cluster, View
from trntop.pipeline.history import History
from trntop.tui.app import TrntopApp
from trntop.tui.past import FEW, HistoryUntil, Past
from trntop.tui.view_model import Mode


def views(count: int, nodes: int = 2, step: int = 1) -> list[View]:
    return [
        view_of(*(node(index, time=NOON + second) for index in range(nodes)), time=NOON + second)
        for second in range(0, count * step, step)
    ]


def test_the_view_of_a_moment() -> None:
    past = Past()
    assert past.span is None
    assert past.at(NOON) is None
    made = views(5)
    for view in made:
        past.append(view)
    assert past.span == (NOON, NOON + 4)
    assert past.at(NOON + 2) is made[2]
    assert past.at(NOON + 2.9) is made[2]
    assert past.at(NOON - 100) is made[0]
    assert past.at(NOON + 100) is made[4]


def test_what_lies_before_and_after_a_moment() -> None:
    past = Past()
    assert past.beside(NOON, 1) is None
    times = [NOON + second for second in (0, 12, 13, 14.3, 15)]
    for time in times:
        past.append(view_of(time=time))
    assert [past.beside(time, 1) for time in times] == [*times[1:], None]
    assert [past.beside(time, -1) for time in times] == [None, *times[:-1]]
    assert past.beside(NOON + 12.4, -1) == NOON + 12
    assert past.beside(NOON + 15, -1, 2.0) == NOON + 13
    # At least one away, however far that is.
    assert past.beside(NOON + 12, -1, 5.0) == NOON
    assert past.beside(NOON, 1, 60.0) == NOON + 15


def sparse(past: Past, gap: float) -> None:
    """Keeps views so far apart, whatever they take."""
    past._new.gap, past._measure = gap, lambda *_: None  # type: ignore[method-assign]


def test_the_newest_view_is_there_also_where_few_are_kept() -> None:
    past = Past()
    sparse(past, 10.0)
    made = views(5)
    for view in made:
        past.append(view)
    assert past.at(NOON + 3) is made[0]
    assert past.at(NOON + 4) is made[4]
    assert past.span == (NOON, NOON + 4)
    assert past.beside(NOON + 4, -1) == NOON


def test_what_is_too_old_is_forgotten() -> None:
    past = Past(seconds=40.0, dense=10.0)
    for view in views(100, nodes=1):
        past.append(view)
    span = past.span
    assert span is not None
    assert span[1] == NOON + 99
    assert 40 <= span[1] - span[0] <= 40 + FEW


def test_a_clock_that_goes_back_begins_anew() -> None:
    past = Past()
    made = views(5)
    for view in (*made[3:], *made[:2]):
        past.append(view)
    assert past.span == (NOON, NOON + 1)


def test_the_budget_thins_them_out_and_then_leaves_parts_away() -> None:
    made = views(200, nodes=1)
    columns = made[0].cluster.nodes["trn-000"].frame.columns
    size = sum(column.nbytes for column in columns.values()) + 150 * len(columns)
    dense = Past(seconds=200.0, dense=50.0, budget=100 * size)
    small = Past(seconds=200.0, dense=50.0, budget=20 * size)
    for view in made:
        dense.append(view)
        small.append(view)
    assert not dense.slim
    near, far = dense.at(NOON + 170), dense.at(NOON + 120)
    assert near is made[170]
    assert far is not None
    assert NOON + 115 <= far.time <= NOON + 120
    assert len(dense._old.times) < 80
    assert small.slim
    slim = small.at(NOON + 150)
    assert slim is not None
    columns = slim.cluster.nodes["trn-000"].frame.columns
    assert columns
    assert {CATALOG[name].entity for name in columns} <= {Entity.NODE, Entity.JOB}


def test_rare_ticks_keep_their_parts_where_frequent_ones_do_not() -> None:
    frequent, rare = views(10, nodes=1), views(10, nodes=1, step=10)
    columns = frequent[0].cluster.nodes["trn-000"].frame.columns
    size = sum(column.nbytes for column in columns.values()) + 150 * len(columns)
    for made, slim in ((frequent, True), (rare, False)):
        past = Past(seconds=200.0, dense=50.0, budget=20 * size)
        for view in made:
            past.append(view)
        assert past.slim is slim


def test_nodes_that_join_are_measured_soon() -> None:
    few, many = views(4, nodes=1), views(20, nodes=12)
    columns = few[0].cluster.nodes["trn-000"].frame.columns
    size = sum(column.nbytes for column in columns.values()) + 150 * len(columns)
    past = Past(seconds=200.0, dense=50.0, budget=100 * size)
    for view in few:
        past.append(view)
    assert not past.slim
    for view in many[4:]:
        past.append(view)
    assert past.slim
    oldest = past.at(NOON)
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


async def feed(app: TrntopApp, pilot: Pilot[int], count: int) -> None:
    """Lets the past of some seconds be known."""
    for view in views(count):
        app._past.append(view)
    app.session.view = view
    app._show_again()
    await pilot.pause()


@pytest.mark.parametrize("keys", [("left",), ("shift+left", "right"), ("left", "left", "right")])
async def test_back_and_on(keys: tuple[str, ...]) -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        await feed(app, pilot, 100)
        now = app.session.view.time
        await pilot.press(*keys)
        seconds = sum({"left": 5, "shift+left": 60, "right": -5}[key] for key in keys)
        view_model = app.latest()
        assert view_model is not None
        assert view_model.mode is Mode.PAST
        assert view_model.view.time == now - seconds
        assert view_model.behind == seconds
        await pilot.press("l")
        view_model = app.latest()
        assert view_model is not None
        assert view_model.behind == 0
        assert view_model.mode is not Mode.PAST


async def test_where_few_views_are_kept_each_key_goes_to_another() -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        sparse(app._past, 9.0)
        await feed(app, pilot, 41)

        async def shown(*keys: str) -> float:
            await pilot.press(*keys)
            view_model = app.latest()
            assert view_model is not None
            return view_model.view.time - NOON

        assert [await shown("left") for _ in range(3)] == [36, 27, 18]
        assert [await shown("comma") for _ in range(2)] == [9, 0]
        assert [await shown("full_stop") for _ in range(2)] == [9, 18]
        assert [await shown("right") for _ in range(3)] == [27, 36, 40]


async def test_a_view_that_is_held_stays_though_it_is_not_kept() -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        sparse(app._past, 9.0)
        await feed(app, pilot, 5)
        await pilot.press("space")
        held = app.session.view
        for view in views(8)[5:]:
            app._past.append(view)
            app.session.view = view
        await pilot.press("b")
        view_model = app.latest()
        assert view_model is not None
        assert view_model.view is held


async def test_on_into_the_present() -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        await feed(app, pilot, 30)
        await pilot.press("left", "right")
        view_model = app.latest()
        assert view_model is not None
        assert view_model.mode is not Mode.PAST


async def test_to_the_onset_of_the_worst_incident() -> None:
    app = make_app(trouble=True)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        view_model = app.latest()
        assert view_model is not None
        onset = view_model.incidents[0].opened_at
        for second in range(100, 0, -1):
            app._past.append(
                View(
                    1, view_model.view.time - second, view_model.cluster, view_model.view.incidents
                )
            )
        await pilot.press("o")
        view_model = app.latest()
        assert view_model is not None
        assert view_model.view.time == onset


async def test_a_baseline_is_marked_and_forgotten() -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        await pilot.press("b")
        view_model = app.latest()
        assert view_model is not None
        assert view_model.baseline is view_model.view
        await pilot.press("b")
        view_model = app.latest()
        assert view_model is not None
        assert view_model.baseline is None
