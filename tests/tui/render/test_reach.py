"""Nodes that are not reached, or only in part: what table, header and alert show of them."""

import dataclasses

import pytest

from tests.builders import NOON, make_incident, make_node, view_of, with_state
from tests.tui.render.contexts import CONTEXT, text
from trntop.catalog import AGENT, EFA_SOURCE, NEURON_MONITOR
from trntop.core.model import Frame, Incident, Inventory, NodeView, SourceState, State
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.tui.render import alert, fleet, header, instance
from trntop.tui.render.fleet import FleetRow
from trntop.tui.render.table import layout, row
from trntop.tui.view_model import ViewModel


def remote(index: int, state: State, reason: str = "") -> NodeView:
    """A node of which only the connection to its agent is known."""
    name = f"trn-{index:03d}"
    source = SourceState(AGENT, state, time=None, reason=reason)
    return NodeView(Inventory(name), Frame(name, NOON, {}, (source,)))


def view_model_of(*nodes: NodeView, later: tuple[Incident, ...] = ()) -> ViewModel:
    return ViewModel(
        view=view_of(*nodes), history=History(60), limits=Analysis(), later=later, utc=True
    )


def line_of(node: NodeView, width: int) -> str:
    columns = layout(fleet.selected(fleet.columns(8), ()), width - 1)
    return row(
        columns, FleetRow(node), width, CONTEXT, cursor=False, note=fleet.unreached(node)
    ).text


def cell(node: NodeView, width: int = 10) -> str:
    column = next(column for column in fleet.columns(8) if column.id == "state")
    return "".join(part for part, _ in column.draw(FleetRow(node), width, CONTEXT)).rstrip()


class TestFleet:
    @pytest.mark.parametrize("width", [80, 120, 200])
    def test_the_reason_why_it_is_unreachable_replaces_its_values(self, width: int) -> None:
        shown = line_of(remote(3, State.DOWN, "connection refused"), width)
        assert shown.split() == ["✕", "trn-003", "connection", "refused", "✕", "down"]

    def test_values_that_are_there_are_shown(self) -> None:
        assert not fleet.unreached(make_node())
        assert fleet.unreached(make_node(state=State.DOWN, reason="gone")) == "gone"
        assert not fleet.unreached(remote(0, State.STARTING))

    def test_every_state_is_spelled_out(self) -> None:
        for state in set(State) - {State.NO_DATA}:  # of a node without parts: test_no_data.py
            assert cell(make_node(state=state)).endswith(state.value)

    def test_fresh_is_not_all(self) -> None:
        node = with_state(make_node(), EFA_SOURCE, State.DOWN, "no driver")
        assert node.state is State.FRESH
        assert cell(node) == "✕ 1 down"
        both = with_state(node, NEURON_MONITOR, State.STALE)
        assert (cell(both), cell(both, 20)) == ("✕ 1 down", "✕ 1 down ◌ 1 stale")

    def test_what_never_was_there_is_not_missed(self) -> None:
        node = make_node()
        sources = (
            *node.frame.sources,
            SourceState("probe", State.DOWN, time=None, reason="no prober"),
        )
        node = dataclasses.replace(node, frame=dataclasses.replace(node.frame, sources=sources))
        assert "✕" not in cell(node)


@pytest.mark.parametrize(
    ("kind", "coloured"), [("efa_degraded", True), ("latency_regression", False)]
)
def test_retransmits_are_coloured_by_incidents_of_retransmits(kind: str, coloured: bool) -> None:
    node = make_node(1)
    incident = make_incident(kind, node="trn-001", component="efa:rdmap16s27")
    column = next(column for column in fleet.columns(8) if column.id == "retx")
    style = column.draw(FleetRow(node, (incident,)), 7, CONTEXT)[0][1]
    assert (style is CONTEXT.palette.severity(incident.severity)) is coloured


class TestConnecting:
    def test_how_many_have_answered(self) -> None:
        some = view_model_of(
            make_node(0), *(remote(index, State.STARTING) for index in range(1, 4))
        )
        assert "connecting 1 of 4" in text(header.draw(some, 120, CONTEXT))
        assert "no data yet from 3 nodes" in text(alert.draw(some, 120, CONTEXT))

    def test_none_is_no_all_clear(self) -> None:
        none = view_model_of(*(remote(index, State.STARTING) for index in range(4)))
        assert text(alert.draw(none, 80, CONTEXT)).strip() == "waiting for the first reading"

    def test_afterwards_nothing_is_shown(self) -> None:
        assert "connecting" not in text(header.draw(view_model_of(make_node(0)), 120, CONTEXT))


def test_the_past_does_not_hide_what_came_later() -> None:
    later = make_incident(opened_at=NOON + 30)
    shown = text(alert.draw(view_model_of(make_node(0), later=(later,)), 120, CONTEXT))
    assert shown.strip() == "✓ no incidents yet  1 detected later, since 12:00:30"
    shown = text(alert.draw(view_model_of(make_node(0), later=(later, later)), 120, CONTEXT))
    assert shown.strip() == "✓ no incidents yet  2 detected later, the first since 12:00:30"


class TestInstance:
    FACTS = {  # noqa: RUF012
        "instance_id": "i-0123", "availability_zone": "us-east-2c", "placement_group": "pg-1",
        "instance_type": "trn2.48xlarge", "neuron_driver": "2.24.7", "ami_id": "ami-1",
        "status_checks": "system impaired", "scheduled_event": "system-reboot from 2026-11-24",
    }  # fmt: skip

    def drawn(self, node: NodeView) -> str:
        return text(instance.draw(view_model_of(node), node, 80, CONTEXT))

    def test_facts(self) -> None:
        shown = self.drawn(make_node(facts=self.FACTS))
        assert "instance     trn2.48xlarge · i-0123" in shown
        assert "software     driver 2.24.7 · image ami-1" in shown
        assert "us-east-2c · pg-1" in shown
        assert "checks       ▲ system impaired" in shown
        assert "event        ▲ system-reboot from 2026-11-24" in shown

    def test_a_warning_goes_on_below_its_text(self) -> None:
        event = " ".join(["system-reboot"] * 8)
        node = make_node(facts={"scheduled_event": event})
        *_, first, second = self.drawn(node).splitlines()
        assert first.index("system") == second.index("system") == len("event        ▲ ")

    def test_checks_that_are_passed_are_calm(self) -> None:
        assert "checks       passed" in self.drawn(make_node(facts={"status_checks": "passed"}))

    @pytest.mark.parametrize(
        ("offset", "note"),
        [
            (2.1, "clock        ▲ 2.10 s ahead of this machine"),
            (-0.2, "clock        200 ms behind this machine"),
            (0.0, "clock        same as this machine, within 1 ms"),
        ],
    )
    def test_clock(self, offset: float, note: str) -> None:
        node = make_node(columns={"node_clock_offset_seconds": [offset]})
        assert note in self.drawn(node)

    def test_nothing_known(self) -> None:
        assert "no instance data" in self.drawn(remote(0, State.DOWN))
