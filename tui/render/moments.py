"""Moments that stand out on time axes: when incidents began, and the baseline."""

from collections.abc import Iterable

from trntop.core.model import Incident

from ..scene import Scene
from .axes import Mark
from .pen import Pen


def of(scene: Scene, incidents: Iterable[Incident], pen: Pen) -> list[Mark]:
    """The beginnings of incidents, those that are over in grey; and the baseline.

    Args:
        scene: the tick.
        incidents: worst first, so that the worst is written last.
        pen: what to draw with.
    """
    found = [
        Mark(
            one.opened_at,
            pen.glyphs.up,
            pen.ink.severity(one.severity) if one.open else pen.ink.muted,
        )
        for one in reversed(list(incidents))
    ]
    if scene.baseline is not None:
        found.append(Mark(scene.baseline.time, "b", pen.ink.accent))
    return found


def of_node(scene: Scene, node: str, pen: Pen) -> list[Mark]:
    """When a node's incidents began."""
    return of(scene, (one for one in scene.view.incidents if one.node == node), pen)
