"""What went wrong: open and past, with the evidence."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
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
        Binding("J,shift+j", "scroll(1)", "Evidence down", show=False, id="incidents.down",
                tooltip="Scroll the evidence down"),
        Binding("K,shift+k", "scroll(-1)", "Evidence up", show=False, id="incidents.up",
                tooltip="Scroll the evidence up"),
    ]  # fmt: skip

    table = query_one(IncidentTable)
    detail = query_one(IncidentDetail)
    evidence = query_one("#detail", VerticalScroll)

    def body(self) -> ComposeResult:
        """Table above, evidence below; side by side on a wall."""
        table = IncidentTable(glyphs=self.glyphs, id="incidents").data_bind(Frame.scene)
        table.border_title = "incidents · open first"
        detail = IncidentDetail(glyphs=self.glyphs).data_bind(Frame.scene)
        scroll = VerticalScroll(detail, id="detail")
        scroll.border_title = "what was seen · J, K scroll"
        for panel in (table, scroll):
            panel.add_class("panel")
        yield Container(table, scroll, id="split")

    @property
    def subject(self) -> str | None:
        """The node of the incident under the cursor."""
        current = self.table.current
        return None if current is None else current.node

    async def action_back(self) -> None:
        """Shows the fleet."""
        await self.run_action("app.cluster")

    def action_scroll(self, step: int) -> None:
        """Scrolls the evidence."""
        self.evidence.scroll_relative(y=3 * step, animate=False)

    @on(RowTable.Moved)
    def _moved(self, event: RowTable.Moved) -> None:
        self.detail.incident = event.key
        self.evidence.scroll_home(animate=False)

    @on(RowTable.Chosen)
    def _open(self) -> None:
        if self.subject is not None and self.scene and self.subject in self.scene.cluster.nodes:
            self.post_message(NodeAsked(self.subject))
        else:
            self.notify("this incident concerns the whole job, no single node", timeout=3)
