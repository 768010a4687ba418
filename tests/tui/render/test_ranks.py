"""One step of every rank, and slowest rank."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from tests.builders import make_incident, make_node
from tests.tui.rank_nodes import (
    COMPUTE,
    JOB,
    STEP,
    node_with_ranks,
    nodes_with_ranks,
    view_model_of,
)
from tests.tui.render.contexts import CONTEXT, text
from trntop.core.model import Incident, NodeView, Severity
from trntop.tui.render import jobs, ranks, slowest, table
from trntop.tui.render.line import length


def job_ranks(*nodes: NodeView) -> ranks.JobRanks:
    return ranks.ranks_of(view_model_of(*nodes), JOB)


def rows(
    found: ranks.JobRanks, nodes: list[NodeView], *, whole: bool = False
) -> list[ranks.RankRow]:
    order = found.slowest if whole else found.order
    return ranks.rows(view_model_of(*nodes), found, order.tolist(), whole)


def drawn(nodes: list[NodeView], width: int = 120, *, whole: bool = False) -> list[str]:
    found = job_ranks(*nodes)
    columns = ranks.columns(found, 0.07, whole)
    fitted = table.layout(columns, width)
    lines = [table.header(fitted, width, CONTEXT, "", False)]
    lines += [
        table.row(fitted, row, width, CONTEXT, cursor=False)
        for row in rows(found, nodes, whole=whole)
    ]
    return text(lines).splitlines()


class TestRanks:
    def test_ranks_are_in_numeric_order(self) -> None:
        found = job_ranks(node_with_ranks(0, [COMPUTE] * 12))
        assert found.names == tuple(str(rank) for rank in range(12))
        assert len(found) == 12

    def test_the_rank_with_the_longest_compute_is_first(self) -> None:
        found = job_ranks(*nodes_with_ranks(2, 4, {(1, 2): 3.6}))
        assert found.names[found.order[0]] == "6"
        assert found.lead[found.order[0]] == pytest.approx(0.2)
        assert [found.names[index] for index in found.order[1:]] == list("0123457")

    def test_even_ranks_keep_their_order(self) -> None:
        found = job_ranks(*nodes_with_ranks(1, 4, {(0, 1): 3.02, (0, 2): 2.97}))
        assert found.order.tolist() == [0, 1, 2, 3]

    def test_ranks_of_a_stage_are_peers(self) -> None:
        node = node_with_ranks(0, [3.0, 3.0, 2.0, 2.2], stage=[0, 0, 1, 1])
        found = job_ranks(node)
        assert found.staged
        assert found.lead.tolist() == pytest.approx([0, 0, -1 / 21, 1 / 21])
        assert found.order[0] == 3

    def test_without_compute_the_least_wait_counts(self) -> None:
        node = node_with_ranks(0, [2.0, 3.5, 2.0])
        columns = {name: value for name, value in node.frame.columns.items()
                   if name != "rank_compute_seconds"}  # fmt: skip
        bare = dataclasses.replace(node, frame=dataclasses.replace(node.frame, columns=columns))
        found = job_ranks(bare)
        assert np.isnan(found.lead).all()
        assert found.order.tolist() == [1, 0, 2]

    def test_of_a_node_its_slowest_rank(self) -> None:
        found = job_ranks(*nodes_with_ranks(3, 4, {(1, 2): 3.6, (2, 0): 3.01}))
        assert [found.names[index] for index in found.slowest] == ["6", "0", "8"]

    def test_ranks_of_nodes_with_an_incident_are_known(self) -> None:
        nodes = nodes_with_ranks(3, 2)
        critical = make_incident("straggler", job=JOB, node="trn-001", severity=Severity.CRITICAL)
        shown = view_model_of(*nodes, incidents=[critical])
        found = ranks.ranks_of(shown, JOB)
        rank = float(Severity.CRITICAL.rank)
        assert ranks.severity_ranks(shown, found).tolist() == [-1, -1, rank, rank, -1, -1]
        assert len(ranks.severity_ranks(view_model_of(make_node(0)), job_ranks(make_node(0)))) == 0

    def test_equal_ranks(self) -> None:
        found = job_ranks(*nodes_with_ranks(1, 4, {(0, 1): 3.02, (0, 2): 2.97}))
        assert found.even(found.order)
        found = job_ranks(*nodes_with_ranks(1, 4, {(0, 1): 3.6}))
        assert not found.even(found.order)
        assert found.even(found.order[1:])
        assert found.basis == "slowest compute"
        assert job_ranks(make_node(0)).even(np.empty(0, np.int64))

    def test_another_job_has_other_ranks(self) -> None:
        view_model = view_model_of(
            node_with_ranks(0, [COMPUTE]), node_with_ranks(1, [COMPUTE] * 2, job="other")
        )
        assert len(ranks.ranks_of(view_model, JOB)) == 1
        assert len(ranks.ranks_of(view_model, "other")) == 2
        assert len(ranks.ranks_of(view_model, "nobody")) == 0

    def test_new_ranks_are_shown(self) -> None:
        assert len(ranks.ranks_of(view_model_of(node_with_ranks(0, [COMPUTE])), JOB)) == 1
        assert len(ranks.ranks_of(view_model_of(*nodes_with_ranks(2, 4)), JOB)) == 8

    def test_a_node_without_ranks_has_none(self) -> None:
        found = job_ranks(node_with_ranks(0, [COMPUTE]), make_node(1))
        assert found.names == ("0",)
        assert found.scale == 4.0

    def test_nothing_is_known_of_no_ranks(self) -> None:
        found = job_ranks(make_node(0))
        assert len(found) == 0
        assert np.isnan(found.newest)
        assert found.order.tolist() == found.slowest.tolist() == []


class TestTimeline:
    def bar(self, node: NodeView, width: int = 40) -> str:
        found = job_ranks(node)
        row = ranks.rows(view_model_of(node), found, [0], False)[0]
        parts = ranks.timeline(row, width, CONTEXT)
        assert length(parts) == width
        return "".join(part for part, _ in parts)

    def test_compute_then_covered_then_waiting(self) -> None:
        assert self.bar(node_with_ranks(0, [3.0])) == "▆" * 25 + "▅" * 5 + "░" * 10

    def test_unreported_waiting_is_not_shown(self) -> None:
        assert self.bar(node_with_ranks(0, [3.0], comm=False)) == "▆" * 30 + "·" * 10

    def test_an_absent_step_is_blank(self) -> None:
        node = node_with_ranks(0, [3.0])
        node.frame.columns["rank_step_seconds"][:] = np.nan
        assert self.bar(node).isspace()

    def test_all_ranks_have_one_scale(self) -> None:
        found = job_ranks(node_with_ranks(0, [3.0, 3.0]))
        assert found.scale == STEP


class TestTable:
    def test_the_slow_rank_is_highlighted(self) -> None:
        nodes = nodes_with_ranks(2, 4, {(1, 2): 3.6})
        top, first, second, *_ = drawn(nodes)
        assert "one step, 0 to 4.00 s" in top
        assert first.split()[:3] == ["trn-001", "6", "+20.0"]
        assert second.split()[:3] == ["trn-000", "0", "+0.0"]
        assert "3.60" in first
        assert "0.40" in first

    def test_a_row_per_node(self) -> None:
        lines = drawn(nodes_with_ranks(3, 4, {(1, 2): 3.6}), whole=True)
        assert len(lines) == 4
        assert "slowest rank" in lines[0]
        assert "6 +3 " in lines[1]

    def test_stages_if_reported(self) -> None:
        assert " pp " in drawn([node_with_ranks(0, [3.0, 3.0], stage=[0, 1])])[0]
        assert " pp " not in drawn(nodes_with_ranks())[0]

    def test_a_rank_behind_is_a_warning(self) -> None:
        nodes = [node_with_ranks(0, [COMPUTE] * 2), node_with_ranks(1, [COMPUTE] * 2, step=1200)]
        found = job_ranks(*nodes)
        columns = {column.id: column for column in ranks.columns(found, 0.07, by_node=False)}
        late = rows(found, nodes)[-1]
        assert columns["step"].draw(late, 9, CONTEXT)[0][1] == CONTEXT.palette.warning
        assert found.newest == 1204

    @pytest.mark.parametrize("width", [20, 60, 80, 200])
    def test_it_fits(self, width: int) -> None:
        found = job_ranks(*nodes_with_ranks())
        fitted = table.layout(ranks.columns(found, 0.07, by_node=True), width)
        for row in rows(found, nodes_with_ranks(), whole=True):
            assert table.row(fitted, row, width, CONTEXT, cursor=False).cell_length == width


class TestSlowest:
    def drawn(self, *nodes: NodeView, incidents: Sequence[Incident] = (), height: int = 20) -> str:
        view_model = view_model_of(*nodes, incidents=incidents)
        found = ranks.ranks_of(view_model, JOB)
        lines = slowest.draw(view_model, JOB, found, 100, height, CONTEXT)
        assert len(lines) <= height
        return text(lines)

    def test_no_ranks(self) -> None:
        drawn = self.drawn(*nodes_with_ranks(2, 4, {(0, 0): 3.03}))
        assert drawn.startswith("✓ no incident names a cause")
        assert "compute times within 1.0 % d of the median" in drawn
        assert "1.00 s r of each step of 4.00 s, the median rank" in drawn

    def test_a_slow_rank_is_named_before_any_incident(self) -> None:
        drawn = " ".join(self.drawn(*nodes_with_ranks(2, 4, {(1, 2): 3.6})).split())
        assert "rank 6 on trn-001 computes 3.60 s r, 20 % d above its peers" in drawn

    def test_an_incident_with_its_onset_and_evidence(self) -> None:
        incident = make_incident("efa_degraded", job=JOB, node="trn-001")
        drawn = self.drawn(*nodes_with_ranks(), incidents=[incident])
        assert drawn.startswith("▲ trn-001 efa:rdmap32s27  since 11:59:00, 1 min  EFA degraded")
        assert "2.1 % retransmits" in drawn
        assert "· 16 nodes wait 0.9 s a step" in drawn

    def test_what_does_not_fit_into_its_first_line_is_left_out_whole(self) -> None:
        incident = make_incident("efa_degraded", job=JOB, node="trn-001")
        view_model = view_model_of(*nodes_with_ranks(), incidents=[incident])
        job_ranks = ranks.ranks_of(view_model, JOB)
        for width, end in ((60, "1 min"), (47, "1 min"), (46, "11:59:00"), (39, "rdmap32s27")):
            head = text(slowest.draw(view_model, JOB, job_ranks, width, 20, CONTEXT)[:1]).rstrip()
            assert head.endswith(end), width

    def test_in_short_space_the_location_and_the_ranks_stay(self) -> None:
        incident = make_incident("efa_degraded", job=JOB, node="trn-001")
        first, second, third = self.drawn(
            *nodes_with_ranks(), incidents=[incident], height=3
        ).splitlines()
        assert "trn-001 efa:rdmap32s27" in first
        assert second.split()[0] == "slowest"
        assert third.split()[0] == "waits"

    def test_much_communication_without_a_culprit(self) -> None:
        much = make_incident("comm_bound", job=JOB, node=None, severity=Severity.CRITICAL)
        drawn = self.drawn(*nodes_with_ranks(), incidents=[much])
        assert drawn.startswith("● pretrain-13b  since")
        assert "no single rank or device stands out" in drawn

    def test_only_what_explains_this_job(self) -> None:
        others = [
            make_incident("efa_degraded", job="other", node="trn-009"),
            make_incident("memory_pressure", job=JOB),
        ]
        assert "no incident names a cause" in self.drawn(*nodes_with_ranks(), incidents=others)
        view_model = view_model_of(*nodes_with_ranks(), incidents=others)
        assert [cause.job for cause in jobs.comm_causes(view_model, "")] == ["other"]

    def test_nodes_that_are_behind(self) -> None:
        late = node_with_ranks(1, [COMPUTE] * 2, step=1200)
        later = node_with_ranks(2, [COMPUTE] * 2, step=1190)
        drawn = self.drawn(node_with_ranks(0, [COMPUTE] * 2), late, later)
        assert "4 of 6 ranks, on trn-001 and 1 more" in drawn
