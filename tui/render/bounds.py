"""The estimated bounds of the communication share, node by node, where no job tells it."""

from collections.abc import Callable, Sequence

from trntop.core import units
from trntop.core.model import NodeView

from ..measures import PROMETHEUS, TRANSMIT, UTILIZATION
from ..view_model import ViewModel, worst
from . import run
from .context import RenderContext, bare
from .graph import runs
from .line import Part, fit
from .table import Column


def order(nodes: Sequence[NodeView]) -> list[NodeView]:
    """The node that is surest to communicate much first; those without bounds last."""

    def key(node: NodeView) -> tuple[int, int]:
        floor, ceiling = node.frame.comm_bounds
        # Whole percents: rows of equal nodes stand still.
        return (
            -1 if floor is None else round(100 * floor),
            -1 if ceiling is None else round(100 * ceiling),
        )

    return sorted(nodes, key=key, reverse=True)


def ranged(node: NodeView, width: int, context: RenderContext, limit: float) -> list[Part]:
    """The range on a track from 0 to 100 %, with a tick at the limit."""
    floor, ceiling = node.frame.comm_bounds
    if floor is None and ceiling is None:
        return [(" " * width, context.palette.rule)]
    start = 0 if floor is None else int(floor * width)
    least = start if ceiling is None else int(ceiling * width)
    end = width - 1 if ceiling is None else max(start, least)
    cells: list[Part] = [
        (context.glyphs.full, context.palette.graph) if start <= cell <= min(end, width - 1)
        else (context.glyphs.track, context.palette.rule)
        for cell in range(width)
    ]  # fmt: skip
    cells[min(width - 1, int(limit * width))] = (context.glyphs.limit, context.palette.strong)
    return runs(cells)


class BoundsColumns:
    """The columns of the table, for one tick."""

    def __init__(self, view_model: ViewModel) -> None:
        self._view_model = view_model

    def all(self) -> tuple[Column[NodeView], ...]:
        """The columns in order."""
        names = max((len(name) for name in self._view_model.cluster.names), default=4)
        limit = self._view_model.limits.comm_share
        lacking = any(
            None in node.frame.comm_bounds for node in self._view_model.cluster.nodes.values()
        )
        why = Column("why", "why not known", 16, 40, _why, wide=90)
        return (
            Column("node", "  node", min(names, 14) + 2, 100, self._node,
                   wide=min(names, 30) + 2),
            Column("comm", "comm", 9, 95, _bounds, unit="%", align="right"),
            Column("range", f"0 to 100 %, limit {units.percent(limit)}", 24, 80, self._range,
                   wide=80),
            Column("util", "util", 6, 70, _number(UTILIZATION, units.percent), unit="%",
                   align="right"),
            Column("engine", "TE", 5, 75, _number(PROMETHEUS, units.percent), unit="%",
                   align="right"),
            Column("efa", "EFA tx", 12, 60, _number(TRANSMIT, units.gigabits), unit="Gb/s",
                   align="right"),
            *([why] if lacking else ()),
        )  # fmt: skip

    def _node(self, node: NodeView, width: int, context: RenderContext) -> list[Part]:
        severity = worst(node, self._view_model)
        if severity is None:
            return [("  ", context.palette.text), (fit(node.name, width - 2), context.palette.text)]
        text = f"{context.glyphs.severities[severity]} {node.name}"
        return [(fit(text, width), context.palette.severity(severity))]

    def _range(self, node: NodeView, width: int, context: RenderContext) -> list[Part]:
        return ranged(node, width, context, self._view_model.limits.comm_share)


def _bounds(node: NodeView, width: int, context: RenderContext) -> list[Part]:
    return context.number(run.comm_bounds(node.frame), "", width)


def _number(
    quantity: str, form: Callable[[float | None], str]
) -> Callable[[NodeView, int, RenderContext], Sequence[Part]]:
    def draw(node: NodeView, width: int, context: RenderContext) -> list[Part]:
        return context.number(bare(form(node.frame.value(quantity))), quantity, width)

    return draw


def _why(node: NodeView, width: int, context: RenderContext) -> list[Part]:
    """Why a bound is missing, in the words of its source."""
    floor, ceiling = node.frame.comm_bounds
    missing = [
        f"{word}: {node.frame.why_absent(name)}"
        for word, value, name in (
            ("at least", floor, run.FLOOR), ("at most", ceiling, run.CEILING),
        )
        if value is None
    ]  # fmt: skip
    return [(fit("; ".join(missing), width), context.palette.muted)]
