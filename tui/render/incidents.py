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

from ..view_model import ViewModel
from . import course, markdown
from .context import RenderContext
from .line import Part, beside, fit, line
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


def tense(incident: Incident, view_model: ViewModel) -> Tense:
    """Whether it lasts, is over, or was yet to come."""
    if incident in view_model.later:
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


def summary(incident: Incident, view_model: ViewModel) -> str:
    """The sentence of an incident, on the clock of the screen."""
    return told(incident.summary, incident, utc=view_model.utc)


def _untimed(incident: Incident, view_model: ViewModel) -> str:
    """The sentence for a row that tells the beginning by itself."""
    return told(_SINCE.sub("", incident.summary), incident, utc=view_model.utc)


class IncidentColumns:
    """The columns of the incident table, for one tick.

    Args:
        view_model: what is shown.
        width: cells that the table has. The sentence names the place, so where there is little
            room the place and the kind make way for it.
    """

    def __init__(self, view_model: ViewModel, width: int) -> None:
        self._view_model = view_model
        self._sentence = min(76, max(24, width - 42))

    def all(self) -> tuple[Column[Incident], ...]:
        """The columns in order."""
        since = 9 if self._view_model.utc else 8
        return (
            Column("severity", "severity", 10, 100, self._severity),
            Column(
                "since", "since", since, 80, self._since, unit="UTC" if self._view_model.utc else ""
            ),
            Column("lasted", "for", 6, 70, self._lasted, align="right"),
            Column("kind", "kind", 18, 50, self._kind),
            Column("place", "where", 24, 60, self._place),
            Column("summary", "what", self._sentence, 90, self._summary, wide=200),
        )

    def _severity(self, incident: Incident, width: int, context: RenderContext) -> list[Part]:
        return [
            (
                fit(_badge(incident, self._view_model, context), width),
                _style(incident, self._view_model, context),
            )
        ]

    def _since(self, incident: Incident, width: int, context: RenderContext) -> list[Part]:
        clock = units.clock(incident.opened_at, utc=self._view_model.utc)
        return [(fit(clock, width), self._text(incident, context))]

    def _lasted(self, incident: Incident, width: int, context: RenderContext) -> list[Part]:
        later = tense(incident, self._view_model) is Tense.LATER
        text = units.ABSENT if later else units.age(lasted(incident, self._view_model.view.time))
        return [(fit(text, width, "right"), context.palette.muted)]

    def _kind(self, incident: Incident, width: int, context: RenderContext) -> list[Part]:
        return [(fit(incident.kind, width), self._text(incident, context))]

    def _place(self, incident: Incident, width: int, context: RenderContext) -> list[Part]:
        is_open = tense(incident, self._view_model) is Tense.OPEN
        return [
            (
                fit(place(incident), width),
                context.palette.strong if is_open else context.palette.muted,
            )
        ]

    def _summary(self, incident: Incident, width: int, context: RenderContext) -> list[Part]:
        return [(fit(_untimed(incident, self._view_model), width), self._text(incident, context))]

    def _text(self, incident: Incident, context: RenderContext) -> Style:
        return (
            context.palette.text
            if tense(incident, self._view_model) is Tense.OPEN
            else context.palette.muted
        )


def _badge(incident: Incident, view_model: ViewModel, context: RenderContext) -> str:
    """Glyph and word: how bad it is while it lasts, else that it does not."""
    now = tense(incident, view_model)
    word = str(incident.severity) if now is Tense.OPEN else str(now)
    return f"{context.glyphs.severities[incident.severity]} {word}"


def _style(incident: Incident, view_model: ViewModel, context: RenderContext) -> Style:
    is_open = tense(incident, view_model) is Tense.OPEN
    return context.palette.severity(incident.severity) if is_open else context.palette.faint


def brief(
    view_model: ViewModel, incident: Incident, width: int, context: RenderContext
) -> list[Strip]:
    """One line: severity, since, for how long, summary."""
    palette = context.palette
    parts: list[Part] = [
        (fit(_badge(incident, view_model, context), 11), _style(incident, view_model, context)),
        (f"{units.clock(incident.opened_at, utc=view_model.utc)} ", palette.muted),
        (fit(units.span(lasted(incident, view_model.view.time)), 11, "right"), palette.muted),
        ("  ", palette.text),
    ]
    text = palette.text if incident.open else palette.muted
    return [line([*parts, (fit(_untimed(incident, view_model), max(0, width - 33)), text)], width)]


def detail(
    view_model: ViewModel, incident: Incident | None, width: int, context: RenderContext
) -> list[Strip]:
    """One incident with its evidence, its course and its runbook, side by side where there is
    room.
    """
    if incident is None:
        if not view_model.has_data:
            reasons = [node.why_no_data for node in view_model.cluster.nodes.values()]
            why = f"{units.ABSENT} not evaluated: {next(iter(reasons), 'no data yet')}"
            return [line([(part, context.palette.muted)], width) for part in wrap(why, width)]
        return [line([("no incident to show", context.palette.muted)], width)]
    page = (width - GUTTER) // 2
    if page >= LEAST_PAGE:
        found = _found(view_model, incident, page, min(page, PAGE), context)
        guide = _guide(incident, page, min(page, PAGE), context)
        room = max(COURSE, min(TALLEST, len(guide) - len(found) - 1))
        found += _course(view_model, incident, page, room, context)
        return beside(((found, page), (guide, page)), GUTTER)
    found = _found(view_model, incident, width, min(width, PAGE), context)
    if width >= WIDE:
        found += _course(view_model, incident, width, COURSE, context)
    if guide := _guide(incident, width, min(width, PAGE), context):
        found += [line([], width), *guide]
    return found


def _course(
    view_model: ViewModel, incident: Incident, width: int, height: int, context: RenderContext
) -> list[Strip]:
    """Charts of what it was seen by, a line apart from what stands above."""
    drawn = course.draw(view_model, incident, width, height, context)
    return [line([], width), *drawn] if drawn else []


def _found(
    view_model: ViewModel, incident: Incident, width: int, page: int, context: RenderContext
) -> list[Strip]:
    """What happened, where, when, and what was seen; text in lines of at most `page` cells."""
    palette = context.palette
    now = tense(incident, view_model)
    style = palette.severity(incident.severity) if now is Tense.OPEN else palette.muted
    rows: list[list[Part]] = [
        [
            (f"{context.glyphs.severities[incident.severity]} {incident.severity}  ", style),
            (incident.kind, palette.strong),
            ("" if now is Tense.OPEN else f"  {now}", palette.muted),
        ],
        *([(text, palette.text)] for text in wrap(summary(incident, view_model), page)),
        [],
        *_fact("where", place(incident), page, context),
        *_fact("when", _when(view_model, incident), page, context),
    ]
    if incident.job and incident.node:
        rows += _fact("job", incident.job, page, context)
    if advice := _ADVICE.get(incident.kind):
        rows += _fact("next", advice, page, context)
    if incident.evidence:
        rows += [[], [(_SEEN[now], palette.muted)]]
    for evidence in incident.evidence:
        named = evidence.node is None or evidence.node in evidence.text
        text = evidence.text if named else f"{evidence.node}: {evidence.text}"
        text = told(text, incident, utc=view_model.utc)
        for index, part in enumerate(wrap(text, page - 2)):
            rows.append([("· " if not index else "  ", palette.faint), (part, palette.text)])
    return [line(row, width) for row in rows]


def _guide(incident: Incident, width: int, page: int, context: RenderContext) -> list[Strip]:
    """The runbook of its kind; nothing for a rule of the user's own."""
    guide = runbook(incident.kind)
    if not guide:
        return []
    head: list[Part] = [
        ("runbook  ", context.palette.muted),
        (title(incident.kind), context.palette.text),
    ]
    drawn = (line(head, width), line([], width), *markdown.draw(guide, page, context.palette))
    return [strip.adjust_cell_length(width) for strip in drawn]


def _when(view_model: ViewModel, incident: Incident) -> str:
    """From when to when, in the tense that fits the time shown."""
    zone = " UTC" if view_model.utc else ""
    since = units.clock(incident.opened_at, utc=view_model.utc)
    span = units.span(lasted(incident, view_model.view.time))
    if tense(incident, view_model) is Tense.LATER:
        ahead = incident.opened_at - view_model.view.time
        known = f"{units.span(ahead)} later" if ahead >= 1 else "not noticed yet at the time shown"
        parts = [f"{since}{zone}, {known}"]
    elif incident.closed_at is None:
        parts = [f"since {since}{zone}, for {span}"]
    else:
        until = units.clock(incident.closed_at, utc=view_model.utc)
        parts = [f"{since} to {until}{zone}, lasted {span}"]
    noticed = incident.detected_at
    if noticed is not None and noticed - incident.opened_at >= 1:
        parts.append(f"noticed {units.span(noticed - incident.opened_at)} after it began")
    if incident.returns:
        times = "once" if incident.returns == 1 else f"{incident.returns} times"
        parts.append(f"closed and came back {times}")
    return "; ".join(parts)


def _fact(label: str, text: str, width: int, context: RenderContext) -> list[list[Part]]:
    return [
        [(f"{label if not index else '':<7}", context.palette.muted), (part, context.palette.text)]
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
