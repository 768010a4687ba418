"""The ranks of a job, and the nodes' bounds where no rank tells of communication."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from textual.content import Content
from textual.reactive import reactive
from textual.strip import Strip

from trntop.core import units
from trntop.core.model import NodeView

from ..render import blame, bounds, ranks, table
from ..render.glyphs import BLOCK, Glyphs
from ..render.line import printable
from ..selection import ALL, Selection
from ..view_model import JobFigures
from .job_table import JobDrawing
from .row_table import RowTable


class RankTable(RowTable[int]):
    """Ranks: those of nodes that an incident names, then whoever computes longest; a row per node
    where there are many.

    Args:
        roster: knows who the ranks of a job are.
        glyphs: what bars are drawn with.
        id: of the widget.
    """

    job: reactive[JobFigures | None] = reactive(None, repaint=False)
    whole: reactive[bool | None] = reactive(None, repaint=False)
    """Whether a row stands for its node; None decides by how many ranks there are."""
    selection: reactive[Selection] = reactive(ALL, repaint=False)
    """The nodes whose ranks are shown."""

    def __init__(
        self,
        roster: ranks.Roster,
        *,
        glyphs: Glyphs = BLOCK,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._roster = roster
        self._crew: ranks.Crew | None = None

    @property
    def by_node(self) -> bool:
        """Whether a row stands for its node."""
        many = self._crew is not None and len(self._crew) > ranks.MANY
        return many if self.whole is None else self.whole

    @property
    def node(self) -> str | None:
        """The node of the row under the cursor."""
        place = self.current
        return None if place is None or self._crew is None else self._named(place)

    def _named(self, place: int) -> str:
        assert self._crew is not None
        return self._crew.nodes[int(self._crew.node[place])]

    @property
    def nothing(self) -> str:
        """Why there is no rank."""
        if self.selection.narrow and self._crew is not None and len(self._crew):
            return self.selection.nothing
        if self.view_model is not None and self.view_model.cluster.whole is not None:
            return "single ranks are not known: an engine is told the means of each node"
        return "single ranks are not known: of so many nodes the past keeps means only"

    def key(self, row: int) -> str:
        """The node, or the rank."""
        assert self._crew is not None
        return self._named(row) if self.by_node else self._crew.ranks[row]

    def node_of(self, row: int) -> str:
        """The node that the rank is on."""
        return self._named(row)

    def columns(self) -> Sequence[table.Column[Any]]:
        """As wide as the names need."""
        if self.view_model is None or self._crew is None:
            return ()
        return ranks.RankColumns(
            self._crew, self.view_model.limits.straggler, whole=self.by_node
        ).all()

    def prepare(self, rows: Sequence[int]) -> Sequence[Any]:
        """The figures of the visible ranks."""
        if self.view_model is None or self._crew is None:
            return ()
        return ranks.rows(self.view_model, self._crew, rows, self.by_node)

    def watch_view_model(self) -> None:
        """The ranks of the new tick."""
        if self.view_model is None:
            return
        self._crew = self._roster.crew(self.view_model, self.job.job if self.job else "")
        order = self._crew.slowest if self.by_node else self._crew.order
        if self.selection.narrow:
            chosen = self.selection.names(self.view_model)
            shown = np.array([name in chosen for name in self._crew.nodes], np.bool_)
            order = order[shown[self._crew.node[order]]]
        bad = ranks.blamed(self.view_model, self._crew)[order]
        self.border_title = self._title(order, named=bool((bad >= 0).any()))
        self.border_subtitle = self._legend()
        order = order[np.argsort(-bad, kind="stable")]
        self.show(order.tolist())

    def watch_selection(self) -> None:
        """The ranks of other nodes."""
        self.watch_view_model()

    def _title(self, order: ranks.Places, *, named: bool) -> str:
        """What the rows are, and how they are ordered."""
        assert self._crew is not None
        what = "nodes, by their slowest rank" if self.by_node else "ranks"
        if not len(order):
            return what
        if self._crew.alike(order):
            rest = f"alike within {units.percent(ranks.EVEN)}"
            return f"{what} · {rest}: {'those with an incident first' if named else 'by name'}"
        if named:
            return f"{what} · those with an incident, then {self._crew.basis}"
        return f"{what} · {self._crew.basis} first: the others wait for it"

    def _legend(self) -> Content:
        signs = (sign for sign, _ in ranks.kinds(self.context))
        colours = ("$primary", "$accent", "$foreground 62%")
        return Content("  ").join(
            Content.assemble((sign, colour), f" {name}")
            for sign, colour, name in zip(signs, colours, ranks.KINDS, strict=False)
        )

    def watch_job(self) -> None:
        """The ranks of another job."""
        self.watch_view_model()

    def watch_whole(self) -> None:
        """Other rows."""
        self.cursor = None
        self.watch_view_model()


class NodeRanks(RankTable, can_focus=False):
    """The ranks of one node, to be looked at where nodes have a row each; arguments as above."""

    of: reactive[str | None] = reactive(None, repaint=False)
    """The node."""

    @property
    def by_node(self) -> bool:
        """A row is a rank."""
        return False

    @property
    def nothing(self) -> str:
        """Why there is no rank."""
        return "" if self.of is None else "it has no ranks in this job"

    def watch_of(self) -> None:
        """The ranks of another node."""
        self.watch_view_model()

    def on_show(self) -> None:
        """There is room for them now."""
        self.watch_view_model()

    def watch_view_model(self) -> None:
        """Its ranks in the new tick, those first that the others wait for."""
        if not self.display:
            return  # of a large job that is much work for nobody
        if self.view_model is None or self.of is None:
            self.show(())
            return
        self._crew = self._roster.crew(self.view_model, self.job.job if self.job else "")
        places = self._crew.of(self.of)
        alike = self._crew.alike(places)
        how = f"alike within {units.percent(ranks.EVEN)}" if alike else f"{self._crew.basis} first"
        title = Content(printable(f"{self.of} · {len(places)} ranks · {how}"))
        if title != self.border_title:
            self.border_title = title
        self.show(places.tolist())


class BoundsTable(RowTable[NodeView]):
    """Nodes and their estimated communication share."""

    job: reactive[JobFigures | None] = reactive(None, repaint=False)
    selection: reactive[Selection] = reactive(ALL, repaint=False)
    """The nodes that are shown."""

    def key(self, row: NodeView) -> str:
        """The node's name."""
        return row.name

    def columns(self) -> Sequence[table.Column[Any]]:
        """As wide as the names need."""
        return bounds.BoundsColumns(self.view_model).all() if self.view_model else ()

    def watch_view_model(self) -> None:
        """The nodes of the job, or all."""
        if self.view_model is not None:
            nodes = self.view_model.cluster.nodes
            names = self.view_model.cluster.jobs.get(self.job.job, ()) if self.job else nodes
            chosen = self.selection.names(self.view_model)
            self.show(bounds.order([nodes[name] for name in names if name in chosen]))

    def watch_selection(self) -> None:
        """Other nodes."""
        self.watch_view_model()

    @property
    def nothing(self) -> str:
        """Why there is no row."""
        return self.selection.nothing if self.selection.narrow else ""

    def watch_job(self) -> None:
        """The nodes of another job."""
        self.watch_view_model()


class Blame(JobDrawing):
    """Whom the job waits for.

    Args:
        roster: knows who the ranks of a job are.
        glyphs: what signs are drawn with.
        id: of the widget.
    """

    def __init__(
        self,
        roster: ranks.Roster,
        *,
        glyphs: Glyphs = BLOCK,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._roster = roster

    def draw(self, width: int, height: int) -> Sequence[Strip]:
        """Incidents and what the ranks say."""
        if self.view_model is None:
            return ()
        job = self.job.job if self.job else ""
        crew = self._roster.crew(self.view_model, job)
        return blame.draw(self.view_model, job, crew, width, height, self.context)
