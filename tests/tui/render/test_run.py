"""Training progress: phases, jobs, charts."""

import numpy as np
import pytest

from tests.builders import NOON, make_node, make_view, view_of
from tests.tui.rank_nodes import JOB, constant_history
from tests.tui.render.contexts import CONTEXT, text
from tests.tui.sample_run import view_model
from trntop.core.model import Compilation, Stage, View
from trntop.core.settings import Analysis
from trntop.pipeline.history import History
from trntop.pipeline.jobs import STAGES
from trntop.tui.render import jobs, phases, table, trends
from trntop.tui.view_model import ViewModel


def of(view: View, history: History | None = None) -> ViewModel:
    return ViewModel(
        view=view, history=history or constant_history(view), limits=Analysis(), utc=True
    )


def history_of(*stages: tuple[int, Stage | None]) -> History:
    """Ticks of a job, so many seconds in each stage, up to noon."""
    past = History(1000)
    plan = [stage for seconds, stage in stages for _ in range(seconds)]
    cluster = make_view().cluster
    for second, stage in enumerate(plan, 1 - len(plan)):
        object.__setattr__(cluster, "time", NOON + second)
        values = {} if stage is None else {f"{JOB}/stage": float(STAGES.index(stage))}
        past.append(cluster, values)
    return past


TRAINED = (
    (40, Stage.COMPILING), (20, Stage.WARMING_UP), (100, Stage.TRAINING),
    (4, Stage.CHECKPOINTING), (100, Stage.TRAINING), (6, Stage.CHECKPOINTING),
    (30, Stage.TRAINING),
)  # fmt: skip


class TestPhases:
    def shown(self, *stages: tuple[int, Stage | None]) -> ViewModel:
        return of(make_view(), history_of(*stages))

    def test_spans(self) -> None:
        found = phases.spans(*phases.stages(self.shown(*TRAINED), JOB))
        assert [(span.stage, span.seconds) for span in found[:4]] == [
            (Stage.COMPILING, 40), (Stage.WARMING_UP, 20), (Stage.TRAINING, 100),
            (Stage.CHECKPOINTING, 4),
        ]  # fmt: skip
        assert phases.spans(np.empty(0), np.empty(0)) == []

    def test_unreported_phases_are_in_no_span(self) -> None:
        shown = self.shown((10, Stage.TRAINING), (5, None), (10, Stage.TRAINING))
        found = phases.spans(*phases.stages(shown, JOB))
        assert [span.seconds for span in found] == [10, 9]

    def test_what_the_nodes_did_before_the_first_step(self) -> None:
        past = History(1000)
        cluster = make_view().cluster
        for second in range(-9, 1):
            object.__setattr__(cluster, "time", NOON + second)
            values = {"/stage": 0.0} if second < -4 else {"/stage": 2.0, f"{JOB}/stage": 2.0}
            past.append(cluster, values)
        found = phases.spans(*phases.stages(of(make_view(), past), JOB))
        assert [span.stage for span in found] == [Stage.COMPILING, Stage.TRAINING]
        assert found[0].seconds == 5

    def test_what_the_nodes_do_after_the_last_report(self) -> None:
        past = History(1000)
        cluster = make_view().cluster
        for second in range(-9, 1):
            object.__setattr__(cluster, "time", NOON + second)
            stalled = float(list(Stage).index(Stage.STALLED))
            job = {f"{JOB}/stage": 2.0} if second < -4 else {}
            past.append(cluster, {"/stage": stalled if second >= -5 else 2.0, **job})
        found = phases.spans(*phases.stages(of(make_view(), past), JOB))
        assert [span.stage for span in found] == [Stage.TRAINING, Stage.STALLED]

    def test_a_strip(self) -> None:
        shown = self.shown(*TRAINED)
        cells, axis = phases.strip(shown, JOB, 90, CONTEXT)
        assert len(cells.text) == 90
        assert axis.text.endswith("now")
        assert cells.text.strip() == "cccccww" + "━" * 9 + "k" + "━" * 9 + "kk" + "━" * 3

    def test_the_strip_is_as_long_as_its_title_states(self) -> None:
        cells, axis = phases.strip(self.shown(*TRAINED), JOB, 196, CONTEXT)
        assert len(cells.text) == len(axis.text) == 196
        assert axis.text.rstrip().endswith("now")
        assert len(axis.text.rstrip()) == 180, "of 5 s each"

    def test_a_short_stage_is_not_lost(self) -> None:
        shown = self.shown((100, Stage.TRAINING), (1, Stage.STALLED), (100, Stage.TRAINING))
        assert "!" in phases.strip(shown, JOB, 40, CONTEXT)[0].text

    def test_the_strip_is_readable_without_colours(self) -> None:
        assert len(set(phases.SIGNS.values())) == len(Stage) - 1

    def test_sums(self) -> None:
        drawn = phases.tally(self.shown(*TRAINED), JOB, 120, CONTEXT).text
        assert "c compiling 40 s" in drawn
        assert "training 77 % of 4 min 59 s" in drawn
        assert "k checkpointing 10 s in 2" in drawn

    def test_on_a_narrow_screen_the_important_stages_stay(self) -> None:
        shown = self.shown((60, Stage.IDLE), *TRAINED, (5, Stage.EVALUATING), (9, Stage.STALLED))
        drawn = phases.tally(shown, JOB, 80, CONTEXT).text
        assert "! stalled 8 s" in drawn
        assert "c compiling" in drawn
        assert "idle" not in drawn

    def test_what_it_is_at(self) -> None:
        lines = phases.draw(view_model(), view_model().job, 80, 0, CONTEXT)
        assert text(lines[:1]) == "training d since 08:48:00 (3 h 12 min) · step 1,204"
        assert len(lines) == 4
        assert all(line.cell_length == 80 for line in lines)

    def test_without_a_job_the_nodes_are_shown(self) -> None:
        view = make_view(jobs=(), compilation=Compilation(NOON - 90, 2))
        drawn = text(phases.draw(of(view), None, 80, 0, CONTEXT))
        assert drawn.startswith("compiling d since 11:58:30")
        assert "c compiling" in drawn

    def test_nothing_reported(self) -> None:
        drawn = text(phases.draw(of(make_view(nodes=0), History(60)), None, 80, 0, CONTEXT))
        assert drawn.startswith("phase –")


def test_a_row_per_job() -> None:
    nodes = [make_node(index, jobs=(job,)) for index, job in enumerate("ab")]
    shown = of(view_of(*nodes))
    fitted = table.layout(jobs.PROGRESS, 140)
    rows = [
        table.row(fitted, jobs.row_of(shown, job), 140, CONTEXT, cursor=False).text
        for job in shown.jobs
    ]
    assert "training" in rows[0]
    assert "971 k" in rows[1]


class TestCharts:
    def test_what_is_reported_is_drawn(self) -> None:
        shown = of(make_view())
        drawn = text(trends.run(shown, shown.job, 200, 24, CONTEXT))
        for title in ("step time 4.31 s r", "tokens/s 971 k r", "loss 2.5r", "MFU 38 % r",
                      "grad norm 0.75r"):  # fmt: skip
            assert title in drawn

    def test_the_step_rate_without_a_step_time(self) -> None:
        shown = of(make_view(columns={"job_step_seconds": None}))
        assert "step time 4.00 s d" in text(trends.run(shown, shown.job, 120, 12, CONTEXT))

    @pytest.mark.parametrize(("width", "height"), [(19, 9), (40, 6), (80, 20), (200, 60)])
    def test_any_size(self, width: int, height: int) -> None:
        shown = of(make_view())
        lines = trends.run(shown, shown.job, width, height, CONTEXT)
        assert len(lines) <= height
        assert all(line.cell_length == width for line in lines)

    def test_nothing_yet(self) -> None:
        shown = of(make_view(), History(60))
        assert "no step was reported yet" in text(trends.run(shown, shown.job, 80, 12, CONTEXT))

    def test_without_a_job_the_fleet_is_drawn(self) -> None:
        assert "utilization, mean" in text(
            trends.run(of(make_view(jobs=())), None, 120, 12, CONTEXT)
        )
