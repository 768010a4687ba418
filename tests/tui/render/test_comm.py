"""The communication share over time, or what is known instead."""

import dataclasses

import pytest
from rich.style import Style

from tests.builders import NOON, make_incident, make_node, make_view, view_of
from tests.tui.crews import JOB, crew_of, scene_of
from tests.tui.render.pens import PEN, PLAIN, text
from tests.tui.scenes import view_model
from trntop.core.model import Severity, State, View
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.tui.render import bounds, comm, jobs, table
from trntop.tui.render.context import RenderContext
from trntop.tui.view_model import JobFigures, ViewModel


def of(view: View) -> ViewModel:
    return ViewModel(view=view, history=History(60), limits=Analysis(), utc=True)


def shares(
    shown: ViewModel, width: int = 80, height: int = 12, context: RenderContext = PEN
) -> str:
    job = shown.job
    return text(comm.shares(shown, job, width, height, context))


class TestShares:
    def test_both_shares_with_their_limits(self) -> None:
        head = shares(view_model(), 120).splitlines()[0]
        assert "comm 17 % r, limit 25 %" in head
        assert "exposed 8.2 %r, limit 25 %" in head.replace("% r,", "%r,")
        assert "covered by compute" in head

    def test_the_axis_names_the_limit(self) -> None:
        rows = shares(view_model(trouble=True)).splitlines()
        assert len(rows) == 12
        assert rows[1].startswith(" 50 %┤")
        assert any(row.startswith(" 25 %┤") for row in rows)
        assert rows[-2].startswith("  0 %┤")

    def test_above_the_limit_is_a_warning_and_the_onset_is_marked(self) -> None:
        shown = view_model(trouble=True)
        lines = comm.shares(shown, shown.job, 80, 12, PEN)
        styles = {segment.style for strip in lines[1:] for segment in strip}
        assert PEN.palette.over[Severity.WARNING][-1] in styles
        assert "▴" in lines[-1].text

    @pytest.mark.parametrize("trouble", [False, True])
    @pytest.mark.parametrize("width", [68, 80, 120])
    def test_both_shades_are_explained_in_the_colours_of_the_newest_bar(
        self, trouble: bool, width: int
    ) -> None:
        shown = view_model(trouble=trouble)
        head, *body = comm.shares(shown, shown.job, width, 12, PEN)
        swatches = [part.style for part in head if part.text.strip() == "█"]
        shades = PEN.palette.over[Severity.WARNING] if trouble else PEN.palette.area
        assert swatches == [shades[-1], shades[1]]
        assert body[-2]._segments[-1].style == swatches[0]
        assert "exposed" in head.text
        assert "covered" in head.text

    def test_what_is_over_is_marked_in_grey(self) -> None:
        past = make_incident("straggler", job=JOB, closed_at=NOON - 20)
        shown = scene_of(*crew_of(), incidents=[past])
        axis = comm.shares(shown, shown.job, 80, 12, PEN)[-1]
        assert next(part.style for part in axis if part.text == "▴") == PEN.palette.muted

    def test_the_exposed_part_stands_on_the_ground(self) -> None:
        shown = view_model()
        lines = comm.shares(shown, shown.job, 80, 12, PEN)
        assert lines[-2]._segments[-1].style == PEN.palette.area[-1]

    @pytest.mark.parametrize(
        ("inside", "below", "sign", "style"),
        [
            (7, 4, "▄", None),
            (5, 1, "▅", PEN.palette.area[1]),
            (3, 2, "▃", PEN.palette.area[-1]),
        ],
    )
    def test_a_cell_in_which_both_end_shows_what_is_least_wrong(
        self, inside: int, below: int, sign: str, style: Style | None
    ) -> None:
        column = PEN.glyphs.column
        drawn, found = comm._both(inside, below, column, PEN.palette.area[-1], PEN.palette.area[1])
        assert drawn == sign
        if style is None:
            assert found.bgcolor == PEN.palette.area[1].color
        else:
            assert found == style

    def test_few_lines_are_not_spent_above_the_limit(self) -> None:
        rows = shares(view_model(), 80, 6).splitlines()
        assert rows[1].startswith(" 40 %┤")
        assert rows[2].startswith(" 25 %┤╌")

    def test_the_baseline_is_marked(self) -> None:
        shown = dataclasses.replace(view_model(), baseline=make_view(time=NOON - 100))
        assert "b" in comm.shares(shown, shown.job, 80, 12, PEN)[-1].text

    @pytest.mark.parametrize(("width", "height"), [(80, 2), (16, 10), (10, 1), (200, 40)])
    def test_any_size(self, width: int, height: int) -> None:
        shown = view_model(trouble=True)
        lines = comm.shares(shown, shown.job, width, height, PEN)
        assert len(lines) <= height
        assert all(strip.cell_length == width for strip in lines)

    def test_ascii(self) -> None:
        drawn = shares(scene_of(*crew_of()), 200, 12, PLAIN)
        assert drawn.isascii()
        assert ":" in drawn
        assert "#" in drawn

    def test_without_steps_it_says_what_reports_them(self) -> None:
        drawn = " ".join(shares(of(make_view(jobs=()))).split())
        assert drawn.startswith("No job reports its steps")
        assert "steps.compute()" in drawn

    def test_steps_without_sections(self) -> None:
        columns = {"job_comm_seconds": None, "job_comm_share_ratio": None}
        drawn = shares(of(make_view(columns=columns)))
        assert drawn.startswith(f"{JOB} reports its steps, but not")

    def test_a_job_that_fell_silent(self) -> None:
        one = make_incident("hang", job=JOB, node="trn-001")
        drawn = shares(of(make_view(jobs=(), incidents=[one])))
        assert drawn.startswith(f"{JOB} no longer reports its steps.")


class TestBounds:
    def drawn(self, view: View, width: int = 120) -> list[str]:
        shown = of(view)
        fitted = table.layout(bounds.BoundsColumns(shown).all(), width)
        nodes = bounds.order(list(view.cluster.nodes.values()))
        lines = [table.header(fitted, width, PEN, "", False)]
        lines += [table.row(fitted, node, width, PEN, cursor=False) for node in nodes]
        return text(lines).splitlines()

    def test_a_range_with_the_limit(self) -> None:
        top, first, *_ = self.drawn(make_view(jobs=()))
        assert "0 to 100 %, limit 25 %" in top
        assert "~3-40" in first
        assert "┃" in first
        assert "why" not in top

    def test_the_surest_first(self) -> None:
        nodes = [
            make_node(index, jobs=(), columns={"node_comm_share_floor_ratio": [share]})
            for index, share in enumerate((0.1, 0.3, 0.2))
        ]
        names = [row.split()[0] for row in self.drawn(view_of(*nodes))[1:]]
        assert names == ["trn-001", "trn-002", "trn-000"]

    def test_why_a_bound_is_missing(self) -> None:
        columns = {"node_comm_share_ceiling_ratio": None}
        view = make_view(
            1, jobs=(), columns=columns, states={"tensor-engine": State.DOWN}, reason="no driver"
        )
        top, first = self.drawn(view, 160)
        assert "why not known" in top
        assert "at least: its inputs do" in first

    def test_nothing_known_is_blank(self) -> None:
        columns = dict.fromkeys(("node_comm_share_ceiling_ratio", "node_comm_share_floor_ratio"))
        node = make_node(0, jobs=(), columns=columns)
        assert bounds.ranged(node, 20, PEN, 0.25) == [(" " * 20, PEN.palette.rule)]

    def test_one_bound_alone(self) -> None:
        node = make_node(0, jobs=(), columns={"node_comm_share_ceiling_ratio": None})
        drawn = "".join(part for part, _ in bounds.ranged(node, 20, PEN, 0.25))
        assert drawn == "━" * 5 + "┃" + "━" * 14

    def test_a_node_with_an_incident(self) -> None:
        one = make_incident(node="trn-000")
        assert "▲ trn-000" in self.drawn(make_view(2, jobs=(), incidents=[one]))[1]


class TestJobs:
    def rows(self, view: View, width: int = 140) -> list[str]:
        shown = of(view)
        fitted = table.layout(comm.columns(shown), width)
        found = [jobs.row_of(shown, one) for one in jobs.worst_first(shown)]
        return text(table.row(fitted, row, width, PEN, cursor=False) for row in found).splitlines()

    def test_the_first_is_the_header_s(self) -> None:
        shown = of(make_view())
        assert jobs.worst_first(shown) == [shown.job]
        assert jobs.worst_first(of(make_view(jobs=()))) == []

    def test_worst_first(self) -> None:
        nodes = [make_node(index, jobs=(job,)) for index, job in enumerate("abc")]
        one = make_incident("straggler", job="b", node="trn-001")
        shown = of(view_of(*nodes, incidents=[one]))
        found = jobs.worst_first(shown)
        assert found[0].job == "b" == (shown.job.job if shown.job else "")
        first, *others = self.rows(shown.view)
        assert first.split()[:2] == ["▲", "b"]
        assert "straggler trn-001" in first
        assert len(others) == 2

    def test_a_share_above_its_limit_is_a_warning(self) -> None:
        row = jobs.JobRow(figures("x", comm=0.31, exposed=0.30))
        shown = of(make_view())
        columns = {one.id: one for one in comm.columns(shown)}
        for name in ("comm", "exposed"):
            parts = columns[name].draw(row, 10, PEN)
            assert any(style == PEN.palette.warning for _, style in parts)

    def test_incidents_of_its_nodes_are_its_own(self) -> None:
        ours = make_incident("ecc_uncorrected", node="trn-000")
        theirs = make_incident("ecc_uncorrected", node="trn-001", job="other")
        shown = of(make_view(incidents=[ours, theirs]))
        assert jobs.incidents_of(shown, JOB) == (ours,)


def figures(job: str, *, comm: float | None = None, exposed: float | None = None) -> JobFigures:
    return JobFigures(
        job=job, nodes=1, step=None, step_seconds=None, step_pace_seconds=None,
        tokens_per_second=None, tokens_per_second_per_device=None, loss=None, mfu=None,
        comm_share=comm, exposed_share=exposed,
    )  # fmt: skip
