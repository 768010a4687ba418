"""The charts of a run: step time, tokens, MFU from 0; loss and gradient norm as curves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from textual.strip import Strip

from trntop.core import units

from ..measures import PACE, STEP
from ..view_model import JobFigures, ViewModel
from . import blame, trends
from .axes import LEAST, Mark, bounds, curve, framed, nice, series
from .context import RenderContext
from .graph import chart
from .line import Part, beside, flow, line

SECONDS = 300.0
"""Stream time that a chart spans."""
GAP = 3
CELLS = 44
"""Least width of a chart where several stand side by side."""
LINES = 6
"""Least height of a chart, with its title and its axis."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One quantity of a job."""

    title: str
    quantity: str
    form: Callable[[float | None], str]
    grounded: bool = True
    """Whether it begins at 0; what has no meaning there is drawn as a curve."""


CHARTS = (
    Chart("step time", STEP, units.seconds),
    Chart("loss", "job_loss", units.loss, grounded=False),
    Chart("tokens/s", "job_tokens_per_second", units.si),
    Chart("MFU", "job_mfu_ratio", units.percent),
    Chart("grad norm", "job_grad_norm", units.loss, grounded=False),
)


def draw(
    view_model: ViewModel, job: JobFigures | None, width: int, height: int, context: RenderContext
) -> Sequence[Strip]:
    """As many charts as fit, those of what is reported; the fleet's where no job reports."""
    if job is None:
        return fleet(view_model, width, height, context)
    if width < LEAST + 8 or height < 3:
        return ()
    known = [one for one in (_stated(chart, job) for chart in CHARTS) if _any(view_model, job, one)]
    if not known:
        return [line([("nothing to draw yet: no step was reported", context.palette.muted)], width)]
    across = max(1, min(len(known), (width + GAP) // (CELLS + GAP)))
    down = max(1, min(-(-len(known) // across), height // LINES))
    across = min(across, -(-len(known) // down))
    marks = blame.marks(view_model, job.job, context)
    lines: list[Strip] = []
    for row in range(down):
        tall = height // down + (row < height % down)
        shown = known[row * across : (row + 1) * across]
        cells = (width - GAP * (len(shown) - 1)) // len(shown)
        blocks = [
            (_one(view_model, job, each, cells, tall, context, marks), cells) for each in shown
        ]
        lines += [strip.adjust_cell_length(width) for strip in beside(blocks, GAP)]
    return lines


def fleet(view_model: ViewModel, width: int, height: int, context: RenderContext) -> list[Strip]:
    """The charts of the fleet, with the moments at which what explains them began."""
    marks = blame.marks(view_model, view_model.job.job if view_model.job else "", context)
    found = trends.cluster_trends(view_model)
    return trends.draw(found, view_model.view.time, width, height, context, marks)


def _stated(chart: Chart, job: JobFigures) -> Chart:
    """Step time by the pace of the log, where the job does not state it."""
    if chart.quantity == STEP and job.step_seconds is None:
        return Chart(chart.title, PACE, chart.form)
    return chart


def _any(view_model: ViewModel, job: JobFigures, chart: Chart) -> bool:
    _, values = view_model.history.scalar(f"{job.job}/{chart.quantity}", int(SECONDS))
    return bool(len(values)) and not np.isnan(values).all()


def _one(
    view_model: ViewModel,
    job: JobFigures,
    what: Chart,
    width: int,
    height: int,
    context: RenderContext,
    marks: Sequence[Mark],
) -> list[Strip]:
    times, values = view_model.history.scalar(f"{job.job}/{what.quantity}", int(SECONDS))
    newest = float(values[-1]) if len(values) else None
    number = context.number(what.form(newest), what.quantity)
    head: list[tuple[int, list[Part]]] = [
        (100, [(f"{what.title} ", context.palette.muted), *number]),
    ]
    now = view_model.view.time
    room = max(1, height - 2)
    low, top = 0.0, 1.0
    known = values[~np.isnan(values)]
    if what.grounded:
        top = nice(1.15 * float(known.max()))
    else:
        low, top = bounds(known)
    named = [(1.0, what.form(top)), (0.0, what.form(low) if low else "0")]
    if room > 4:
        named.append((0.5, what.form((low + top) / 2)))
    gutter = max(len(text) for _, text in named) + 2
    shown, slot = series(times, values, now, width - gutter, SECONDS)
    # Slots are whole seconds: no more of them than the panel's title says.
    shown = shown[-int(SECONDS // slot) :]
    body = (
        chart(shown, room, context, top=top)
        if what.grounded
        else curve(shown, room, context, low, top)
    )
    below = framed(body, named, slot, now, gutter, context, marks)
    return [flow(head, width, ("  ", context.palette.faint)), *below]
