"""How much of a job's steps is communication: the shares over time, or what is known instead."""

from collections.abc import Sequence

import numpy as np
from rich.style import Style
from textual.strip import Strip

from trntop import units
from trntop.model import Incident

from ..measures import COMM, EXPOSED
from ..scene import JobFigures, Scene
from . import blame
from .axes import LEAST, Mark, framed, nice, series
from .graph import Values, runs
from .incidents import wrap
from .jobs import FOUND, NAME, NODES, STEP_SECONDS, JobRow, figure, share_bar
from .line import Part, flow, line
from .pen import Pen
from .table import Column

SECONDS = 300.0
"""Stream time that the chart spans."""


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
    head = _numbers(scene, job, width, pen)
    gutter = 6
    room = height - 2
    if room < 2 or width - gutter < LEAST:
        return head[:height]
    cells = width - gutter
    now, count = scene.view.time, int(SECONDS)
    comm, slot = series(*scene.history.scalar(f"{job.job}/{COMM}", count), now, cells, SECONDS)
    exposed, _ = series(*scene.history.scalar(f"{job.job}/{EXPOSED}", count), now, cells, SECONDS)
    limit = scene.limits.comm_share
    known = comm[~np.isnan(comm)]
    most = float(known.max()) if len(known) else 0.0
    top = min(1.0, nice(max(2 * limit, 1.1 * most)))
    body = _stacked(scene, comm, exposed, room, pen, top)
    labels = [(limit / top, units.percent(limit)), (1.0, units.percent(top)), (0.0, "0 %")]
    return [*head, *framed(body, labels, slot, now, gutter, pen, _marks(scene, job.job, pen))]


def _numbers(scene: Scene, job: JobFigures, width: int, pen: Pen) -> list[Strip]:
    """Both shares now, against their limits; what the colours of the chart are."""
    ink, limits = pen.ink, scene.limits
    full = pen.glyphs.column[-1]
    hidden, shown = ink.area[1], ink.area[-1]
    comm = pen.number(units.percent(job.comm_share), COMM)
    exposed = pen.number(units.percent(job.exposed_share), EXPOSED)
    if job.comm_share is not None and job.comm_share > limits.comm_share:
        comm[0] = (comm[0][0], ink.warning)
    if job.exposed_share is not None and job.exposed_share > limits.exposed_comm_share:
        exposed[0] = (exposed[0][0], ink.critical)
    groups: list[tuple[int, list[Part]]] = [
        (100, [("comm ", ink.muted), *comm,
               (f" of a step, limit {units.percent(limits.comm_share)}", ink.faint)]),
        (95, [(full, shown), (" exposed ", ink.muted), *exposed,
              (f", limit {units.percent(limits.exposed_comm_share)}", ink.faint)]),
        (60, [(full, hidden), (" covered by compute", ink.muted)]),
    ]  # fmt: skip
    return [flow(groups, width, ("   ", ink.faint))]


def _marks(scene: Scene, job: str, pen: Pen) -> list[Mark]:
    """When the job's incidents began, those that are over in grey; and the baseline."""
    marks = [
        Mark(one.opened_at, pen.glyphs.up, _style(one, pen))
        for one in reversed(scene.view.incidents)  # the worst is written last
        if blame.tells(scene, one, job)
    ]
    if scene.baseline is not None:
        marks.append(Mark(scene.baseline.time, "b", pen.ink.accent))
    return marks


def _style(one: Incident, pen: Pen) -> Style:
    return pen.ink.severity(one.severity) if one.open else pen.ink.muted


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
    over = (ink.over[1], ink.over[-1])
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
            elif below == steps or (below and inside < steps):
                cells.append((glyphs.column[inside], shown))
            elif below:
                cells.append((glyphs.column[below], _on(shown, covered)))
            else:
                cells.append((_covered(glyphs.column, inside, pen), covered))
        rows.append(line(runs(cells), len(cells)))
    return rows


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
