"""Moments that stand out on time axes: when incidents began, and the baseline."""

from collections.abc import Iterable

from trntop.core.model import Incident

from ..view_model import ViewModel
from .axes import Mark
from .context import RenderContext


def of(view_model: ViewModel, incidents: Iterable[Incident], context: RenderContext) -> list[Mark]:
    """The beginnings of incidents, those that are over in grey; and the baseline.

    Args:
        view_model: the tick.
        incidents: worst first, so that the worst is written last.
        context: what to draw with.
    """
    found = [
        Mark(
            one.opened_at,
            context.glyphs.up,
            context.palette.severity(one.severity) if one.open else context.palette.muted,
        )
        for one in reversed(list(incidents))
    ]
    if view_model.baseline is not None:
        found.append(Mark(view_model.baseline.time, "b", context.palette.accent))
    return found


def of_node(view_model: ViewModel, node: str, context: RenderContext) -> list[Mark]:
    """When a node's incidents began."""
    return of(view_model, (one for one in view_model.view.incidents if one.node == node), context)
