"""The map of EFA devices: its layers, its cells, the lines around it."""

import dataclasses

import numpy as np
import pytest
from textual.strip import Strip

from tests.builders import efa_name, make_incident, make_node
from tests.tui.render.contexts import CONTEXT, text
from tests.tui.render.fabrics import efa_devices, fabric_of, probed, probing, renamed, view_model_of
from tests.tui.sample_run import DEVICE, VICTIM, view_model
from trntop.core.model import ClusterTotals, Severity, State
from trntop.tui.render import efa_map, fabric, layers, table
from trntop.tui.render.fabric import Fabric

PEERS, RETRANSMITS, LATENCY = layers.LAYERS
TX, RESENT = "efa_tx_bytes_per_second", "efa_retrans_pkts_per_second"
WHOLE = Fabric(view_model(trouble=True))
BAD = WHOLE.rails.names.index(DEVICE)


def state_of(layer: layers.Layer = PEERS, column: int | None = None) -> efa_map.MapState:
    return efa_map.MapState(layer, column)


def rows(
    made: Fabric,
    how: efa_map.MapState,
    width: int = 116,
    cursor: str = "",
) -> list[Strip]:
    """The map as the widget draws it."""
    shown = table.layout(efa_map.columns(made, width), width)
    return [
        table.header(shown, width, CONTEXT, "", reverse=False),
        *(
            table.row(
                shown,
                efa_map.row_of(made, node, how, cursor=node.name == cursor),
                width,
                CONTEXT,
                cursor=node.name == cursor,
            )
            for node in efa_map.worst_first(made, how.layer)
        ),
    ]  # fmt: skip


class TestLayers:
    def test_retransmits_are_shown_by_powers_of_ten(self) -> None:
        limit = WHOLE.view_model.limits.retransmits
        levels = [RETRANSMITS.level(limit * by, WHOLE) for by in (0, 0.01, 1, 10)]
        assert levels == pytest.approx([0, 0, 2 / 3, 1])
        assert RETRANSMITS.ends(WHOLE) == ("0.002 %", "2 %, by powers of ten")

    def test_both_ways_from_even_are_bright(self) -> None:
        assert [PEERS.level(value, WHOLE) for value in (0.5, 1.0, 1.5)] == [1, 0, 1]

    def test_latency_is_that_of_the_slowest_link(self) -> None:
        made = fabric_of(*probed(4, slow=(1, 3)))
        assert LATENCY.values(made)[1, 0] == 54e-6
        assert np.isnan(LATENCY.values(made)[1, 1:]).all()
        assert LATENCY.level(32e-6, made) == pytest.approx(1.0)

    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [(16.04e-6, "16.0"), (120e-6, "120"), (9.9994e-3, "9999"), (1, ">9ms")],
    )
    def test_microseconds(self, seconds: float, shown: str) -> None:
        assert layers._microseconds(seconds) == shown


class TestMap:
    def test_columns_are_numbered(self) -> None:
        made = fabric_of(efa_devices(0, 12))
        assert efa_map.columns(made, 40)[1].title.replace(" ", "") == "123456789012"
        assert efa_map.columns(made, 116)[1].title.split() == [str(n) for n in range(1, 13)]

    @pytest.mark.parametrize("width", [20, 78, 196])
    @pytest.mark.parametrize("layer", layers.LAYERS, ids=lambda layer: layer.title[:6])
    def test_it_fits(self, width: int, layer: layers.Layer) -> None:
        how = state_of(layer, BAD)
        lines = rows(WHOLE, how, width, VICTIM)
        lines += [efa_map.legend(WHOLE, how, width, CONTEXT)]
        assert {line.cell_length for line in lines} == {width}

    def test_the_degraded_efa_device_is_highlighted(self) -> None:
        _, first, *others = rows(WHOLE, state_of(RETRANSMITS, BAD), cursor=VICTIM)
        assert first.text.startswith(f"▸ ● {VICTIM}")
        assert "[●2.1]" in first.text
        style = next(part.style for part in first if "●2.1" in part.text)
        assert style is not None
        assert style.bgcolor == CONTEXT.palette.fill(Severity.CRITICAL).bgcolor
        assert not any("●" in line.text for line in others)

    def test_a_long_number_with_a_sign_is_rounded(self) -> None:
        prober = probing(efa_devices(0, 16), {f"{efa_name(0)}>trn-001": 50.8e-6})
        critical = make_incident(node="trn-000", component=f"efa:{efa_name(0)}")
        made = fabric_of(prober, efa_devices(1, 16), incidents=[critical])
        shown = rows(made, state_of(LATENCY, 0), cursor="trn-000")[1].text
        assert "[ ▲51]" in shown, "under its heading, as those without a sign"
        calm = fabric_of(prober, efa_devices(1, 16))
        assert "[  51]" in rows(calm, state_of(LATENCY, 0), cursor="trn-000")[1].text

    def test_healthy_efa_devices_are_coloured_numbers(self) -> None:
        line = rows(fabric_of(efa_devices(0, 4, {TX: [1.25e10] * 4})), state_of(), 78)[1]
        (cells,) = (part for part in line if part.text.split() == ["100"] * 4)
        assert cells.style in CONTEXT.palette.cells, "equal neighbours are one run"

    def test_cells_alone_where_there_is_little_room(self) -> None:
        line = rows(WHOLE, state_of(), 78, cursor=VICTIM)[3].text
        assert line.count("▆▆") == len(WHOLE.rails.names)

    def test_lost_and_missing_efa_devices(self) -> None:
        lost = efa_devices(0, 3, {"efa_tx_bytes_total": [1, np.nan, 1], TX: [1e9, np.nan, 1e9]})
        less = renamed(efa_devices(1, 2), efa_name(0), efa_name(2))
        _, first, second = rows(fabric_of(lost, less), state_of(), 60)
        assert "●–" in first.text
        assert len([part for part in second if part.style in CONTEXT.palette.cells]) == 2

    def test_a_link_that_is_down_is_marked(self) -> None:
        node = efa_devices(0, 2)
        links = {efa_name(0): {"state": "1: DOWN"}}
        down = dataclasses.replace(
            node, inventory=dataclasses.replace(node.inventory, efa_links=links)
        )
        made = fabric_of(down)
        assert efa_map.marks(made, down) == {0: Severity.WARNING}

    def test_slow_links_mark_their_devices_where_latency_is_shown(self) -> None:
        incident = make_incident("latency_regression", node="trn-001", component="link:trn-003")
        made = fabric_of(*probed(4, slow=(1, 3)), incidents=[incident])
        assert "▲54.0" in rows(made, state_of(LATENCY))[1].text
        assert "▲" not in rows(made, state_of(PEERS))[1].text[5:40]

    def test_so_do_links_that_no_incident_names(self) -> None:
        made = fabric_of(*probed(4, slow=(1, 3)))
        node = made.view_model.cluster.nodes["trn-001"]
        assert efa_map.marks(made, node, links=True) == {0: Severity.WARNING}
        assert efa_map.marks(made, node) == {}

    def test_a_silent_node_is_marked(self) -> None:
        gone = make_node(0, 2, 2, 4, state=State.STALE, reason="silent for 14 s")
        line = rows(fabric_of(gone, efa_devices(1)), state_of(), 116)[1].text
        assert "◌ trn-000" in line
        assert "silent for 14 s" in line
        assert "  ·  " in line

    def test_slow_links_come_first_where_latency_is_shown(self) -> None:
        elsewhere = make_incident("efa_degraded", node="trn-002", component="efa:x")
        made = fabric_of(*probed(4, slow=(1, 3)), incidents=[elsewhere])
        names = [node.name[-1] for node in efa_map.worst_first(made, LATENCY)]
        assert names == ["1", "3", "2", "0"]
        assert efa_map.worst_first(made, PEERS)[0].name == "trn-002"

    def test_order(self) -> None:
        incident = make_incident("efa_degraded", node="trn-003", component="efa:x")
        elsewhere = make_incident("ecc_uncorrected", node="trn-002", component="device:0")
        lost = efa_devices(1, 2, {"efa_tx_bytes_total": [1, np.nan]})
        stale = make_node(4, state=State.STALE)
        made = fabric_of(
            efa_devices(0),
            lost,
            efa_devices(2),
            efa_devices(3),
            stale,
            incidents=[elsewhere, incident],
        )
        names = [node.name[-1] for node in efa_map.worst_first(made, PEERS)]
        assert names == ["3", "1", "4", "0", "2"]


class TestLegend:
    def test_the_scale(self) -> None:
        nodes = [efa_devices(index, 3, {TX: [2e9, 2e9, 2e9]}) for index in range(4)]
        legend = efa_map.legend(fabric_of(*nodes), state_of(PEERS), 78, CONTEXT)
        assert legend.text.startswith("  even ▆▆▆▆▆▆▆▆ 50 % off")
        assert "limit 0.2 %" in efa_map.legend(WHOLE, state_of(RETRANSMITS), 100, CONTEXT).text

    def test_why_nothing_is_known(self) -> None:
        def sums(made: Fabric, layer: layers.Layer) -> str:
            return efa_map.legend(made, state_of(layer), 100, CONTEXT).text

        assert "no link was probed" in sums(fabric_of(efa_devices(0)), LATENCY)
        assert "no EFA devices known" in sums(fabric_of(make_node(0, efa=0)), PEERS)
        gone = make_node(0, state=State.DOWN, reason="no driver")
        assert "unknown: efa: no driver" in sums(fabric_of(gone), RETRANSMITS)
        past = fabric_of(make_node(0, columns={"efa_tx_bytes_total": None, TX: None}))
        past.view_model = dataclasses.replace(past.view_model, behind=60.0)
        assert "the history has no EFA devices" in sums(past, PEERS)


class TestSums:
    def test_all_efa_devices_in_two_lines(self) -> None:
        top, below = text(fabric.totals(WHOLE, 160, CONTEXT)).splitlines()
        assert top.startswith(" tx ")
        assert "% d of line rate" in top
        assert f"most retransmits 2.1 % d {VICTIM} {DEVICE}" in top
        assert "latency – not probed: trntop check" in below
        assert "driver 2.17.3g on all nodes" in below
        assert "rails balanced" in below
        assert "◌ 1 stale" in below
        most = next(part for part in fabric.totals(WHOLE, 160, CONTEXT)[0] if part.text == "2.1 %")
        assert most.style == CONTEXT.palette.critical

    def test_the_worst_nodes_of_a_backend_are_marked_as_a_selection(self) -> None:
        shown = view_model_of(efa_devices(0), efa_devices(1))
        for chosen in (True, False):
            whole = ClusterTotals(nodes=31_250 if chosen else 2, chosen=chosen)
            cluster = dataclasses.replace(shown.cluster, whole=whole)
            made = Fabric(
                dataclasses.replace(shown, view=dataclasses.replace(shown.view, cluster=cluster))
            )
            for line in text(fabric.totals(made, 160, CONTEXT)).splitlines():
                assert line.startswith(" of the 2 nodes shown   ") == chosen

    def test_differences_are_reported(self) -> None:
        old = efa_devices(1)
        links = {
            name: {**link, "driver": "2.13.0"} for name, link in old.inventory.efa_links.items()
        }
        old = dataclasses.replace(
            old, inventory=dataclasses.replace(old.inventory, efa_links=links)
        )
        shown = text(fabric.totals(fabric_of(efa_devices(0), old, efa_devices(2)), 160, CONTEXT))
        assert "▲ drivers differ: 2.17.3g on 2, 2.13.0 on 1" in shown
        assert "▲ 12/48 EFA devices up" in shown

    def test_a_degraded_rail_is_named(self) -> None:
        nodes = [efa_devices(index, 4, {TX: [4e9, 4e9, 1e9, 4e9]}) for index in range(3)]
        shown = text(fabric.totals(fabric_of(*nodes), 160, CONTEXT))
        assert f"rail {efa_name(2)} carries 25 % of peer traffic" in shown
        uneven = [efa_devices(index, 4, {TX: [4e9, 4e9, 3.5e9, 4e9]}) for index in range(3)]
        assert "rails uneven, within 12 %" in text(fabric.totals(fabric_of(*uneven), 160, CONTEXT))

    def test_rails_are_even_except_for_one_device(self) -> None:
        nodes = [efa_devices(index, 4, {TX: [4e9] * 4}) for index in range(15)]
        faulty = efa_devices(15, 4, {TX: [4e9, 4e9, 1e9, 4e9]})
        shown = text(fabric.totals(fabric_of(*nodes, faulty), 160, CONTEXT))
        assert "rails balanced within 5 %, 1 exception   latency – not probed" in shown
        assert "but for" not in text(fabric.totals(fabric_of(*nodes), 160, CONTEXT))

    @pytest.mark.parametrize("width", [1, 20, 80, 200])
    def test_they_fit(self, width: int) -> None:
        for made in (WHOLE, fabric_of(), fabric_of(make_node(0, efa=0)), fabric_of(*probed(4))):
            assert [line.cell_length for line in fabric.totals(made, width, CONTEXT)] == [width] * 2
