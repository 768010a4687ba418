"""The other parts of the node screen: identity, processes, sources, incidents."""

from collections.abc import Callable
from functools import partial

from rich.segment import Segment
from textual.strip import Strip

from trntop.catalog import EXECUTION_ERRORS, EXECUTION_STATUSES, HBM_QUANTITIES, Entity
from trntop.core import units
from trntop.core.model import NodeView, Process, Runtime, State
from trntop.pipeline.jobs import holders

from ..measures import BANDWIDTH, COMM, TENSOR_ENGINE, UTILIZATION, job_worst
from ..view_model import ViewModel
from . import glyphs, incidents, run
from .context import RenderContext, bare
from .fleet import state_parts
from .line import Part, fit, flow, length, line, wrapped

Paint = Callable[[ViewModel, NodeView, int, RenderContext], list[Strip]]


def identity(
    view_model: ViewModel, node: NodeView, width: int, context: RenderContext
) -> list[Strip]:
    """Name, type, allocation, location, versions, state; below, the phase.

    Then its worst incident, unless it is in the alert line.
    """
    palette, facts = context.palette, node.inventory.facts
    names = view_model.cluster.names
    wrong = view_model.by_node.get(node.name, ())
    groups: list[tuple[int, list[Part]]] = [(100, [(f" {node.name}", palette.strong)])]
    if wrong:
        sign, style = (
            glyphs.SEVERITIES[wrong[0].severity],
            palette.severity(wrong[0].severity),
        )
        groups = [(100, [(f" {sign} {node.name}", style)])]
    devices = len(node.inventory.of(Entity.DEVICE))
    if node.inventory.instance_type:
        groups.append((80, [(node.inventory.instance_type, palette.text)]))
    if devices:
        chips = f"{devices} device{'s' * (devices > 1)}"
        groups.append((60, [(f"{chips}{_cores(node)}", palette.muted)]))
    if given := holders(node.inventory):
        groups.append((50, [(f"allocated to {given}", palette.muted)]))
    for rank, key in ((30, "availability_zone"), (40, "instance_id"), (20, "ultraserver_id")):
        if value := facts.get(key):
            groups.append((rank, [(value, palette.muted)]))
    if driver := facts.get("neuron_driver"):
        groups.append((10, [(f"driver {driver}", palette.faint)]))
    right: list[tuple[int, list[Part]]] = [
        (90, state_parts(node, context)),
        (50, [(f"{names.index(node.name) + 1}/{len(names)} ", palette.faint)]),
    ]
    gap = ("  ", palette.faint)
    lines = [
        flow(groups, width, gap, right=right),
        flow(_activity(view_model, node, context), width, gap),
    ]
    if wrong and wrong[0] is not view_model.incidents[0]:
        (brief,) = incidents.brief(view_model, wrong[0], width - 1, context)
        lines.append(Strip.join([Strip([Segment(" ", palette.text)]), brief]))
    return lines


def _cores(node: NodeView) -> str:
    """The number of logical cores; of physical ones if the logical ones are unknown."""
    logical, physical = (len(node.inventory.of(of)) for of in (Entity.CORE, Entity.PHYSICAL_CORE))
    if logical:
        lnc = node.inventory.lnc
        return f" · {logical} cores" + (f" (LNC={lnc})" if lnc > 1 else "")
    return f" · {physical} physical cores" if physical else ""


def _activity(
    view_model: ViewModel, node: NodeView, context: RenderContext
) -> list[tuple[int, list[Part]]]:
    """The phase, and the shares of work and of waiting."""
    palette, frame = context.palette, node.frame
    phase = [(f"phase {units.ABSENT}", palette.faint)]
    if frame.phase is not None:
        phase = run.phase(frame.phase, context, utc=view_model.utc)
    groups: list[tuple[int, list[Part]]] = [(100, [(" ", palette.text), *phase])]
    for rank, label, quantity in (
        (70, "util", UTILIZATION),
        (80, "TE", TENSOR_ENGINE),
        (60, "HBM bw", BANDWIDTH),
    ):
        text = units.percent(frame.value(quantity))
        number = context.number(text, quantity, origin=node.inventory)
        groups.append((rank, [(f"{label} ", palette.muted), *number]))
    share = job_worst(node, COMM)
    comm = context.number(units.percent(share), COMM)
    if share is None and (bounds := run.comm_bounds(frame)) != units.ABSENT:
        comm = [(f"{bounds} %", palette.text)]
    groups.append((90, [("comm ", palette.muted), *comm]))
    return [*groups, *run.progress(partial(job_worst, node), context)]


def processes(
    _view_model: ViewModel, node: NodeView, width: int, context: RenderContext
) -> list[Strip]:
    """Every process that runs on the devices or has one open: a line of values, one of facts."""
    palette, frame, inventory = context.palette, node.frame, node.inventory
    runtimes = {runtime.pid: runtime for runtime in inventory.runtimes}
    holders = {process.pid: process for process in inventory.processes}
    if not runtimes and not holders:
        why = frame.why_absent("runtime_loaded_models")
        return wrapped(f"no Neuron process known: {why}", width, palette.muted)
    places = {pid: place for place, pid in enumerate(inventory.of(Entity.RUNTIME))}
    wide = width >= 92
    names = {pid: _name(holders.get(pid), runtimes.get(pid)) for pid in runtimes | holders}
    name = min(24 if wide else 16, max(7, *map(len, names.values())))
    title = f"{'pid':>8}  {'process':<{name}}{'exec/s':>8} {'p50':>9} {'p99':>9} {'errors/s':>9}"
    if wide:
        title += f" {'HBM':>10} {'host':>10}"
    lines = [line([(title, palette.muted)], width)]
    for pid in sorted(names):
        place = places.get(pid, len(places))
        parts: list[Part] = [(f"{pid:>8}  ", palette.text), (fit(names[pid], name), palette.muted)]
        done = frame.at("runtime_executions_completed_per_second", place)
        parts += context.number(_rate(done), "", 8)
        for percentile in ("p50", "p99"):
            value = frame.at(f"runtime_total_latency_{percentile}_seconds", place)
            parts += context.number(units.seconds(value), "", 10)
        worst = max((v for error in _ERRORS if (v := frame.at(error, place)) is not None),
                    default=None)  # fmt: skip
        number = context.number(_rate(worst), "", 10)
        parts += [(number[0][0], palette.critical)] if worst else number
        if wide:
            for memory in ("device", "host"):
                value = frame.at(f"runtime_{memory}_memory_used_bytes", place)
                parts += context.number(units.bytes_iec(value), "", 11)
        lines.append(line(parts, width))
        lines += _facts(runtimes.get(pid), holders.get(pid), width, context)
    return lines


_ERRORS = (
    *(f"runtime_executions_{status}_per_second" for status in EXECUTION_STATUSES[1:]),
    *(f"runtime_errors_{error}_per_second" for error in EXECUTION_ERRORS),
)


def _name(holder: Process | None, runtime: Runtime | None) -> str:
    return (holder.command if holder else "") or (runtime.name if runtime else "") or "-"


def _facts(
    runtime: Runtime | None, holder: Process | None, width: int, context: RenderContext
) -> list[Strip]:
    """The devices and programs of a process, running programs first."""
    palette = context.palette
    facts = []
    if runtime is not None and runtime.neffs:
        neffs = sorted(runtime.neffs, key=lambda neff: not neff.running)
        facts.append(", ".join(f"{neff.name}{' running' * neff.running}" for neff in neffs))
    if holder is not None and holder.devices:
        facts.append(f"devices {units.ranges(holder.devices)}")
    if runtime is not None and runtime.cores:
        facts.append(f"cores {units.ranges(runtime.cores)}")
    if holder is not None and holder.runtime_version:
        facts.append(f"runtime {holder.runtime_version}")
    lines = []
    indent = " " * 10
    if facts:
        text = fit(" · ".join(facts), max(0, width - len(indent)))
        lines.append(line([(indent, palette.faint), (text, palette.faint)], width))
    if runtime is not None and runtime.error:
        lines += wrapped(runtime.error, width, palette.warning, [(indent, palette.faint)])
    return lines


def _rate(value: float | None) -> str:
    if value is None:
        return units.ABSENT
    return bare(units.si(value)) if value < 1000 else units.si(value)


def sources(
    _view_model: ViewModel, node: NodeView, width: int, context: RenderContext
) -> list[Strip]:
    """A line per source: state, age, interval, and its problems."""
    palette, now = context.palette, node.frame.time
    if not node.frame.sources:
        return [line([("no data from any source yet", palette.muted)], width)]
    lines = []
    for source in node.frame.sources:
        calm = source.state in (State.FRESH, State.ENDED)
        word = f"{glyphs.STATES[source.state]} {source.state.value}"
        period = f"every {round(source.period, 1):g} s" if source.period else ""
        trouble = [
            f"{count:,} {what.replace('_', ' ')}"
            for what, count in source.counts.items()
            if count and what not in ("readings", "starts", "reports")
        ]
        note = " · ".join(part for part in (source.reason, *trouble) if part)
        parts: list[Part] = [
            (fit(source.name, 15), palette.text),
            (fit(word, 11), palette.state(source.state)),
            (fit(units.age(source.age(now)), 6, "right"), palette.muted),
            (f"  {fit(period, 13)}", palette.faint),
        ]
        style = palette.muted if calm else palette.text
        if length(parts) + len(note) <= width:
            lines.append(line([*parts, (note, style)], width))
        else:
            lines += [line(parts, width), *wrapped(note, width, style, [("  ", style)])]
    return lines + _unknown(node, width, context)


def _unknown(node: NodeView, width: int, context: RenderContext) -> list[Strip]:
    """Why single quantities have no value, as their source reports it."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in node.frame.reasons.items():
        name = "HBM bandwidth" if name in HBM_QUANTITIES else name
        if name not in (names := by_reason.setdefault(reason, [])):
            names.append(name)
    lead: list[Part] = [(f"{units.ABSENT} ", context.palette.faint)]
    return [
        row
        for reason, names in by_reason.items()
        for row in wrapped(f"{', '.join(names)}: {reason}", width, context.palette.muted, lead)
    ]


def found(view_model: ViewModel, node: NodeView, width: int, context: RenderContext) -> list[Strip]:
    """The incidents of the node and of its jobs, open ones first."""
    jobs, palette = node.inventory.of(Entity.JOB), context.palette
    related = [
        incident
        for incident in view_model.view.incidents
        if incident.node == node.name or (incident.node is None and incident.job in jobs)
    ]
    if not related and node.state is State.NO_DATA:
        return wrapped(f"{units.ABSENT} not evaluated: {node.why_no_data}", width, palette.muted)
    if not related:
        return [line([(f"{glyphs.CALM} ", palette.ok), ("none", palette.muted)], width)]
    return [
        row
        for incident in related[:8]
        for row in incidents.brief(view_model, incident, width, context)
    ]
