"""What a run was at during the last minutes: its stages as a strip, and as spans of time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Stage
from trntop.pipeline.jobs import STAGE, STAGES, job_phase

from ..view_model import JobFigures, ViewModel
from . import run
from .axes import slots, time_axis
from .context import RenderContext
from .graph import Values, runs
from .line import Part, flow, length, line

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


_RANKS = {Stage.TRAINING: 95} | {stage: 100 - 10 * place for place, stage in enumerate(SIGNS)}
"""What stays in the tally where there is little room: what a person is asked to mend."""


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


_GAP = "   "


def _cells(groups: Sequence[tuple[int, Sequence[Part]]]) -> int:
    """How many cells groups take."""
    return sum(length(parts) for _, parts in groups) + len(_GAP) * (len(groups) - 1)


def stages(view_model: ViewModel, job: str) -> tuple[Values, Values]:
    """Times and places in STAGES of the last minutes; NaN where nothing told."""
    count = int(SECONDS)
    times, places = view_model.history.scalar(f"{job}/{STAGE}", count)
    if job and len(view_model.cluster.jobs) > 1:
        return times, places
    # What the nodes did before the job's first step belongs to their only job.
    before, nodes = view_model.history.scalar(f"/{STAGE}", count)
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


def draw(
    view_model: ViewModel, job: JobFigures | None, width: int, _height: int, context: RenderContext
) -> Sequence[Strip]:
    """What the run is at and since when; the last minutes as a strip, and their sums."""
    name = job.job if job else ""
    found = job_phase(view_model.cluster, name)
    now: list[Part] = [(f"phase {units.ABSENT}, nothing tells it", context.palette.muted)]
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
    """A cell per time slot: a line while it trained, else the letter of what it was at."""
    times, places = stages(view_model, job)
    seconds = slots(width, SECONDS)
    # Slots are whole seconds: no more of them than the panel's title says.
    count = min(width, int(SECONDS // seconds))
    now = view_model.view.time
    last = np.floor(now / seconds)
    seen: list[set[int]] = [set() for _ in range(count)]
    for time, place in zip(times.tolist(), places.tolist(), strict=True):
        slot = int(np.floor(time / seconds) - last) + count - 1
        if place == place and 0 <= slot < count:
            seen[slot].add(int(place))
    cells = runs([_cell({STAGES[place] for place in cell}, context) for cell in seen])
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
    return (context.glyphs.full, context.palette.graph)


def tally(view_model: ViewModel, job: str, width: int, context: RenderContext) -> Strip:
    """How much of the time went into which stage, with the signs of the strip.

    Where there is little room, numbers go before names: signs of the strip are explained. What
    weighs least goes first, and "…" says that it went.
    """
    found = spans(*stages(view_model, job))
    total = sum(span.seconds for span in found)
    times: dict[Stage, list[float]] = {}
    for span in found:
        times.setdefault(span.stage, []).append(span.seconds)
    kinds = sorted(times, key=STAGES.index)
    heaviest = sorted(times, key=lambda stage: -_RANKS[stage])
    groups: list[tuple[int, list[Part]]] = []
    for count in range(len(kinds), 0, -1):
        kept = heaviest[:count]
        brief = dict.fromkeys(kept, 0)
        for level, stage in [(0, kept[0]), *product((1, 2), reversed(kept))]:
            brief[stage] = level
            groups = [
                (_RANKS[one], _entry(one, times[one], total, brief[one], context))
                for one in kinds
                if one in brief
            ]
            if count < len(kinds):
                groups.append((0, [("…", context.palette.muted)]))
            if _cells(groups) <= width:
                return flow(groups, width, (_GAP, context.palette.faint))
    return flow(groups, width, (_GAP, context.palette.faint))


def _entry(
    stage: Stage, times: Sequence[float], total: float, brief: int, context: RenderContext
) -> list[Part]:
    sign = SIGNS.get(stage, context.glyphs.full * 2)
    style = (
        context.palette.graph if stage is Stage.TRAINING else run.style_of(stage, context.palette)
    )
    return [
        (sign, style),
        (f" {stage.value}{_sum(stage, times, total, brief)}", context.palette.muted),
    ]


def _sum(stage: Stage, times: Sequence[float], total: float, brief: int) -> str:
    """How long a stage took in all, the shorter the larger `brief` is."""
    if brief > 1:
        return ""
    if stage is Stage.TRAINING and total > 0:
        share = f" {units.percent(sum(times) / total)}"
        return share if brief else f"{share} of {units.span(total)}"
    often = f" in {len(times)}" if len(times) > 1 and not brief else ""
    return f" {units.span(sum(times))}{often}"
