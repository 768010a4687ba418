"""Incidents, open ones first, and the one under the cursor in full."""

from collections.abc import Sequence
from typing import Any

from textual.reactive import reactive
from textual.strip import Strip

from trntop.core.model import Incident

from ..render import incidents, table
from ..selection import ALL, Selection
from .drawn import Drawn
from .row_table import RowTable

ONLY = ("all", "open", "past", "kind")
"""Which incidents are listed; `kind`: those of one kind."""


class IncidentTable(RowTable[Incident]):
    """One row an incident, in the analyzer's order; what came after the time shown comes last."""

    only: reactive[str] = reactive("all", repaint=False)
    selection: reactive[Selection] = reactive(ALL, repaint=False)
    """The nodes whose incidents are listed, and those of their jobs."""
    kind = ""
    """The kind that is listed alone."""
    _followed: str | None = None
    """The row that was last told to be under the cursor."""

    def key(self, row: Incident) -> str:
        """The incident's id."""
        return row.id

    def columns(self) -> Sequence[table.Column[Any]]:
        """Columns for the tick shown."""
        if self.view_model is None:
            return ()
        return incidents.IncidentColumns(self.view_model, self.size.width).all()

    @property
    def nothing(self) -> str:
        """Why there is no row, where there would be some without the filter."""
        hidden = self.view_model is not None and (
            self.view_model.view.incidents or self.view_model.later
        )
        return "no incident of the nodes that match" if hidden and self.selection.narrow else ""

    def watch_view_model(self) -> None:
        """A new tick."""
        if self.view_model is not None:
            everything = (*self.view_model.view.incidents, *self.view_model.later)
            self.show([one for one in everything if self._wanted(one)])
            self._entitle(len(everything))
            self._follow()

    def watch_selection(self) -> None:
        """Those of other nodes are wanted."""
        self.watch_view_model()

    def watch_only(self) -> None:
        """Others are wanted."""
        self.watch_view_model()

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
        if self.selection.narrow and not self._of_chosen(incident):
            return False
        if self.only == "kind":
            return incident.kind == self.kind
        return self.only == "all" or incident.open == (self.only == "open")

    def _of_chosen(self, incident: Incident) -> bool:
        """Whether it is of a chosen node, of a job on one, or of the whole cluster."""
        assert self.view_model is not None
        chosen = self.selection.names(self.view_model)
        if incident.node is not None:
            return incident.node in chosen
        nodes = self.view_model.cluster.jobs.get(incident.job or "", ())
        return not nodes or not chosen.isdisjoint(nodes)

    def _follow(self) -> None:
        """The first row may be another one now, with nobody having moved the cursor."""
        current = None if self.current is None else self.current.id
        if current != self._followed:
            self._followed = current
            self.post_message(self.Moved(self, current))

    def _entitle(self, count: int) -> None:
        which = {"all": "open first", "kind": self.kind}.get(self.only, f"{self.only} only")
        title = f"incidents · {which}"
        if self.only != "all" or self.selection.narrow:
            title += f" · {len(self.rows)} of {count}"
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
        if self.view_model is None:
            return ()
        everything = (*self.view_model.view.incidents, *self.view_model.later)
        chosen = next((one for one in everything if one.id == self.incident), None)
        return incidents.detail(self.view_model, chosen, width, self.context)
