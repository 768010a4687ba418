"""The list of jobs."""

from collections.abc import Callable, Sequence
from typing import Any

from ..render import jobs, table
from ..view_model import JobFigures, ViewModel
from .row_table import RowTable

Columns = Callable[[ViewModel], Sequence[table.Column[jobs.JobRow]]]


class JobTable(RowTable[JobFigures]):
    """Jobs, worst first; hidden if there is only one."""

    DEFAULT_CSS = """
    JobTable { height: auto; max-height: 8; display: none; }
    JobTable.-many { display: block; }
    """

    def __init__(self, columns: Columns, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.can_focus = False
        self._columns = columns

    def key(self, row: JobFigures) -> str:
        return row.job

    def columns(self) -> Sequence[table.Column[Any]]:
        return self._columns(self.view_model) if self.view_model else ()

    def find_rows(self) -> Sequence[JobFigures]:
        assert self.view_model is not None
        found = self.view_model.jobs
        many = len(found) > 1
        self.set_class(many, "-many")
        if many != self.can_focus:
            # A hidden list must not take the keys.
            self.can_focus = many
            if many:
                self.focus()
        return found

    def prepare(self, rows: Sequence[JobFigures]) -> Sequence[Any]:
        assert self.view_model is not None
        return [jobs.row_of(self.view_model, row) for row in rows]
