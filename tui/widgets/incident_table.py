"""Incidents, open ones first, and the one under the cursor in full."""

from collections.abc import Sequence
from typing import Any

from textual.reactive import reactive
from textual.strip import Strip

from trntop.model import Incident

from ..render import incidents, table
from .drawn import Drawn
from .row_table import RowTable


class IncidentTable(RowTable[Incident]):
    """One row an incident, in the analyzer's order."""

    def key(self, row: Incident) -> str:
        """The incident's id."""
        return row.id

    def columns(self) -> Sequence[table.Column[Any]]:
        """Columns for the tick shown."""
        return () if self.scene is None else incidents.IncidentColumns(self.scene).all()

    def watch_scene(self) -> None:
        """A new tick."""
        if self.scene is not None:
            self.show(self.scene.view.incidents)


class IncidentDetail(Drawn):
    """One incident with its evidence."""

    DEFAULT_CSS = "IncidentDetail { height: auto; }"

    incident: reactive[str | None] = reactive(None, repaint=False)

    def watch_incident(self) -> None:
        """Another one."""
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """The incident, or the first one."""
        if self.scene is None:
            return ()
        found = self.scene.view.incidents
        chosen = next((one for one in found if one.id == self.incident), None)
        return incidents.detail(
            self.scene, chosen or (found[0] if found else None), width, self.pen
        )
