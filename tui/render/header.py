"""The two lines on top of every screen: what run is this, and is it well."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from textual.strip import Strip

from trntop.core import units
from trntop.core.model import Phase, Severity, Stage, State

from .. import timecode
from ..measures import PACE, STEP
from ..scene import JobFigures, Mode, Scene
from . import engine, run
from .graph import Values, bar, buckets, sparkline
from .line import Part, flow, short
from .pen import Pen

SPARK_SECONDS = 4.0
"""Stream time of one cell of a sparkline in the header."""
WIDE = 100
"""Cells from which on the program's name stands before the place."""
LONGEST_CRUMB = 24


@lru_cache(maxsize=1)
def identity(scene: Scene) -> str:
    """`16 × trn2.48xlarge`, or what is known of it."""
    if part := engine.shown(scene):
        return f"{part} nodes"
    types: dict[str, int] = {}
    for node in scene.cluster.nodes.values():
        types[node.inventory.instance_type] = types.get(node.inventory.instance_type, 0) + 1
    total = sum(types.values())
    if not total:
        return "no nodes yet"
    common = max(types, key=lambda name: types[name])
    if not common:
        return f"{total} node{'s' * (total > 1)}"
    return f"{total} × {common}" if len(types) == 1 else f"{total} nodes, {len(types)} types"


def _mode(scene: Scene, pen: Pen) -> list[Part]:
    glyphs, ink = pen.glyphs, pen.ink
    if scene.loaded is not None:
        return [
            (f"{glyphs.states[State.STARTING]} LOADING {units.percent(scene.loaded)}", ink.accent)
        ]
    clock = f" {units.clock(scene.view.time, utc=scene.utc)}"
    place = ("", ink.faint)
    if scene.span is not None:
        place = (f" {timecode.position(scene.view.time, scene.span)}", ink.muted)
    if scene.mode is Mode.LIVE:
        return [(f"{glyphs.live} LIVE", ink.ok), (clock, ink.text)]
    if scene.mode is Mode.PLAYING:
        speed = f" ×{scene.speed:g}"
        return [(f"{glyphs.live} PLAY{speed}", ink.accent), (clock, ink.text), place]
    if scene.mode is Mode.PAST:
        ago = f" {units.age(scene.behind)} ago"
        past = (f"{glyphs.paused} PAST", ink.aside)
        return [past, (clock, ink.strong), place if scene.span else (ago, ink.muted)]
    if scene.mode is Mode.PAUSED:
        return [(f"{glyphs.paused} PAUSED", ink.aside), (clock, ink.text), place]
    if scene.mode is Mode.ENDED:
        return [(f"{glyphs.ended} ENDED", ink.muted), (clock, ink.text), place]
    if scene.mode is Mode.FAILED:
        return [(f"{glyphs.states[State.DOWN]} STOPPED", ink.critical), (clock, ink.text)]
    return [(f"{glyphs.states[State.STARTING]} WAITING", ink.muted)]


def first_line(
    scene: Scene, width: int, pen: Pen, crumbs: Sequence[str] = ()
) -> list[tuple[int, list[Part]]]:
    """Groups from the left: place, job, nodes, and the states that are not well."""
    ink = pen.ink
    groups: list[tuple[int, list[Part]]] = [(100, _place(crumbs, width, pen))]
    job = scene.job
    if job is not None:
        others = len(scene.cluster.jobs) - 1
        more = f" +{others} job{'s' * (others > 1)}" if others else ""
        groups.append((80, [(short(job.job, max(12, width // 3)), ink.strong), (more, ink.muted)]))
    part = engine.shown(scene)
    groups.append((91 if part else 70, [(identity(scene), ink.muted)]))
    groups.extend(
        (87 if stage is Stage.STALLED else 75, parts) for stage, parts in _stages(scene, pen)
    )
    groups.extend(
        (85, [(f"{pen.glyphs.states[state]} {count} {state.value}", ink.state(state))])
        for state in (State.DOWN, State.NO_DATA, State.STALE, State.LATE)
        if (count := scene.states.get(state, 0))
    )
    if scene.starting and len(scene.cluster.nodes) > 1:
        heard = len(scene.cluster.nodes) - scene.starting
        sign = pen.glyphs.states[State.STARTING]
        text = f"{sign} connecting {heard:,} of {len(scene.cluster.nodes):,}"
        groups.append((86, [(text, ink.accent)]))
    groups.extend(engine.groups(scene, pen))
    if scene.baseline is not None:
        since = units.clock(scene.baseline.time, utc=scene.utc)
        groups.append((84, [("baseline ", ink.muted), (since, ink.aside)]))
    if scene.notes:
        sign = pen.glyphs.severities[Severity.WARNING]
        groups.append((88, [(f"{sign} damaged recording", ink.warning)]))
    if scene.description and width >= 100:
        groups.append((20, [(scene.description, ink.faint)]))
    return groups


def _place(crumbs: Sequence[str], width: int, pen: Pen) -> list[Part]:
    """Program and screen: `trntop ▸ cluster ▸ trn-007`; the program goes where space is short."""
    ink = pen.ink
    names = ["trntop", *crumbs] if width >= WIDE or not crumbs else list(crumbs)
    parts: list[Part] = []
    for name in names[:-1]:
        parts.append((f" {short(name, LONGEST_CRUMB)}", ink.muted))
        parts.append((f" {pen.glyphs.cursor}", ink.faint))
    return [*parts, (f" {short(names[-1], LONGEST_CRUMB)}", ink.key)]


def _stages(scene: Scene, pen: Pen) -> list[tuple[Stage, list[Part]]]:
    """`training 3 h`, or how many nodes are at what; what is no training has the second line."""
    ink = pen.ink
    if len(scene.phases) > 1:
        return [
            (stage, [(f"{len(phases)} {stage.value}", run.style_of(stage, ink))])
            for stage, phases in scene.phases.items()
        ]
    return [
        (stage, [(f"{stage.value}{_lasted(scene, phases)}", run.style_of(stage, ink))])
        for stage, phases in scene.phases.items()
        if stage is Stage.TRAINING
    ]


def _lasted(scene: Scene, phases: Sequence[Phase]) -> str:
    """For how long the first of them has been in it."""
    since = min((phase.since for phase in phases if phase.since is not None), default=None)
    return "" if since is None else f" {units.span(scene.view.time - since)}"


def draw(scene: Scene, width: int, pen: Pen, crumbs: Sequence[str] = ()) -> list[Strip]:
    """Both lines; `crumbs` say where the user is, from the outermost place inwards."""
    ink = pen.ink
    right: list[tuple[int, list[Part]]] = []
    if scene.every > 1:
        right.append((86, [(f"1 of {scene.every} ticks", ink.warning)]))
    if scene.cluster.simulated:
        right.append((99, [(" SIMULATED ", ink.badge)]))
    right.append((98, _mode(scene, pen)))
    right[-1][1].append((" ", ink.text))
    gap = ("  ", ink.faint)
    top = flow(first_line(scene, width, pen, crumbs), width, gap, right=right)
    job = scene.job
    groups = _instead(scene, pen)
    groups += _fleet(scene, pen) if job is None else _job(scene, job, width, pen)
    groups[0][1].insert(0, (" ", ink.text))
    return [top, flow(groups, width, ("   ", ink.faint))]


def _instead(scene: Scene, pen: Pen) -> list[tuple[int, list[Part]]]:
    """What most nodes are busy with, where that is no training, and what tells so."""
    stage = next(iter(scene.phases), Stage.TRAINING)
    if stage is Stage.TRAINING:
        return []
    first = min(scene.phases[stage], key=lambda one: one.since or scene.view.time)
    return [(97, run.phase(first, pen, utc=scene.utc))]


def _job(scene: Scene, job: JobFigures, width: int, pen: Pen) -> list[tuple[int, list[Part]]]:
    ink, glyphs = pen.ink, pen.glyphs
    limit = scene.limits.comm_share
    over = job.comm_share is not None and job.comm_share > limit
    hidden = job.exposed_share is not None and job.exposed_share > scene.limits.exposed_comm_share
    step = units.count(job.step)
    trail = 8 if width < 110 else 14 if width < 160 else 24

    def spark(quantity: str) -> list[Part]:
        values = _series(scene, job.job, quantity, trail)
        if np.isnan(values).all():
            return []
        return [(" ", ink.text), (sparkline(values, glyphs), ink.graph)]

    def number(text: str, quantity: str) -> list[Part]:
        return pen.number(text, quantity)

    comm = number(units.percent(job.comm_share), "job_comm_share_ratio")
    exposed = number(units.percent(job.exposed_share), "job_exposed_comm_share_ratio")
    if over:
        comm[0] = (comm[0][0], ink.warning)
    if hidden:
        exposed[0] = (exposed[0][0], ink.warning)
    if job.comm_share is not None:
        cells = 8 if width < 110 else 16 if width < 160 else 24
        comm += [(" ", ink.text), *_bar(job.comm_share, limit, cells, pen, over=over)]
    elif estimated := _estimated(scene):
        comm = [(estimated, ink.text)]
    if width >= 110 and comm[0][0] != units.ABSENT:
        comm.append((f" limit {units.percent(limit)}", ink.faint))
    return [
        (60, [("step ", ink.muted), *number(step, "job_step")]),
        (90, [*_step_time(job, pen), *spark(STEP if job.step_seconds is not None else PACE)]),
        (50, [*_tokens(job, pen), *(spark("job_tokens_per_second") if width >= 160 else [])]),
        (95, [("comm ", ink.muted), *comm]),
        (70, [("exposed ", ink.muted), *exposed]),
        *run.learning(job.loss, job.mfu, pen),
    ]


def _step_time(job: JobFigures, pen: Pen) -> list[Part]:
    """As the job states it, else by the pace of its log lines."""
    if job.step_seconds is not None:
        return pen.number(units.seconds(job.step_seconds), STEP)
    if job.step_pace_seconds is not None:
        return pen.number(units.seconds(job.step_pace_seconds), PACE)
    return [("step time ", pen.ink.muted), *pen.number(units.ABSENT)]


def _tokens(job: JobFigures, pen: Pen) -> list[Part]:
    """Of the whole job, else of one device."""
    if (rate := job.tokens_per_second) is not None:
        return pen.number(f"{units.si(rate)} tok/s", "job_tokens_per_second")
    if (rate := job.tokens_per_second_per_device) is not None:
        text = f"{units.count(rate)} tok/s per device"
        return pen.number(text, "job_tokens_per_second_per_device")
    return [("tok/s ", pen.ink.muted), *pen.number(units.ABSENT)]


def _bar(value: float, limit: float, cells: int, pen: Pen, *, over: bool) -> list[Part]:
    """The comm share up to twice its limit, so that the tick stands in the middle."""
    scale = min(1.0, 2 * limit) or 1.0
    style = pen.ink.warning if over else pen.ink.graph
    return bar(
        value / scale,
        cells,
        pen.glyphs,
        style,
        pen.ink.rule,
        limit=limit / scale,
        limit_style=pen.ink.strong,
    )


def _series(scene: Scene, job: str, quantity: str, cells: int) -> Values:
    count = int(cells * SPARK_SECONDS) + 1
    times, values = scene.history.scalar(f"{job}/{quantity}", count)
    return buckets(times, values, scene.view.time, cells, SPARK_SECONDS)


_FLEET: Mapping[str, tuple[int, str, Callable[[float | None], str], str]] = {
    "utilization": (90, "node_neuroncore_utilization_mean_ratio", units.percent, "mean"),
    "TE": (85, "node_tensor_engine_busy_mean_ratio", units.percent, "mean"),
    "HBM": (60, "node_device_memory_used_max_ratio", units.percent, "max"),
    "HBM bw": (50, "node_hbm_bandwidth_ratio", units.percent, "mean"),
    "EFA tx": (70, "node_efa_tx_bytes_per_second", units.gigabits, "sum"),
}


def _fleet(scene: Scene, pen: Pen) -> list[tuple[int, list[Part]]]:
    """The nodes as one, where no job reports steps."""
    ink = pen.ink
    groups: list[tuple[int, list[Part]]] = []
    for label, (rank, quantity, form, how) in _FLEET.items():
        value = _over_nodes(scene, quantity, how)
        groups.append((rank, [(f"{label} ", ink.muted), *pen.number(form(value), quantity)]))
    if estimated := _estimated(scene):
        groups.append((80, [("comm ", ink.muted), (estimated, ink.text)]))
    groups.append((10, [("no job reports steps", ink.faint)]))
    return groups


def _estimated(scene: Scene) -> str:
    """The bounds of the communication share, means over the nodes; empty where none has any."""
    floor, ceiling = (_over_nodes(scene, bound, "mean") for bound in (run.FLOOR, run.CEILING))
    share = units.share_bounds(floor, ceiling)
    return "" if share == units.ABSENT else f"{share} %"


def _over_nodes(scene: Scene, quantity: str, how: str) -> float | None:
    whole = scene.cluster.whole
    if whole is not None and whole.chosen:
        return whole.values.get(quantity)
    column = scene.cluster.column(quantity)
    known = column[~np.isnan(column)]
    return float(getattr(np, how)(known)) if len(known) else None
