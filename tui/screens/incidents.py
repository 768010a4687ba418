"""Incidents, open and closed, with their evidence and runbook."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.getters import query_one

from trntop.core.model import Incident

from ..keys import hidden_key, key
from ..messages import NodeRequested
from ..render import incidents
from ..widgets.drawn import Panel
from ..widgets.incident_table import IncidentTable
from ..widgets.row_table import RowTable
from .base import BaseScreen
from .filtered import FilteredScreen

COMMUNICATION_KINDS = ("comm_bound", "latency_regression", "straggler")
"""Kinds that open the communication screen if they name no node."""


class IncidentsScreen(FilteredScreen):
    """A list of incidents, and the selected one in full."""

    CSS_PATH = "incidents.tcss"
    NAME = "incidents"
    SCROLLED = "#detail"

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "back", "Back", "Clear the filter, then go back to the fleet"),
        key("f", "listed", "Only", "List all, open ones or closed ones"),
        hidden_key(
            "J,shift+j", "scroll(1)", "Evidence down", "Scroll the evidence and the runbook down"
        ),
        hidden_key(
            "K,shift+k", "scroll(-1)", "Evidence up", "Scroll the evidence and the runbook up"
        ),
    ]

    table = query_one(IncidentTable)
    detail = query_one("#text", Panel)
    evidence = query_one("#detail", VerticalScroll)

    def body(self) -> ComposeResult:
        table = IncidentTable(id="incidents")
        table.data_bind(BaseScreen.view_model, FilteredScreen.selection)
        detail = Panel(
            lambda panel, view_model, width, _: incidents.detail(
                view_model, view_model.incident(panel.subject), width, panel.context
            ),
            id="text",
        )
        scroll = VerticalScroll(
            detail.data_bind(BaseScreen.view_model), id="detail", can_focus=False
        )
        scroll.border_title = "evidence and runbook · J, K scroll · Enter node · o start"
        for panel in (table, scroll):
            panel.add_class("panel")
        yield self.filter_bar()
        yield Container(table, scroll, id="split")

    @property
    def list_table(self) -> IncidentTable:
        return self.table

    @property
    def subject(self) -> str | None:
        return self.table.node or None

    @property
    def incident(self) -> Incident | None:
        return self.table.current

    def action_listed(self) -> None:
        self.table.next_filter()

    @on(RowTable.Moved)
    def _moved(self, event: RowTable.Moved) -> None:
        if event.key != self.detail.subject:
            self.detail.subject = event.key
            self.evidence.scroll_home(animate=False)

    @on(RowTable.Chosen)
    async def _open(self) -> None:
        """Opens the node, or the screen of the job."""
        incident = self.incident
        if incident is None or self.view_model is None:
            return
        if incident.node is None:
            screen = "comm" if incident.kind in COMMUNICATION_KINDS else "run"
            await self.run_action(f"app.{screen}" if incident.job else "app.cluster")
        elif incident.node in self.view_model.cluster.nodes:
            self.post_message(NodeRequested(incident.node, incident.component))
        else:
            self.notify(f"{incident.node} is gone", timeout=3, markup=False)
