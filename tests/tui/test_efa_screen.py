"""The EFA screen: the cursor on a node and a device, the layers, the ways in and out."""

from typing import cast

from tests.builders import efa_name, make_node, view_of
from tests.tui.render.fabrics import efa_devices, probed, probing
from tests.tui.sample_run import DEVICE, EFA_INCIDENT, VICTIM, app_of, make_app
from tests.tui.test_app import picture, press, running, session_of
from trntop.tui.app import TrntopApp
from trntop.tui.screens.cluster import ClusterScreen
from trntop.tui.screens.efa import EfaScreen
from trntop.tui.screens.node import NodeScreen
from trntop.tui.widgets.efa_map import EfaPanel

LEFT, RIGHT = "left_square_bracket", "right_square_bracket"


def shown(app: TrntopApp) -> EfaScreen:
    assert isinstance(app.screen, EfaScreen)
    return app.screen


def device_of(app: TrntopApp) -> str:
    """The EFA device under the cursor."""
    fabric, column = shown(app).fabric, shown(app).map_state.column
    assert fabric is not None
    assert column is not None
    return fabric.rails.names[column]


async def test_the_degraded_efa_device_is_under_the_cursor_at_once() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "4")
        assert shown(app).node == VICTIM
        assert device_of(app) == DEVICE
        assert shown(app).incident is EFA_INCIDENT
        drawn = picture(app)
        assert "trntop ▸ efa" in drawn
        assert f"{VICTIM} · {DEVICE}" in drawn
        assert "● EFA degraded since" in drawn, "without any further key"
        assert "latency – not probed: trntop check" in drawn


async def test_the_efa_device_of_a_slow_link_is_under_the_cursor() -> None:
    slow = probing(
        efa_devices(0), {f"{efa_name(2)}>trn-001": 54e-6, f"{efa_name(0)}>trn-002": 16e-6}
    )
    others = [probing(efa_devices(index), {"trn-000": 16e-6, "trn-003": 16e-6}) for index in (1, 2)]
    app = app_of(session_of(view_of(slow, *others)))
    async with running(app) as pilot:
        await press(pilot, "4")
        assert device_of(app) == efa_name(2)
        assert "link to trn-001 takes 3.4× the median of all" in picture(app)


async def test_moving_about() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "4", RIGHT, RIGHT)
        assert device_of(app) == "rdmap128s27"
        await press(pilot, *[LEFT] * 20)
        assert device_of(app) == "rdmap16s27"
        await press(pilot, "down", "j")
        assert shown(app).node == "trn-000"
        assert device_of(app) == "rdmap16s27", "a chosen device stays"
        await press(pilot, "enter")
        assert isinstance(app.screen, NodeScreen)
        assert app.screen.crumbs == ("efa", "trn-000")
        await press(pilot, "n")
        assert app.screen.crumbs == ("efa", "trn-001")
        await press(pilot, "escape", "escape")
        assert isinstance(app.screen, ClusterScreen)
        assert app.screen.crumbs == ("cluster",)


async def test_the_mouse_points_at_an_efa_device() -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "4")
        region = shown(app).table.content_region
        await pilot.click(offset=(region.x + 15 + 4 * 3, region.y + 4))
        await pilot.pause()
        assert shown(app).node == "trn-003"
        assert device_of(app) == "rdmap64s27"
        await pilot.click(offset=(region.x + 5, region.y + 2))
        await pilot.pause()
        assert shown(app).node == "trn-001"
        assert device_of(app) == "rdmap64s27"


async def test_layers_and_orders() -> None:
    app = make_app(trouble=True)
    async with running(app) as pilot:
        await press(pilot, "4", "m")
        assert "retransmits, share of packets" in picture(app)
        await press(pilot, "m")
        assert "latency, slowest link" in picture(app)
        await press(pilot, "m")
        assert "traffic vs peers" in picture(app)
        assert shown(app).table.current is not None
        await press(pilot, "s")
        first = shown(app).table.rows[0]
        assert first.name == "trn-000"
        assert "by name" in picture(app)
        await press(pilot, "s")
        assert shown(app).table.rows[0].name == VICTIM


async def test_in_short_space_the_pairs_are_with_latency() -> None:
    app = app_of(session_of(view_of(*probed(6, slow=(1, 3)))))
    async with running(app, (80, 24)) as pilot:
        await press(pilot, "4")
        assert "healthy" in picture(app)
        assert "fi_pingpong" not in picture(app)
        await press(pilot, "m", "m")
        assert "healthy" not in picture(app)
        assert "trn-001 ▸ trn-003" in picture(app)


async def test_the_legend_stays_in_sight_however_many_nodes_there_are() -> None:
    app = make_app(nodes=100)
    async with running(app) as pilot:
        await press(pilot, "4")
        drawn = picture(app)
        assert "needs attention" in drawn
        await press(pilot, "end")
        assert "trn-099" in picture(app)


async def test_counters_scroll() -> None:
    app = make_app()
    async with running(app) as pilot:
        await press(pilot, "4", "J")
        detail = shown(app).query_one("#device")
        assert detail.scroll_offset.y == 3
        await press(pilot, "K")
        assert detail.scroll_offset.y == 0


async def test_a_fleet_without_efa_devices() -> None:
    app = app_of(session_of(view_of(make_node(0, efa=0))))
    async with running(app) as pilot:
        await press(pilot, "4", RIGHT, LEFT, "m")
        drawn = picture(app)
        assert "no EFA devices known" in drawn
        assert shown(app).map_state.column is None


async def test_removed_nodes_take_their_efa_devices_along() -> None:
    session = session_of(view_of(make_node(0, 2, 2, 4), make_node(1, 2, 2, 4)))
    app = app_of(session)
    async with running(app) as pilot:
        await press(pilot, "4", "end", RIGHT)
        assert shown(app).node == "trn-001"
        session.publish(view_of(make_node(0, 2, 2, 0)))
        await pilot.pause()
        await pilot.pause()
        assert shown(app).node == "trn-000"
        assert "no EFA devices known" in picture(app)
        session.publish(view_of())
        await pilot.pause()
        await pilot.pause()
        assert shown(app).node is None
        assert shown(app).query_one("#counters", EfaPanel).draw(40, 0) == ()
        session.publish(view_of(make_node(0, 2, 2, 4)))
        await pilot.pause()
        await pilot.pause()
        assert cast(str, shown(app).node) == "trn-000"
        assert device_of(app) == "rdmap32s27"
