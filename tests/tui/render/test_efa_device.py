"""One EFA device in full."""

from dataclasses import replace

import numpy as np
import pytest

from tests.builders import efa_name, make_incident, make_node
from tests.tui.render.contexts import CONTEXT, text
from tests.tui.render.fabrics import efa_devices, fabric_of, probed
from tests.tui.sample_run import DEVICE, VICTIM, view_model
from trntop.catalog import Entity
from trntop.core.model import Incident, NodeView, Severity, State
from trntop.tui.render import efa_device
from trntop.tui.render.fabric import Fabric


def drawn(node: NodeView, *found: Incident, index: int = 0, width: int = 80) -> str:
    return text(efa_device.draw(fabric_of(node, incidents=found), node, index, width, CONTEXT))


@pytest.mark.parametrize(
    ("width", "state"),
    [(20, State.FRESH), (40, State.DOWN), (56, State.FRESH), (120, State.STALE)],
)
def test_it_fits(width: int, state: State) -> None:
    node = make_node(0, 2, 2, 4, state=state, reason="gone")
    lines = efa_device.draw(fabric_of(node), node, 1, width, CONTEXT)
    assert {line.cell_length for line in lines} == {width}


class TestHealth:
    def test_its_incident_with_evidence(self) -> None:
        whole = Fabric(view_model(trouble=True))
        node = whole.view_model.cluster.nodes[VICTIM]
        index = node.inventory.of(Entity.EFA).index(DEVICE)
        lines = efa_device.draw(whole, node, index, 76, CONTEXT)
        retransmits = next(part for line in lines for part in line if part.text == "2.1 %")
        assert retransmits.style == CONTEXT.palette.critical
        shown = text(lines)
        assert shown.startswith("● EFA degraded since 11:59:16, for 44 s: retransmits 2.1 %")
        assert "2.1 % d limit 0.2 %" in shown

    def test_its_counters_have_the_colour_of_its_incident(self) -> None:
        columns = {"efa_rx_drops_total": [7.0, 0.0], "efa_rx_drops_per_second": [2.0, 0.0]}
        node = make_node(0, 2, 2, 2, columns=columns)
        critical = make_incident(
            node="trn-000", component=f"efa:{efa_name(0)}", severity=Severity.CRITICAL
        )
        lines = efa_device.draw(fabric_of(node, incidents=[critical]), node, 0, 80, CONTEXT)
        dropped = next(line for line in lines if line.text.startswith("receive drops"))
        assert CONTEXT.palette.warning not in [part.style for part in dropped]
        assert CONTEXT.palette.critical in [part.style for part in dropped]

    def test_its_traffic_compared_with_its_peers(self) -> None:
        node = efa_devices(0, 4, {"efa_tx_bytes_per_second": [1e9, 4e9, 4e9, 4e9]})
        critical = make_incident(node="trn-000", component=f"efa:{efa_name(0)}")
        for found, style in (((), CONTEXT.palette.text), ((critical,), CONTEXT.palette.warning)):
            lines = efa_device.draw(fabric_of(node, incidents=found), node, 0, 60, CONTEXT)
            line = next(line for line in lines if line.text.startswith("carries"))
            assert line.text.strip() == "carries  25 % d of the traffic of its peers"
            assert next(part.style for part in line if part.text == "25 %") == style

    def test_that_of_a_link(self) -> None:
        found = make_incident("latency_regression", node="trn-001", component="link:trn-003")
        nodes = probed(4, slow=(1, 3))
        fabric = fabric_of(*nodes, incidents=[found])
        shown = text(efa_device.draw(fabric, nodes[1], 0, 76, CONTEXT))
        assert shown.startswith("▲ Latency regression since ")
        assert "latency  35.0 µs  median of 2  slowest 54.0 µs trn-003  newest 5 s ago" in shown
        assert text(efa_device.draw(fabric, nodes[1], 1, 76, CONTEXT)).startswith("✓ healthy")

    def test_what_has_no_incident(self) -> None:
        assert drawn(efa_devices(0)).startswith("✓ healthy")
        lost = efa_devices(0, 2, {"efa_tx_bytes_total": [np.nan, 1]})
        assert drawn(lost).startswith("● lost:")
        more = efa_devices(0, 4, {"efa_retrans_pkts_per_second": [1e5, 0, 0, 0]})
        assert drawn(more).startswith("▲ retransmits far more than its peers; no incident yet")
        nodes = probed(4, slow=(1, 3))
        slow = text(efa_device.draw(fabric_of(*nodes), nodes[1], 0, 80, CONTEXT))
        assert slow.startswith("▲ link to trn-003 takes 3.4× the median of all; no incident yet\n")
        peer = make_incident("efa_degraded", node="trn-003", component="efa:rdmap32s27")
        slow = text(efa_device.draw(fabric_of(*nodes, incidents=[peer]), nodes[1], 0, 80, CONTEXT))
        assert slow.splitlines()[0].strip().endswith("; trn-003 has EFA degraded")
        silent = make_node(0, state=State.STALE, reason="silent for 14 s")
        assert drawn(silent).startswith("traffic unknown: efa: silent for 14 s")

    def test_a_link_that_is_down(self) -> None:
        node = efa_devices(0, 2)
        links = {efa_name(0): {"state": "1: DOWN"}}
        node = replace(node, inventory=replace(node.inventory, efa_links=links))
        assert drawn(node).startswith("▲ link not up: 1: DOWN")


class TestLocation:
    def test_the_devices_and_cores_it_serves(self) -> None:
        shown = drawn(make_node(0, 4, 2, 2))
        assert "near     devices 0-1 · cores 0-3 · on its NUMA node" in shown
        assert "location PCI 0000:10:1b.0 · NUMA node 0 · driver 2.17.3g · port 4: ACTIVE" in shown

    def test_its_bus_before_its_numa_node(self) -> None:
        node = make_node(0, 4, 2, 2)
        indices = dict(node.inventory.device_links)
        indices[1] = {**indices[1], "pci": "0000:10:1e.0"}
        node = replace(node, inventory=replace(node.inventory, device_links=indices))
        shown = drawn(node)
        assert "near     device 1 · cores 2-3 · on its PCI bus" in shown
        assert "near     device 0 · cores 0-1 · on its NUMA node" in shown

    def test_nothing_known(self) -> None:
        node = efa_devices(0, 2)
        node = replace(node, inventory=replace(node.inventory, efa_links={}, device_links={}))
        assert "near" not in drawn(node)
        assert "location" not in drawn(node)


class TestCounters:
    def node(self) -> NodeView:
        return make_node(0, 2, 2, 2, columns={
            "efa_tx_bytes_total": [5e12, 1.0],
            "efa_rx_drops_total": [7.0, 0.0],
            "efa_rx_drops_per_second": [2.0, 0.0],
            "efa_rdma_read_wr_err_total": [0.0, 0.0],
            "efa_retrans_pkts_total": None,
        })  # fmt: skip

    def test_rates_and_totals(self) -> None:
        lines = efa_device.draw(fabric_of(self.node()), self.node(), 0, 80, CONTEXT)
        shown = text(lines)
        dropped = next(line for line in lines if line.text.startswith("receive drops"))
        assert dropped.text.split() == ["receive", "drops", "2d", "7"]
        assert [part.style for part in dropped if "2" in part.text] == [CONTEXT.palette.warning]
        assert "4.55 TiB" in shown
        assert "failed reads" in shown.partition("zero:")[2]
        assert "retransmitted" in shown.partition("– not reported:")[2]


def test_no_device() -> None:
    node, empty = efa_devices(0), make_node(0, efa=0)
    lines = efa_device.draw(fabric_of(node), node, None, 60, CONTEXT)
    assert "no EFA device of that name" in text(lines)
    assert "no EFA devices known" in text(
        efa_device.draw(fabric_of(empty), empty, None, 60, CONTEXT)
    )
