"""The rank that blocks a job: the incidents that explain its communication, and its ranks."""

from collections.abc import Sequence

import numpy as np
from textual.strip import Strip

from trntop.analysis.rulebook import NEXT_STEPS
from trntop.analysis.runbook import kind_name
from trntop.catalog import Provenance
from trntop.core import units
from trntop.core.model import Incident

from ..view_model import ViewModel
from . import glyphs
from .context import RenderContext, mark
from .incidents import location, seconds_open
from .jobs import comm_bound, comm_causes
from .line import Part, length, line, wrapped
from .ranks import COMPUTE, JobRanks, median


def draw(
    view_model: ViewModel, job: str, ranks: JobRanks, width: int, height: int,
    context: RenderContext,
) -> Sequence[Strip]:  # fmt: skip
    """The causes, as much of their evidence as fits, and the ranks."""
    palette = context.palette
    causes, bound = comm_causes(view_model, job), comm_bound(view_model, job)
    ranked = _ranks(view_model, ranks, width, context)
    heads: list[Strip] = []
    full: list[Strip] = []
    evidence: list[Strip] = []
    for incident in causes or ([bound] if bound else []):
        heads.append(_head(view_model, incident, width, context))
        sentence = wrapped(incident.summary, width, palette.text, [("  ", palette.text)])
        full += [heads[-1], *sentence]
        for item in incident.evidence if causes else ():
            evidence += wrapped(item.text, width, palette.muted, [("  · ", palette.faint)])
    if not causes:
        text = "no single rank or device stands out" if bound else "no incident names a cause"
        sign = "" if bound else f"{glyphs.CALM} "
        heads.append(line([(sign, palette.ok), (text, palette.text)], width))
        full.append(heads[-1])
    step = NEXT_STEPS.get(causes[0].kind) if causes else None
    advice = wrapped(step, width, palette.text, [(f"  {'next':<9}", palette.muted)]) if step else []
    rest = [*advice, *ranked]
    room = height - len(full) - len(rest) - 1
    if room < 0:
        return [*heads, *ranked][:height]
    return [*full, *evidence[:room], *([line([], width)] if rest else []), *rest]


def _head(view_model: ViewModel, incident: Incident, width: int, context: RenderContext) -> Strip:
    """Location, start, duration and kind, as much of it as fits."""
    palette = context.palette
    sign = glyphs.SEVERITIES[incident.severity]
    since = units.clock(incident.opened_at, utc=view_model.utc)
    parts: list[Part] = [
        (f"{sign} {location(incident)}", palette.severity(incident.severity)),
        (f"  since {since}", palette.muted),
        (f", {units.span(seconds_open(incident, view_model.view.time))}", palette.muted),
        (f"  {kind_name(incident.kind)}", palette.faint),
    ]
    while len(parts) > 1 and length(parts) > width:
        parts.pop()
    return line(parts, width)


def _ranks(
    view_model: ViewModel, ranks: JobRanks, width: int, context: RenderContext
) -> list[Strip]:
    """Compute and waiting times of the newest step."""
    found: list[Strip] = []

    def fact(label: str, text: str, *, warning: bool = False) -> None:
        style = context.palette.warning if warning else context.palette.text
        found.extend(wrapped(text, width, style, [(f"  {label:<9}", context.palette.muted)]))

    limit = view_model.limits.straggler
    reported, derived = mark(COMPUTE), units.mark(Provenance.DERIVED)
    if len(ranks) > 1 and not np.isnan(ranks.lead).all():
        first = int(np.nanargmax(ranks.lead))
        lead = max(0.0, float(ranks.lead[first]))
        text = f"compute times within {units.percent(lead)} {derived} of the median"
        if lead > limit:
            took = units.seconds(float(ranks.compute[first]))
            text = (
                f"{ranks.named(first)} computes {took} {reported}, "
                f"{units.percent(lead)} {derived} above its peers"
            )
        fact("slowest", text, warning=lead > limit)
    if (waits := median(ranks.exposed)) is not None:
        step = units.seconds(median(ranks.seconds))
        fact("waits", f"{units.seconds(waits)} {reported} of each step of {step}, the median rank")
    late = np.flatnonzero(ranks.newest - ranks.step > 1)
    if len(late):
        behind = sorted({ranks.nodes[node] for node in ranks.node[late].tolist()})
        more = f" and {len(behind) - 1} more" if len(behind) > 1 else ""
        fact("behind", f"{len(late)} of {len(ranks)} ranks, on {behind[0]}{more}", warning=True)
    return found
