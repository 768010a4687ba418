"""Probe results: gathered, as a matrix, and named."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.builders import efa_name, make_incident
from tests.tui.render.fabrics import FACTS, cards, fabric_of, probed, probing, scene_of
from tests.tui.render.pens import PEN, PLAIN, text
from trntop.core.model import Severity
from trntop.tui.render import pairs
from trntop.tui.render.fabric import Fabric

SLOW = (1, 3)
INCIDENT = make_incident("latency_regression", node="trn-001", component="link:trn-003")


class TestPairs:
    def test_a_pair_is_the_same_from_both_ends(self) -> None:
        found = fabric_of(*probed(4, SLOW)).pairs
        table = found.matrix()
        assert found.nodes == ("trn-000", "trn-001", "trn-002", "trn-003")
        assert table[1, 3] == table[3, 1] == 54e-6
        assert np.isnan(np.diag(table)).all()
        assert found.typical == 16e-6

    def test_several_links_of_a_pair_count_as_their_median(self) -> None:
        links = {"a>trn-001": 10e-6, "b>trn-001": 12e-6, "c>trn-001": 90e-6}
        assert fabric_of(probing(cards(0), links)).pairs.matrix()[0, 1] == 12e-6

    def test_a_row_that_stands_for_several_nodes_shows_the_slowest_pair(self) -> None:
        table = fabric_of(*probed(5, SLOW)).pairs.matrix(2)
        assert table.shape == (3, 3)
        assert table[0, 1] == table[1, 0] == 54e-6
        assert table[0, 0] == 16e-6

    def test_what_cannot_be_compared_is_left_out(self) -> None:
        other = probing(cards(2), {"trn-000": 9e-3}, facts={**FACTS, "size_bytes": "1048576"})
        found = fabric_of(*probed(2), cards(1), other).pairs
        assert found.kind == ("fi_pingpong", "mean", "64")
        assert found.others == 1
        assert {probe.peer for probe in found.probes} == {"trn-001"}

    def test_a_probe_that_failed_has_no_latency(self) -> None:
        found = fabric_of(probing(cards(0), {"trn-001": 16e-6, "trn-002": math.nan})).pairs
        assert [probe.peer for probe in found.failed] == ["trn-002"]
        assert len(found.probes) == 1

    def test_only_nodes_that_probed_are_read_anew(self) -> None:
        nodes = probed(3)
        before = fabric_of(*nodes)
        assert Fabric(before.view_model, before).pairs is before.pairs
        nodes[0] = probing(nodes[0], {f"{efa_name(0)}>trn-001": 99e-6}, age=1.0)
        after = Fabric(scene_of(*nodes), before)
        assert after.pairs is not before.pairs
        assert after.pairs.worst(1)[0].seconds == 99e-6
        assert len(after.pairs.probes) == 2
        gone = Fabric(scene_of(cards(0)), after)
        assert gone.pairs.probes == ()

    def test_the_links_of_a_card(self) -> None:
        found = fabric_of(*probed(3)).pairs
        assert len(found.of_card("trn-000", efa_name(0))) == 2
        assert found.of_card("trn-000", efa_name(1)) == []
        assert found.by_card()["trn-000", efa_name(0)] == 16e-6


class TestBlame:
    def test_a_link_by_its_ends(self) -> None:
        fabric = fabric_of(*probed(4, SLOW), incidents=[INCIDENT])
        assert [(one.node, one.peer) for one in fabric.blamed] == [("trn-001", "trn-003")]

    def test_all_links_of_a_node_or_a_card(self) -> None:
        for component in (None, f"efa:{efa_name(0)}"):
            incident = replace(INCIDENT, component=component)
            fabric = fabric_of(*probed(4), incidents=[incident])
            assert {one.node for one in fabric.blamed} == {"trn-001", "trn-000"} - (
                set() if component is None else {"trn-000"}
            )

    def test_other_incidents_name_no_links(self) -> None:
        fabric = fabric_of(*probed(4), incidents=[make_incident("efa_degraded")])
        assert not fabric.blamed


class TestDrawing:
    @pytest.mark.parametrize("count", [0, 2, 16])
    @pytest.mark.parametrize(("width", "height"), [(20, 0), (40, 4), (54, 24), (116, 10)])
    def test_it_fits(self, width: int, height: int, count: int) -> None:
        lines = pairs.draw(fabric_of(*probed(count)), width, height, PEN)
        assert {line.cell_length for line in lines} == {width}

    def test_how_it_was_probed(self) -> None:
        shown = text(pairs.draw(fabric_of(*probed(4)), 116, 20, PEN))
        first = shown.splitlines()[0]
        assert first.startswith("median 16.0 µs of 6 links · fi_pingpong · mean · 64 B")
        assert first.endswith("load training · 5 s to 7 s old")

    def test_numbers_and_the_slowest_by_name(self) -> None:
        lines = pairs.draw(fabric_of(*probed(4, SLOW), incidents=[INCIDENT]), 90, 20, PEN)
        shown = text(lines).splitlines()
        assert shown[2].split()[:4] == ["000", "001", "002", "003"]
        assert shown[4].startswith("001 16.0  ·   16.0 54.0")
        assert "▲ trn-001 ▸ trn-003" in shown[3]
        assert shown[2].split()[-5:] == ["slowest", "one", "way", "median", "age"]
        assert "54.0 µs   3.4×   6 s" in shown[3]
        style = next(part.style for part in lines[4] if "54.0" in part.text)
        assert style == PEN.palette.severity(Severity.WARNING)

    def test_colours_where_there_is_little_room(self) -> None:
        shown = text(pairs.draw(fabric_of(*probed(16, SLOW)), 54, 12, PEN))
        assert "a row is 2 nodes" in shown.replace("\n", " ")
        assert "001 ▸ 003" in shown

    def test_where_there_is_room_it_is_filled(self) -> None:
        made = fabric_of(*probed(8, SLOW))
        shown = text(pairs.draw(made, 76, 26, PEN)).splitlines()
        place = next(i for i, row in enumerate(shown) if "slowest" in row)
        assert shown[place - 1].startswith("007 16.0 16.0"), "numbers, and names below"
        assert len(shown) == 26
        assert len(shown) - place - 1 > pairs.WORST

    def test_where_nothing_was_probed_it_says_how(self) -> None:
        shown = text(pairs.draw(fabric_of(cards(0)), 80, 20, PEN))
        assert "No EFA counter exposes latency" in shown
        assert "docs/check.md" in shown
        assert "`" not in shown

    def test_failures_are_named(self) -> None:
        node = probing(cards(0), dict.fromkeys(("a", "b", "c", "d"), math.nan))
        assert "▲ no answer: trn-000 ▸ a, trn-000 ▸ b, trn-000 ▸ c +1" in text(
            pairs.draw(fabric_of(node), 80, 20, PEN)
        )

    def test_in_ascii(self) -> None:
        shown = text(pairs.draw(fabric_of(*probed(16, SLOW), incidents=[INCIDENT]), 76, 20, PLAIN))
        assert shown.translate({ord("µ"): "u", ord("·"): ".", ord("×"): "x"}).isascii()


class TestGrade:
    """What a check found, of which no incident tells."""

    def test_a_link_that_is_slow_beside_all_others(self) -> None:
        fabric = fabric_of(*probed(4, SLOW))
        (probe,) = fabric.graded
        assert {probe.node, probe.peer} == {"trn-001", "trn-003"}
        assert fabric.graded[probe] is Severity.CRITICAL
        drawn = text(pairs.draw(fabric, 110, 20, PEN))
        assert "✓ 5 alike   ● 1 very slow" in drawn
        assert "● trn-001 ▸ trn-003" in drawn
        assert "✓ trn-000 ▸ trn-001" in drawn

    def test_all_alike_blames_none(self) -> None:
        fabric = fabric_of(*probed(4))
        assert not fabric.graded
        assert "✓ 6 alike\n" in text(pairs.draw(fabric, 110, 20, PEN)).replace(" \n", "\n").replace(
            "  ", " "
        ).replace(" \n", "\n")

    def test_two_links_tell_nothing_of_each_other(self) -> None:
        links = {"a>trn-001": 10e-6, "a>trn-002": 90e-6}
        assert not fabric_of(probing(cards(0), links)).graded

    def test_scatter_is_no_slowness(self) -> None:
        links = {f"a>trn-{index:03d}": 10e-6 + 3e-6 * index for index in range(8)}
        assert not fabric_of(probing(cards(0), links)).graded

    def test_an_incident_has_the_word(self) -> None:
        fabric = fabric_of(*probed(4, SLOW), incidents=(INCIDENT,))
        assert set(fabric.graded.values()) == {INCIDENT.severity}
