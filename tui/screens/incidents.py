"""What went wrong: open and past, with the evidence and what to do about it."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.getters import query_one

from trntop.core.model import Incident

from ..messages import NodeAsked
from ..widgets.incident_table import IncidentDetail, IncidentTable
from ..widgets.row_table import RowTable
from .finding import Finding
from .frame import Frame

OF_COMMUNICATION = ("comm_bound", "latency_regression", "straggler")
"""Kinds that the communication screen tells more of, where they name no node."""


class IncidentsScreen(Finding):
    """A table of incidents and the one under the cursor in full."""

    CSS_PATH = "incidents.tcss"
    PLACE = "incidents"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="incidents.back",
                tooltip="Takes back what was chosen, then leads back to the fleet"),
        Binding("f", "only", "Only", id="incidents.only",
                tooltip="List all, the open ones, the past ones, or only those of this kind"),
        Binding("J,shift+j", "scroll(1)", "Evidence down", show=False, id="incidents.down",
                tooltip="Scroll the evidence and the runbook down"),
        Binding("K,shift+k", "scroll(-1)", "Evidence up", show=False, id="incidents.up",
                tooltip="Scroll the evidence and the runbook up"),
    ]  # fmt: skip

    table = query_one(IncidentTable)
    detail = query_one(IncidentDetail)
    evidence = query_one("#detail", VerticalScroll)

    def body(self) -> ComposeResult:
        """Table above, evidence and runbook below."""
        table = IncidentTable(glyphs=self.glyphs, id="incidents")
        table.data_bind(Frame.view_model, Finding.selection)
        detail = IncidentDetail(glyphs=self.glyphs).data_bind(Frame.view_model)
        scroll = VerticalScroll(detail, id="detail", can_focus=False)
        scroll.border_title = (
            "evidence and runbook · J, K scroll · Enter goes there · o to the onset"
        )
        for panel in (table, scroll):
            panel.add_class("panel")
        yield self.filter_bar()
        yield Container(table, scroll, id="split")

    @property
    def listed(self) -> IncidentTable:
        """The incidents."""
        return self.table

    @property
    def subject(self) -> str | None:
        """The node of the incident under the cursor."""
        current = self.table.current
        return None if current is None else current.node

    @property
    def incident(self) -> Incident | None:
        """The incident under the cursor."""
        return self.table.current

    def action_only(self) -> None:
        """Lists other incidents."""
        self.table.next_choice()

    def action_scroll(self, step: int) -> None:
        """Scrolls the evidence."""
        self.evidence.scroll_relative(y=3 * step, animate=False)

    @on(RowTable.Moved)
    def _moved(self, event: RowTable.Moved) -> None:
        if event.key != self.detail.incident:
            self.detail.incident = event.key
            self.evidence.scroll_home(animate=False)

    @on(RowTable.Chosen)
    async def _open(self) -> None:
        """Goes to the place: the node, or the screen that tells of whole jobs."""
        incident = self.incident
        if incident is None or self.view_model is None:
            return
        if incident.node is None:
            place = "comm" if incident.kind in OF_COMMUNICATION else "run"
            await self.run_action(f"app.{place}" if incident.job else "app.cluster")
        elif incident.node in self.view_model.cluster.nodes:
            self.post_message(NodeAsked(incident.node, incident.component))
        else:
            self.notify(f"{incident.node} is not there any more", timeout=3, markup=False)
