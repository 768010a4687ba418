"""Snapshots and incidents as text, for people and pipes without a screen."""

import time
from collections.abc import Iterable, Sequence

import numpy as np

from trntop import units
from trntop.catalog import Provenance
from trntop.model import (
    Evidence,
    Frame,
    Incident,
    NodeView,
    Severity,
    SourceState,
    State,
    View,
)

from . import parts
from .grid import GAP, Column, Format, fill, fit, lines, mark, part, plural, value, wrapped

MIN_WIDTH = 40
LEGEND = "r reported, d derived, ~ estimated, no mark measured; – not known"
MAX_SILENT = 8
"""Sources that are listed as silent; the others are counted."""

_COLOURS = {Severity.CRITICAL: "31", Severity.WARNING: "33", Severity.INFO: "36"}
_GLYPHS = {Severity.CRITICAL: "▲", Severity.WARNING: "△", Severity.INFO: "·"}
_EXPLAINED = (
    (
        "TE",
        "node_tensor_engine_busy_mean_ratio",
        "physical_core_tensor_engine_matmul_cycles_total",
    ),
    ("HBM bw", "node_hbm_bandwidth_ratio", "node_hbm_bandwidth_ratio"),
    ("comm", "job_comm_share_ratio", "job_comm_seconds"),
)
"""What is explained where it is absent, and the quantity whose source would give it."""


def snapshot_text(view: View, width: int, color: bool = False, *, utc: bool = False) -> str:
    """One view: a headline, open incidents, a row per node; for one node its parts as well.

    Args:
        view: what to show.
        width: cells of a line; from 80 on everything that matters has its place.
        color: whether severities are coloured with ANSI sequences.
        utc: times of day in UTC instead of local time.
    """
    width = max(width, MIN_WIDTH)
    nodes = list(view.cluster.nodes.values())
    blocks = [[fit(_headline(view, utc), width)]]
    if view.open_incidents:
        blocks.append(
            [
                line
                for incident in view.open_incidents
                for line in _incident_lines(incident, width, color, utc, evidence=False)
            ]
        )
    if nodes:
        blocks.append(lines(_fleet(view), width))
    if len(nodes) == 1:
        blocks += parts.blocks(nodes[0], width, utc=utc)
    elif silent := _silent(nodes, width):
        blocks.append(silent)
    if unknown := _unknown(nodes, width):
        blocks.append(unknown)
    if nodes:
        blocks.append([fit(LEGEND, width)])
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks) + "\n"


def span_text(first: View, last: View, seconds: float) -> str:
    """What a report is about: nodes, from when to when in local time, and how much of it."""
    start = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(first.time))
    end = time.strftime("%H:%M:%S %Z", time.localtime(last.time))
    mark = "SIMULATED  " if last.cluster.simulated else ""
    nodes = plural(len(last.cluster.nodes), "node")
    return f"{mark}{nodes}, {start} to {end} ({units.age(seconds)})\n"


def incidents_text(
    incidents: Iterable[Incident], width: int, color: bool = False, *, utc: bool = False
) -> str:
    """A report: each incident with its evidence, in the order given, and a line of counts."""
    width = max(width, MIN_WIDTH)
    found = list(incidents)
    rows = [
        line
        for incident in found
        for line in _incident_lines(incident, width, color, utc, evidence=True)
    ]
    rows.append(_counts(found))
    return "\n".join(row.rstrip() for row in rows) + "\n"


def _headline(view: View, utc: bool) -> str:
    jobs = view.cluster.jobs
    parts = ["trntop"]
    if view.cluster.simulated:
        parts.append("SIMULATED")
    parts.append(units.clock(view.time, utc=utc) + (" UTC" if utc else ""))
    parts.append(plural(len(view.cluster.nodes), "node"))
    if jobs:
        named = ", ".join(list(jobs)[:3]) + (", …" if len(jobs) > 3 else "")
        parts.append(f"{plural(len(jobs), 'job')} ({named})")
    if view.ended:
        parts.append("recording ended")
    if not view.cluster.nodes:
        parts.append("nothing has been heard yet")
    return GAP.join(parts)


# Incidents


def _incident_lines(
    incident: Incident, width: int, color: bool, utc: bool, *, evidence: bool
) -> list[str]:
    word = f"{_GLYPHS[incident.severity]} {incident.severity.value:<8}"
    lasted = ""
    if incident.closed_at is not None:
        lasted = f" for {units.age(incident.closed_at - incident.opened_at)}"
    head = f"{units.clock(incident.opened_at, utc=utc)}  {word}  {incident.kind}{lasted}"
    where = " ".join(
        part for part in (incident.node, incident.component, incident.job) if part is not None
    )
    rows = [fit(f"{head}  {where}", width)]
    if color:
        tinted = f"\x1b[{_COLOURS[incident.severity]}m{word}\x1b[0m"
        rows = [rows[0].replace(word, tinted, 1)]
    rows += wrapped(incident.summary, width, " " * 10)
    if evidence:
        for one in incident.evidence:
            rows += wrapped(_evidence(one), width, " " * 12, "- ")
    return rows


def _evidence(evidence: Evidence) -> str:
    if evidence.node and evidence.node not in evidence.text:
        return f"{evidence.node}: {evidence.text}"
    return evidence.text


def _counts(incidents: Sequence[Incident]) -> str:
    if not incidents:
        return "no incidents"
    by_severity = ", ".join(
        f"{count} {severity.value}"
        for severity in reversed(Severity)
        if (count := sum(one.severity is severity for one in incidents))
    )
    lasting = sum(one.open for one in incidents)
    return f"{plural(len(incidents), 'incident')}: {by_severity}; {lasting} still open"


# The fleet


def _fleet(view: View) -> list[Column]:
    """One row per node."""
    columns = [
        Column("node", left=True),
        Column("state", left=True),
        Column("phase", left=True, rank=5),
        Column("util", "% "),
        Column("TE", "% "),
        Column("HBM", "max % "),
        Column("HBM bw", "% ", rank=1),
        Column("busy", "cores ", rank=9),
        Column("EFA out", "Gb/s ", rank=2),
        Column("comm", "% of step ", rank=3),
        Column("exposed", "% of step ", rank=8),
        Column("step", "s ", rank=4),
        Column("incidents", rank=6),
    ]
    troubled = [incident.node for incident in view.open_incidents]
    for node in view.cluster.nodes.values():
        frame = node.frame
        job = _worst_job(frame)
        count = troubled.count(node.name)
        fill(
            columns,
            (
                node.name,
                _state(node),
                str(frame.phase.stage) if frame.phase is not None else units.ABSENT,
                _node_value(frame, "node_neuroncore_utilization_mean_ratio", units.percent),
                _node_value(frame, "node_tensor_engine_busy_mean_ratio", units.percent),
                _node_value(frame, "node_device_memory_used_max_ratio", units.percent),
                _node_value(frame, "node_hbm_bandwidth_ratio", units.percent),
                _busy(frame),
                _node_value(frame, "node_efa_tx_bytes_per_second", units.gigabits),
                _comm(frame, job),
                part(frame, "job_exposed_comm_share_ratio", job, units.percent),
                part(frame, "job_step_seconds", job, units.plain_seconds),
                str(count) if count else "",
            ),
        )
    return columns


def _comm(frame: Frame, job: int) -> str:
    """The reported share, else the estimated range."""
    if frame.at("job_comm_share_ratio", job) is None:
        bounds = units.share_bounds(*frame.comm_bounds)
        return bounds if bounds.endswith(units.mark(Provenance.ESTIMATED)) else f"{bounds} "
    return part(frame, "job_comm_share_ratio", job, units.percent)


def _state(node: NodeView) -> str:
    age = node.age()
    if node.state in (State.FRESH, State.ENDED) or age is None:
        return str(node.state)
    return f"{node.state} {units.age(age)}"


def _node_value(frame: Frame, quantity: str, form: Format) -> str:
    return value(quantity, frame.value(quantity), form)


def _busy(frame: Frame) -> str:
    busy = frame.value("node_neuroncores_busy")
    total = frame.value("node_neuroncores")
    if busy is None:
        return f"{units.ABSENT} "
    of = f"/{total:.0f}" if total is not None else ""
    return f"{busy:.0f}{of}{mark('node_neuroncores_busy')}"


def _worst_job(frame: Frame) -> int:
    """Index of the node's job that spends the largest share of its step in communication."""
    shares = frame.columns.get("job_comm_share_ratio")
    if shares is None or np.isnan(shares).all():
        return 0
    return int(np.nanargmax(shares))


# What is not known


def _unknown(nodes: Sequence[NodeView], width: int) -> list[str]:
    """Why columns have dashes or estimates: one line per quantity and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        frame = node.frame
        for label, quantity, source in _EXPLAINED:
            if quantity not in frame.columns:
                estimated = label == "comm" and frame.comm_bounds != (None, None)
                sign = units.mark(Provenance.ESTIMATED) if estimated else units.ABSENT
                why = frame.reasons.get(quantity) or frame.why_absent(source)
                found.setdefault((f"{sign} {label}", why), []).append(node.name)
    return [
        line
        for (label, why), names in found.items()
        for line in wrapped(f"{label}: {why}{_of_nodes(names, len(nodes))}", width, "")
    ]


def _of_nodes(names: Sequence[str], total: int) -> str:
    if len(names) == total:
        return ""
    return f" ({names[0] if len(names) == 1 else plural(len(names), 'node')})"


def _silent(nodes: Sequence[NodeView], width: int) -> list[str]:
    """The sources without fresh values, and why."""
    quiet: list[tuple[str, SourceState]] = [
        (node.name, source)
        for node in nodes
        for source in node.frame.sources
        if source.state not in (State.FRESH, State.ENDED)
    ]
    rows = [
        line
        for name, source in quiet[:MAX_SILENT]
        for line in wrapped(f"{name}  {source.name}: {source.reason or source.state}", width, "")
    ]
    if len(quiet) > MAX_SILENT:
        rows.append(f"and {plural(len(quiet) - MAX_SILENT, 'source')} more")
    return rows
