"""The other parts of a node's screen: who it is, what runs on it, what feeds it."""

from collections.abc import Callable

from textual.strip import Strip

from trntop import units
from trntop.catalog import EXECUTION_ERRORS, EXECUTION_STATUSES, Entity
from trntop.model import NodeView, State

from ..scene import Scene
from . import incidents
from .devices import at
from .fleet import state_parts
from .line import Part, fit, flow, length, line
from .pen import Pen, bare

Paint = Callable[[Scene, NodeView, int, Pen], list[Strip]]


def identity(scene: Scene, node: NodeView, width: int, pen: Pen) -> list[Strip]:
    """Name, type, place, versions; the state and the place in the fleet on the right."""
    ink, facts = pen.ink, node.inventory.facts
    names = scene.cluster.names
    groups: list[tuple[int, list[Part]]] = [(100, [(f" {node.name}", ink.strong)])]
    devices, cores = (len(node.inventory.of(of)) for of in (Entity.DEVICE, Entity.CORE))
    if node.inventory.instance_type:
        groups.append((80, [(node.inventory.instance_type, ink.text)]))
    if devices:
        lnc = f" (LNC={node.inventory.lnc})" if node.inventory.lnc > 1 else ""
        chips = f"{devices} device{'s' * (devices > 1)}"
        groups.append((60, [(f"{chips} · {cores} cores{lnc}", ink.muted)]))
    for rank, key in ((30, "availability_zone"), (40, "instance_id"), (20, "ultraserver_id")):
        if value := facts.get(key):
            groups.append((rank, [(value, ink.muted)]))
    right: list[tuple[int, list[Part]]] = [
        (90, state_parts(node, pen)),
        (50, [(f"{names.index(node.name) + 1}/{len(names)} ", ink.faint)]),
    ]
    return [flow(groups, width, ("  ", ink.faint), right=right)]


def runtimes(_scene: Scene, node: NodeView, width: int, pen: Pen) -> list[Strip]:
    """A header, then a line per Neuron process."""
    ink, frame = pen.ink, node.frame
    processes = node.inventory.runtimes
    if not processes:
        why = frame.why_absent("runtime_loaded_models")
        return [line([(f"no Neuron process known: {why}", ink.muted)], width)]
    tag = min(18, max(3, *(len(process.tag) for process in processes)))
    wide = width >= 92
    title = f"{'pid':>8}  {'tag':<{tag}}{'exec/s':>8} {'p50':>9} {'p99':>9} {'errors/s':>9}"
    if wide:
        title += f" {'HBM':>10} {'host':>10} {'NEFFs':>6}"
    lines = [line([(title, ink.muted)], width)]
    for index, process in enumerate(processes):
        done = at(frame, "runtime_executions_completed_per_second", index)
        errors = [
            value
            for name in (
                *(f"runtime_executions_{status}_per_second" for status in EXECUTION_STATUSES[1:]),
                *(f"runtime_errors_{error}_per_second" for error in EXECUTION_ERRORS),
            )
            if (value := at(frame, name, index)) is not None
        ]
        worst = max(errors, default=None)
        parts: list[Part] = [
            (f"{process.pid:>8}  ", ink.text),
            (fit(process.tag or "-", tag), ink.muted),
            *pen.number(_rate(done), "", 8),
        ]
        for percentile in ("p50", "p99"):
            value = at(frame, f"runtime_total_latency_{percentile}_seconds", index)
            parts += pen.number(units.seconds(value), "", 10)
        number = pen.number(_rate(worst), "", 10)
        if worst:
            number[0] = (number[0][0], ink.critical)
        parts += number
        if wide:
            for name in (
                "runtime_device_memory_used_bytes",
                "runtime_host_memory_used_bytes",
            ):
                parts += pen.number(units.bytes_iec(at(frame, name, index)), "", 11)
            models = at(frame, "runtime_loaded_models", index)
            parts += pen.number(units.count(models), "", 7)
        if process.error:
            parts.append((f"  {process.error}", ink.warning))
        lines.append(line(parts, width))
    return lines


def _rate(value: float | None) -> str:
    if value is None:
        return units.ABSENT
    return bare(units.si(value)) if value < 1000 else units.si(value)


def sources(_scene: Scene, node: NodeView, width: int, pen: Pen) -> list[Strip]:
    """A line per source: state, age, pace, and why it or a part of it does not speak."""
    ink, now = pen.ink, node.frame.time
    if not node.frame.sources:
        return [line([("no source has spoken yet", ink.muted)], width)]
    lines = []
    for source in node.frame.sources:
        calm = source.state in (State.FRESH, State.ENDED)
        word = f"{pen.glyphs.states[source.state]} {source.state.value}"
        period = f"every {units.seconds(source.period)}" if source.period else ""
        trouble = [
            f"{count:,} {what.replace('_', ' ')}"
            for what, count in source.counts.items()
            if count and what not in ("readings", "starts", "reports")
        ]
        note = " · ".join(part for part in (source.reason, *trouble) if part)
        parts: list[Part] = [
            (fit(source.name, 15), ink.text),
            (fit(word, 11), ink.state(source.state)),
            (fit(units.age(source.age(now)), 6, "right"), ink.muted),
            (f"  {fit(period, 14)}", ink.faint),
        ]
        style = ink.muted if calm else ink.text
        if length(parts) + len(note) <= width:
            lines.append(line([*parts, (note, style)], width))
        else:
            lines.append(line(parts, width))
            lines += [
                line([("  ", style), (part, style)], width)
                for part in incidents.wrap(note, width - 2)
            ]
    return lines + _unknown(node, width, pen)


def _unknown(node: NodeView, width: int, pen: Pen) -> list[Strip]:
    """Why single quantities have no value, where their source said so."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in node.frame.reasons.items():
        by_reason.setdefault(reason, []).append(name)
    return [
        line(
            [
                (f"{units.ABSENT} ", pen.ink.faint),
                (f"{reason}: ", pen.ink.text),
                (", ".join(names), pen.ink.muted),
            ],
            width,
        )
        for reason, names in by_reason.items()
    ]


def found(scene: Scene, node: NodeView, width: int, pen: Pen) -> list[Strip]:
    """The node's incidents, open ones first."""
    mine = [incident for incident in scene.view.incidents if incident.node == node.name]
    if not mine:
        return [line([(f"{pen.glyphs.calm} ", pen.ink.ok), ("none", pen.ink.muted)], width)]
    return [
        strip for incident in mine[:8] for strip in incidents.brief(scene, incident, width, pen)
    ]
