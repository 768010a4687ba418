"""Snapshots and incidents as plain text."""

import time
from collections.abc import Iterable, Sequence

import numpy as np

from trntop.analysis.rulebook import NEXT_STEPS
from trntop.analysis.runbook import kind_name
from trntop.catalog import Provenance
from trntop.core import units
from trntop.core.model import (
    Cluster,
    Frame,
    Incident,
    NodeView,
    Severity,
    State,
    View,
)
from trntop.pipeline.jobs import job_mean, newest_step

from . import parts
from .grid import GAP, Column, Format, fit, lines, mark, part, plural, value, wrapped
from .silence import down_sources

MIN_WIDTH = 40
LEGEND = "r reported, d derived, ~ estimated, no mark measured; – unknown"
UTILIZATION = "node_neuroncore_utilization_mean_ratio"
TENSOR_ENGINE = "node_tensor_engine_busy_mean_ratio"
BANDWIDTH = "node_hbm_bandwidth_ratio"
TRANSMIT = "node_efa_tx_bytes_per_second"
COMM = "job_comm_share_ratio"
EXPOSED = "job_exposed_comm_share_ratio"
TOKENS_PER_DEVICE = "job_tokens_per_second_per_device"
STEP = "job_step_seconds"
INTERVAL = "job_step_pace_seconds"

_GLYPHS = {Severity.CRITICAL: "●", Severity.WARNING: "▲", Severity.INFO: "◦"}
_EXPLAINED = (
    ("TE", TENSOR_ENGINE),
    ("HBM bw", BANDWIDTH),
    ("comm", COMM),
)
"""Quantities whose absence is explained."""


def snapshot_text(view: View, width: int, *, utc: bool = False) -> str:
    """One view: a headline, open incidents and a row per node; a single node also with its parts.

    Args:
        view: the view.
        width: cells per line; 80 or more show every important column.
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
                for line in _incident_lines(incident, width, utc, evidence=False)
            ]
        )
    if nodes:
        blocks.append(lines(_fleet(view), width))
    if view.cluster.jobs:
        blocks.append(lines(_jobs(view.cluster), width))
    if len(nodes) == 1:
        blocks += parts.blocks(nodes[0], width, utc=utc)
    elif down := _down(nodes, width):
        blocks.append(down)
    for node in nodes:
        if node.state is State.NO_DATA:
            why = f"{node.name}: no data, incidents not evaluated: {node.why_no_data}"
            blocks.append(wrapped(why, width, ""))
    if unknown := _unknown(nodes, width):
        blocks.append(unknown)
    if nodes:
        blocks.append([fit(LEGEND, width)])
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks) + "\n"


def span_text(first: View, last: View, seconds: float) -> str:
    """The scope of a report: nodes, start and end, and the length of the data."""
    start = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(first.time))
    end = time.strftime("%H:%M:%S UTC", time.gmtime(last.time))
    mark = "SIMULATED  " if last.cluster.simulated else ""
    nodes = plural(len(last.cluster.nodes), "node")
    return f"{mark}{nodes}, {start} to {end} ({units.span(seconds)})\n"


def incidents_text(incidents: Iterable[Incident], width: int, *, utc: bool = False) -> str:
    """Each incident with its evidence, in the given order, and a line with counts."""
    width = max(width, MIN_WIDTH)
    found = list(incidents)
    rows = [
        line for incident in found for line in _incident_lines(incident, width, utc, evidence=True)
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
        parts.append("no data yet")
    return GAP.join(parts)


# Incidents


def _incident_lines(incident: Incident, width: int, utc: bool, *, evidence: bool) -> list[str]:
    word = f"{_GLYPHS[incident.severity]} {incident.severity.value:<8}"
    lasted = ""
    if incident.closed_at is not None:
        lasted = f" for {units.span(incident.closed_at - incident.opened_at)}"
    head = f"{units.clock(incident.opened_at, utc=utc)}  {word}  {kind_name(incident.kind)}{lasted}"
    if evidence:
        head = ", ".join((head, *incident.detection))
    where = " ".join(
        part for part in (incident.node, incident.component, incident.job) if part is not None
    )
    rows = [fit(f"{head}  {where}", width)]
    rows += wrapped(incident.summary, width, " " * 10)
    if evidence:
        for piece in incident.evidence:
            rows += wrapped(piece.located, width, " " * 12, "- ")
        if step := NEXT_STEPS.get(incident.kind):
            rows += wrapped(f"Next step: {step}", width, " " * 10)
            rows.append(f"{'':10}Runbook: trntop rules {incident.kind}")
    return rows


def _counts(incidents: Sequence[Incident]) -> str:
    if not incidents:
        return "no incidents"
    by_severity = ", ".join(
        f"{count} {severity.value}"
        for severity in reversed(Severity)
        if (count := sum(incident.severity is severity for incident in incidents))
    )
    count = sum(incident.open for incident in incidents)
    return f"{plural(len(incidents), 'incident')}: {by_severity}; {count} open"


# The fleet


def _fleet(view: View) -> list[Column]:
    """One row per node."""
    nodes = list(view.cluster.nodes.values())
    frames = [node.frame for node in nodes]
    jobs = [(frame, _worst_job(frame)) for frame in frames]
    troubled = [incident.node for incident in view.open_incidents]
    counts = [troubled.count(node.name) for node in nodes]

    def numbers(quantity: str, form: Format) -> list[str]:
        return [value(quantity, frame.value(quantity), form) for frame in frames]

    return [
        Column("node", left=True, cells=[node.name for node in nodes]),
        Column("state", left=True, cells=[_state(node) for node in nodes]),
        Column("phase", left=True, rank=5, cells=[_phase(frame) for frame in frames]),
        Column("util", "% ", cells=numbers(UTILIZATION, units.percent)),
        Column("TE", "% ", cells=numbers(TENSOR_ENGINE, units.percent)),
        Column("HBM", "max % ", cells=numbers("node_device_memory_used_max_ratio", units.percent)),
        Column("HBM bw", "% ", rank=1, cells=[_bandwidth(node) for node in nodes]),
        Column("busy", "cores ", rank=9, cells=[_busy(frame) for frame in frames]),
        Column("EFA out", "Gb/s ", rank=2, cells=numbers(TRANSMIT, units.gigabits)),
        Column("comm", "% of step ", rank=3, cells=[_comm(*job) for job in jobs]),
        Column("exposed", "% of step ", rank=8, cells=[_exposed(*job) for job in jobs]),
        Column("step", "s ", rank=4, cells=[_step(*job) for job in jobs]),
        Column("incidents", rank=6, cells=[str(count or "") for count in counts]),
    ]


def _phase(frame: Frame) -> str:
    return units.ABSENT if frame.phase is None else str(frame.phase.stage)


def _bandwidth(node: NodeView) -> str:
    """The share of the peak HBM bandwidth, else the estimated floor."""
    if node.frame.value(BANDWIDTH) is None:
        return f"{_floor(node.frame)} "
    return part(node.frame, BANDWIDTH, 0, units.percent, node.inventory)


def _floor(frame: Frame) -> str:
    return units.share_bounds(frame.value("node_hbm_bandwidth_floor_ratio"), None)


def _exposed(frame: Frame, job: int) -> str:
    return part(frame, EXPOSED, job, units.percent)


def _comm(frame: Frame, job: int) -> str:
    """The reported share, else the estimated range."""
    if frame.at(COMM, job) is None:
        return f"{units.share_bounds(*frame.comm_bounds)} "
    return part(frame, COMM, job, units.percent)


def _step(frame: Frame, job: int) -> str:
    """The step time that the job reports, else the interval of its log lines."""
    quantity = STEP if frame.at(STEP, job) is not None else INTERVAL
    return part(frame, quantity, job, units.plain_seconds)


def _state(node: NodeView) -> str:
    age = node.age()
    if node.state in (State.FRESH, State.ENDED, State.NO_DATA) or age is None:
        return str(node.state)
    return f"{node.state} {units.age(age)}"


def _busy(frame: Frame) -> str:
    busy = frame.value("node_neuroncores_busy")
    total = frame.value("node_neuroncores")
    if busy is None:
        return f"{units.ABSENT} "
    of_total = f"/{total:.0f}" if total is not None else ""
    return f"{busy:.0f}{of_total}{mark('node_neuroncores_busy')}"


def _worst_job(frame: Frame) -> int:
    """Index of the node's job that spends the largest share of its step in communication."""
    shares = frame.columns.get(COMM)
    if shares is None or np.isnan(shares).all():
        return 0
    return int(np.nanargmax(shares))


# The jobs


def _jobs(cluster: Cluster) -> list[Column]:
    """One row per job: the newest step, and means over the nodes that report the job.

    A column that no job reports is omitted.
    """
    jobs = list(cluster.jobs)

    def means(quantity: str, form: Format) -> list[str]:
        return [value(quantity, job_mean(cluster, job, quantity), form) for job in jobs]

    steps = [value("job_step", newest_step(cluster, job), units.count) for job in jobs]
    columns = [
        Column("job", left=True, cells=jobs),
        Column("step", cells=steps),
        Column("time", "s ", cells=[_mean_step(cluster, job) for job in jobs]),
        Column("tokens", "1/s ", cells=means("job_tokens_per_second", units.count)),
        Column("per device", "1/s ", rank=3, cells=means(TOKENS_PER_DEVICE, units.count)),
        Column("loss", rank=1, cells=means("job_loss", units.loss)),
        Column("MFU", "% ", rank=2, cells=means("job_mfu_ratio", units.percent)),
        Column("comm", "% ", cells=means(COMM, units.percent)),
        Column("exposed", "% ", cells=means(EXPOSED, units.percent)),
    ]
    return [column for column in columns if column.rank == 0 or any(map(_known, column.cells))]


def _mean_step(cluster: Cluster, job: str) -> str:
    quantity = STEP if job_mean(cluster, job, STEP) is not None else INTERVAL
    return value(quantity, job_mean(cluster, job, quantity), units.plain_seconds)


def _known(cell: str) -> bool:
    return cell.strip() != units.ABSENT


# Unknown values


def _unknown(nodes: Sequence[NodeView], width: int) -> list[str]:
    """Why columns have dashes or estimates: one line per quantity and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        frame = node.frame
        for label, quantity in _EXPLAINED:
            if quantity not in frame.columns:
                bounds = {"comm": units.share_bounds(*frame.comm_bounds), "HBM bw": _floor(frame)}
                estimated = bounds.get(label, units.ABSENT) != units.ABSENT
                symbol = units.mark(Provenance.ESTIMATED) if estimated else units.ABSENT
                why = frame.why_absent(quantity)
                found.setdefault((f"{symbol} {label}", why), []).append(node.name)
    return [
        line
        for (label, why), names in found.items()
        for line in wrapped(f"{label}: {why}{_of_nodes(names, len(nodes))}", width, "")
    ]


def _of_nodes(names: Sequence[str], total: int) -> str:
    if len(names) == total:
        return ""
    return f" ({names[0] if len(names) == 1 else plural(len(names), 'node')})"


def _down(nodes: Sequence[NodeView], width: int) -> list[str]:
    """The sources that are down, with the reasons."""
    return [
        line
        for (source, why), names in down_sources(nodes).items()
        for line in wrapped(f"{source} {why}{_of_nodes(names, len(nodes))}", width, "")
    ]
