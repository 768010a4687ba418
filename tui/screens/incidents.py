"""What went wrong: open and past, with the evidence."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.getters import query_one

from ..messages import NodeAsked
from ..widgets.incident_table import IncidentDetail, IncidentTable
from ..widgets.row_table import RowTable
from .frame import Frame


class IncidentsScreen(Frame):
    """A table of incidents and the one under the cursor in full."""

    CSS_PATH = "incidents.tcss"
    PLACE = "incidents"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="incidents.back", tooltip="Back to the fleet"),
    ]

    table = query_one(IncidentTable)
    detail = query_one(IncidentDetail)

    def body(self) -> ComposeResult:
        """Table above, evidence below; side by side on a wall."""
        table = IncidentTable(glyphs=self.glyphs, id="incidents").data_bind(Frame.scene)
        table.border_title = "incidents · open first"
        detail = IncidentDetail(glyphs=self.glyphs, id="detail").data_bind(Frame.scene)
        detail.border_title = "what was seen"
        for panel in (table, detail):
            panel.add_class("panel")
        yield Container(table, detail, id="split")

    @property
    def subject(self) -> str | None:
        """The node of the incident under the cursor."""
        current = self.table.current
        return None if current is None else current.node

    async def action_back(self) -> None:
        """Shows the fleet."""
        await self.run_action("app.cluster")

    @on(RowTable.Moved)
    def _moved(self, event: RowTable.Moved) -> None:
        self.detail.incident = event.key

    @on(RowTable.Chosen)
    def _open(self) -> None:
        if self.subject is not None and self.scene and self.subject in self.scene.cluster.nodes:
            self.post_message(NodeAsked(self.subject))
        else:
            self.notify("this incident concerns the whole job, no single node", timeout=3)
