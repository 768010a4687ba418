"""How the training gets on."""

from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.reactive import reactive

from trntop.core import units
from trntop.core.model import Incident

from ..render import curves, phases, runs
from ..render.jobs import incidents_of
from ..view_model import JobFigures
from ..widgets.job_table import JobPanel, JobTable
from ..widgets.parts import Parts
from ..widgets.row_table import RowTable
from .frame import Frame

if TYPE_CHECKING:
    from ..app import TrntopApp


class RunScreen(Frame):
    """Phase, pace, learning, pauses and cost of one job, and how they came about."""

    CSS_PATH = "run.tcss"
    PLACE = "run"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False, id="run.back", tooltip="Back to the fleet"),
        Binding("J,shift+j", "scroll(1)", "Scroll", key_display="J", id="run.down",
                tooltip="Scroll down, where not all fits"),
        Binding("K,shift+k", "scroll(-1)", "Up", show=False, id="run.up",
                tooltip="Scroll up"),
    ]  # fmt: skip

    QUANTITIES = (
        "job_step", "job_step_seconds", "job_step_pace_seconds", "job_tokens_per_second",
        "job_tokens_per_second_per_device", "job_mfu_ratio", "job_loss", "job_grad_norm",
        "job_comm_share_ratio", "job_exposed_comm_share_ratio",
    )  # fmt: skip

    jobs = query_one(JobTable)

    job: reactive[JobFigures | None] = reactive(None, repaint=False)
    """The job under the cursor."""

    def body(self) -> ComposeResult:
        """Jobs where there are several, phases, numbers, charts."""
        price = cast("TrntopApp", self.app).settings.screen.price_per_hour
        jobs = JobTable(partial(runs.columns, price=price), glyphs=self.glyphs, id="jobs")
        jobs.border_title = "jobs · worst first"
        spent = JobPanel(phases.draw, glyphs=self.glyphs, id="phases")
        facts = JobPanel(partial(runs.draw, price=price), glyphs=self.glyphs, id="facts")
        facts.border_title = "the run in numbers"
        charts = JobPanel(curves.draw, glyphs=self.glyphs, id="charts")
        charts.border_title = f"last {units.age(curves.SECONDS)}"
        jobs.add_class("panel")
        for panel in (spent, facts, charts):
            panel.data_bind(RunScreen.job, Frame.view_model).add_class("panel")
        yield jobs
        with Parts(id="parts"):
            yield spent
            yield facts
            yield charts

    @property
    def subject(self) -> str | None:
        """The node last looked at, if it is of the job; else the first of the job."""
        names = (
            self.view_model.cluster.jobs.get(self.job.job, ())
            if self.view_model and self.job
            else ()
        )
        last = cast("TrntopApp", self.app).shared.node
        return last if last in names else next(iter(names), None)

    @property
    def incident(self) -> Incident | None:
        """The worst one of the job, else that of the alert line."""
        found = incidents_of(self.view_model, self.job.job) if self.view_model and self.job else ()
        return next(iter(found), None) or super().incident

    def watch_view_model(self) -> None:
        """The first job may have become another.

        Not bound to the table: the job must be known before the panels are measured.
        """
        if self.is_mounted:
            self.jobs.view_model = self.view_model
            self._follow()

    @on(RowTable.Moved, "#jobs")
    def _follow(self) -> None:
        self.job = self.jobs.current
        name = self.job.job if self.job else "all nodes"
        self.entitle("#phases", f"{name} · last {units.age(phases.SECONDS)}")

    async def action_back(self) -> None:
        """Shows the fleet."""
        await self.run_action("app.cluster")

    def action_scroll(self, step: int) -> None:
        """Scrolls the parts."""
        self.query_one("#parts").scroll_relative(y=3 * step, animate=False)
