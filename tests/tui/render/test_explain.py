"""What a quantity is and where its value comes from, for one node and for all."""

import dataclasses
import re

import pytest

from tests.builders import make_node, view_of
from tests.tui.render.contexts import CONTEXT, text
from tests.tui.sample_run import COMM_INCIDENT, DEVICE, VICTIM, view_model
from trntop.analysis.rulebook import rules
from trntop.catalog import CATALOG
from trntop.core.custom_rule import CustomRule
from trntop.core.model import NodeView
from trntop.tui.render import explain
from trntop.tui.screens.base import BaseScreen
from trntop.tui.screens.comm import CommScreen
from trntop.tui.screens.efa import EfaScreen
from trntop.tui.screens.node import NodeScreen
from trntop.tui.screens.run import RunScreen
from trntop.tui.view_model import ViewModel

UTILIZATION = "node_neuroncore_utilization_mean_ratio"
RETRANSMIT = "node_efa_retransmit_max_ratio"
BANDWIDTH = "node_hbm_bandwidth_ratio"
COMM = "job_comm_share_ratio"
TROUBLE = view_model(trouble=True)
SILENT = "trn-011"
OWN = CustomRule(name="hot", when=f"{UTILIZATION} > 0.9")


def explained(
    name: str, node: str | None = VICTIM, of: ViewModel = TROUBLE, *, own: CustomRule | None = None
) -> str:
    """All lines as one, so that it does not matter where they break."""
    found = rules(of.limits, () if own is None else (own,))
    return re.sub(r"\s+", " ", text(explain.draw(of, node, name, found, 72, CONTEXT)))


def of_one(made: NodeView) -> ViewModel:
    return dataclasses.replace(TROUBLE, view=view_of(made))


def test_a_value_is_shown_with_its_unit_and_provenance() -> None:
    text_ = explained(RETRANSMIT)
    assert text_.startswith(
        f"{RETRANSMIT} Retransmitted packets of the worst EFA device now 2.1 % d "
    )
    assert "d is derived: computed from measured values" in text_
    assert "now 12 % r r is reported by the training process" in explained(COMM)
    assert "measured by a counter or a clock" in explained("node_cpu_busy_ratio")


@pytest.mark.parametrize(
    ("name", "title"),
    [
        (UTILIZATION, "util"),
        ("node_efa_cards", "EFA devices"),
        ("efa_tx_bytes_per_second", "device tx"),
        ("device_memory_used_ratio", "device memory used"),
        ("node_executions_failed_total", "executions failed"),
    ],
)
def test_titles_are_those_of_columns_else_words(name: str, title: str) -> None:
    assert explain.title(name) == title


def test_inputs_are_shown_with_the_outermost_of_many_by_name() -> None:
    text_ = explained(RETRANSMIT)
    assert "inputs efa_retransmit_ratio 0.1 % d mean of 16 EFA devices; 0.0 % at rdmap" in text_
    assert f"2.1 % at {DEVICE} source efa" in text_
    assert "formula max of efa_retransmit_ratio" in text_
    assert "formula job_comm_seconds ÷ job_step_seconds" in explained(COMM)
    assert "formula change of efa_tx_pkts_total per second" in explained("efa_tx_pkts_per_second")


def test_sources_show_their_state() -> None:
    assert "source efa ✓ fresh 0 s ago, every 1 s " in explained(RETRANSMIT)
    assert "source steps ✓ fresh 0 s ago, every 1 s log ✓ fresh" in explained(COMM)
    silent = explained(COMM, SILENT)
    assert "now – steps: silent for 14 s" in silent
    assert "job_step_seconds – steps: silent for 14 s" in silent
    assert "steps ◌ stale 14 s ago, every 1 s, silent for 14 s" in silent
    assert "source efa ✓ 15 fresh ◌ 1 stale" in explained(RETRANSMIT, None)


def test_a_missing_source_is_reported_as_missing() -> None:
    made = make_node(0)
    frame = dataclasses.replace(
        made.frame,
        columns={},
        sources=tuple(source for source in made.frame.sources if source.name != "host"),
    )
    text_ = explained("node_cpu_busy_ratio", made.name, of_one(NodeView(made.inventory, frame)))
    assert "now – no host source" in text_
    assert "source host not present" in text_


def test_of_a_fleet_the_mean_and_the_outermost_nodes_are_shown() -> None:
    text_ = explained(RETRANSMIT, None)
    assert "mean of 15 of 16 nodes; 0.0 % at trn-" in text_
    assert f"2.1 % at {VICTIM} d is" in text_
    assert "now 30 % r mean of 15 of 16 jobs; 12 % at trn-007 pretrain-13b" in explained(COMM, None)
    assert "each of 15 of 16 nodes" in explained(BANDWIDTH, None)


def test_several_jobs_on_nodes_are_counted() -> None:
    made = make_node(0, jobs=("a", "b"))
    text_ = explained("job_step", None, of_one(made))
    assert "each of 2 jobs" in text_


def test_the_rules_on_it_show_their_limits_and_their_state() -> None:
    text_ = explained(COMM)
    assert "rules ▲ Comm bound since 11:59:22: comm share above 25.0 %" in text_
    assert "Straggler: a node, rank or core more than 7 % slower" in text_
    assert "(by job_step_seconds)" in text_
    text_ = explained(RETRANSMIT)
    assert "● EFA degraded since 11:59:16: an EFA device retransmits more than 0.2 %" in text_
    assert "rules EFA degraded: an EFA device" in explained(RETRANSMIT, "trn-003")
    assert "rules none" in explained("node_cpu_busy_ratio")


def test_rules_that_hold_come_first() -> None:
    own = [CustomRule(name=f"own{number}", when=f"{COMM} > 0.9") for number in range(5)]
    lines = explain.draw(TROUBLE, VICTIM, COMM, rules(TROUBLE.limits, own), 72, CONTEXT)
    text_ = re.sub(r"\s+", " ", text(lines))
    assert "rules ▲ Comm bound since 11:59:22" in text_
    straggler = dataclasses.replace(COMM_INCIDENT, id="s", kind="straggler", node=VICTIM)
    view = dataclasses.replace(TROUBLE.view, incidents=(straggler,))
    text_ = explained(COMM, of=dataclasses.replace(TROUBLE, view=view))
    assert "rules ▲ Straggler since 11:59:22: " in text_
    assert text_.index("Straggler") < text_.index("Comm bound")


def test_rules_of_the_users_own_are_named_too() -> None:
    assert f"hot: {UTILIZATION} > 0.9, until 0.855" in explained(UTILIZATION, own=OWN)


def test_more_rules_than_have_room_are_named() -> None:
    text_ = explained("neuroncore_utilization_ratio", own=None)
    direct = [
        rule.kind
        for rule, _ in explain.rules_of("neuroncore_utilization_ratio", rules(TROUBLE.limits))
    ]
    assert direct == ["straggler"]
    assert " and own" not in text_
    own = [CustomRule(name=f"own{number}", when=f"{UTILIZATION} > 0.9") for number in range(5)]
    lines = explain.draw(TROUBLE, VICTIM, UTILIZATION, rules(TROUBLE.limits, own), 72, CONTEXT)
    assert "and own1, own2, own3, own4, Straggler" in re.sub(r"\s+", " ", text(lines))


def test_metric_and_pages_are_named() -> None:
    text_ = explained(COMM)
    assert "metric trn_job_comm_share_ratio, a gauge on /metrics" in text_
    assert "on no page: screen and JSON only" in explained("rank_step_seconds")
    assert "a counter on /metrics" in explained("efa_tx_bytes_total")
    assert "needs EFA driver 2.17.0" in explained("efa_retransmit_ratio")


def test_simulated_values_are_explained_as_simulated() -> None:
    made = make_node(0, simulated=True)
    assert "here from the simulator" in explained(UTILIZATION, made.name, of_one(made))


def test_a_node_that_is_gone_has_no_values() -> None:
    assert "now – this node is gone" in explained(UTILIZATION, "nobody")
    assert "now – no nodes" in explained(UTILIZATION, None, of_one_none())


def of_one_none() -> ViewModel:
    return dataclasses.replace(TROUBLE, view=view_of())


def test_what_has_many_inputs_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "MAX_INPUTS", 1)
    assert "and 1 more" in explained(COMM)


@pytest.mark.parametrize(("node", "width"), [(VICTIM, 120), (SILENT, 76), (None, 40)])
def test_every_quantity_can_be_explained(node: str | None, width: int) -> None:
    limits = rules(TROUBLE.limits)
    for name in list(CATALOG)[::17]:
        lines = explain.draw(TROUBLE, node, name, limits, width, CONTEXT)
        assert all(strip.cell_length == width for strip in lines), name
        assert explain.title(name)
        assert explain.short_value(TROUBLE, node, name)


@pytest.mark.parametrize("screen", [BaseScreen, NodeScreen, CommScreen, EfaScreen, RunScreen])
def test_screens_name_quantities_of_the_catalog(screen: type[BaseScreen]) -> None:
    assert screen.QUANTITIES
    assert set(screen.QUANTITIES) <= set(CATALOG)
    assert len(set(screen.QUANTITIES)) == len(screen.QUANTITIES)
