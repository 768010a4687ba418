"""The communication share of a step, and the slowest rank."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.getters import query_one
from textual.reactive import reactive
from textual.strip import Strip

from trntop.catalog import COLLECTIVES
from trntop.core.model import Incident

from ..keys import key
from ..measures import COMM
from ..messages import NodeRequested
from ..render import comm, slowest
from ..render.jobs import comm_bound, comm_causes
from ..render.ranks import ranks_of
from ..view_model import JobFigures, ViewModel
from ..widgets.drawn import Panel, of_job
from ..widgets.fleet_table import FleetTable
from ..widgets.job_table import JobTable
from ..widgets.rank_table import RankTable
from ..widgets.row_table import RowTable
from .base import BaseScreen
from .filtered import FilteredScreen, NodeListScreen

NODE_COLUMNS = ("comm", "util", "te", "efa_tx", "state")
"""Columns of the nodes if no job reports the communication share of its steps."""


class CommScreen(NodeListScreen):
    """The communication share over time, the slowest rank, and one step of every rank."""

    CSS_PATH = "comm.tcss"
    NAME = "comm"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "back", "Back", "Clear the filter, then go back to the fleet"),
        key("m", "rows", "Ranks", "A row per rank, or per node with its slowest rank"),
    ]

    QUANTITIES = (
        "job_comm_share_ratio", "job_exposed_comm_share_ratio", "job_comm_compute_ratio",
        "job_step_seconds", "job_compute_seconds", "job_comm_seconds", "job_exposed_comm_seconds",
        "node_comm_share_floor_ratio", "node_comm_share_ceiling_ratio",
        "job_reduction_share_ratio",
        *(f"job_{kind}_{name}" for kind in COLLECTIVES
          for name in ("share_ratio", "busbw_bytes_per_second")),
    )  # fmt: skip

    jobs = query_one(JobTable)
    ranks = query_one(RankTable)
    nodes = query_one(FleetTable)
    kinds = query_one("#kinds", Panel)

    job: reactive[JobFigures | None] = reactive(None, repaint=False)
    """The job under the cursor."""

    def body(self) -> ComposeResult:
        jobs = JobTable(comm.columns, id="jobs")
        jobs.add_class("panel").entitle("jobs · worst first · Tab: to the ranks")

        def draw_slowest(
            panel: Panel, view_model: ViewModel, width: int, height: int
        ) -> Sequence[Strip]:
            job = panel.job.job if panel.job else ""
            ranks = ranks_of(view_model, job)
            return slowest.draw(view_model, job, ranks, width, height, panel.context)

        shares = Panel(of_job(comm.shares), "comm share of step", id="shares")
        cause = Panel(draw_slowest, "blocking the job", id="slowest")
        kinds = Panel(
            of_job(comm.kinds), "collectives of a step, reported by the ranks, mean", id="kinds"
        )
        ranks = RankTable(id="ranks")
        nodes = FleetTable(NODE_COLUMNS, id="nodes")
        for panel in (shares, cause, kinds, ranks):
            panel.data_bind(CommScreen.job, BaseScreen.view_model)
        nodes.data_bind(BaseScreen.view_model)
        for table in (ranks, nodes):
            table.data_bind(FilteredScreen.selection).add_class("panel")
        yield self.filter_bar()
        yield jobs
        yield Container(shares, cause, id="top")
        yield kinds
        yield ranks
        yield nodes

    @property
    def list_table(self) -> RankTable | FleetTable:
        """The ranks, or the nodes if no rank reports."""
        return self.ranks if self.ranks.display else self.nodes

    @property
    def incident(self) -> Incident | None:
        """The incident that best explains the communication of the job, else that of the alert
        line.
        """
        if self.view_model is None or self.job is None:
            return super().incident
        causes = comm_causes(self.view_model, self.job.job)
        bound = comm_bound(self.view_model, self.job.job)
        return next(iter(causes), None) or bound or super().incident

    def watch_view_model(self) -> None:
        # Not bound to the table of jobs: the job must be known before the panels are measured.
        if self.is_mounted:
            self.jobs.view_model = self.view_model
            self._follow()

    @on(RowTable.Moved, "#jobs")
    def _follow(self) -> None:
        self.job = self.jobs.current
        self.set_class(len(self.jobs.rows) > 1, "-several")
        reported = self.job is not None and self.job.value(COMM) is not None
        self.ranks.display, self.nodes.display = reported, not reported
        if self.view_model is not None:
            kinds = comm.kinds(self.view_model, self.job, 0, 0, self.kinds.context)
            self.set_class(bool(kinds), "-kinds")
        name = f"{self.job.job} · " if self.job else ""
        self.query_one("#shares", Panel).entitle(f"{name}comm share of step")

    @on(RowTable.Chosen, "#ranks, #nodes")
    def _open(self) -> None:
        if self.subject is not None:
            self.post_message(NodeRequested(self.subject))

    @on(RowTable.Chosen, "#jobs")
    def _to_list(self) -> None:
        self.list_table.focus()

    def action_rows(self) -> None:
        """Switches between ranks and nodes; the cursor stays on its node."""
        node = self.ranks.node
        self.ranks.per_node = not self.ranks.by_node
        if node is not None:
            self.ranks.point_at(node)
