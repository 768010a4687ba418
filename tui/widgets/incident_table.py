"""Incidents, open ones first, and the one under the cursor in full."""

from collections.abc import Sequence
from typing import Any

from textual.reactive import reactive
from textual.strip import Strip

from trntop.model import Incident

from ..render import incidents, table
from .drawn import Drawn
from .row_table import RowTable

ONLY = ("all", "open", "past", "kind")
"""Which incidents are listed; `kind`: those of one kind."""


class IncidentTable(RowTable[Incident]):
    """One row an incident, in the analyzer's order; what came after the time shown comes last."""

    only: reactive[str] = reactive("all", repaint=False)
    kind = ""
    """The kind that is listed alone."""
    _followed: str | None = None
    """The row that was last told to be under the cursor."""

    def key(self, row: Incident) -> str:
        """The incident's id."""
        return row.id

    def columns(self) -> Sequence[table.Column[Any]]:
        """Columns for the tick shown."""
        if self.scene is None:
            return ()
        return incidents.IncidentColumns(self.scene, self.size.width).all()

    def watch_scene(self) -> None:
        """A new tick."""
        if self.scene is not None:
            everything = (*self.scene.view.incidents, *self.scene.later)
            self.show([one for one in everything if self._wanted(one)])
            self._entitle(len(everything))
            self._follow()

    def watch_only(self) -> None:
        """Others are wanted."""
        self.watch_scene()

    def next_choice(self) -> None:
        """Lists others: all, the open ones, the past ones, those of the kind under the cursor."""
        choice = ONLY[(ONLY.index(self.only) + 1) % len(ONLY)]
        self.kind = ""
        if choice == "kind":
            # Of what was under the cursor before the choice narrowed, if anything is.
            self.only = "all"
            if (current := self.current) is None:
                return
            self.kind = current.kind
        self.only = choice

    def _wanted(self, incident: Incident) -> bool:
        if self.only == "kind":
            return incident.kind == self.kind
        return self.only == "all" or incident.open == (self.only == "open")

    def _follow(self) -> None:
        """The first row may be another one now, with nobody having moved the cursor."""
        current = None if self.current is None else self.current.id
        if current != self._followed:
            self._followed = current
            self.post_message(self.Moved(self, current))

    def _entitle(self, count: int) -> None:
        if self.only == "all":
            title = "incidents · open first"
        else:
            which = self.kind if self.only == "kind" else f"{self.only} only"
            title = f"incidents · {which} · {len(self.rows)} of {count}"
        if title != self.border_title:
            self.border_title = title


class IncidentDetail(Drawn):
    """One incident with its evidence and its runbook."""

    DEFAULT_CSS = "IncidentDetail { height: auto; }"

    incident: reactive[str | None] = reactive(None, repaint=False)
    """Its id."""

    def watch_incident(self) -> None:
        """Another one."""
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """The incident, or that there is none."""
        if self.scene is None:
            return ()
        everything = (*self.scene.view.incidents, *self.scene.later)
        chosen = next((one for one in everything if one.id == self.incident), None)
        return incidents.detail(self.scene, chosen, width, self.pen)
