"""Panels on Grafana's grid of 24 columns, from left to right, then downwards."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from grafana_foundation_sdk.models import dashboard

COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Section:
    """Panels under a heading."""

    title: str
    """Empty for what is on top, without a heading."""
    panels: Sequence[dashboard.Panel]
    folded: bool = False
    """Whether it is opened only on demand, and its queries wait for that."""


def arrange(sections: Iterable[Section]) -> list[dashboard.Panel | dashboard.RowPanel]:
    """Places and numbers all panels; the sizes are their own."""
    numbers = count(1)
    positioned: list[dashboard.Panel | dashboard.RowPanel] = []
    y = 0
    for section in sections:
        heading = None
        if section.title:
            heading = dashboard.RowPanel(
                title=section.title,
                collapsed=section.folded,
                id_val=next(numbers),
                grid_pos=dashboard.GridPos(h=1, w=COLUMNS, x=0, y=y),
                panels=[],
            )
            positioned.append(heading)
            y += 1
        below = _flow(section.panels, y, numbers)
        if heading is not None and section.folded:
            heading.panels = list(section.panels)
        else:
            positioned += section.panels
            y = below
    return positioned


def _flow(panels: Iterable[dashboard.Panel], y: int, numbers: "count[int]") -> int:
    """Sets their places; the first free line below them."""
    x = height = 0
    for panel in panels:
        position = panel.grid_pos
        assert position is not None
        if x + position.w > COLUMNS:
            x, y, height = 0, y + height, 0
        position.x, position.y = x, y
        x, height = x + position.w, max(height, position.h)
        panel.id_val = next(numbers)
    return y + height
