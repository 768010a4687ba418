"""How much of a step is communication, and who is waited for."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.getters import query_one
from textual.reactive import reactive

from trntop.core.model import Incident

from ..messages import NodeAsked
from ..render import blame, comm, ranks
from ..view_model import JobFigures
from ..widgets.job_table import JobPanel, JobTable
from ..widgets.rank_table import Blame, BoundsTable, NodeRanks, RankTable
from ..widgets.row_table import RowTable
from .finding import FaultFinding, Finding
from .frame import Frame


class CommScreen(FaultFinding):
    """The shares over time, whom the job waits for, and one step of every rank."""

    CSS_PATH = "comm.tcss"
    PLACE = "comm"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="comm.back",
                tooltip="Takes back what was chosen, then leads back to the fleet"),
        Binding(
            "m", "rows", "Ranks", id="comm.rows",
            tooltip="A row for each rank, or for each node's slowest one",
        ),
    ]  # fmt: skip

    QUANTITIES = (
        "job_comm_share_ratio", "job_exposed_comm_share_ratio", "job_comm_compute_ratio",
        "job_step_seconds", "job_compute_seconds", "job_comm_seconds", "job_exposed_comm_seconds",
        "node_comm_share_floor_ratio", "node_comm_share_ceiling_ratio",
    )  # fmt: skip

    jobs = query_one(JobTable)
    ranks = query_one("#ranks", RankTable)
    crew = query_one(NodeRanks)
    bounds = query_one(BoundsTable)

    job: reactive[JobFigures | None] = reactive(None, repaint=False)
    """The job under the cursor."""

    def body(self) -> ComposeResult:
        """Jobs where there are several, shares and blame, ranks."""
        jobs = JobTable(comm.columns, glyphs=self.glyphs, id="jobs")
        jobs.border_title = "jobs · worst first · Tab: to the ranks"
        roster = ranks.Roster()
        shares = JobPanel(comm.shares, glyphs=self.glyphs, id="shares")
        shares.border_title = "comm share of step"
        guilty = Blame(roster, glyphs=self.glyphs, id="blame")
        guilty.border_title = "slowest rank"
        table = RankTable(roster, glyphs=self.glyphs, id="ranks")
        crew = NodeRanks(roster, glyphs=self.glyphs, id="crew")
        bounded = BoundsTable(glyphs=self.glyphs, id="bounds")
        bounded.border_title = "comm share by node · estimated"
        for panel in (shares, guilty, table, crew, bounded):
            panel.data_bind(CommScreen.job, Frame.view_model).add_class("panel")
        for nodes in (table, bounded):
            nodes.data_bind(Finding.selection)
        jobs.add_class("panel")
        yield self.filter_bar()
        yield jobs
        yield Container(shares, guilty, id="top")
        yield table
        yield crew
        yield bounded

    @property
    def listed(self) -> RankTable | BoundsTable:
        """The ranks, or the nodes where no rank is told of."""
        return self.ranks if self.ranks.display else self.bounds

    @property
    def subject(self) -> str | None:
        """The node of the row under the cursor."""
        if self.ranks.display:
            return self.ranks.node
        current = self.bounds.current
        return None if current is None else current.name

    @property
    def incident(self) -> Incident | None:
        """The one that explains the job's communication best, else that of the alert line."""
        if self.view_model is None or self.job is None:
            return super().incident
        found = blame.suspects(self.view_model, self.job.job)
        return (
            next(iter(found), None)
            or blame.bound(self.view_model, self.job.job)
            or super().incident
        )

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
        self.set_class(len(self.jobs.rows) > 1, "-several")
        told = self.job is not None and self.job.comm_share is not None
        self.ranks.display, self.bounds.display = told, not told
        name = f"{self.job.job} · " if self.job else ""
        self.entitle("#shares", f"{name}comm share of step")
        self.call_next(self._look_closer)

    @on(RowTable.Moved, "#ranks")
    def _look_closer(self) -> None:
        """Shows the ranks of the node under the cursor, where there is room for them."""
        self.set_class(self.ranks.display and self.ranks.by_node, "-nodes")
        self.crew.of = self.ranks.node

    def watch_selection(self) -> None:
        """The first row may be of another node."""
        if self.is_mounted:
            self.call_next(self._look_closer)

    @on(RowTable.Chosen, "#ranks, #bounds, #crew")
    def _open(self) -> None:
        if self.subject is not None:
            self.post_message(NodeAsked(self.subject))

    @on(RowTable.Chosen, "#jobs")
    def _to_ranks(self) -> None:
        self.listed.focus()

    def action_rows(self) -> None:
        """Turns between ranks and nodes; the cursor stays on its node."""
        node = self.ranks.node
        self.ranks.whole = not self.ranks.by_node
        if node is not None:
            self.ranks.point_at(node)
        self._look_closer()
