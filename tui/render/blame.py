"""Who a job waits for: the incidents that explain its communication, and what its ranks say."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from textual.strip import Strip

from trntop.analysis import RULEBOOK
from trntop.catalog import Provenance
from trntop.core import units
from trntop.core.model import Incident

from ..view_model import ViewModel
from . import moments
from .axes import Mark
from .context import RenderContext, mark
from .incidents import lasted, place, summary, wrap
from .line import Part, fit, length, line
from .ranks import COMPUTE, Crew, median

BOUND = "comm_bound"
CAUSES = next(frozenset(rule.inhibited_by) for rule in RULEBOOK if rule.kind == BOUND)
"""Kinds of incidents that explain why a job communicates for long."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that the ranks say."""

    label: str
    text: str
    more: str = ""
    """What goes first where space ends."""
    loud: bool = False


def tells(view_model: ViewModel, one: Incident, job: str) -> bool:
    """Whether an incident says that `job` communicates too much, or why; "" is any job."""
    if one.kind == BOUND:
        return one.job == job or not job
    nodes = view_model.cluster.jobs.get(job, ())
    return one.kind in CAUSES and (not job or one.job == job or (not one.job and one.node in nodes))


def suspects(view_model: ViewModel, job: str) -> list[Incident]:
    """The open incidents that explain a job's communication, worst first; "" is any job."""
    return [
        one for one in view_model.incidents if one.kind != BOUND and tells(view_model, one, job)
    ]


def bound(view_model: ViewModel, job: str) -> Incident | None:
    """The open incident that says that the job communicates too much, if there is one."""
    return next((one for one in view_model.incidents if one.kind == BOUND and one.job == job), None)


def marks(view_model: ViewModel, job: str, context: RenderContext) -> list[Mark]:
    """When what explains a job's communication began; "" is any job."""
    return moments.of(
        view_model,
        (one for one in view_model.view.incidents if tells(view_model, one, job)),
        context,
    )


def draw(
    view_model: ViewModel, job: str, crew: Crew, width: int, height: int, context: RenderContext
) -> Sequence[Strip]:
    """What is known of whom the job waits for, as much as fits into `height` lines.

    Sentences and evidence go where space ends: the alert line has the first one's anyway.
    """
    found = suspects(view_model, job)
    much = bound(view_model, job)
    heads = [_head(view_model, one, width, context) for one in found] or [_nobody(context, much)]
    told = found or [one for one in [much] if one]
    texts = [_text(summary(one, view_model), width, context) for one in told]
    evidence = [_evidence(one, width, context) for one in found]
    facts = _ranks(view_model, crew)
    rows: list[list[Part]] = []
    for level in (2, 1, 0):
        rows = []
        for number, head in enumerate(heads):
            rows.append(head)
            rows += texts[number] if level and number < len(texts) else []
            rows += evidence[number] if level > 1 and number < len(evidence) else []
        said = [row for fact in facts for row in _told(fact, width, context, brief=not level)]
        rows += [[]] * (level > 0 and bool(said)) + said
        if len(rows) <= height:
            break
    return [line(row, width) for row in rows[:height]]


def _head(view_model: ViewModel, one: Incident, width: int, context: RenderContext) -> list[Part]:
    """Where, since when, for how long, and what kind, as much of it as fits."""
    palette = context.palette
    sign = context.glyphs.severities[one.severity]
    since = units.clock(one.opened_at, utc=view_model.utc)
    ago = units.span(lasted(one, view_model.view.time))
    parts: list[Part] = [
        (f"{sign} {place(one)}", palette.severity(one.severity)),
        (f"  since {since}", palette.muted),
        (f", {ago}", palette.muted),
        (f"  {one.kind}", palette.faint),
    ]
    while len(parts) > 1 and length(parts) > width:
        parts.pop()
    return parts


def _nobody(context: RenderContext, much: Incident | None) -> list[Part]:
    if much is None:
        return [
            (f"{context.glyphs.calm} ", context.palette.ok),
            ("no incident names anybody", context.palette.text),
        ]
    sign = context.glyphs.severities[much.severity]
    return [
        (f"{sign} comm is much, but nobody stands out", context.palette.severity(much.severity))
    ]


def _text(text: str, width: int, context: RenderContext) -> list[list[Part]]:
    return [
        [("  ", context.palette.text), (part, context.palette.text)]
        for part in wrap(text, width - 2)
    ]


def _evidence(one: Incident, width: int, context: RenderContext) -> list[list[Part]]:
    rows: list[list[Part]] = []
    for evidence in one.evidence:
        for number, part in enumerate(wrap(evidence.text, width - 4)):
            rows.append(
                [
                    ("  · " if not number else "    ", context.palette.faint),
                    (part, context.palette.muted),
                ]
            )
    return rows


def _ranks(view_model: ViewModel, crew: Crew) -> list[Fact]:
    """Who computes longest in the newest step and how long all wait, in numbers."""
    facts: list[Fact] = []
    reported, derived = mark(COMPUTE), units.mark(Provenance.DERIVED)
    most = view_model.limits.straggler
    limit = f" (limit {units.percent(most)})"
    if len(crew) > 1 and not np.isnan(crew.lead).all():
        first = int(np.nanargmax(crew.lead))
        lead = max(0.0, float(crew.lead[first]))
        text = f"ranks compute alike, at most {units.percent(lead)} {derived} above their median"
        if lead > most:
            took = units.seconds(float(crew.compute[first]))
            text = f"{_named(crew, first)} computes {took} {reported}, "
            text += f"{units.percent(lead)} {derived} above its peers"
        facts.append(Fact("slowest", text, limit, lead > most))
    if (waits := median(crew.exposed)) is not None:
        of = units.seconds(median(crew.seconds))
        least = int(np.nanargmin(crew.exposed))
        more = ""
        if crew.exposed[least] < (1 - most) * waits:
            took = units.seconds(float(crew.exposed[least]))
            more = f"; least {took} {reported}: {_named(crew, least)}"
        text = f"{units.seconds(waits)} {reported} of each step of {of}, the median rank"
        facts.append(Fact("waits", text, more))
    late = np.flatnonzero(crew.newest - crew.step > 1)
    if len(late):
        behind = sorted({crew.nodes[node] for node in crew.node[late].tolist()})
        more = f" and {len(behind) - 1} more" if len(behind) > 1 else ""
        text = f"{len(late)} of {len(crew)} ranks are steps behind: {behind[0]}"
        facts.append(Fact("behind", text, more, loud=True))
    return facts


def _named(crew: Crew, rank: int) -> str:
    return f"rank {crew.ranks[rank]} on {crew.nodes[crew.node[rank]]}"


def _told(fact: Fact, width: int, context: RenderContext, *, brief: bool) -> list[list[Part]]:
    """A fact in one line, or in as many as it takes."""
    style = context.palette.warning if fact.loud else context.palette.text
    room = width - 11
    texts = [fit(fact.text, max(0, room))] if brief else wrap(fact.text + fact.more, room)
    return [
        [(f"  {fact.label if not number else '':<9}", context.palette.muted), (text, style)]
        for number, text in enumerate(texts)
    ]
