"""The list of incidents."""

from collections.abc import Sequence
from typing import Any

from textual.reactive import reactive

from trntop.core.model import Incident

from ..render import incidents, table
from .row_table import RowTable

FILTERS = ("all", "open", "closed")
"""Filters of the list."""


class IncidentTable(RowTable[Incident]):
    """Incidents, open ones first; those that open after the shown time are last."""

    listed: reactive[str] = reactive("all", repaint=False)
    _posted: str | None = None
    """The row under the cursor in the last `Moved` message."""

    def key(self, row: Incident) -> str:
        return row.id

    def node_of(self, row: Incident) -> str:
        return row.node or ""

    def columns(self) -> Sequence[table.Column[Any]]:
        return incidents.columns(self.size.width, utc=bool(self.view_model and self.view_model.utc))

    def prepare(self, rows: Sequence[Incident]) -> Sequence[Any]:
        return [incidents.row_of(row, self.view_model) for row in rows if self.view_model]

    @property
    def empty_text(self) -> str:
        hidden = bool(self.view_model and self.view_model.all_incidents)
        return "no incident of the matching nodes" if hidden and self.selection.narrow else ""

    def find_rows(self) -> Sequence[Incident]:
        assert self.view_model is not None
        total = self.view_model.all_incidents
        found = [incident for incident in total if self._is_listed(incident)]
        which = "open first" if self.listed == "all" else f"{self.listed} only"
        narrow = self.listed != "all" or self.selection.narrow
        count = f" · {len(found)} of {len(total)}" if narrow else ""
        view = self.view_model.view
        rules = view.coverage.rules
        judging = sum(rule.judges(view.time) for rule in rules)
        some = f" · {judging} of {len(rules)} rules judging" if judging < len(rules) else ""
        self.entitle(f"incidents · {which}{count}{some}")
        return found

    def update(self) -> None:
        super().update()
        # The first row may have changed without a move of the cursor.
        current = None if self.current is None else self.current.id
        if current != self._posted:
            self._posted = current
            self.post_message(self.Moved(self, current))

    def next_filter(self) -> None:
        """Cycles through all, open and closed incidents."""
        self.listed = FILTERS[(FILTERS.index(self.listed) + 1) % len(FILTERS)]

    def _is_listed(self, incident: Incident) -> bool:
        if self.selection.narrow and not self._is_selected(incident):
            return False
        return self.listed == "all" or incident.open == (self.listed == "open")

    def _is_selected(self, incident: Incident) -> bool:
        """Whether it belongs to a selected node, to a job on one, or to the whole cluster."""
        assert self.view_model is not None
        names = self.selection.names(self.view_model)
        if incident.node is not None:
            return incident.node in names
        nodes = self.view_model.cluster.jobs.get(incident.job or "", ())
        return not nodes or not names.isdisjoint(nodes)
