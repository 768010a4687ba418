"""A machine without Neuron: nothing on it is green."""

import dataclasses

import pytest

from tests.builders import NOON, make_node, view_of
from tests.tui.render.contexts import CONTEXT, text
from tests.tui.sample_run import view_model
from trntop.catalog import AGENT, HOST, NEURON_MONITOR
from trntop.core.model import Inventory, NodeView, SourceState, State
from trntop.exporters.table import snapshot_text
from trntop.tui.render import alert, fleet, incidents, node

MISSING = "neuron-monitor is not installed"


def bare(monitor: State = State.DOWN) -> NodeView:
    """A node on which CPU and memory are measured and nothing else."""
    made = make_node(0)
    sources = (
        SourceState(
            NEURON_MONITOR, monitor, MISSING if monitor is State.DOWN else "", None, None, {}
        ),
        SourceState(HOST, State.FRESH, "", NOON, 2.0, {}),
    )
    columns = {"node_load1": made.frame.columns["node_load1"]}
    return NodeView(
        Inventory(node=made.name),
        dataclasses.replace(made.frame, sources=sources, columns=columns),
    )


def test_values_of_the_host_do_not_make_a_node_healthy() -> None:
    assert bare().state is State.NO_DATA
    assert bare().why_no_data == MISSING
    assert bare(State.STARTING).state is State.STARTING, "neuron-monitor may report yet"
    assert make_node(0).state is State.FRESH


def test_a_node_of_a_metrics_backend_has_data_without_its_parts() -> None:
    sources = (SourceState(AGENT, State.FRESH, "", NOON, 5.0, {}),)
    empty = bare()
    assert (
        NodeView(empty.inventory, dataclasses.replace(empty.frame, sources=sources)).state
        is State.FRESH
    )


def test_no_green_tick_where_nothing_is_measured() -> None:
    parts = fleet.state_parts(bare(), CONTEXT)
    assert "".join(part for part, _ in parts) == "✕ no data"
    assert CONTEXT.palette.ok not in [style for _, style in parts]


@pytest.mark.parametrize(("state", "word"), [(State.DOWN, "✕ 1 down"), (State.STALE, "◌ 1 stale")])
def test_lost_sources_are_counted_in_words(state: State, word: str) -> None:
    made = make_node(0)
    sources = [
        dataclasses.replace(source, state=state) if source.name == NEURON_MONITOR else source
        for source in made.frame.sources
    ]
    lost = NodeView(made.inventory, dataclasses.replace(made.frame, sources=tuple(sources)))
    assert lost.state is State.FRESH
    assert [part for part, _ in fleet.state_parts(lost, CONTEXT)] == [word]


def test_incidents_are_not_evaluated_without_data() -> None:
    waiting = dataclasses.replace(view_model(), view=view_of(bare()))
    for rows in (
        node.found(waiting, bare(), 100, CONTEXT),
        incidents.detail(waiting, None, 100, CONTEXT),
    ):
        assert text(rows) == f"– not evaluated: {MISSING}"
    assert "✓" not in text(alert.draw(waiting, 100, CONTEXT))


def test_a_snapshot_without_data_is_marked() -> None:
    page = snapshot_text(view_of(bare()), 100)
    assert f"no data, incidents not evaluated: {MISSING}" in page
    assert "fresh" not in page.split("source")[0]
