"""The phases of a job in the last minutes: as a strip, and as spans of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Stage
from trntop.pipeline.jobs import STAGE, STAGES, job_phase

from ..view_model import JobFigures, ViewModel
from . import glyphs, run
from .axes import slot_seconds, time_axis
from .context import RenderContext
from .graph import Values, runs
from .line import Part, flow, line

SECONDS = 900.0
"""Time span of the strip."""
SIGNS = {
    Stage.STALLED: "!",
    Stage.COMPILING: "c",
    Stage.CHECKPOINTING: "k",
    Stage.EVALUATING: "e",
    Stage.WARMING_UP: "w",
    Stage.IDLE: ".",
    Stage.EXECUTING: "x",
}
"""Letters of the stages other than training; a cell shows the first of them."""

_RANKS = {Stage.TRAINING: 95} | {stage: 100 - 10 * place for place, stage in enumerate(SIGNS)}
"""Importance in the tally."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time in one stage."""

    stage: Stage
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


def stages(view_model: ViewModel, job: str) -> tuple[Values, Values]:
    """Times and indices in STAGES of the last minutes; NaN if unknown."""
    count = int(SECONDS)
    times, places = view_model.history.scalar(f"{job}/{STAGE}", count)
    if job and len(view_model.cluster.jobs) > 1:
        return times, places
    # Before its first step and after its last one, the only job has the stages of the nodes.
    others, nodes = view_model.history.scalar(f"/{STAGE}", count)
    known = times[~np.isnan(places)]
    if not len(known):
        return others, nodes
    early, late = others < known[0], others > known[-1]
    within = (times >= known[0]) & (times <= known[-1])
    return (
        np.concatenate([others[early], times[within], others[late]]),
        np.concatenate([nodes[early], places[within], nodes[late]]),
    )


def spans(times: Values, places: Values) -> list[Span]:
    """The stages one after the other, without unknown times."""
    if not len(times):
        return []
    codes = np.nan_to_num(places, nan=-1.0).astype(np.int64)
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    found = []
    for start, end in pairwise(edges):
        if codes[start] < 0:
            continue
        until = float(times[min(end, len(times) - 1)])
        found.append(Span(STAGES[codes[start]], float(times[start]), until))
    return found


def draw(
    view_model: ViewModel, job: JobFigures | None, width: int, _height: int, context: RenderContext
) -> Sequence[Strip]:
    """The current phase; the last minutes as a strip, and their sums."""
    name = job.job if job else ""
    found = job_phase(view_model.cluster, name)
    now: list[Part] = [(f"phase {units.ABSENT}, not reported", context.palette.muted)]
    if found is not None:
        now = run.phase(found, context, utc=view_model.utc)
        if found.since is not None:
            lasts = f" ({units.span(view_model.view.time - found.since)})"
            now.insert(3, (lasts, context.palette.muted))
    return [
        line(now, width),
        *strip(view_model, name, width, context),
        tally(view_model, name, width, context),
    ]


def strip(view_model: ViewModel, job: str, width: int, context: RenderContext) -> list[Strip]:
    """A cell per time slot: a line for training, else the letter of the stage."""
    times, places = stages(view_model, job)
    seconds = slot_seconds(width, SECONDS)
    # Slots are whole seconds; the title of the panel has their number.
    count = min(width, int(SECONDS // seconds))
    now = view_model.view.time
    last = np.floor(now / seconds)
    slots_seen: list[set[int]] = [set() for _ in range(count)]
    for time, place in zip(times.tolist(), places.tolist(), strict=True):
        slot = int(np.floor(time / seconds) - last) + count - 1
        if place == place and 0 <= slot < count:
            slots_seen[slot].add(int(place))
    cells = runs([_cell({STAGES[place] for place in cell}, context) for cell in slots_seen])
    return [
        line(cells, width),
        time_axis(count, seconds, now, context).adjust_cell_length(width),
    ]


def _cell(seen: set[Stage], context: RenderContext) -> Part:
    if not seen:
        return (" ", context.palette.faint)
    for stage, sign in SIGNS.items():
        if stage in seen:
            return (sign, run.style_of(stage, context.palette))
    return (glyphs.FULL, context.palette.graph)


def tally(view_model: ViewModel, job: str, width: int, context: RenderContext) -> Strip:
    """The time in each stage, with the signs of the strip."""
    palette = context.palette
    found = spans(*stages(view_model, job))
    total = sum(span.seconds for span in found)
    groups: list[tuple[int, list[Part]]] = []
    for stage in sorted({span.stage for span in found}, key=STAGES.index):
        times = [span.seconds for span in found if span.stage is stage]
        often = f" in {len(times)}" if len(times) > 1 else ""
        text = f"{units.span(sum(times))}{often}"
        style = run.style_of(stage, palette)
        if stage is Stage.TRAINING:
            text, style = (
                f"{units.percent(sum(times) / (total or 1.0))} of {units.span(total)}",
                palette.graph,
            )
        sign = SIGNS.get(stage, glyphs.FULL * 2)
        groups.append((_RANKS[stage], [(sign, style), (f" {stage.value} {text}", palette.muted)]))
    return flow(groups, width, ("   ", palette.faint))
