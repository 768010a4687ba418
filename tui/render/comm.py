"""How much of a job's steps is communication: the shares over time, or what is known instead."""

from collections.abc import Sequence

import numpy as np
from rich.style import Style
from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Severity

from ..measures import COMM, EXPOSED
from ..scene import JobFigures, Scene
from . import blame
from .axes import LEAST, framed, nice, series
from .graph import Values, runs
from .incidents import wrap
from .jobs import FOUND, NAME, NODES, STEP_SECONDS, JobRow, figure, share_bar
from .line import Part, flow, length, line
from .pen import Pen
from .table import Column

SECONDS = 300.0
"""Stream time that the chart spans."""
TALL = 7
"""Lines of a graph from which on the limit stands in its middle."""
_GAP = "   "


def columns(scene: Scene) -> tuple[Column[JobRow], ...]:
    """Of the jobs, where there are several."""
    limits = scene.limits
    return (
        NAME,
        NODES,
        STEP_SECONDS,
        Column("comm", "comm", 7, 95, share_bar(limits.comm_share),
               unit="%", wide=38, align="right"),
        Column("exposed", "exposed", 10, 90,
               figure(lambda row: row.figures.exposed_share, units.percent, EXPOSED,
                      limit=limits.exposed_comm_share),
               unit="%", align="right"),
        FOUND,
    )  # fmt: skip


def shares(
    scene: Scene, job: JobFigures | None, width: int, height: int, pen: Pen
) -> Sequence[Strip]:
    """The comm share over time, the exposed part of it from the ground up, and the limit."""
    if job is None or job.comm_share is None:
        return unknown(scene, job, width, height, pen)
    gutter = 6
    room = height - 2
    cells = max(1, width - gutter)
    now, count = scene.view.time, int(SECONDS)
    comm, slot = series(*scene.history.scalar(f"{job.job}/{COMM}", count), now, cells, SECONDS)
    exposed, _ = series(*scene.history.scalar(f"{job.job}/{EXPOSED}", count), now, cells, SECONDS)
    limit = scene.limits.comm_share
    known = comm[~np.isnan(comm)]
    head = [_numbers(scene, job, width, pen, over=bool(len(known)) and known[-1] > limit)]
    if room < 2 or cells < LEAST:
        return head[:height]
    most = float(known.max()) if len(known) else 0.0
    # Few lines are not spent on what lies above the limit.
    air = 2.0 if room >= TALL else 1.4
    top = min(1.0, nice(max(air * limit, 1.1 * most)))
    body = _stacked(scene, comm, exposed, room, pen, top)
    labels = [(limit / top, units.percent(limit)), (1.0, units.percent(top)), (0.0, "0 %")]
    return [
        *head,
        *framed(body, labels, slot, now, gutter, pen, blame.marks(scene, job.job, pen)),
    ]


def _numbers(scene: Scene, job: JobFigures, width: int, pen: Pen, *, over: bool) -> Strip:
    """Both shares now, against their limits; what the colours of the chart are.

    Args:
        scene: the tick.
        job: whose shares.
        width: cells.
        pen: what to draw with.
        over: whether the newest bar is above the limit, and has the colours of that.
    """
    ink, limits = pen.ink, scene.limits
    full = pen.glyphs.column[-1]
    shades = ink.over[Severity.WARNING] if over else ink.area
    hidden, shown = shades[1], shades[-1]
    comm = pen.number(units.percent(job.comm_share), COMM)
    exposed = pen.number(units.percent(job.exposed_share), EXPOSED)
    if job.comm_share is not None and job.comm_share > limits.comm_share:
        comm[0] = (comm[0][0], ink.warning)
    if job.exposed_share is not None and job.exposed_share > limits.exposed_comm_share:
        exposed[0] = (exposed[0][0], ink.warning)
    swatch = _covered(pen.glyphs.column, len(pen.glyphs.column) - 1, pen)
    # The panel's title says that both are shares of a step; where space ends, limits go first.
    groups: list[tuple[int, list[Part]]] = []
    for by, limited in ((" by compute", True), ("", True), ("", False)):
        ends = [
            f", limit {units.percent(one)}" if limited else ""
            for one in (limits.comm_share, limits.exposed_comm_share)
        ]
        groups = [
            (100, [("comm ", ink.muted), *comm, (ends[0], ink.faint)]),
            (95, [(full, shown), (" exposed ", ink.muted), *exposed, (ends[1], ink.faint)]),
            (60, [(swatch, hidden), (f" covered{by}", ink.muted)]),
        ]
        if sum(length(parts) for _, parts in groups) + len(_GAP) * (len(groups) - 1) <= width:
            break
    return flow(groups, width, (_GAP, ink.faint))


def _stacked(
    scene: Scene, comm: Values, exposed: Values, height: int, pen: Pen, top: float
) -> list[Strip]:
    """Two series in one graph: the exposed part from the ground, the covered part on it."""
    ink, glyphs = pen.ink, pen.glyphs
    steps = len(glyphs.column) - 1
    scale = height * steps / top
    limit = scene.limits.comm_share
    ruled = int(limit * scale) // steps if 0 < limit < top else -1
    plain = (ink.area[1], ink.area[-1])
    shades = ink.over[Severity.WARNING]
    over = (shades[1], shades[-1])
    rows = []
    for row in reversed(range(height)):
        cells: list[Part] = []
        for share, alone in zip(comm.tolist(), exposed.tolist(), strict=True):
            covered, shown = over if share > limit else plain
            whole = 0 if share != share else max(1, round(share * scale))
            part = 0 if alone != alone else min(whole, round(alone * scale))
            inside, below = (min(steps, max(0, level - row * steps)) for level in (whole, part))
            if not inside:
                dash = "╌" if glyphs.half else "-"
                cells.append((dash if row == ruled else " ", ink.faint))
            elif below == steps:
                cells.append((glyphs.column[inside], shown))
            elif below:
                cells.append(_both(inside, below, glyphs.column, shown, covered))
            else:
                cells.append((_covered(glyphs.column, inside, pen), covered))
        rows.append(line(runs(cells), len(cells)))
    return rows


def _both(inside: int, below: int, column: str, shown: Style, covered: Style) -> Part:
    """A cell in which both parts end, of which it can show only one end: what is least wrong.

    Args:
        inside: steps of the cell that both parts fill.
        below: steps that the exposed part fills.
        column: signs of a cell by the steps that are filled.
        shown: of the exposed part.
        covered: of the covered part.
    """
    choices = [
        (len(column) - 1 - inside, (column[below], _on(shown, covered))),
        (inside - below, (column[inside], shown)),
        (below, (column[inside], covered)),
    ]
    return min(choices, key=lambda choice: choice[0])[1]


def _covered(column: str, inside: int, pen: Pen) -> str:
    """Without colours the covered part is told by its sign."""
    return column[inside] if pen.glyphs.half else ":"


def _on(front: Style, ground: Style) -> Style:
    return Style(color=front.color, bgcolor=ground.color)


def unknown(
    scene: Scene, job: JobFigures | None, width: int, height: int, pen: Pen
) -> Sequence[Strip]:
    """Why there is no share, and what would make it reported."""
    ink = pen.ink
    gone = sorted({one.job for one in scene.incidents if one.job} - set(scene.cluster.jobs))
    if job is None and gone:
        said = f"{gone[0]} no longer reports its steps."
    elif job is None:
        said = "No job reports its steps, so nobody knows what part of them is communication."
    else:
        said = f"{job.job} reports its steps, but not what part of them is communication."
    texts = [
        (said, ink.text),
        ("Mark the sections: with steps.compute() and with steps.collective() in the training "
         "loop, see docs/steps.md.", ink.muted),
        ("Until then the share is bounded from outside, below by the EFA cards, above by "
         "utilization without tensor-engine work: estimated, marked ~.", ink.muted),
    ]  # fmt: skip
    rows = [line([(part, style)], width) for text, style in texts for part in wrap(text, width)]
    return rows[:height] if height else rows
