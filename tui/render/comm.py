"""How much of a job's steps is communication: the shares over time, or what is known instead."""

from collections.abc import Sequence

import numpy as np
from rich.style import Style
from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Severity

from ..measures import COMM, EXPOSED
from ..view_model import JobFigures, ViewModel
from . import blame
from .axes import LEAST, framed, nice, series
from .context import RenderContext
from .graph import Values, runs
from .incidents import wrap
from .jobs import FOUND, NAME, NODES, STEP_SECONDS, JobRow, figure, share_bar
from .line import Part, flow, length, line
from .table import Column

SECONDS = 300.0
"""Stream time that the chart spans."""
TALL = 7
"""Lines of a graph from which on the limit stands in its middle."""
_GAP = "   "


def columns(view_model: ViewModel) -> tuple[Column[JobRow], ...]:
    """Of the jobs, where there are several."""
    limits = view_model.limits
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
    view_model: ViewModel, job: JobFigures | None, width: int, height: int, context: RenderContext
) -> Sequence[Strip]:
    """The comm share over time, the exposed part of it from the ground up, and the limit."""
    if job is None or job.comm_share is None:
        return unknown(view_model, job, width, height, context)
    gutter = 6
    room = height - 2
    cells = max(1, width - gutter)
    now, count = view_model.view.time, int(SECONDS)
    comm, slot = series(*view_model.history.scalar(f"{job.job}/{COMM}", count), now, cells, SECONDS)
    exposed, _ = series(
        *view_model.history.scalar(f"{job.job}/{EXPOSED}", count), now, cells, SECONDS
    )
    limit = view_model.limits.comm_share
    known = comm[~np.isnan(comm)]
    head = [_numbers(view_model, job, width, context, over=bool(len(known)) and known[-1] > limit)]
    if room < 2 or cells < LEAST:
        return head[:height]
    most = float(known.max()) if len(known) else 0.0
    # Few lines are not spent on what lies above the limit.
    air = 2.0 if room >= TALL else 1.4
    top = min(1.0, nice(max(air * limit, 1.1 * most)))
    body = _stacked(view_model, comm, exposed, room, context, top)
    labels = [(limit / top, units.percent(limit)), (1.0, units.percent(top)), (0.0, "0 %")]
    return [
        *head,
        *framed(
            body, labels, slot, now, gutter, context, blame.marks(view_model, job.job, context)
        ),
    ]


def _numbers(
    view_model: ViewModel, job: JobFigures, width: int, context: RenderContext, *, over: bool
) -> Strip:
    """Both shares now, against their limits; what the colours of the chart are.

    Args:
        view_model: the tick.
        job: whose shares.
        width: cells.
        context: what to draw with.
        over: whether the newest bar is above the limit, and has the colours of that.
    """
    palette, limits = context.palette, view_model.limits
    full = context.glyphs.column[-1]
    shades = palette.over[Severity.WARNING] if over else palette.area
    hidden, shown = shades[1], shades[-1]
    comm = context.number(units.percent(job.comm_share), COMM)
    exposed = context.number(units.percent(job.exposed_share), EXPOSED)
    if job.comm_share is not None and job.comm_share > limits.comm_share:
        comm[0] = (comm[0][0], palette.warning)
    if job.exposed_share is not None and job.exposed_share > limits.exposed_comm_share:
        exposed[0] = (exposed[0][0], palette.warning)
    swatch = _covered(context.glyphs.column, len(context.glyphs.column) - 1, context)
    # The panel's title says that both are shares of a step; where space ends, limits go first.
    groups: list[tuple[int, list[Part]]] = []
    for by, limited in ((" by compute", True), ("", True), ("", False)):
        ends = [
            f", limit {units.percent(one)}" if limited else ""
            for one in (limits.comm_share, limits.exposed_comm_share)
        ]
        groups = [
            (100, [("comm ", palette.muted), *comm, (ends[0], palette.faint)]),
            (95, [(full, shown), (" exposed ", palette.muted), *exposed, (ends[1], palette.faint)]),
            (60, [(swatch, hidden), (f" covered{by}", palette.muted)]),
        ]
        if sum(length(parts) for _, parts in groups) + len(_GAP) * (len(groups) - 1) <= width:
            break
    return flow(groups, width, (_GAP, palette.faint))


def _stacked(
    view_model: ViewModel,
    comm: Values,
    exposed: Values,
    height: int,
    context: RenderContext,
    top: float,
) -> list[Strip]:
    """Two series in one graph: the exposed part from the ground, the covered part on it."""
    palette, glyphs = context.palette, context.glyphs
    steps = len(glyphs.column) - 1
    scale = height * steps / top
    limit = view_model.limits.comm_share
    ruled = int(limit * scale) // steps if 0 < limit < top else -1
    plain = (palette.area[1], palette.area[-1])
    shades = palette.over[Severity.WARNING]
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
                cells.append((dash if row == ruled else " ", palette.faint))
            elif below == steps:
                cells.append((glyphs.column[inside], shown))
            elif below:
                cells.append(_both(inside, below, glyphs.column, shown, covered))
            else:
                cells.append((_covered(glyphs.column, inside, context), covered))
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


def _covered(column: str, inside: int, context: RenderContext) -> str:
    """Without colours the covered part is told by its sign."""
    return column[inside] if context.glyphs.half else ":"


def _on(front: Style, ground: Style) -> Style:
    return Style(color=front.color, bgcolor=ground.color)


def unknown(
    view_model: ViewModel, job: JobFigures | None, width: int, height: int, context: RenderContext
) -> Sequence[Strip]:
    """Why there is no share, and what would make it reported."""
    palette = context.palette
    gone = sorted(
        {one.job for one in view_model.incidents if one.job} - set(view_model.cluster.jobs)
    )
    if job is None and gone:
        said = f"{gone[0]} no longer reports its steps."
    elif job is None:
        said = "No job reports its steps, so nobody knows what part of them is communication."
    else:
        said = f"{job.job} reports its steps, but not what part of them is communication."
    texts = [
        (said, palette.text),
        ("Mark the sections: with steps.compute() and with steps.collective() in the training "
         "loop, see docs/steps.md.", palette.muted),
        ("Until then the share is bounded from outside, below by the EFA devices, above by "
         "utilization without tensor-engine work: estimated, marked ~.", palette.muted),
    ]  # fmt: skip
    rows = [line([(part, style)], width) for text, style in texts for part in wrap(text, width)]
    return rows[:height] if height else rows
