"""The latency between nodes: links, their severity, the slowest ones."""

import math
from dataclasses import replace

import pytest

from tests.builders import efa_name, make_incident
from tests.tui.render.contexts import CONTEXT, text
from tests.tui.render.fabrics import FACTS, efa_devices, fabric_of, probed, probing
from trntop.core.model import Severity
from trntop.tui.render import slow_links

SLOW = (1, 3)
INCIDENT = make_incident("latency_regression", node="trn-001", component="link:trn-003")


class TestLinks:
    def test_what_cannot_be_compared_is_left_out(self) -> None:
        other = probing(efa_devices(2), {"trn-000": 9e-3}, facts={**FACTS, "size_bytes": "1048576"})
        found = fabric_of(*probed(2), efa_devices(1), other).links
        assert found.kind == ("fi_pingpong", "mean", "64")
        assert found.others == 1
        assert {probe.peer for probe in found.probes} == {"trn-001"}

    def test_a_probe_that_failed_has_no_latency(self) -> None:
        found = fabric_of(probing(efa_devices(0), {"trn-001": 16e-6, "trn-002": math.nan})).links
        assert [probe.peer for probe in found.failed] == ["trn-002"]
        assert len(found.probes) == 1

    def test_the_links_of_a_device(self) -> None:
        found = fabric_of(*probed(3)).links
        assert len(found.of_device("trn-000", efa_name(0))) == 2
        assert found.of_device("trn-000", efa_name(1)) == []
        assert found.slowest_by_device()["trn-000", efa_name(0)] == 16e-6


class TestIncidents:
    def test_a_link_by_its_ends(self) -> None:
        fabric = fabric_of(*probed(4, SLOW), incidents=[INCIDENT])
        assert [(incident.node, incident.peer) for incident in fabric.link_incidents] == [
            ("trn-001", "trn-003")
        ]

    def test_all_links_of_a_node_or_an_efa_device(self) -> None:
        for component in (None, f"efa:{efa_name(0)}"):
            incident = replace(INCIDENT, component=component)
            fabric = fabric_of(*probed(4), incidents=[incident])
            assert {incident.node for incident in fabric.link_incidents} == {
                "trn-001",
                "trn-000",
            } - (set() if component is None else {"trn-000"})

    def test_other_incidents_name_no_links(self) -> None:
        fabric = fabric_of(*probed(4), incidents=[make_incident("efa_degraded")])
        assert not fabric.link_incidents


class TestDrawing:
    @pytest.mark.parametrize("count", [2, 16])
    @pytest.mark.parametrize(("width", "height"), [(20, 0), (40, 4), (54, 24), (116, 10)])
    def test_it_fits(self, width: int, height: int, count: int) -> None:
        lines = slow_links.draw(fabric_of(*probed(count)), width, height, CONTEXT)
        assert {line.cell_length for line in lines} == {width}

    def test_how_it_was_probed(self) -> None:
        shown = text(slow_links.draw(fabric_of(*probed(4)), 116, 20, CONTEXT))
        first = shown.splitlines()[0]
        assert first.startswith("median 16.0 µs of 6 links · fi_pingpong · mean · 64 B")
        assert first.endswith("load training · 5 s to 7 s old")

    def test_the_slowest_by_name(self) -> None:
        lines = slow_links.draw(fabric_of(*probed(4, SLOW), incidents=[INCIDENT]), 90, 20, CONTEXT)
        shown = text(lines).splitlines()
        line = next(i for i, row in enumerate(shown) if "slowest" in row)
        assert shown[line].split() == ["slowest", "one", "way", "median", "age"]
        assert shown[line + 1].startswith("▲ trn-001 ▸ trn-003")
        assert shown[line + 1].endswith("54.0 µs   3.4×   6 s")
        style = next(part.style for part in lines[line + 1] if "54.0" in part.text)
        assert style == CONTEXT.palette.severity(Severity.WARNING)

    def test_the_list_fills_the_panel(self) -> None:
        assert len(slow_links.draw(fabric_of(*probed(8, SLOW)), 76, 26, CONTEXT)) == 26

    def test_nothing_was_probed(self) -> None:
        assert slow_links.draw(fabric_of(efa_devices(0)), 80, 20, CONTEXT) == []

    def test_failures_are_named(self) -> None:
        node = probing(efa_devices(0), dict.fromkeys(("a", "b", "c", "d"), math.nan))
        assert "▲ no answer: trn-000 ▸ a, trn-000 ▸ b, trn-000 ▸ c +1" in text(
            slow_links.draw(fabric_of(node), 80, 20, CONTEXT)
        )


class TestSeverity:
    """Of links without an incident."""

    def test_a_link_that_is_slower_than_all_others(self) -> None:
        fabric = fabric_of(*probed(4, SLOW))
        (probe,) = fabric.slow_links
        assert {probe.node, probe.peer} == {"trn-001", "trn-003"}
        assert fabric.slow_links[probe] is Severity.WARNING
        drawn = text(slow_links.draw(fabric, 110, 20, CONTEXT))
        assert "✓ 5 normal   ▲ 1 slow" in drawn
        assert "▲ trn-001 ▸ trn-003" in drawn
        assert "✓ trn-000 ▸ trn-001" in drawn

    def test_equal_links_name_none(self) -> None:
        fabric = fabric_of(*probed(4))
        assert not fabric.slow_links
        assert "✓ 6 normal\n" in text(slow_links.draw(fabric, 110, 20, CONTEXT)).replace(
            " \n", "\n"
        ).replace("  ", " ").replace(" \n", "\n")

    def test_two_links_are_not_compared(self) -> None:
        links = {"a>trn-001": 10e-6, "a>trn-002": 90e-6}
        assert not fabric_of(probing(efa_devices(0), links)).slow_links

    def test_scatter_is_no_slowness(self) -> None:
        links = {f"a>trn-{index:03d}": 10e-6 + 3e-6 * index for index in range(8)}
        assert not fabric_of(probing(efa_devices(0), links)).slow_links

    def test_an_incident_has_the_word(self) -> None:
        fabric = fabric_of(*probed(4, SLOW), incidents=(INCIDENT,))
        assert set(fabric.slow_links.values()) == {INCIDENT.severity}
