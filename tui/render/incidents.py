"""Incidents: as rows of a table, and one with its evidence and its runbook."""

import re
from enum import StrEnum

from rich.cells import cell_len, chop_cells
from rich.style import Style
from textual.strip import Strip

from trntop.analysis import RULEBOOK
from trntop.analysis.runbook import runbook, title
from trntop.core import units
from trntop.core.model import Incident

from ..scene import Scene
from . import course, markdown
from .line import Part, beside, fit, line
from .pen import Pen
from .table import Column

PAGE = 92
"""Cells of a line of running text, at most: longer ones are hard to read."""
LEAST_PAGE = 72
"""Cells from which on evidence and runbook stand side by side."""
GUTTER = 4
WIDE = 100
"""Cells from which on charts stand between evidence and runbook; on a small screen the words count
more.
"""
COURSE, TALLEST = 7, 24
"""Lines of charts there, and most of them beside the runbook."""
DAY = 86_400

_ADVICE = {rule.kind: rule.advice for rule in RULEBOOK}
"""What to look at first, by kind."""
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[mµ]?s|min|h|d|[KMGT]?i?B|Gb/s)(?:[\s,;.)]|$))")
"""The blank between a number and its unit, at which no line is broken."""
_SINCE = re.compile(r",? since \d\d:\d\d:\d\d UTC\b")
"""What a table says in a column of its own."""
_CLOCK = re.compile(r"\b([01]\d|2[0-3]):([0-5]\d):([0-5]\d) UTC\b")


class Tense(StrEnum):
    """How an incident relates to the time that is shown."""

    OPEN = "open"
    PAST = "past"
    LATER = "later"
    """An earlier time is shown, at which it was not known yet."""


_SEEN = {
    Tense.OPEN: "what is seen", Tense.PAST: "what was seen", Tense.LATER: "what was seen later",
}  # fmt: skip


def tense(incident: Incident, scene: Scene) -> Tense:
    """Whether it lasts, is over, or was yet to come."""
    if incident in scene.later:
        return Tense.LATER
    return Tense.OPEN if incident.open else Tense.PAST


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


def told(text: str, incident: Incident, *, utc: bool) -> str:
    """A sentence of an incident with its times of day as the rest of the screen shows them.

    Sentences are composed in UTC, as they leave this machine too. Of the days that a time of day
    may belong to, the one nearest to the incident is meant.
    """
    if utc:
        return text

    def local(found: re.Match[str]) -> str:
        hours, minutes, seconds = map(int, found.groups())
        since = incident.opened_at
        moment = since - since % DAY + 3600 * hours + 60 * minutes + seconds
        moment += DAY * round((since - moment) / DAY)
        return units.clock(moment)

    return _CLOCK.sub(local, text)


def summary(incident: Incident, scene: Scene) -> str:
    """The sentence of an incident, on the clock of the screen."""
    return told(incident.summary, incident, utc=scene.utc)


def _untimed(incident: Incident, scene: Scene) -> str:
    """The sentence for a row that tells the beginning by itself."""
    return told(_SINCE.sub("", incident.summary), incident, utc=scene.utc)


class IncidentColumns:
    """The columns of the incident table, for one tick.

    Args:
        scene: what is shown.
        width: cells that the table has. The sentence names the place, so where there is little
            room the place and the kind make way for it.
    """

    def __init__(self, scene: Scene, width: int) -> None:
        self._scene = scene
        self._sentence = min(76, max(24, width - 42))

    def all(self) -> tuple[Column[Incident], ...]:
        """The columns in order."""
        since = 9 if self._scene.utc else 8
        return (
            Column("severity", "severity", 10, 100, self._severity),
            Column("since", "since", since, 80, self._since, unit="UTC" if self._scene.utc else ""),
            Column("lasted", "for", 6, 70, self._lasted, align="right"),
            Column("kind", "kind", 18, 50, self._kind),
            Column("place", "where", 24, 60, self._place),
            Column("summary", "what", self._sentence, 90, self._summary, wide=200),
        )

    def _severity(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        return [
            (fit(_badge(incident, self._scene, pen), width), _style(incident, self._scene, pen))
        ]

    def _since(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        clock = units.clock(incident.opened_at, utc=self._scene.utc)
        return [(fit(clock, width), self._text(incident, pen))]

    def _lasted(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        later = tense(incident, self._scene) is Tense.LATER
        text = units.ABSENT if later else units.age(lasted(incident, self._scene.view.time))
        return [(fit(text, width, "right"), pen.ink.muted)]

    def _kind(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        return [(fit(incident.kind, width), self._text(incident, pen))]

    def _place(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        is_open = tense(incident, self._scene) is Tense.OPEN
        return [(fit(place(incident), width), pen.ink.strong if is_open else pen.ink.muted)]

    def _summary(self, incident: Incident, width: int, pen: Pen) -> list[Part]:
        return [(fit(_untimed(incident, self._scene), width), self._text(incident, pen))]

    def _text(self, incident: Incident, pen: Pen) -> Style:
        return pen.ink.text if tense(incident, self._scene) is Tense.OPEN else pen.ink.muted


def _badge(incident: Incident, scene: Scene, pen: Pen) -> str:
    """Glyph and word: how bad it is while it lasts, else that it does not."""
    now = tense(incident, scene)
    word = str(incident.severity) if now is Tense.OPEN else str(now)
    return f"{pen.glyphs.severities[incident.severity]} {word}"


def _style(incident: Incident, scene: Scene, pen: Pen) -> Style:
    is_open = tense(incident, scene) is Tense.OPEN
    return pen.ink.severity(incident.severity) if is_open else pen.ink.faint


def brief(scene: Scene, incident: Incident, width: int, pen: Pen) -> list[Strip]:
    """One line: severity, since, for how long, summary."""
    ink = pen.ink
    parts: list[Part] = [
        (fit(_badge(incident, scene, pen), 11), _style(incident, scene, pen)),
        (f"{units.clock(incident.opened_at, utc=scene.utc)} ", ink.muted),
        (fit(units.span(lasted(incident, scene.view.time)), 11, "right"), ink.muted),
        ("  ", ink.text),
    ]
    text = ink.text if incident.open else ink.muted
    return [line([*parts, (fit(_untimed(incident, scene), max(0, width - 33)), text)], width)]


def detail(scene: Scene, incident: Incident | None, width: int, pen: Pen) -> list[Strip]:
    """One incident with its evidence, its course and its runbook, side by side where there is
    room.
    """
    if incident is None:
        if not scene.has_data:
            reasons = [node.why_no_data for node in scene.cluster.nodes.values()]
            why = f"{units.ABSENT} not evaluated: {next(iter(reasons), 'no data yet')}"
            return [line([(part, pen.ink.muted)], width) for part in wrap(why, width)]
        return [line([("no incident to show", pen.ink.muted)], width)]
    page = (width - GUTTER) // 2
    if page >= LEAST_PAGE:
        found = _found(scene, incident, page, min(page, PAGE), pen)
        guide = _guide(incident, page, min(page, PAGE), pen)
        room = max(COURSE, min(TALLEST, len(guide) - len(found) - 1))
        found += _course(scene, incident, page, room, pen)
        return beside(((found, page), (guide, page)), GUTTER)
    found = _found(scene, incident, width, min(width, PAGE), pen)
    if width >= WIDE:
        found += _course(scene, incident, width, COURSE, pen)
    if guide := _guide(incident, width, min(width, PAGE), pen):
        found += [line([], width), *guide]
    return found


def _course(scene: Scene, incident: Incident, width: int, height: int, pen: Pen) -> list[Strip]:
    """Charts of what it was seen by, a line apart from what stands above."""
    drawn = course.draw(scene, incident, width, height, pen)
    return [line([], width), *drawn] if drawn else []


def _found(scene: Scene, incident: Incident, width: int, page: int, pen: Pen) -> list[Strip]:
    """What happened, where, when, and what was seen; text in lines of at most `page` cells."""
    ink = pen.ink
    now = tense(incident, scene)
    style = ink.severity(incident.severity) if now is Tense.OPEN else ink.muted
    rows: list[list[Part]] = [
        [
            (f"{pen.glyphs.severities[incident.severity]} {incident.severity}  ", style),
            (incident.kind, ink.strong),
            ("" if now is Tense.OPEN else f"  {now}", ink.muted),
        ],
        *([(text, ink.text)] for text in wrap(summary(incident, scene), page)),
        [],
        *_fact("where", place(incident), page, pen),
        *_fact("when", _when(scene, incident), page, pen),
    ]
    if incident.job and incident.node:
        rows += _fact("job", incident.job, page, pen)
    if advice := _ADVICE.get(incident.kind):
        rows += _fact("next", advice, page, pen)
    if incident.evidence:
        rows += [[], [(_SEEN[now], ink.muted)]]
    for evidence in incident.evidence:
        named = evidence.node is None or evidence.node in evidence.text
        text = evidence.text if named else f"{evidence.node}: {evidence.text}"
        text = told(text, incident, utc=scene.utc)
        for index, part in enumerate(wrap(text, page - 2)):
            rows.append([("· " if not index else "  ", ink.faint), (part, ink.text)])
    return [line(row, width) for row in rows]


def _guide(incident: Incident, width: int, page: int, pen: Pen) -> list[Strip]:
    """The runbook of its kind; nothing for a rule of the user's own."""
    guide = runbook(incident.kind)
    if not guide:
        return []
    head: list[Part] = [("runbook  ", pen.ink.muted), (title(incident.kind), pen.ink.text)]
    drawn = (line(head, width), line([], width), *markdown.draw(guide, page, pen.ink))
    return [strip.adjust_cell_length(width) for strip in drawn]


def _when(scene: Scene, incident: Incident) -> str:
    """From when to when, in the tense that fits the time shown."""
    zone = " UTC" if scene.utc else ""
    since = units.clock(incident.opened_at, utc=scene.utc)
    span = units.span(lasted(incident, scene.view.time))
    if tense(incident, scene) is Tense.LATER:
        ahead = incident.opened_at - scene.view.time
        known = f"{units.span(ahead)} later" if ahead >= 1 else "not noticed yet at the time shown"
        parts = [f"{since}{zone}, {known}"]
    elif incident.closed_at is None:
        parts = [f"since {since}{zone}, for {span}"]
    else:
        until = units.clock(incident.closed_at, utc=scene.utc)
        parts = [f"{since} to {until}{zone}, lasted {span}"]
    noticed = incident.detected_at
    if noticed is not None and noticed - incident.opened_at >= 1:
        parts.append(f"noticed {units.span(noticed - incident.opened_at)} after it began")
    if incident.returns:
        times = "once" if incident.returns == 1 else f"{incident.returns} times"
        parts.append(f"closed and came back {times}")
    return "; ".join(parts)


def _fact(label: str, text: str, width: int, pen: Pen) -> list[list[Part]]:
    return [
        [(f"{label if not index else '':<7}", pen.ink.muted), (part, pen.ink.text)]
        for index, part in enumerate(wrap(text, width - 7))
    ]


def wrap(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken at blanks where there are any."""
    lines: list[str] = []
    current = ""
    width = max(1, width)
    words = _UNIT.sub("\0", " ".join(text.split())).split(" ")
    for piece in (part for word in words for part in chop_cells(word.replace("\0", " "), width)):
        candidate = f"{current} {piece}".strip()
        if current and cell_len(candidate) > width:
            lines.append(current)
            current = piece
        else:
            current = candidate
    return [*lines, current] if current else lines or [""]
