"""The charts of a run: step time, tokens, MFU from 0; loss and gradient norm as curves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from textual.strip import Strip

from trntop.core import units

from ..measures import PACE, STEP
from ..scene import JobFigures, Scene
from . import blame, trends
from .axes import LEAST, Mark, bounds, curve, framed, nice, series
from .graph import chart
from .line import Part, beside, flow, line
from .pen import Pen

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
    scene: Scene, job: JobFigures | None, width: int, height: int, pen: Pen
) -> Sequence[Strip]:
    """As many charts as fit, those of what is reported; the fleet's where no job reports."""
    if job is None:
        return fleet(scene, width, height, pen)
    if width < LEAST + 8 or height < 3:
        return ()
    known = [one for one in (_stated(chart, job) for chart in CHARTS) if _any(scene, job, one)]
    if not known:
        return [line([("nothing to draw yet: no step was reported", pen.ink.muted)], width)]
    across = max(1, min(len(known), (width + GAP) // (CELLS + GAP)))
    down = max(1, min(-(-len(known) // across), height // LINES))
    across = min(across, -(-len(known) // down))
    marks = blame.marks(scene, job.job, pen)
    lines: list[Strip] = []
    for row in range(down):
        tall = height // down + (row < height % down)
        shown = known[row * across : (row + 1) * across]
        cells = (width - GAP * (len(shown) - 1)) // len(shown)
        blocks = [(_one(scene, job, each, cells, tall, pen, marks), cells) for each in shown]
        lines += [strip.adjust_cell_length(width) for strip in beside(blocks, GAP)]
    return lines


def fleet(scene: Scene, width: int, height: int, pen: Pen) -> list[Strip]:
    """The charts of the fleet, with the moments at which what explains them began."""
    marks = blame.marks(scene, scene.job.job if scene.job else "", pen)
    found = trends.cluster_trends(scene)
    return trends.draw(found, scene.view.time, width, height, pen, marks)


def _stated(chart: Chart, job: JobFigures) -> Chart:
    """Step time by the pace of the log, where the job does not state it."""
    if chart.quantity == STEP and job.step_seconds is None:
        return Chart(chart.title, PACE, chart.form)
    return chart


def _any(scene: Scene, job: JobFigures, chart: Chart) -> bool:
    _, values = scene.history.scalar(f"{job.job}/{chart.quantity}", int(SECONDS))
    return bool(len(values)) and not np.isnan(values).all()


def _one(
    scene: Scene,
    job: JobFigures,
    what: Chart,
    width: int,
    height: int,
    pen: Pen,
    marks: Sequence[Mark],
) -> list[Strip]:
    times, values = scene.history.scalar(f"{job.job}/{what.quantity}", int(SECONDS))
    newest = float(values[-1]) if len(values) else None
    number = pen.number(what.form(newest), what.quantity)
    head: list[tuple[int, list[Part]]] = [
        (100, [(f"{what.title} ", pen.ink.muted), *number]),
    ]
    now = scene.view.time
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
    body = chart(shown, room, pen, top=top) if what.grounded else curve(shown, room, pen, low, top)
    below = framed(body, named, slot, now, gutter, pen, marks)
    return [flow(head, width, ("  ", pen.ink.faint)), *below]
