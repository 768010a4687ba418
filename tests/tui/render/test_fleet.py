"""Columns of the fleet table, and the order of its rows."""

import dataclasses

import numpy as np
import pytest
from rich.style import Style

from tests.builders import NOON, make_node, view_of
from tests.tui.render.contexts import CONTEXT
from tests.tui.sample_run import EFA_INCIDENT, VICTIM, node, view, view_model
from trntop.core import units
from trntop.core.model import NodeView, Phase, Severity, Stage, State
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.tui.measures import LOG_STEP, MEASURES
from trntop.tui.render import fleet
from trntop.tui.render.context import bare
from trntop.tui.render.fleet import FleetRow
from trntop.tui.render.line import length
from trntop.tui.view_model import ViewModel

NAMES = tuple(f"trn-{index:03d}" for index in range(16))
SENT = "efa_tx_bytes_per_second"


def view_model_of(*nodes: NodeView) -> ViewModel:
    return ViewModel(view_of(*nodes), History(10), Analysis())


def sending(index: int, rate: float | None) -> NodeView:
    """A node with two EFA devices that send `rate` bytes a second each."""
    return make_node(index, columns={SENT: None if rate is None else [rate, rate]})


def names(shown: ViewModel, by: str, *, reverse: bool = False) -> list[str]:
    return [shown.cluster.names[index] for index in fleet.order(shown, by, reverse=reverse)]


def drawn(row: FleetRow, name: str, width: int = 0) -> str:
    column = next(column for column in fleet.columns(8) if column.id == name)
    parts = column.draw(row, width or column.width, CONTEXT)
    assert length(parts) == (width or column.width)
    return "".join(text for text, _ in parts)


class TestOffenders:
    def styles(self, troubled: ViewModel) -> dict[str, Style]:
        """Node → how its communication share is drawn."""
        column = next(column for column in fleet.columns(8) if column.id == "comm")
        return {
            made.name: column.draw(
                FleetRow(
                    made,
                    incidents=troubled.by_node.get(made.name, ()),
                    job_incidents=fleet.job_incidents(troubled, made),
                ),
                column.width,
                CONTEXT,
            )[0][1]
            for made in troubled.cluster.nodes.values()
        }

    def test_of_a_job_over_its_limit_those_that_are_over_it(self) -> None:
        found = self.styles(view_model(trouble=True))
        assert found["trn-000"] is CONTEXT.palette.warning
        assert found[VICTIM] is CONTEXT.palette.text, "it communicates less than the others"
        assert set(self.styles(view_model()).values()) == {CONTEXT.palette.text}

    def test_of_a_straggler(self) -> None:
        slow = dataclasses.replace(EFA_INCIDENT, kind="straggler", severity=Severity.CRITICAL)
        shown = dataclasses.replace(view_model(), view=view_of(*view().cluster.nodes.values(),
                                                          incidents=[slow]))  # fmt: skip
        found = self.styles(shown)
        assert found[VICTIM] is CONTEXT.palette.critical
        assert found["trn-000"] is CONTEXT.palette.text


class TestOrder:
    def test_worst_first(self) -> None:
        shown = view_model(trouble=True)
        found = names(shown, fleet.WORST)
        assert found[:3] == [VICTIM, "trn-011", "trn-000"]
        assert names(shown, fleet.WORST, reverse=True)[-2:] == ["trn-011", VICTIM]
        assert names(shown, "incident")[:2] == [VICTIM, "trn-000"]
        assert names(shown, "state")[:2] == ["trn-011", "trn-000"]

    def test_by_name(self) -> None:
        assert names(view_model(), "node") == list(NAMES)
        assert names(view_model(), "node", reverse=True) == list(NAMES[::-1])

    def test_what_is_absent_comes_last_either_way(self) -> None:
        shown = view_model_of(sending(0, None), sending(1, 1e9), sending(2, 3e9))
        assert names(shown, "efa_tx") == ["trn-002", "trn-001", "trn-000"]
        assert names(shown, "efa_tx", reverse=True) == ["trn-001", "trn-002", "trn-000"]

    def test_equal_members_keep_their_order(self) -> None:
        shown = view_model_of(*(sending(index, 1e9) for index in range(4)))
        for reverse in (False, True):
            assert names(shown, "efa_tx", reverse=reverse) == list(NAMES[:4])

    def test_by_words(self) -> None:
        shown = view_model_of(node(0, jobs=("b",)), make_node(1, jobs=()), node(2, jobs=("a",)))
        assert names(shown, "job") == ["trn-002", "trn-000", "trn-001"]
        assert names(shown, "type") == list(NAMES[:3])
        assert len(names(shown, "phase")) == 3

    @pytest.mark.parametrize("column", [*fleet.columns(4)], ids=lambda column: column.id)
    def test_every_column_sorts(self, column: fleet.Column[FleetRow]) -> None:
        for shown in (view_model(trouble=True), view_model_of()):
            assert sorted(names(shown, column.id)) == list(shown.cluster.names)


class TestMeasures:
    def test_one_and_all_agree(self) -> None:
        shown = view_model_of(
            node(0, jobs=("a", "b")), make_node(1, jobs=()), node(2, state=State.STALE)
        )
        for measure in MEASURES.values():
            all_of_them = [
                None if value != value else value for value in measure.values(shown.cluster)
            ]
            assert all_of_them == [measure.value(node) for node in shown.cluster.nodes.values()]

    def test_a_step_rate_replaces_a_step_time(self) -> None:
        with_steps = make_node(
            columns={"job_step_seconds": None, "job_logged_steps_per_second": [0.4]}
        )
        step = MEASURES["step"]
        assert (step.value(with_steps), step.quantity_of(with_steps)) == (
            2.5,
            "job_step_pace_seconds",
        )
        assert step.values(view_model_of(with_steps).cluster).tolist() == [2.5]


class TestColumns:
    def test_the_standard_ones(self) -> None:
        shown = fleet.selected(fleet.columns(8), ())
        assert not {column.id for column in shown} & set(fleet.OPTIONAL)
        assert [column.id for column in shown][:3] == ["node", "util", "te"]

    def test_chosen_columns_are_in_the_usual_order_after_the_name(self) -> None:
        shown = fleet.selected(fleet.columns(8), ("state", "cpu", "util"))
        assert [column.id for column in shown] == ["node", "util", "cpu", "state"]
        usual = {column.id: column.rank for column in fleet.columns(8)}
        assert shown[2].rank > usual["state"]
        assert shown[1].rank == usual["util"]

    def test_columns_with_one_value_in_every_row_are_hidden(self) -> None:
        calm, trouble = view_model(), view_model(trouble=True)
        assert {"incident", "next", "state", "job", "type"} <= fleet.uniform(calm)
        assert not {"incident", "next", "state"} & fleet.uniform(trouble)
        ids = [column.id for column in fleet.selected(fleet.columns(8), (), fleet.uniform(calm))]
        assert "state" not in ids
        chosen = fleet.selected(fleet.columns(8), ("state",), fleet.uniform(calm))
        assert [column.id for column in chosen] == ["node", "state"]

    def test_a_stalled_run_has_no_steps_to_report(self) -> None:
        def uniform(stage: Stage) -> frozenset[str]:
            made = make_node(0, states={"steps": State.STALE})
            frame = dataclasses.replace(made.frame, phase=Phase(stage, NOON - 60, ""))
            found = view_of(dataclasses.replace(made, frame=frame))
            return fleet.uniform(ViewModel(view=found, history=History(60), limits=Analysis()))

        hidden = {"state", "comm", "exposed", "step"}
        assert hidden <= uniform(Stage.STALLED)
        assert not hidden & uniform(Stage.TRAINING)

    def test_provenance_is_in_the_heading_and_in_the_cells_that_differ(self) -> None:
        heading = {column.id: column.heading for column in fleet.columns(8)}
        assert heading["util"] == "util % d"
        assert heading["step"] == "step s r"
        logged = make_node(0, jobs=("j",), columns={"job_step_seconds": None, LOG_STEP: [4.0]})
        assert drawn(FleetRow(logged), "step").strip() == "4.00d"
        assert drawn(FleetRow(make_node(0, jobs=("j",))), "step").strip()[-1] != "d"

    @pytest.mark.parametrize(("ratio", "shown"), [(0.0, "0"), (2e-5, "<0.1"), (0.021, "2.1")])
    def test_zero_and_a_trace_differ(self, ratio: float, shown: str) -> None:
        columns = {"efa_tx_pkts_per_second": [1e6], "efa_retrans_pkts_per_second": [1e6 * ratio]}
        made = make_node(0, 1, 1, 1, columns=columns)
        assert drawn(FleetRow(made), "retx").strip() == shown

    def test_every_column_has_a_description(self) -> None:
        for column in fleet.columns(8):
            assert len(column.heading) <= column.min_width

    def test_all_draw_their_width(self) -> None:
        for node_view in (*view(trouble=True).cluster.nodes.values(), make_node(columns={})):
            for column in fleet.columns(8):
                for width in {column.width, column.max_width or column.width}:
                    assert length(column.draw(FleetRow(node_view), width, CONTEXT)) == width

    def test_all_rates_fit_next_to_their_sparkline(self) -> None:
        busy = make_node(0, columns={SENT: [25e9] * 16})
        shown = drawn(FleetRow(busy, trail=np.ones(17)), "efa_tx", 24)
        assert shown.lstrip().startswith(f"{bare(units.gigabits(16 * 25e9))} ")
