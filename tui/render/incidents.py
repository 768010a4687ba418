"""Incidents: as rows of a table, and one with its evidence and its runbook."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from rich.style import Style
from textual.strip import Strip

from trntop.analysis.coverage import beginning, givers, lack
from trntop.analysis.rulebook import NEXT_STEPS
from trntop.analysis.runbook import kind_name, runbook, title
from trntop.catalog import Entity
from trntop.core import units
from trntop.core.model import Incident, Stage
from trntop.sources import BY_NAME

from ..view_model import ViewModel
from . import glyphs, incident_charts, markdown
from .context import RenderContext
from .line import Part, fit, line, side_by_side, wrapped
from .table import Column

PAGE = 92
"""Maximum width of running text: longer lines are hard to read."""
LEAST_PAGE = 72
"""Width from which evidence and runbook are side by side."""
GUTTER = 4
WIDE = 100
"""Width from which charts are shown; on a small screen the words are more important."""
STEPS_BEFORE, RECENT = 180, 60
"""Seconds of step times before the start, and newest seconds, that are compared."""
LONGEST_COST = 3600
"""Seconds of history that are searched for the steps before the start."""
CHECK_FIRST = "## Check first\n"
"""Section of the runbooks."""
NOTABLE = 0.02
"""Change of the step time below which it is noise."""
CHART_LINES, MAX_CHART_LINES = 7, 24
"""Lines of the charts, and their maximum next to the runbook."""


class Tense(StrEnum):
    """The relation of an incident to the time that is shown."""

    OPEN = "open"
    ACKNOWLEDGED = "acked"
    CLOSED = "closed"
    LATER = "later"
    """An earlier time is shown, at which the incident was not detected yet."""


def tense(incident: Incident, view_model: ViewModel) -> Tense:
    if incident in view_model.later:
        return Tense.LATER
    if incident.open and incident.id in view_model.acknowledged:
        return Tense.ACKNOWLEDGED
    return Tense.OPEN if incident.open else Tense.CLOSED


def location(incident: Incident) -> str:
    """Node and component, else the job."""
    if incident.node is None:
        return incident.job or "cluster"
    return " ".join(part for part in (incident.node, incident.component) if part)


def seconds_open(incident: Incident, now: float) -> float:
    """Seconds from its start to its end, or to now."""
    return max(
        0.0, (now if incident.closed_at is None else incident.closed_at) - incident.opened_at
    )


def consequence(view_model: ViewModel, incident: Incident) -> str:
    """What it costs the job, from the step times before and after its start; empty if unknown."""
    node = view_model.cluster.nodes.get(incident.node or "")
    jobs = [incident.job] if incident.job else [] if node is None else node.inventory.of(Entity.JOB)
    job = next((job for job in view_model.jobs if job.job in jobs), None)
    if job is None or not incident.open:
        return ""
    names = view_model.cluster.jobs.get(job.job) or ([node.name] if node else [])
    phases = (view_model.cluster.nodes[name].frame.phase for name in names)
    stalled = next((p for p in phases if p is not None and p.stage is Stage.STALLED), None)
    if stalled is not None:
        since = "" if stalled.since is None else units.age(view_model.view.time - stalled.since)
        return "" if incident.kind == "hang" else f"training stalled {since}".rstrip()
    seconds = view_model.view.time - incident.opened_at
    rows = int(seconds + STEPS_BEFORE)
    if seconds < 0 or rows > LONGEST_COST:
        return ""
    times, values = view_model.history.scalar(f"{job.job}/{job.step_quantity}", rows)
    known = values == values
    times, values = times[known], values[known]
    before = values[times < incident.opened_at]
    if not len(before):
        return ""
    usual = float(np.median(before))
    # The first steps after the start began before it.
    after = values[times > incident.opened_at + 2 * usual]
    after = after[after != before[-1]]  # no step has ended since while the last one is repeated
    if not len(after) or usual <= 0:
        return ""
    change = float(np.median(after[-RECENT:])) / usual - 1.0
    if abs(change) < NOTABLE:
        return "step time unchanged"
    return f"step {100 * change:+.0f} %"


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """An incident at the time that is shown."""

    incident: Incident
    tense: Tense
    now: float
    utc: bool

    def style(self, context: RenderContext) -> Style:
        palette = context.palette
        return (
            palette.severity(self.incident.severity) if self.tense is Tense.OPEN else palette.faint
        )

    def text(self, context: RenderContext) -> Style:
        return context.palette.text if self.tense is Tense.OPEN else context.palette.muted

    def badge(self, context: RenderContext) -> str:
        """Sign and severity; the tense instead of the severity if the incident is not open."""
        severity = self.incident.severity
        word = severity.value if self.tense is Tense.OPEN else self.tense.value
        return f"{glyphs.SEVERITIES[severity]} {word}"


def row_of(incident: Incident, view_model: ViewModel) -> IncidentRow:
    now = tense(incident, view_model)
    return IncidentRow(incident, now, view_model.view.time, view_model.utc)


def columns(width: int, *, utc: bool) -> tuple[Column[IncidentRow], ...]:
    """The columns for a table of `width` cells.

    The summary names the location, so location and kind go first.
    """
    return (
        Column("severity", "severity", 10, 100, _severity),
        Column("since", "since", 9 if utc else 8, 80, _since, unit="UTC" if utc else ""),
        Column("duration", "for", 6, 70, _duration, align="right"),
        Column("kind", "kind", 18, 50, _kind),
        Column("location", "location", 24, 60, _location),
        Column("summary", "summary", min(76, max(24, width - 42)), 90, _summary, max_width=200),
    )


def _severity(row: IncidentRow, width: int, context: RenderContext) -> list[Part]:
    return [(fit(row.badge(context), width), row.style(context))]


def _since(row: IncidentRow, width: int, context: RenderContext) -> list[Part]:
    clock = units.clock(row.incident.opened_at, utc=row.utc)
    return [(fit(clock, width), row.text(context))]


def _duration(row: IncidentRow, width: int, context: RenderContext) -> list[Part]:
    later = row.tense is Tense.LATER
    text = units.ABSENT if later else units.age(seconds_open(row.incident, row.now))
    return [(fit(text, width, "right"), context.palette.muted)]


def _kind(row: IncidentRow, width: int, context: RenderContext) -> list[Part]:
    return [(fit(kind_name(row.incident.kind), width), row.text(context))]


def _location(row: IncidentRow, width: int, context: RenderContext) -> list[Part]:
    palette = context.palette
    style = palette.strong if row.tense is Tense.OPEN else palette.muted
    return [(fit(location(row.incident), width), style)]


def _summary(row: IncidentRow, width: int, context: RenderContext) -> list[Part]:
    return [(fit(row.incident.summary, width), row.text(context))]


def brief(
    view_model: ViewModel, incident: Incident, width: int, context: RenderContext
) -> list[Strip]:
    """One line: severity, start, duration, summary."""
    palette, row = context.palette, row_of(incident, view_model)
    duration = units.span(seconds_open(incident, row.now))
    return [
        line(
            [
                (fit(row.badge(context), 11), row.style(context)),
                (f"{units.clock(incident.opened_at, utc=row.utc)} ", palette.muted),
                (f"{fit(duration, 11, 'right')}  ", palette.muted),
                (fit(incident.summary, max(0, width - 33)), row.text(context)),
            ],
            width,
        )
    ]


def detail(
    view_model: ViewModel, incident: Incident | None, width: int, context: RenderContext
) -> list[Strip]:
    """One incident: evidence and charts, and its runbook, side by side if there is room."""
    if incident is None:
        return _nothing(view_model, width, context)
    page = (width - GUTTER) // 2
    if page >= LEAST_PAGE:
        found = _evidence(view_model, incident, page, context)
        guide = _guide(incident, page, context)
        room = max(CHART_LINES, min(MAX_CHART_LINES, len(guide) - len(found) - 1))
        found += _charts(view_model, incident, page, room, context)
        return side_by_side(((found, page), (guide, page)), GUTTER)
    found = _evidence(view_model, incident, width, context)
    if width >= WIDE:
        found += _charts(view_model, incident, width, CHART_LINES, context)
    if guide := _guide(incident, width, context):
        found += [line([], width), *guide]
    return found


def _nothing(view_model: ViewModel, width: int, context: RenderContext) -> list[Strip]:
    """Why there is no incident, and what each rule watches: those that cannot judge first."""
    palette, now, coverage = context.palette, view_model.view.time, view_model.view.coverage
    shown = "to show" if view_model.all_incidents or not coverage.rules else "; these rules judge"
    text = f"no incident {shown}".replace(" ;", ";")
    if not view_model.has_data:
        reasons = [node.why_no_data for node in view_model.cluster.nodes.values()]
        text = f"{units.ABSENT} not evaluated: {next(iter(reasons), 'no data yet')}"
    elif early := beginning(coverage, now, utc=view_model.utc):
        text = " · ".join(early)
    drawn = wrapped(text, width, palette.muted)
    if coverage.rules:
        drawn.append(line([], width))
    for rule in sorted(coverage.rules, key=lambda rule: rule.judges(now)):
        needs = lack(rule, now)
        since = "" if rule.since is None else units.clock(rule.since, utc=view_model.utc)
        state: Part = (fit(needs or f"since {since}", 23), palette.muted)
        name: Part = (f"{fit(kind_name(rule.kind), 20)} ", palette.text)
        drawn.append(line([name, state, (title(rule.kind), palette.faint)], width))
        for source in givers(rule)[: bool(rule.missing)]:
            why = f"{source} needs {BY_NAME[source].needs}".replace("`", "")
            drawn += wrapped(why, min(width, PAGE), palette.faint, [(" " * 21, palette.text)])
    return drawn


def worst(view_model: ViewModel, width: int, height: int, context: RenderContext) -> list[Strip]:
    """The worst open incident: evidence, next step, charts, and what to check first."""
    if not view_model.incidents:
        return []
    incident = view_model.incidents[0]
    found = _evidence(view_model, incident, width, context)
    steps = runbook(incident.kind).partition(CHECK_FIRST)[2].partition("\n## ")[0]
    guide = markdown.draw(f"{CHECK_FIRST}{steps}", width, context.palette) if steps else []
    room = height - len(found) - 1
    charts = min(room, max(CHART_LINES, min(MAX_CHART_LINES, room - len(guide) - 1)))
    found += _charts(view_model, incident, width, charts, context)
    return [*found, line([], width), *(strip.adjust_cell_length(width) for strip in guide)]


def _charts(
    view_model: ViewModel, incident: Incident, width: int, height: int, context: RenderContext
) -> list[Strip]:
    drawn = incident_charts.draw(view_model, incident, width, height, context)
    return [line([], width), *drawn] if drawn else []


def _evidence(
    view_model: ViewModel, incident: Incident, width: int, context: RenderContext
) -> list[Strip]:
    """Summary, location, time, next step and evidence."""
    palette, row = context.palette, row_of(incident, view_model)
    style = palette.severity(incident.severity) if row.tense is Tense.OPEN else palette.muted
    page = min(width, PAGE)
    head: list[Part] = [
        (f"{glyphs.SEVERITIES[incident.severity]} {incident.severity}  ", style),
        (kind_name(incident.kind), palette.strong),
        ("" if row.tense is Tense.OPEN else f"  {row.tense}", palette.muted),
    ]
    lines = [line(head, width), *wrapped(incident.summary, page, palette.text), line([], width)]
    for label, text in _facts(view_model, incident):
        lines += wrapped(text, page, palette.text, [(f"{label:<10}", palette.muted)])
    if incident.evidence:
        lines += [line([], width), line([("evidence", palette.muted)], width)]
    for evidence in incident.evidence:
        lines += wrapped(evidence.located, page, palette.text, [("· ", palette.faint)])
    return [strip.adjust_cell_length(width) for strip in lines]


def _facts(view_model: ViewModel, incident: Incident) -> list[tuple[str, str]]:
    found = (
        ("location", location(incident)),
        ("when", _when(view_model, incident)),
        ("acked", _acknowledged(view_model, incident)),
        ("job", (incident.node and incident.job) or ""),
        ("cost", consequence(view_model, incident)),
        ("next", NEXT_STEPS.get(incident.kind, "")),
    )
    return [(label, text) for label, text in found if text]


def _acknowledged(view_model: ViewModel, incident: Incident) -> str:
    time = view_model.acknowledged.get(incident.id)
    return "" if time is None else f"at {units.clock(time, utc=view_model.utc)}"


def as_markdown(view_model: ViewModel, incident: Incident) -> str:
    """For a ticket or a chat."""
    lines = [f"**{incident.severity}: {kind_name(incident.kind)}** {incident.summary}", ""]
    lines += [f"- {label}: {text}" for label, text in _facts(view_model, incident)]
    lines += [f"- evidence: {evidence.located}" for evidence in incident.evidence]
    return "\n".join(lines)


def _guide(incident: Incident, width: int, context: RenderContext) -> list[Strip]:
    """The runbook; nothing for a custom rule."""
    guide = runbook(incident.kind)
    if not guide:
        return []
    palette = context.palette
    head: list[Part] = [("runbook  ", palette.muted), (title(incident.kind), palette.text)]
    drawn = markdown.draw(guide, min(width, PAGE), palette)
    return [line(head, width), line([], width), *(s.adjust_cell_length(width) for s in drawn)]


def _when(view_model: ViewModel, incident: Incident) -> str:
    """Start, end and duration, relative to the time that is shown."""
    zone = " UTC" if view_model.utc else ""
    since = units.clock(incident.opened_at, utc=view_model.utc)
    duration = units.span(seconds_open(incident, view_model.view.time))
    if tense(incident, view_model) is Tense.LATER:
        ahead = incident.opened_at - view_model.view.time
        known = f"{units.span(ahead)} later" if ahead >= 1 else "not detected yet at this time"
        parts = [f"{since}{zone}, {known}"]
    elif incident.closed_at is None:
        parts = [f"since {since}{zone}, for {duration}"]
    else:
        until = units.clock(incident.closed_at, utc=view_model.utc)
        parts = [f"{since} to {until}{zone}, for {duration}"]
    return "; ".join([*parts, *incident.detection])
