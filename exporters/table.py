"""Snapshots and incidents as text, for people and pipes without a screen."""

import textwrap
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trntop import units
from trntop.catalog import CATALOG, Entity
from trntop.model import (
    Evidence,
    Frame,
    Incident,
    Inventory,
    NodeView,
    Severity,
    SourceState,
    State,
    View,
)

MIN_WIDTH = 40
GAP = "  "
LEGEND = "r reported, d derived, ~ estimated, no mark measured; – not known"
MAX_SILENT = 8
"""Sources that are listed as silent; the others are counted."""

_COLOURS = {Severity.CRITICAL: "31", Severity.WARNING: "33", Severity.INFO: "36"}
_GLYPHS = {Severity.CRITICAL: "▲", Severity.WARNING: "△", Severity.INFO: "·"}

Format = Callable[[float | None], str]


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
    blocks = [[_fit(_headline(view, utc), width)]]
    if view.open_incidents:
        blocks.append(
            [
                line
                for incident in view.open_incidents
                for line in _incident_lines(incident, width, color, utc, evidence=False)
            ]
        )
    if nodes:
        blocks.append(_lines(_fleet(view), width))
    if len(nodes) == 1:
        blocks += _parts(nodes[0], width)
    if silent := _silent(nodes, width):
        blocks.append(silent)
    if nodes:
        blocks.append([_fit(LEGEND, width)])
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks) + "\n"


def span_text(first: View, last: View, seconds: float) -> str:
    """What a report is about: nodes, from when to when in local time, and how much of it."""
    start = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(first.time))
    end = time.strftime("%H:%M:%S %Z", time.localtime(last.time))
    mark = "SIMULATED  " if last.cluster.simulated else ""
    nodes = _plural(len(last.cluster.nodes), "node")
    return f"{mark}{nodes}, {start} to {end} ({units.age(seconds)})\n"


def incidents_text(
    incidents: Iterable[Incident], width: int, color: bool = False, *, utc: bool = False
) -> str:
    """A report: each incident with its evidence, in the order given, and a line of counts."""
    width = max(width, MIN_WIDTH)
    found = list(incidents)
    lines = [
        line
        for incident in found
        for line in _incident_lines(incident, width, color, utc, evidence=True)
    ]
    lines.append(_counts(found))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _headline(view: View, utc: bool) -> str:
    jobs = view.cluster.jobs
    parts = ["trntop"]
    if view.cluster.simulated:
        parts.append("SIMULATED")
    parts.append(units.clock(view.time, utc=utc) + (" UTC" if utc else ""))
    parts.append(_plural(len(view.cluster.nodes), "node"))
    if jobs:
        named = ", ".join(list(jobs)[:3]) + (", …" if len(jobs) > 3 else "")
        parts.append(f"{_plural(len(jobs), 'job')} ({named})")
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
    lines = [_fit(f"{head}  {where}", width)]
    if color:
        tinted = f"\x1b[{_COLOURS[incident.severity]}m{word}\x1b[0m"
        lines = [lines[0].replace(word, tinted, 1)]
    lines += _wrapped(incident.summary, width, " " * 10)
    if evidence:
        for one in incident.evidence:
            lines += _wrapped(_evidence(one), width, " " * 12, "- ")
    return lines


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
    return f"{_plural(len(incidents), 'incident')}: {by_severity}; {lasting} still open"


# Tables


@dataclass(slots=True)
class _Column:
    """A column of text: its title, unit and cells."""

    title: str
    unit: str = ""
    cells: list[str] = field(default_factory=list)
    left: bool = False
    rank: int = 0
    """The highest rank goes first where the width does not suffice; 0 always stays."""

    def width(self) -> int:
        return max(_cells(text) for text in (self.title, self.unit, *self.cells))

    def line(self, text: str, width: int) -> str:
        return _pad(text, width, left=self.left)


def _lines(columns: Sequence[_Column], width: int) -> list[str]:
    """Title, units and rows of the columns that fit; the first gives way where none can go."""
    shown = list(columns)
    widths = {id(column): column.width() for column in columns}
    # A long name is cut before a column is lost.
    first = id(shown[0])
    widths[first] = min(widths[first], max(16, width * 2 // 5))
    while (over := _total(shown, widths) - width) > 0:
        least = max(shown, key=lambda column: column.rank)
        if least.rank == 0:
            widths[first] = max(4, widths[first] - over)
            break
        shown.remove(least)
    rows = [[column.title for column in shown], [column.unit for column in shown]]
    rows += [list(cells) for cells in zip(*(column.cells for column in shown), strict=True)]
    return [
        _fit(
            GAP.join(
                column.line(text, widths[id(column)])
                for column, text in zip(shown, row, strict=True)
            ),
            width,
        )
        for row in rows
        if any(row)
    ]


def _total(columns: Sequence[_Column], widths: dict[int, int]) -> int:
    return sum(widths[id(column)] for column in columns) + len(GAP) * (len(columns) - 1)


def _value(quantity: str, value: float | None, form: Format) -> str:
    """A number without its unit, and its mark, which keeps its place where there is none."""
    text = form(value).partition(" ")[0]
    mark = units.mark(CATALOG[quantity].provenance)
    return text + (mark if mark and text != units.ABSENT else " ")


def _fleet(view: View) -> list[_Column]:
    """One row per node."""
    columns = [
        _Column("node", left=True),
        _Column("state", left=True),
        _Column("util", "% "),
        _Column("busy", "cores "),
        _Column("HBM", "max % "),
        _Column("EFA out", "Gb/s ", rank=1),
        _Column("comm", "% of step ", rank=3),
        _Column("exposed", "% of step ", rank=4),
        _Column("step", "s ", rank=2),
        _Column("incidents", rank=5),
    ]
    troubled = [incident.node for incident in view.open_incidents]
    for node in view.cluster.nodes.values():
        frame = node.frame
        job = _worst_job(frame)
        count = troubled.count(node.name)
        row = (
            node.name,
            _state(node),
            _node_value(frame, "node_neuroncore_utilization_mean_ratio", units.percent),
            _busy(frame),
            _node_value(frame, "node_device_memory_used_max_ratio", units.percent),
            _node_value(frame, "node_efa_tx_bytes_per_second", units.gigabits),
            _value("job_comm_share_ratio", _of(frame, "job_comm_share_ratio", job), units.percent),
            _value(
                "job_exposed_comm_share_ratio",
                _of(frame, "job_exposed_comm_share_ratio", job),
                units.percent,
            ),
            _value("job_step_seconds", _of(frame, "job_step_seconds", job), units.plain_seconds),
            str(count) if count else "",
        )
        for column, text in zip(columns, row, strict=True):
            column.cells.append(text)
    return columns


def _state(node: NodeView) -> str:
    age = node.age()
    if node.state in (State.FRESH, State.ENDED) or age is None:
        return str(node.state)
    return f"{node.state} {units.age(age)}"


def _node_value(frame: Frame, quantity: str, form: Format) -> str:
    return _value(quantity, frame.value(quantity), form)


def _busy(frame: Frame) -> str:
    busy = frame.value("node_neuroncores_busy")
    total = frame.value("node_neuroncores")
    if busy is None:
        return f"{units.ABSENT} "
    of = f"/{total:.0f}" if total is not None else ""
    return f"{busy:.0f}{of}{units.mark(CATALOG['node_neuroncores_busy'].provenance)}"


def _worst_job(frame: Frame) -> int:
    """Index of the node's job that spends the largest share of its step in communication."""
    shares = frame.columns.get("job_comm_share_ratio")
    if shares is None or np.isnan(shares).all():
        return 0
    return int(np.nanargmax(shares))


def _of(frame: Frame, quantity: str, index: int) -> float | None:
    """One part's value, None when absent."""
    column = frame.columns.get(quantity)
    if column is None or index >= len(column):
        return None
    value = float(column[index])
    return None if value != value else value


# The parts of a single node


def _parts(node: NodeView, width: int) -> list[list[str]]:
    blocks = []
    if node.inventory.of(Entity.DEVICE):
        blocks.append(_lines(_devices(node), width))
    if node.inventory.of(Entity.EFA):
        blocks.append(_lines(_cards(node), width))
    return blocks


def _devices(node: NodeView) -> list[_Column]:
    """One row per device, its cores in one cell."""
    frame, inventory = node.frame, node.inventory
    events = ("device_mem_ecc_uncorrected_events", "device_sram_ecc_uncorrected_events")
    columns = [
        _Column("device"),
        _Column("HBM", "% "),
        _Column("used", "GiB "),
        _Column("of", "GiB ", rank=2),
        _Column("ECC", "uncorr. ", rank=1),
        _Column("cores", "util %", left=True),
    ]
    for index, device in enumerate(inventory.of(Entity.DEVICE)):
        errors = [value for name in events if (value := _of(frame, name, index)) is not None]
        row = (
            str(device),
            _part(frame, "device_memory_used_ratio", index, units.percent),
            _part(frame, "device_memory_used_bytes", index, units.gib),
            _part(frame, "device_memory_total_bytes", index, units.gib),
            f"{sum(errors):.0f} " if errors else f"{units.ABSENT} ",
            _cores(frame, inventory, device),
        )
        for column, text in zip(columns, row, strict=True):
            column.cells.append(text)
    return columns


def _cores(frame: Frame, inventory: Inventory, device: int | str) -> str:
    """Utilization of a device's cores, in order."""
    own = np.flatnonzero(inventory.core_device == device)
    values = (_of(frame, "neuroncore_utilization_ratio", int(core)) for core in own)
    return " ".join(f"{units.percent(value).partition(' ')[0]:>3}" for value in values)


def _cards(node: NodeView) -> list[_Column]:
    """One row per EFA card."""
    columns = [
        _Column("EFA card", left=True),
        _Column("out", "Gb/s "),
        _Column("in", "Gb/s "),
        _Column("line", "Gb/s ", rank=1),
        _Column("retransmits", "% "),
        _Column("drops", "1/s ", rank=2),
    ]
    for index, card in enumerate(node.inventory.of(Entity.EFA)):
        row = (
            str(card),
            _part(node.frame, "efa_tx_bytes_per_second", index, units.gigabits),
            _part(node.frame, "efa_rx_bytes_per_second", index, units.gigabits),
            _part(node.frame, "efa_link_bytes_per_second", index, units.gigabits),
            _part(node.frame, "efa_retransmit_ratio", index, units.percent),
            _part(node.frame, "efa_rx_drops_per_second", index, units.count),
        )
        for column, text in zip(columns, row, strict=True):
            column.cells.append(text)
    return columns


def _part(frame: Frame, quantity: str, index: int, form: Format) -> str:
    return _value(quantity, _of(frame, quantity, index), form)


# What is not heard


def _silent(nodes: Sequence[NodeView], width: int) -> list[str]:
    """The sources without fresh values, and why."""
    quiet: list[tuple[str, SourceState]] = [
        (node.name, source)
        for node in nodes
        for source in node.frame.sources
        if source.state not in (State.FRESH, State.ENDED)
    ]
    lines = [
        line
        for name, source in quiet[:MAX_SILENT]
        for line in _wrapped(f"{name}  {source.name}: {source.reason or source.state}", width, "")
    ]
    if len(quiet) > MAX_SILENT:
        lines.append(f"and {_plural(len(quiet) - MAX_SILENT, 'source')} more")
    return lines


# Text in cells


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _wrapped(text: str, width: int, indent: str, bullet: str = "") -> list[str]:
    # textwrap counts characters; wide ones take two cells.
    return textwrap.wrap(
        text,
        width if _cells(text) == len(text) else width // 2,
        initial_indent=indent + bullet,
        subsequent_indent=indent + " " * len(bullet),
    )


def _cells(text: str) -> int:
    """Cells a terminal gives to `text`."""
    if text.isascii():
        return len(text)
    return sum(_cell(char) for char in text)


def _cell(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _pad(text: str, width: int, *, left: bool) -> str:
    text = _fit(text, width)
    blanks = " " * (width - _cells(text))
    return text + blanks if left else blanks + text


def _fit(text: str, width: int) -> str:
    """`text` in at most `width` cells, cut with an ellipsis."""
    if _cells(text) <= width:
        return text
    kept = ""
    room = width - 1
    for char in text:
        room -= _cell(char)
        if room < 0:
            break
        kept += char
    return kept + "…"
