"""Training progress of one job."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.getters import query_one
from textual.reactive import reactive

from trntop.core import units
from trntop.core.model import Incident

from ..keys import hidden_key, key
from ..render import phases, trends
from ..render.jobs import PROGRESS, incidents_of
from ..view_model import JobFigures
from ..widgets.drawn import Panel, of_job
from ..widgets.job_table import JobTable
from ..widgets.panel_stack import PanelStack
from ..widgets.row_table import RowTable
from .base import BaseScreen


class RunScreen(BaseScreen):
    """Phase, steps, loss and pauses of one job, and their charts."""

    CSS_PATH = "run.tcss"
    NAME = "run"
    SCROLLED = "#parts"
    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("escape", "back", "Back", "Back to the fleet"),
        key("J,shift+j", "scroll(1)", "Scroll", "Scroll down"),
        hidden_key("K,shift+k", "scroll(-1)", "Up", "Scroll up"),
    ]

    QUANTITIES = (
        "job_step", "job_step_seconds", "job_step_pace_seconds", "job_tokens_per_second",
        "job_tokens_per_second_per_device", "job_mfu_ratio", "job_loss", "job_grad_norm",
        "job_comm_share_ratio", "job_exposed_comm_share_ratio",
    )  # fmt: skip

    jobs = query_one(JobTable)

    job: reactive[JobFigures | None] = reactive(None, repaint=False)
    """The job under the cursor."""

    def body(self) -> ComposeResult:
        jobs = JobTable(lambda _: PROGRESS, id="jobs")
        jobs.add_class("panel").entitle("jobs · worst first")
        panels = (
            Panel(of_job(phases.draw), "phases", id="phases"),
            Panel(of_job(trends.run), f"last {units.age(trends.SECONDS)}", id="charts"),
        )
        for panel in panels:
            panel.data_bind(RunScreen.job, BaseScreen.view_model)
        yield jobs
        yield PanelStack(*panels, id="parts")

    @property
    def subject(self) -> str | None:
        """The last selected node if it runs the job, else the first node of the job."""
        names = (
            self.view_model.cluster.jobs.get(self.job.job, ())
            if self.view_model and self.job
            else ()
        )
        last = self.dashboard.shared.node
        return last if last in names else next(iter(names), None)

    @property
    def incident(self) -> Incident | None:
        """The worst of the job, else that of the alert line."""
        found = incidents_of(self.view_model, self.job.job) if self.view_model and self.job else ()
        return next(iter(found), None) or super().incident

    def watch_view_model(self) -> None:
        # Not bound to the list of jobs: the job must be known before the panels are measured.
        if self.is_mounted:
            self.jobs.view_model = self.view_model
            self._follow()

    @on(RowTable.Moved, "#jobs")
    def _follow(self) -> None:
        self.job = self.jobs.current
        name = self.job.job if self.job else "all nodes"
        self.query_one("#phases", Panel).entitle(f"{name} · last {units.age(phases.SECONDS)}")
