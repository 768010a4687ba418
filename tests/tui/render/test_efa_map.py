"""The map of EFA devices: its layers, its cells, the lines around it."""

import dataclasses

import numpy as np
import pytest
from textual.strip import Strip

from tests.builders import efa_name, make_incident, make_node
from tests.tui.render.fabrics import cards, fabric_of, probed, probing, renamed, scene_of
from tests.tui.render.pens import PEN, text
from tests.tui.scenes import CARD, VICTIM, view_model
from trntop.core.model import ClusterTotals, Severity, State
from trntop.tui.render import efa_map, fabric, layers, table
from trntop.tui.render.fabric import Fabric

PEERS, RETRANSMITS, LATENCY = layers.LAYERS
TX, RESENT = "efa_tx_bytes_per_second", "efa_retrans_pkts_per_second"
WHOLE = Fabric(view_model(trouble=True))
BAD = WHOLE.rails.names.index(CARD)


def look(layer: layers.Layer = PEERS, column: int | None = None) -> efa_map.MapState:
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
        table.header(shown, width, PEN, "", reverse=False),
        *(
            table.row(
                shown,
                efa_map.row_of(made, node, how, cursor=node.name == cursor),
                width,
                PEN,
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
        made = fabric_of(cards(0, 12))
        assert efa_map.columns(made, 40)[1].title.replace(" ", "") == "123456789012"
        assert efa_map.columns(made, 116)[1].title.split() == [str(n) for n in range(1, 13)]

    @pytest.mark.parametrize("width", [20, 78, 196])
    @pytest.mark.parametrize("layer", layers.LAYERS, ids=lambda one: one.title[:6])
    def test_it_fits(self, width: int, layer: layers.Layer) -> None:
        how = look(layer, BAD)
        lines = rows(WHOLE, how, width, VICTIM)
        lines += [efa_map.legend(WHOLE, how, width, PEN)]
        assert {line.cell_length for line in lines} == {width}

    def test_the_sick_card_stands_out(self) -> None:
        _, first, *others = rows(WHOLE, look(RETRANSMITS, BAD), cursor=VICTIM)
        assert first.text.startswith(f"▸ ● {VICTIM}")
        assert "[●2.1]" in first.text
        style = next(part.style for part in first if "●2.1" in part.text)
        assert style is not None
        assert style.bgcolor == PEN.palette.fill(Severity.CRITICAL).bgcolor
        assert not any("●" in line.text for line in others)

    def test_beside_its_sign_a_long_number_is_rounded(self) -> None:
        prober = probing(cards(0, 16), {f"{efa_name(0)}>trn-001": 50.8e-6})
        bad = make_incident(node="trn-000", component=f"efa:{efa_name(0)}")
        made = fabric_of(prober, cards(1, 16), incidents=[bad])
        shown = rows(made, look(LATENCY, 0), cursor="trn-000")[1].text
        assert "[ ▲51]" in shown, "under its heading, as those without a sign"
        calm = fabric_of(prober, cards(1, 16))
        assert "[  51]" in rows(calm, look(LATENCY, 0), cursor="trn-000")[1].text

    def test_calm_cards_are_coloured_numbers(self) -> None:
        line = rows(fabric_of(cards(0, 4, {TX: [1.25e10] * 4})), look(), 78)[1]
        (cells,) = (part for part in line if part.text.split() == ["100"] * 4)
        assert cells.style in PEN.palette.cells, "neighbours that are alike are one run"

    def test_cells_alone_where_there_is_little_room(self) -> None:
        line = rows(WHOLE, look(), 78, cursor=VICTIM)[3].text
        assert line.count("▆▆") == len(WHOLE.rails.names)

    def test_lost_cards_and_missing_ones(self) -> None:
        lost = cards(0, 3, {"efa_tx_bytes_total": [1, np.nan, 1], TX: [1e9, np.nan, 1e9]})
        less = renamed(cards(1, 2), efa_name(0), efa_name(2))
        _, first, second = rows(fabric_of(lost, less), look(), 60)
        assert "●–" in first.text
        assert len([part for part in second if part.style in PEN.palette.cells]) == 2

    def test_a_link_that_is_down_is_marked(self) -> None:
        node = cards(0, 2)
        links = {efa_name(0): {"state": "1: DOWN"}}
        down = dataclasses.replace(
            node, inventory=dataclasses.replace(node.inventory, efa_links=links)
        )
        made = fabric_of(down)
        assert efa_map.marks(made, down) == {0: Severity.WARNING}

    def test_slow_links_mark_their_cards_where_latency_is_shown(self) -> None:
        incident = make_incident("latency_regression", node="trn-001", component="link:trn-003")
        made = fabric_of(*probed(4, slow=(1, 3)), incidents=[incident])
        assert "▲54.0" in rows(made, look(LATENCY))[1].text
        assert "▲" not in rows(made, look(PEERS))[1].text[5:40]

    def test_so_do_links_that_no_incident_names(self) -> None:
        made = fabric_of(*probed(4, slow=(1, 3)))
        node = made.view_model.cluster.nodes["trn-001"]
        assert efa_map.marks(made, node, links=True) == {0: Severity.WARNING}
        assert efa_map.marks(made, node) == {}

    def test_a_node_that_is_silent_says_so(self) -> None:
        gone = make_node(0, 2, 2, 4, state=State.STALE, reason="silent for 14 s")
        line = rows(fabric_of(gone, cards(1)), look(), 116)[1].text
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
        lost = cards(1, 2, {"efa_tx_bytes_total": [1, np.nan]})
        stale = make_node(4, state=State.STALE)
        made = fabric_of(cards(0), lost, cards(2), cards(3), stale, incidents=[elsewhere, incident])
        names = [node.name[-1] for node in efa_map.worst_first(made, PEERS)]
        assert names == ["3", "1", "4", "0", "2"]


class TestLegend:
    def test_the_scale(self) -> None:
        nodes = [cards(index, 3, {TX: [2e9, 2e9, 2e9]}) for index in range(4)]
        legend = efa_map.legend(fabric_of(*nodes), look(PEERS), 78, PEN)
        assert legend.text.startswith("  even ▆▆▆▆▆▆▆▆ 50 % off")
        assert "limit 0.2 %" in efa_map.legend(WHOLE, look(RETRANSMITS), 100, PEN).text

    def test_why_nothing_is_known(self) -> None:
        def said(made: Fabric, layer: layers.Layer) -> str:
            return efa_map.legend(made, look(layer), 100, PEN).text

        assert "no link was probed" in said(fabric_of(cards(0)), LATENCY)
        assert "no EFA devices known" in said(fabric_of(make_node(0, efa=0)), PEERS)
        gone = make_node(0, state=State.DOWN, reason="no driver")
        assert "unknown: efa: no driver" in said(fabric_of(gone), RETRANSMITS)
        past = fabric_of(make_node(0, columns={"efa_tx_bytes_total": None, TX: None}))
        past.view_model = dataclasses.replace(past.view_model, behind=60.0)
        assert "the history has no EFA devices" in said(past, PEERS)


class TestSums:
    def test_all_cards_in_two_lines(self) -> None:
        top, below = text(fabric.totals(WHOLE, 160, PEN)).splitlines()
        assert top.startswith(" tx ")
        assert "% d of line rate" in top
        assert f"most retransmits 2.1 % d {VICTIM} {CARD}" in top
        assert "latency – not probed: trntop check" in below
        assert "driver 2.17.3g on all nodes" in below
        assert "rails balanced" in below
        assert "◌ 1 stale" in below
        most = next(part for part in fabric.totals(WHOLE, 160, PEN)[0] if part.text == "2.1 %")
        assert most.style == PEN.palette.critical

    def test_of_the_worst_of_an_engine_they_say_that_these_are_not_all(self) -> None:
        shown = scene_of(cards(0), cards(1))
        for chosen in (True, False):
            whole = ClusterTotals(nodes=31_250 if chosen else 2, chosen=chosen)
            cluster = dataclasses.replace(shown.cluster, whole=whole)
            made = Fabric(
                dataclasses.replace(shown, view=dataclasses.replace(shown.view, cluster=cluster))
            )
            for line in text(fabric.totals(made, 160, PEN)).splitlines():
                assert line.startswith(" of the 2 nodes shown   ") == chosen

    def test_what_differs_is_told(self) -> None:
        old = cards(1)
        links = {
            name: {**link, "driver": "2.13.0"} for name, link in old.inventory.efa_links.items()
        }
        old = dataclasses.replace(
            old, inventory=dataclasses.replace(old.inventory, efa_links=links)
        )
        shown = text(fabric.totals(fabric_of(cards(0), old, cards(2)), 160, PEN))
        assert "▲ drivers differ: 2.17.3g on 2, 2.13.0 on 1" in shown
        assert "▲ 12/48 EFA devices up" in shown

    def test_a_lame_rail_is_named(self) -> None:
        nodes = [cards(index, 4, {TX: [4e9, 4e9, 1e9, 4e9]}) for index in range(3)]
        shown = text(fabric.totals(fabric_of(*nodes), 160, PEN))
        assert f"rail {efa_name(2)} carries 25 % of peer traffic" in shown
        uneven = [cards(index, 4, {TX: [4e9, 4e9, 3.5e9, 4e9]}) for index in range(3)]
        assert "rails uneven, within 12 %" in text(fabric.totals(fabric_of(*uneven), 160, PEN))

    def test_rails_are_even_but_for_a_card(self) -> None:
        nodes = [cards(index, 4, {TX: [4e9] * 4}) for index in range(15)]
        sick = cards(15, 4, {TX: [4e9, 4e9, 1e9, 4e9]})
        shown = text(fabric.totals(fabric_of(*nodes, sick), 160, PEN))
        assert "rails balanced within 5 %, 1 exception   latency – not probed" in shown
        assert "but for" not in text(fabric.totals(fabric_of(*nodes), 160, PEN))

    @pytest.mark.parametrize("width", [1, 20, 80, 200])
    def test_they_fit(self, width: int) -> None:
        for made in (WHOLE, fabric_of(), fabric_of(make_node(0, efa=0)), fabric_of(*probed(4))):
            assert [line.cell_length for line in fabric.totals(made, width, PEN)] == [width] * 2
