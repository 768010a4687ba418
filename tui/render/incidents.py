"""Incidents: as rows of a table, and one with its evidence."""

from textual.strip import Strip

from trntop import units
from trntop.analysis import RULEBOOK
from trntop.model import Incident

from ..scene import Scene
from .line import Part, fit, line
from .pen import Pen
from .table import Column

_ADVICE = {rule.kind: rule.advice for rule in RULEBOOK}
"""What to look at first, by kind."""


def place(incident: Incident) -> str:
    """Where: node and component, else the job."""
    if incident.node is None:
        return incident.job or "cluster"
    return " ".join(part for part in (incident.node, incident.component) if part)


def lasted(incident: Incident, now: float) -> float:
    """Seconds from its opening to its end, or to now."""
    return max(
        0.0, (now if incident.closed_at is None else incident.closed_at) - incident.opened_at
    )


class IncidentColumns:
    """The columns of the incident table, for one tick."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def all(self) -> tuple[Column[Incident], ...]:
        """The columns in order."""
        return (
            Column("severity", "severity", 10, 100, self._severity),
            Column("since", "since", 8, 80, self._since),
            Column("lasted", "for", 11, 70, self._lasted, align="right"),
            Column("kind", "kind", 18, 60, self._kind),
            Column("place", "where", 14, 90, self._place, wide=24),
            Column("summary", "what", 20, 50, self._summary, wide=200),
        )

    def _severity(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        glyph = pen.glyphs.severities[incident.severity]
        if not incident.open:
            return [(fit(f"{glyph} past", width), pen.ink.faint)]
        style = pen.ink.severity(incident.severity)
        return [(fit(f"{glyph} {incident.severity.value}", width), style)]

    def _since(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        clock = units.clock(incident.opened_at, utc=self._scene.utc)
        return [(fit(clock, width), pen.ink.text if incident.open else pen.ink.muted)]

    def _lasted(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        text = units.span(lasted(incident, self._scene.view.time))
        return [(fit(text, width, "right"), pen.ink.muted)]

    def _kind(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        return [(fit(incident.kind, width), pen.ink.text if incident.open else pen.ink.muted)]

    def _place(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        style = pen.ink.strong if incident.open else pen.ink.muted
        return [(fit(place(incident), width), style)]

    def _summary(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        style = pen.ink.text if incident.open else pen.ink.muted
        return [(fit(incident.summary, width), style)]


def brief(scene: Scene, incident: Incident, width: int, pen: Pen) -> list[Strip]:
    """One line: severity, since, kind, summary."""
    ink = pen.ink
    style = ink.severity(incident.severity) if incident.open else ink.faint
    glyph = pen.glyphs.severities[incident.severity]
    word = incident.severity.value if incident.open else "past"
    parts: list[Part] = [
        (fit(f"{glyph} {word}", 11), style),
        (f"{units.clock(incident.opened_at, utc=scene.utc)} ", ink.muted),
        (fit(units.span(lasted(incident, scene.view.time)), 11, "right"), ink.muted),
        ("  ", ink.text),
    ]
    text = ink.text if incident.open else ink.muted
    return [line([*parts, (fit(incident.summary, max(0, width - 33)), text)], width)]


def detail(scene: Scene, incident: Incident | None, width: int, pen: Pen) -> list[Strip]:
    """One incident with its evidence."""
    ink = pen.ink
    if incident is None:
        return [line([("nothing has happened", ink.muted)], width)]
    end = (
        "still lasts"
        if incident.closed_at is None
        else f"until {units.clock(incident.closed_at, utc=scene.utc)}"
    )
    style = ink.severity(incident.severity) if incident.open else ink.muted
    glyph = pen.glyphs.severities[incident.severity]
    rows: list[list[Part]] = [
        [(f"{glyph} {incident.severity.value}  ", style), (incident.kind, ink.strong)],
        *([(text, ink.text)] for text in wrap(incident.summary, width)),
        [],
        _fact("where", place(incident), pen),
        _fact(
            "when",
            f"{units.clock(incident.opened_at, utc=scene.utc)}, {end}, "
            f"{units.span(lasted(incident, scene.view.time))}",
            pen,
        ),
    ]
    if incident.returns:
        times = "once" if incident.returns == 1 else f"{incident.returns} times"
        rows.append(_fact("again", f"closed and came back {times}", pen))
    if incident.job and incident.node:
        rows.append(_fact("job", incident.job, pen))
    if advice := _ADVICE.get(incident.kind):
        first, *more = wrap(advice, width - 7)
        rows += [_fact("look", first, pen), *(_fact("", part, pen) for part in more)]
        rows.append(_fact("", f"trntop rules {incident.kind}: its runbook", pen))
    if incident.evidence:
        rows += [[], [("evidence", ink.muted)]]
    for evidence in incident.evidence:
        named = evidence.node is None or evidence.node in evidence.text
        text = evidence.text if named else f"{evidence.node}: {evidence.text}"
        for index, part in enumerate(wrap(text, width - 2)):
            rows.append([("· " if not index else "  ", ink.faint), (part, ink.text)])
    return [line(row, width) for row in rows]


def _fact(label: str, text: str, pen: Pen) -> list[Part]:
    return [(f"{label:<7}", pen.ink.muted), (text, pen.ink.text)]


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken at blanks where there are any."""
    lines: list[str] = []
    current = ""
    width = max(1, width)
    words = (
        word[start : start + width] for word in text.split() for start in range(0, len(word), width)
    )
    for word in words:
        candidate = f"{current} {word}".strip()
        if current and len(candidate) > width:
            lines.append(current)
            current = word
        else:
            current = candidate
    return [*lines, current] if current else lines or [""]
