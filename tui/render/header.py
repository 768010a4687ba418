"""The two lines on top of every screen: what run is this, and is it well."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Phase, Severity, Stage, State

from .. import timecode
from ..measures import PACE, STEP
from ..view_model import JobFigures, Mode, ViewModel
from . import prometheus, run
from .context import RenderContext
from .graph import Values, bar, buckets, sparkline
from .line import Part, flow, short

SPARK_SECONDS = 4.0
"""Stream time of one cell of a sparkline in the header."""
WIDE = 100
"""Cells from which on the program's name stands before the place."""
LONGEST_CRUMB = 24


@lru_cache(maxsize=1)
def identity(view_model: ViewModel) -> str:
    """`16 × trn2.48xlarge`, or what is known of it."""
    if part := prometheus.shown(view_model):
        return f"{part} nodes"
    types: dict[str, int] = {}
    for node in view_model.cluster.nodes.values():
        types[node.inventory.instance_type] = types.get(node.inventory.instance_type, 0) + 1
    total = sum(types.values())
    if not total:
        return "no nodes yet"
    common = max(types, key=lambda name: types[name])
    if not common:
        return f"{total} node{'s' * (total > 1)}"
    return f"{total} × {common}" if len(types) == 1 else f"{total} nodes, {len(types)} types"


def _mode(view_model: ViewModel, context: RenderContext) -> list[Part]:
    glyphs, palette = context.glyphs, context.palette
    if view_model.loaded is not None:
        return [
            (
                f"{glyphs.states[State.STARTING]} LOADING {units.percent(view_model.loaded)}",
                palette.accent,
            )
        ]
    clock = f" {units.clock(view_model.view.time, utc=view_model.utc)}"
    place = ("", palette.faint)
    if view_model.span is not None:
        place = (f" {timecode.position(view_model.view.time, view_model.span)}", palette.muted)
    if view_model.mode is Mode.LIVE:
        return [(f"{glyphs.live} LIVE", palette.ok), (clock, palette.text)]
    if view_model.mode is Mode.PLAYING:
        speed = f" ×{view_model.speed:g}"
        return [(f"{glyphs.live} PLAY{speed}", palette.accent), (clock, palette.text), place]
    if view_model.mode is Mode.PAST:
        ago = f" {units.age(view_model.behind)} ago"
        past = (f"{glyphs.paused} PAST", palette.aside)
        return [past, (clock, palette.strong), place if view_model.span else (ago, palette.muted)]
    if view_model.mode is Mode.PAUSED:
        return [(f"{glyphs.paused} PAUSED", palette.aside), (clock, palette.text), place]
    if view_model.mode is Mode.ENDED:
        return [(f"{glyphs.ended} ENDED", palette.muted), (clock, palette.text), place]
    if view_model.mode is Mode.FAILED:
        return [(f"{glyphs.states[State.DOWN]} STOPPED", palette.critical), (clock, palette.text)]
    return [(f"{glyphs.states[State.STARTING]} WAITING", palette.muted)]


def first_line(
    view_model: ViewModel, width: int, context: RenderContext, crumbs: Sequence[str] = ()
) -> list[tuple[int, list[Part]]]:
    """Groups from the left: place, job, nodes, and the states that are not well."""
    palette = context.palette
    groups: list[tuple[int, list[Part]]] = [(100, _place(crumbs, width, context))]
    job = view_model.job
    if job is not None:
        others = len(view_model.cluster.jobs) - 1
        more = f" +{others} job{'s' * (others > 1)}" if others else ""
        groups.append(
            (80, [(short(job.job, max(12, width // 3)), palette.strong), (more, palette.muted)])
        )
    part = prometheus.shown(view_model)
    groups.append((91 if part else 70, [(identity(view_model), palette.muted)]))
    groups.extend(
        (87 if stage is Stage.STALLED else 75, parts)
        for stage, parts in _stages(view_model, context)
    )
    groups.extend(
        (85, [(f"{context.glyphs.states[state]} {count} {state.value}", palette.state(state))])
        for state in (State.DOWN, State.NO_DATA, State.STALE, State.LATE)
        if (count := view_model.states.get(state, 0))
    )
    if view_model.starting and len(view_model.cluster.nodes) > 1:
        heard = len(view_model.cluster.nodes) - view_model.starting
        sign = context.glyphs.states[State.STARTING]
        text = f"{sign} connecting {heard:,} of {len(view_model.cluster.nodes):,}"
        groups.append((86, [(text, palette.accent)]))
    groups.extend(prometheus.groups(view_model, context))
    if view_model.baseline is not None:
        since = units.clock(view_model.baseline.time, utc=view_model.utc)
        groups.append((84, [("baseline ", palette.muted), (since, palette.aside)]))
    if view_model.notes:
        sign = context.glyphs.severities[Severity.WARNING]
        groups.append((88, [(f"{sign} damaged recording", palette.warning)]))
    if view_model.description and width >= 100:
        groups.append((20, [(view_model.description, palette.faint)]))
    return groups


def _place(crumbs: Sequence[str], width: int, context: RenderContext) -> list[Part]:
    """Program and screen: `trntop ▸ cluster ▸ trn-007`; the program goes where space is short."""
    palette = context.palette
    names = ["trntop", *crumbs] if width >= WIDE or not crumbs else list(crumbs)
    parts: list[Part] = []
    for name in names[:-1]:
        parts.append((f" {short(name, LONGEST_CRUMB)}", palette.muted))
        parts.append((f" {context.glyphs.cursor}", palette.faint))
    return [*parts, (f" {short(names[-1], LONGEST_CRUMB)}", palette.key)]


def _stages(view_model: ViewModel, context: RenderContext) -> list[tuple[Stage, list[Part]]]:
    """`training 3 h`, or how many nodes are at what; what is no training has the second line."""
    palette = context.palette
    if len(view_model.phases) > 1:
        return [
            (stage, [(f"{len(phases)} {stage.value}", run.style_of(stage, palette))])
            for stage, phases in view_model.phases.items()
        ]
    return [
        (stage, [(f"{stage.value}{_lasted(view_model, phases)}", run.style_of(stage, palette))])
        for stage, phases in view_model.phases.items()
        if stage is Stage.TRAINING
    ]


def _lasted(view_model: ViewModel, phases: Sequence[Phase]) -> str:
    """For how long the first of them has been in it."""
    since = min((phase.since for phase in phases if phase.since is not None), default=None)
    return "" if since is None else f" {units.span(view_model.view.time - since)}"


def draw(
    view_model: ViewModel, width: int, context: RenderContext, crumbs: Sequence[str] = ()
) -> list[Strip]:
    """Both lines; `crumbs` say where the user is, from the outermost place inwards."""
    palette = context.palette
    right: list[tuple[int, list[Part]]] = []
    if view_model.every > 1:
        right.append((86, [(f"1 of {view_model.every} ticks", palette.warning)]))
    if view_model.cluster.simulated:
        right.append((99, [(" SIMULATED ", palette.badge)]))
    right.append((98, _mode(view_model, context)))
    right[-1][1].append((" ", palette.text))
    gap = ("  ", palette.faint)
    top = flow(first_line(view_model, width, context, crumbs), width, gap, right=right)
    job = view_model.job
    groups = _instead(view_model, context)
    groups += _fleet(view_model, context) if job is None else _job(view_model, job, width, context)
    groups[0][1].insert(0, (" ", palette.text))
    return [top, flow(groups, width, ("   ", palette.faint))]


def _instead(view_model: ViewModel, context: RenderContext) -> list[tuple[int, list[Part]]]:
    """What most nodes are busy with, where that is no training, and what tells so."""
    stage = next(iter(view_model.phases), Stage.TRAINING)
    if stage is Stage.TRAINING:
        return []
    first = min(view_model.phases[stage], key=lambda one: one.since or view_model.view.time)
    return [(97, run.phase(first, context, utc=view_model.utc))]


def _job(
    view_model: ViewModel, job: JobFigures, width: int, context: RenderContext
) -> list[tuple[int, list[Part]]]:
    palette, glyphs = context.palette, context.glyphs
    limit = view_model.limits.comm_share
    over = job.comm_share is not None and job.comm_share > limit
    hidden = (
        job.exposed_share is not None and job.exposed_share > view_model.limits.exposed_comm_share
    )
    step = units.count(job.step)
    trail = 8 if width < 110 else 14 if width < 160 else 24

    def spark(quantity: str) -> list[Part]:
        values = _series(view_model, job.job, quantity, trail)
        if np.isnan(values).all():
            return []
        return [(" ", palette.text), (sparkline(values, glyphs), palette.graph)]

    def number(text: str, quantity: str) -> list[Part]:
        return context.number(text, quantity)

    comm = number(units.percent(job.comm_share), "job_comm_share_ratio")
    exposed = number(units.percent(job.exposed_share), "job_exposed_comm_share_ratio")
    if over:
        comm[0] = (comm[0][0], palette.warning)
    if hidden:
        exposed[0] = (exposed[0][0], palette.warning)
    if job.comm_share is not None:
        cells = 8 if width < 110 else 16 if width < 160 else 24
        comm += [(" ", palette.text), *_bar(job.comm_share, limit, cells, context, over=over)]
    elif estimated := _estimated(view_model):
        comm = [(estimated, palette.text)]
    if width >= 110 and comm[0][0] != units.ABSENT:
        comm.append((f" limit {units.percent(limit)}", palette.faint))
    return [
        (60, [("step ", palette.muted), *number(step, "job_step")]),
        (90, [*_step_time(job, context), *spark(STEP if job.step_seconds is not None else PACE)]),
        (50, [*_tokens(job, context), *(spark("job_tokens_per_second") if width >= 160 else [])]),
        (95, [("comm ", palette.muted), *comm]),
        (70, [("exposed ", palette.muted), *exposed]),
        *run.learning(job.loss, job.mfu, context),
    ]


def _step_time(job: JobFigures, context: RenderContext) -> list[Part]:
    """As the job states it, else by the pace of its log lines."""
    if job.step_seconds is not None:
        return context.number(units.seconds(job.step_seconds), STEP)
    if job.step_pace_seconds is not None:
        return context.number(units.seconds(job.step_pace_seconds), PACE)
    return [("step time ", context.palette.muted), *context.number(units.ABSENT)]


def _tokens(job: JobFigures, context: RenderContext) -> list[Part]:
    """Of the whole job, else of one device."""
    if (rate := job.tokens_per_second) is not None:
        return context.number(f"{units.si(rate)} tok/s", "job_tokens_per_second")
    if (rate := job.tokens_per_second_per_device) is not None:
        text = f"{units.count(rate)} tok/s per device"
        return context.number(text, "job_tokens_per_second_per_device")
    return [("tok/s ", context.palette.muted), *context.number(units.ABSENT)]


def _bar(
    value: float, limit: float, cells: int, context: RenderContext, *, over: bool
) -> list[Part]:
    """The comm share up to twice its limit, so that the tick stands in the middle."""
    scale = min(1.0, 2 * limit) or 1.0
    style = context.palette.warning if over else context.palette.graph
    return bar(
        value / scale,
        cells,
        context.glyphs,
        style,
        context.palette.rule,
        limit=limit / scale,
        limit_style=context.palette.strong,
    )


def _series(view_model: ViewModel, job: str, quantity: str, cells: int) -> Values:
    count = int(cells * SPARK_SECONDS) + 1
    times, values = view_model.history.scalar(f"{job}/{quantity}", count)
    return buckets(times, values, view_model.view.time, cells, SPARK_SECONDS)


_FLEET: Mapping[str, tuple[int, str, Callable[[float | None], str], str]] = {
    "utilization": (90, "node_neuroncore_utilization_mean_ratio", units.percent, "mean"),
    "TE": (85, "node_tensor_engine_busy_mean_ratio", units.percent, "mean"),
    "HBM": (60, "node_device_memory_used_max_ratio", units.percent, "max"),
    "HBM bw": (50, "node_hbm_bandwidth_ratio", units.percent, "mean"),
    "EFA tx": (70, "node_efa_tx_bytes_per_second", units.gigabits, "sum"),
}


def _fleet(view_model: ViewModel, context: RenderContext) -> list[tuple[int, list[Part]]]:
    """The nodes as one, where no job reports steps."""
    palette = context.palette
    groups: list[tuple[int, list[Part]]] = []
    for label, (rank, quantity, form, how) in _FLEET.items():
        value = _over_nodes(view_model, quantity, how)
        groups.append(
            (rank, [(f"{label} ", palette.muted), *context.number(form(value), quantity)])
        )
    if estimated := _estimated(view_model):
        groups.append((80, [("comm ", palette.muted), (estimated, palette.text)]))
    groups.append((10, [("no job reports steps", palette.faint)]))
    return groups


def _estimated(view_model: ViewModel) -> str:
    """The bounds of the communication share, means over the nodes; empty where none has any."""
    floor, ceiling = (_over_nodes(view_model, bound, "mean") for bound in (run.FLOOR, run.CEILING))
    share = units.share_bounds(floor, ceiling)
    return "" if share == units.ABSENT else f"{share} %"


def _over_nodes(view_model: ViewModel, quantity: str, how: str) -> float | None:
    whole = view_model.cluster.whole
    if whole is not None and whole.chosen:
        return whole.values.get(quantity)
    column = view_model.cluster.column(quantity)
    known = column[~np.isnan(column)]
    return float(getattr(np, how)(known)) if len(known) else None
