"""The communication share over time, or what is known instead."""

import pytest

from tests.builders import NOON, make_incident, make_node, make_view, view_of
from tests.tui.rank_nodes import JOB, nodes_with_ranks, view_model_of
from tests.tui.render.contexts import CONTEXT, text
from tests.tui.sample_run import view_model
from trntop.core.model import Severity, View
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.tui.measures import COMM, EXPOSED
from trntop.tui.render import comm, jobs, table
from trntop.tui.render.context import RenderContext
from trntop.tui.view_model import JobFigures, ViewModel


def of(view: View) -> ViewModel:
    return ViewModel(view=view, history=History(60), limits=Analysis(), utc=True)


def shares(
    shown: ViewModel, width: int = 80, height: int = 12, context: RenderContext = CONTEXT
) -> str:
    job = shown.job
    return text(comm.shares(shown, job, width, height, context))


class TestShares:
    def test_both_shares_with_their_limits(self) -> None:
        head, *body = shares(view_model(), 120).splitlines()
        assert head.split("limit 25 %")[0].startswith("comm share 17 % r")
        assert "exposed share 8.2 % r" in head
        assert any(row.startswith(" 25 %┤") for row in body)

    def test_above_the_limit_is_a_warning_and_the_start_is_marked(self) -> None:
        shown = view_model(trouble=True)
        lines = comm.shares(shown, shown.job, 80, 12, CONTEXT)
        styles = {segment.style for strip in lines[1:] for segment in strip}
        assert CONTEXT.palette.over[Severity.WARNING][2] in styles
        assert "▴" in lines[-1].text

    def test_what_is_over_is_marked_in_grey(self) -> None:
        past = make_incident("straggler", job=JOB, closed_at=NOON - 20)
        shown = view_model_of(*nodes_with_ranks(), incidents=[past])
        axis = comm.shares(shown, shown.job, 80, 12, CONTEXT)[-1]
        assert next(part.style for part in axis if part.text == "▴") == CONTEXT.palette.muted

    @pytest.mark.parametrize(("width", "height"), [(80, 2), (16, 10), (10, 1), (200, 40)])
    def test_any_size(self, width: int, height: int) -> None:
        shown = view_model(trouble=True)
        lines = comm.shares(shown, shown.job, width, height, CONTEXT)
        assert len(lines) <= height
        assert all(strip.cell_length == width for strip in lines)

    def test_without_steps_it_names_what_reports_them(self) -> None:
        drawn = " ".join(shares(of(make_view(jobs=()))).split())
        assert drawn.startswith("No job reports its steps")
        assert "steps.compute()" in drawn

    def test_steps_without_sections(self) -> None:
        columns = {"job_comm_seconds": None, "job_comm_share_ratio": None}
        drawn = shares(of(make_view(columns=columns)))
        assert drawn.startswith(f"{JOB} reports its steps, but not")

    def test_a_job_that_fell_silent(self) -> None:
        incident = make_incident("hang", job=JOB, node="trn-001")
        drawn = shares(of(make_view(jobs=(), incidents=[incident])))
        assert drawn.startswith(f"{JOB} no longer reports its steps.")


class TestJobs:
    def rows(self, view: View, width: int = 140) -> list[str]:
        shown = of(view)
        fitted = table.layout(comm.columns(shown), width)
        found = [jobs.row_of(shown, job) for job in shown.jobs]
        return text(
            table.row(fitted, row, width, CONTEXT, cursor=False) for row in found
        ).splitlines()

    def test_the_first_is_the_header_s(self) -> None:
        shown = of(make_view())
        assert shown.jobs == (shown.job,)
        assert of(make_view(jobs=())).jobs == ()

    def test_worst_first(self) -> None:
        nodes = [make_node(index, jobs=(job,)) for index, job in enumerate("abc")]
        incident = make_incident("straggler", job="b", node="trn-001")
        shown = of(view_of(*nodes, incidents=[incident]))
        found = shown.jobs
        assert found[0].job == "b" == (shown.job.job if shown.job else "")
        first, *others = self.rows(shown.view)
        assert first.split()[:2] == ["▲", "b"]
        assert "Straggler trn-001" in first
        assert len(others) == 2

    def test_a_share_above_its_limit_is_a_warning(self) -> None:
        row = jobs.JobRow(figures("x", comm=0.31, exposed=0.30))
        shown = of(make_view())
        columns = {column.id: column for column in comm.columns(shown)}
        for name in ("comm", "exposed"):
            parts = columns[name].draw(row, 10, CONTEXT)
            assert any(style == CONTEXT.palette.warning for _, style in parts)

    def test_incidents_of_its_nodes_are_its_own(self) -> None:
        ours = make_incident("ecc_uncorrected", node="trn-000")
        theirs = make_incident("ecc_uncorrected", node="trn-001", job="other")
        shown = of(make_view(incidents=[ours, theirs]))
        assert jobs.incidents_of(shown, JOB) == (ours,)


def figures(job: str, *, comm: float | None = None, exposed: float | None = None) -> JobFigures:
    values = {COMM: comm, EXPOSED: exposed}
    return JobFigures(job, 1, {name: value for name, value in values.items() if value is not None})


class TestKinds:
    def shown(self, **columns: list[float]) -> ViewModel:
        return of(make_view(2, columns={f"job_{name}": value for name, value in columns.items()}))

    def drawn(self, shown: ViewModel, width: int = 120, height: int = 0) -> list[str]:
        return text(comm.kinds(shown, shown.job, width, height, CONTEXT)).splitlines()

    def test_the_largest_share_is_first_and_unknown_bandwidths_are_absent(self) -> None:
        head, *rows = self.drawn(
            self.shown(
                all_gather_share_ratio=[0.07], all_gather_calls=[8.0],
                all_reduce_share_ratio=[0.21], all_reduce_calls=[12.0],
                all_reduce_bytes=[3.0 * 2**30], all_reduce_busbw_bytes_per_second=[41e9],
            )
        )  # fmt: skip
        assert head.split("EFA")[0].split() == ["step", "%", "calls", "bytes", "busbw"]
        assert "line rate" in head
        assert [row.split() for row in rows] == [
            ["all-reduce", "21", "12", "3.00", "GiB", "41.0", "GB/s"],
            ["all-gather", "7.0", "8", "–", "–"],
        ]

    def test_nothing_without_kinds(self) -> None:
        assert self.drawn(self.shown()) == []

    @pytest.mark.parametrize(("width", "height"), [(80, 2), (16, 10), (10, 1)])
    def test_any_size(self, width: int, height: int) -> None:
        shown = self.shown(all_gather_share_ratio=[0.07], send_recv_share_ratio=[0.07])
        lines = comm.kinds(shown, shown.job, width, height, CONTEXT)
        assert len(lines) <= height
        assert all(strip.cell_length == width for strip in lines)
