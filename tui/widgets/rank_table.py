"""The ranks of a job."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from textual.content import Content
from textual.reactive import reactive

from trntop.core import units

from ..render import ranks, table
from ..view_model import JobFigures
from .row_table import RowTable


class RankTable(RowTable[int]):
    """Ranks with an incident first, then the slowest; one row per node in a large job."""

    job: reactive[JobFigures | None] = reactive(None, repaint=False)
    per_node: reactive[bool | None] = reactive(None, repaint=False)
    """Whether each node has one row; None decides by the number of ranks."""

    _ranks: ranks.JobRanks | None = None

    @property
    def by_node(self) -> bool:
        many = self._ranks is not None and len(self._ranks) > ranks.MANY
        return many if self.per_node is None else self.per_node

    @property
    def empty_text(self) -> str:
        if self.selection.narrow and self._ranks is not None and len(self._ranks):
            return self.selection.empty_text
        if self.view_model is not None and self.view_model.cluster.whole is not None:
            return "single ranks are unknown: Prometheus has the means of each node"
        return "single ranks are unknown: the history of this many nodes has means only"

    def key(self, row: int) -> str:
        assert self._ranks is not None
        return self.node_of(row) if self.by_node else self._ranks.names[row]

    def node_of(self, row: int) -> str:
        assert self._ranks is not None
        return self._ranks.nodes[int(self._ranks.node[row])]

    def columns(self) -> Sequence[table.Column[Any]]:
        if self.view_model is None or self._ranks is None:
            return ()
        return ranks.columns(self._ranks, self.view_model.limits.straggler, self.by_node)

    def prepare(self, rows: Sequence[int]) -> Sequence[Any]:
        if self.view_model is None or self._ranks is None:
            return ()
        return ranks.rows(self.view_model, self._ranks, rows, self.by_node)

    def find_rows(self) -> Sequence[int]:
        assert self.view_model is not None
        found = self._ranks = ranks.ranks_of(self.view_model, self.job.job if self.job else "")
        order = found.slowest if self.by_node else found.order
        if self.selection.narrow:
            names = self.selection.names(self.view_model)
            shown = np.array([name in names for name in found.nodes], np.bool_)
            order = order[shown[found.node[order]]]
        severity = ranks.severity_ranks(self.view_model, found)[order]
        self.entitle(self._describe(found, order, incidents=bool((severity >= 0).any())))
        self.border_subtitle = self._legend()
        rows: list[int] = order[np.argsort(-severity, kind="stable")].tolist()
        return rows

    def _describe(self, found: ranks.JobRanks, order: ranks.Places, *, incidents: bool) -> str:
        """The rows and their order."""
        what = "nodes, by their slowest rank" if self.by_node else "ranks"
        if not len(order):
            return what
        if found.even(order):
            rest = f"within {units.percent(ranks.EVEN)}"
            return f"{what} · {rest}: {'incidents first' if incidents else 'by name'}"
        return (
            f"{what} · incidents, then {found.basis}"
            if incidents
            else f"{what} · {found.basis} first"
        )

    def _legend(self) -> Content:
        signs = (sign for sign, _ in ranks.kinds(self.context))
        colors = ("$primary", "$accent", "$foreground 62%")
        return Content("  ").join(
            Content.assemble((sign, color), f" {name}")
            for sign, color, name in zip(signs, colors, ranks.KINDS, strict=False)
        )

    def watch_per_node(self) -> None:
        self.cursor = None
        self.update()
