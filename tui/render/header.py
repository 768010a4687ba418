"""The two lines at the top of every screen: which job, and its state."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Phase, Severity, Stage, State

from .. import timecode
from ..measures import COMM, EXPOSED, TOKENS
from ..view_model import JobFigures, Mode, ViewModel
from . import glyphs, prometheus, run
from .context import RenderContext
from .graph import Values, buckets, sparkline
from .jobs import comm_bar
from .line import Part, flow, short

SPARK_SECONDS = 4.0
"""Time span of one cell of a sparkline."""
WIDE = 100
"""Width from which the name of the program is shown."""
LONGEST_CRUMB = 24


@lru_cache(maxsize=1)
def identity(view_model: ViewModel) -> str:
    """`16 × trn2.48xlarge`."""
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
    palette = context.palette
    if view_model.loaded is not None:
        return [
            (
                f"{glyphs.STATES[State.STARTING]} LOADING {units.percent(view_model.loaded)}",
                palette.accent,
            )
        ]
    clock = f" {units.clock(view_model.view.time, utc=view_model.utc)}"
    place = ("", palette.faint)
    if view_model.span is not None:
        place = (f" {timecode.position(view_model.view.time, view_model.span)}", palette.muted)
    if view_model.mode is Mode.LIVE:
        return [(f"{glyphs.LIVE} LIVE", palette.ok), (clock, palette.text)]
    if view_model.mode is Mode.PLAYING:
        speed = f" ×{view_model.speed:g}"
        return [(f"{glyphs.LIVE} PLAY{speed}", palette.accent), (clock, palette.text), place]
    if view_model.mode is Mode.HISTORY:
        ago = f" {units.age(view_model.behind)} ago"
        history = (f"{glyphs.PAUSED} HISTORY", palette.aside)
        return [
            history,
            (clock, palette.strong),
            place if view_model.span else (ago, palette.muted),
        ]
    if view_model.mode is Mode.PAUSED:
        return [(f"{glyphs.PAUSED} PAUSED", palette.aside), (clock, palette.text), place]
    if view_model.mode is Mode.ENDED:
        return [(f"{glyphs.ENDED} ENDED", palette.muted), (clock, palette.text), place]
    if view_model.mode is Mode.FAILED:
        return [(f"{glyphs.STATES[State.DOWN]} STOPPED", palette.critical), (clock, palette.text)]
    return [(f"{glyphs.STATES[State.STARTING]} WAITING", palette.muted)]


def first_line(
    view_model: ViewModel, width: int, context: RenderContext, crumbs: Sequence[str] = ()
) -> list[tuple[int, list[Part]]]:
    """Groups from the left: screen, job, nodes, and states other than fresh."""
    palette = context.palette
    groups: list[tuple[int, list[Part]]] = [(100, _breadcrumb(crumbs, width, context))]
    job = view_model.job
    if job is not None:
        others = len(view_model.jobs) - 1
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
        (85, [(f"{glyphs.STATES[state]} {count} {state.value}", palette.state(state))])
        for state in (State.DOWN, State.NO_DATA, State.STALE, State.LATE)
        if (count := view_model.states.get(state, 0))
    )
    if view_model.starting and len(view_model.cluster.nodes) > 1:
        connected = len(view_model.cluster.nodes) - view_model.starting
        sign = glyphs.STATES[State.STARTING]
        text = f"{sign} connecting {connected:,} of {len(view_model.cluster.nodes):,}"
        groups.append((86, [(text, palette.accent)]))
    groups.extend(prometheus.groups(view_model, context))
    if view_model.notes:
        sign = glyphs.SEVERITIES[Severity.WARNING]
        groups.append((88, [(f"{sign} damaged recording", palette.warning)]))
    if view_model.description and width >= 100:
        groups.append((20, [(view_model.description, palette.faint)]))
    return groups


def _breadcrumb(crumbs: Sequence[str], width: int, context: RenderContext) -> list[Part]:
    """`trntop ▸ cluster ▸ trn-007`; without the program on a narrow screen."""
    palette = context.palette
    names = ["trntop", *crumbs] if width >= WIDE or not crumbs else list(crumbs)
    parts: list[Part] = []
    for name in names[:-1]:
        parts.append((f" {short(name, LONGEST_CRUMB)}", palette.muted))
        parts.append((f" {glyphs.CURSOR}", palette.faint))
    return [*parts, (f" {short(names[-1], LONGEST_CRUMB)}", palette.key)]


def _stages(view_model: ViewModel, context: RenderContext) -> list[tuple[Stage, list[Part]]]:
    """`training 3 h`, or the number of nodes in each stage; other stages are in the second line."""
    palette = context.palette
    if len(view_model.phases) > 1:
        return [
            (stage, [(f"{len(phases)} {stage.value}", run.style_of(stage, palette))])
            for stage, phases in view_model.phases.items()
        ]
    return [
        (stage, [(f"{stage.value}{_lasted(view_model, phases)}", run.style_of(stage, palette))])
        for stage, phases in view_model.phases.items()
        if stage.productive
    ]


def _lasted(view_model: ViewModel, phases: Sequence[Phase]) -> str:
    """The duration of the longest of them."""
    since = min((phase.since for phase in phases if phase.since is not None), default=None)
    return "" if since is None else f" {units.span(view_model.view.time - since)}"


def draw(
    view_model: ViewModel, width: int, context: RenderContext, crumbs: Sequence[str] = ()
) -> list[Strip]:
    """Both lines; `crumbs` is the path to the screen."""
    palette = context.palette
    right: list[tuple[int, list[Part]]] = []
    if view_model.cluster.simulated:
        right.append((99, [(" SIMULATED ", palette.badge)]))
    right.append((98, _mode(view_model, context)))
    right[-1][1].append((" ", palette.text))
    gap = ("  ", palette.faint)
    top = flow(first_line(view_model, width, context, crumbs), width, gap, right=right)
    job = view_model.job
    groups = _pause(view_model, context)
    groups += _fleet(view_model, context) if job is None else _job(view_model, job, width, context)
    groups[0][1].insert(0, (" ", palette.text))
    return [top, flow(groups, width, ("   ", palette.faint))]


def _pause(view_model: ViewModel, context: RenderContext) -> list[tuple[int, list[Part]]]:
    """The stage of most nodes if it is not training, and how it is known."""
    stage = next(iter(view_model.phases), Stage.TRAINING)
    if stage.productive:
        return []
    first = min(view_model.phases[stage], key=lambda phase: phase.since or view_model.view.time)
    return [(97, run.phase(first, context, utc=view_model.utc))]


def _job(
    view_model: ViewModel, job: JobFigures, width: int, context: RenderContext
) -> list[tuple[int, list[Part]]]:
    palette, limits = context.palette, view_model.limits
    limit, size = limits.comm_share, 0 if width < 110 else 1 if width < 160 else 2

    def spark(quantity: str) -> list[Part]:
        values = _series(view_model, job.job, quantity, (8, 14, 24)[size])
        if np.isnan(values).all():
            return []
        return [(" ", palette.text), (sparkline(values), palette.graph)]

    def share(quantity: str, most: float) -> list[Part]:
        value = job.value(quantity)
        style = palette.warning if value is not None and value > most else None
        return context.number(units.percent(value), quantity, style=style)

    comm, comm_share = share(COMM, limit), job.value(COMM)
    if comm_share is not None:
        comm += [(" ", palette.text), *comm_bar(comm_share, limit, (8, 16, 24)[size], context)]
    elif estimated := _estimated(view_model):
        comm = [(estimated, palette.text)]
    if size and comm[0][0] != units.ABSENT:
        comm.append((f" limit {units.percent(limit)}", palette.faint))
    quantity = job.step_quantity
    seconds = job.value(quantity)
    step = context.number(units.seconds(seconds), quantity)
    if seconds is None:
        step.insert(0, ("step time ", palette.muted))
    tokens = [*_tokens(job, context), *(spark(TOKENS) if size > 1 else [])]
    return [
        (
            60,
            [
                ("step ", palette.muted),
                *context.number(units.count(job.value("job_step")), "job_step"),
            ],
        ),
        (90, [*step, *spark(quantity)]),
        (50, tokens),
        (95, [("comm ", palette.muted), *comm]),
        (70, [("exposed ", palette.muted), *share(EXPOSED, limits.exposed_comm_share)]),
        *run.progress(job.value, context),
    ]


def _tokens(job: JobFigures, context: RenderContext) -> list[Part]:
    """Of the whole job, else of one device."""
    if (rate := job.value(TOKENS)) is not None:
        return context.number(f"{units.si(rate)} tok/s", TOKENS)
    per_device = "job_tokens_per_second_per_device"
    if (rate := job.value(per_device)) is not None:
        return context.number(f"{units.count(rate)} tok/s per device", per_device)
    return [("tok/s ", context.palette.muted), *context.number(units.ABSENT)]


def _series(view_model: ViewModel, job: str, quantity: str, cells: int) -> Values:
    count = int(cells * SPARK_SECONDS) + 1
    times, values = view_model.history.scalar(f"{job}/{quantity}", count)
    return buckets(times, values, view_model.view.time, cells, SPARK_SECONDS)


_FLEET: Mapping[str, tuple[int, str, Callable[[float | None], str], Callable[[Values], Any]]] = {
    "utilization": (90, "node_neuroncore_utilization_mean_ratio", units.percent, np.mean),
    "TE": (85, "node_tensor_engine_busy_mean_ratio", units.percent, np.mean),
    "HBM": (60, "node_device_memory_used_max_ratio", units.percent, np.max),
    "HBM bw": (50, "node_hbm_bandwidth_ratio", units.percent, np.mean),
    "EFA tx": (70, "node_efa_tx_bytes_per_second", units.gigabits, np.sum),
}


def _fleet(view_model: ViewModel, context: RenderContext) -> list[tuple[int, list[Part]]]:
    """All nodes, if no job reports steps."""
    palette = context.palette
    groups: list[tuple[int, list[Part]]] = []
    for label, (rank, quantity, form, reduce) in _FLEET.items():
        value = _over_nodes(view_model, quantity, reduce)
        number = context.number(form(value), quantity, origin=view_model.cluster)
        groups.append((rank, [(f"{label} ", palette.muted), *number]))
    if estimated := _estimated(view_model):
        groups.append((80, [("comm ", palette.muted), (estimated, palette.text)]))
    groups.append((10, [("no job reports steps", palette.faint)]))
    return groups


def _estimated(view_model: ViewModel) -> str:
    """The bounds of the communication share, means over the nodes; empty if unknown."""
    floor, ceiling = (_over_nodes(view_model, bound, np.mean) for bound in (run.FLOOR, run.CEILING))
    share = units.share_bounds(floor, ceiling)
    return "" if share == units.ABSENT else f"{share} %"


def _over_nodes(
    view_model: ViewModel, quantity: str, reduce: Callable[[Values], Any]
) -> float | None:
    whole = view_model.cluster.whole
    if whole is not None and whole.chosen:
        return whole.values.get(quantity)
    return view_model.cluster.over_nodes(quantity, reduce)
