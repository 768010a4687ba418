"""What a run was at during the last minutes: its stages as a strip, and as spans of time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from textual.strip import Strip

from trntop import units
from trntop.jobs import STAGE, STAGES, job_stage
from trntop.model import Phase, Stage

from ..scene import JobFigures, Scene
from . import run
from .axes import slots, time_axis
from .graph import Values, runs
from .line import Part, flow, line
from .pen import Pen

SECONDS = 900.0
"""Stream time that is looked at."""
SIGNS = {
    Stage.STALLED: "!",
    Stage.COMPILING: "c",
    Stage.CHECKPOINTING: "k",
    Stage.EVALUATING: "e",
    Stage.WARMING_UP: "w",
    Stage.IDLE: ".",
}
"""Letters of the stages that are no training; the first of them in a cell is the one shown."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time in one stage."""

    stage: Stage
    start: float
    end: float
    open: bool
    """Whether it still lasts."""
    whole: bool
    """Whether its beginning was seen."""

    @property
    def seconds(self) -> float:
        """How long it took, or has taken so far."""
        return self.end - self.start


def stages(scene: Scene, job: str) -> tuple[Values, Values]:
    """Times and places in STAGES of the last minutes; NaN where nothing told."""
    count = int(SECONDS)
    times, places = scene.history.scalar(f"{job}/{STAGE}", count)
    if job and len(scene.cluster.jobs) > 1:
        return times, places
    # What the nodes did before the job's first step belongs to their only job.
    before, nodes = scene.history.scalar(f"/{STAGE}", count)
    if not len(times):
        return before, nodes
    known = np.flatnonzero(~np.isnan(places))
    first = times[known[0]] if len(known) else np.inf
    early, late = before < first, times >= first
    return (
        np.concatenate([before[early], times[late]]),
        np.concatenate([nodes[early], places[late]]),
    )


def spans(times: Values, places: Values) -> list[Span]:
    """The stages one after the other; what nothing told of is in none."""
    if not len(times):
        return []
    codes = np.nan_to_num(places, nan=-1.0).astype(np.int64)
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    found = []
    for start, end in pairwise(edges):
        if codes[start] < 0:
            continue
        last = end == len(codes)
        until = float(times[-1] if last else times[end])
        found.append(
            Span(STAGES[codes[start]], float(times[start]), until, open=last, whole=start > 0)
        )
    return found


def pauses(found: Iterable[Span]) -> float:
    """Seconds in which the run did not train, once it had begun to."""
    lost = 0.0
    begun = False
    for span in found:
        begun |= span.stage is Stage.TRAINING
        if begun and span.stage not in (Stage.TRAINING, Stage.WARMING_UP):
            lost += span.seconds
    return lost


def current(scene: Scene, job: str) -> Phase | None:
    """What the job is at, in the words of the node that has been at it longest."""
    nodes = scene.cluster.jobs.get(job, ()) if job else scene.cluster.names
    stage = job_stage(scene.cluster, nodes)
    found = [
        phase
        for name in nodes
        if (phase := scene.cluster.nodes[name].frame.phase) is not None and phase.stage is stage
    ]
    return min(found, key=lambda one: one.since or float("inf"), default=None)


def draw(
    scene: Scene, job: JobFigures | None, width: int, _height: int, pen: Pen
) -> Sequence[Strip]:
    """What the run is at and since when; the last minutes as a strip, and their sums."""
    name = job.job if job else ""
    found = current(scene, name)
    now: list[Part] = [(f"phase {units.ABSENT}, nothing tells it", pen.ink.muted)]
    if found is not None:
        now = run.phase(found, pen, utc=scene.utc)
        if found.since is not None:
            lasts = f" ({units.span(scene.view.time - found.since)})"
            now.insert(3, (lasts, pen.ink.muted))
    return [line(now, width), *strip(scene, name, width, pen), tally(scene, name, width, pen)]


def strip(scene: Scene, job: str, width: int, pen: Pen) -> list[Strip]:
    """A cell per time slot: a line while it trained, else the letter of what it was at."""
    times, places = stages(scene, job)
    seconds = slots(width, SECONDS)
    now = scene.view.time
    last = np.floor(now / seconds)
    seen: list[set[int]] = [set() for _ in range(width)]
    for time, place in zip(times.tolist(), places.tolist(), strict=True):
        slot = int(np.floor(time / seconds) - last) + width - 1
        if place == place and 0 <= slot < width:
            seen[slot].add(int(place))
    cells = runs([_cell({STAGES[place] for place in cell}, pen) for cell in seen])
    return [line(cells, width), time_axis(width, seconds, now, pen)]


def _cell(seen: set[Stage], pen: Pen) -> Part:
    if not seen:
        return (" ", pen.ink.faint)
    for stage, sign in SIGNS.items():
        if stage in seen:
            return (sign, run.style_of(stage, pen.ink))
    return (pen.glyphs.full, pen.ink.graph)


def tally(scene: Scene, job: str, width: int, pen: Pen) -> Strip:
    """How much of the time went into which stage, with the signs of the strip."""
    found = spans(*stages(scene, job))
    total = sum(span.seconds for span in found)
    groups: list[tuple[int, list[Part]]] = []
    for stage in sorted({span.stage for span in found}, key=lambda one: STAGES.index(one)):
        mine = [span for span in found if span.stage is stage]
        share = sum(span.seconds for span in mine)
        sign = SIGNS.get(stage, pen.glyphs.full * 2)
        style = pen.ink.graph if stage is Stage.TRAINING else run.style_of(stage, pen.ink)
        text = f" {stage.value} {units.span(share)}"
        if stage is Stage.TRAINING and total > 0:
            text = f" {stage.value} {units.percent(share / total)} of {units.span(total)}"
        elif len(mine) > 1:
            text += f" in {len(mine)}"
        groups.append(
            (100 if stage is Stage.STALLED else 50, [(sign, style), (text, pen.ink.muted)])
        )
    return flow(groups, width, ("   ", pen.ink.faint))
