"""The jobs, and panels that draw the one under the cursor."""

from collections.abc import Callable, Sequence
from typing import Any

from textual.reactive import reactive
from textual.strip import Strip

from ..render import jobs, table
from ..render.context import RenderContext
from ..render.glyphs import BLOCK, Glyphs
from ..view_model import JobFigures, ViewModel
from .drawn import Drawn
from .row_table import RowTable

Columns = Callable[[ViewModel], Sequence[table.Column[jobs.JobRow]]]
Paint = Callable[[ViewModel, JobFigures | None, int, int, RenderContext], Sequence[Strip]]


class JobTable(RowTable[JobFigures]):
    """Jobs, the one that most needs attention first; hidden where there is but one.

    Args:
        columns: makes the columns for a scene.
        glyphs: what graphs are drawn with.
        id: of the widget.
    """

    DEFAULT_CSS = """
    JobTable { height: auto; max-height: 8; display: none; }
    JobTable.-many { display: block; }
    """

    def __init__(
        self,
        columns: Columns,
        *,
        glyphs: Glyphs = BLOCK,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self.can_focus = False
        self._columns = columns

    def key(self, row: JobFigures) -> str:
        """The job's name."""
        return row.job

    def columns(self) -> Sequence[table.Column[Any]]:
        """As the screen wants them."""
        return self._columns(self.view_model) if self.view_model else ()

    def watch_view_model(self) -> None:
        """The jobs of the new tick."""
        if self.view_model is not None:
            found = jobs.worst_first(self.view_model)
            many = len(found) > 1
            self.set_class(many, "-many")
            self.show(found)
            if many != self.can_focus:
                # What is hidden must not take the keys; what has appeared chooses all else.
                self.can_focus = many
                if many:
                    self.focus()

    def prepare(self, rows: Sequence[JobFigures]) -> Sequence[Any]:
        """Rows with their incidents and stages."""
        assert self.view_model is not None
        return [jobs.row_of(self.view_model, row) for row in rows]


class JobDrawing(Drawn):
    """Draws one job of the scene; None where no job reports."""

    job: reactive[JobFigures | None] = reactive(None, repaint=False)

    def watch_job(self) -> None:
        """Another job, or newer figures of it."""
        self.redraw()


class JobPanel(JobDrawing):
    """What a given function draws of a job.

    Args:
        paint: makes the lines from scene, job, width, height and pen; height 0 is all of them.
        glyphs: what graphs are drawn with.
        id: of the widget.
    """

    def __init__(
        self,
        paint: Paint,
        *,
        glyphs: Glyphs = BLOCK,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._paint = paint

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """Lines for the area."""
        if self.view_model is None:
            return ()
        return self._paint(self.view_model, self.job, width, height, self.context)
