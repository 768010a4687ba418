"""The shift report, as Markdown that is also readable as plain text.

All times are UTC: the next shift may be in another time zone. Untrusted text is escaped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trntop.analysis.coverage import beginning, summary
from trntop.analysis.rulebook import NEXT_STEPS
from trntop.analysis.runbook import kind_name
from trntop.core import units
from trntop.core.model import Cluster, Incident, Severity, View
from trntop.pipeline.jobs import newest_step
from trntop.sources import DEVICE_SOURCES, LOCAL_SOURCES, PROBES

from .grid import plural
from .markdown import moment, plain, table
from .silence import down_sources, is_down, sources_of

MAX_DETAILED = 20
"""Closed incidents that are listed with their evidence."""
MAX_EVIDENCE = 3
"""Pieces of evidence of each of them."""
MAX_ROWS = 200
"""Closed incidents, and nodes, that are listed; the others are counted."""
MAX_NAMES = 6


def report(
    first: View,
    last: View,
    seconds: float,
    incidents: Sequence[Incident],
    *,
    chosen: str = "",
    acknowledged: Mapping[str, float] | None = None,
) -> str:
    """One Markdown page, the worst first.

    Args:
        first: the first view.
        last: the newest view, which is the present of the report.
        seconds: seconds of data.
        incidents: the incidents to report.
        chosen: the filter of the incidents, in words; empty for all.
        acknowledged: id → unix seconds of incidents that the user acknowledged.
    """
    blocks = [
        *_head(first, last, seconds, incidents, chosen),
        *_open(last, incidents, acknowledged or {}),
        *_closed(incidents),
        *_nodes(incidents),
        *_not_monitored(last.cluster),
    ]
    return "\n\n".join(blocks) + "\n"


def _head(
    first: View, last: View, seconds: float, incidents: Sequence[Incident], chosen: str
) -> Iterator[str]:
    cluster = last.cluster
    yield f"# trntop report, {moment(last.time)}"
    if cluster.simulated:
        yield "**SIMULATED**: these values come from a simulator."
    yield f"**{_verdict(last, incidents, chosen)}**"
    types = Counter(view.inventory.instance_type for view in cluster.nodes.values())
    named = ", ".join(f"{count} × {plain(kind)}" for kind, count in types.items() if kind)
    lines = [
        f"- Nodes: {len(cluster.nodes)}{f', {named}' if named else ''} ({_names(cluster.names)})",
        f"- Time: {moment(first.time)} to {moment(last.time)}, {units.span(seconds)} of data",
    ]
    lines += [f"- {text}" for text in summary(last.coverage, last.time)]
    lines += [f"- Job: {_job(cluster, job, names)}" for job, names in cluster.jobs.items()]
    if chosen:
        lines.append(f"- Only incidents {plain(chosen)}")
    yield "\n".join(lines)


def _verdict(last: View, incidents: Sequence[Incident], chosen: str) -> str:
    """The state now, in one line."""
    clock = f"At {units.clock(last.time, utc=True)} UTC"
    if not last.cluster.has_parts:
        return f"{clock}: INCONCLUSIVE, no data."
    ongoing = [incident for incident in incidents if incident.open]
    selected = "selected " if chosen else ""
    if not ongoing:
        healthy = f"{clock}: HEALTHY: no {selected}open incidents"
        if beginning(last.coverage, last.time, utc=True):
            return f"{clock}: INCONCLUSIVE, too little data for the rules."
        lost = any(
            is_down(source) and (source.time is not None or source.name in DEVICE_SOURCES)
            for _, source in sources_of(last.cluster.nodes.values())
        )
        return f"{healthy}, but some sources are down." if lost else f"{healthy}."
    critical = sum(incident.severity is Severity.CRITICAL for incident in ongoing)
    if all(incident.severity is Severity.INFO for incident in ongoing):
        return f"{clock}: HEALTHY: {plural(len(ongoing), f'{selected}open incident')} (info)."
    worst = f" ({critical} critical)" if critical else ""
    return f"{clock}: DEGRADED: {plural(len(ongoing), f'{selected}open incident')}{worst}."


def _job(cluster: Cluster, job: str, names: Sequence[str]) -> str:
    newest = newest_step(cluster, job)
    step = "" if newest is None else f", step {units.count(newest)}"
    return f"{plain(job)}, {plural(len(names), 'node')}{step}{_start(cluster, job, names)}"


COMPILED = frozenset(
    (
        "node_compile_seconds_total",
        "node_compile_cache_hits_total",
        "node_compile_cache_misses_total",
    )
)
"""Quantities that the report reads, in addition to those of the rules."""


def _start(cluster: Cluster, job: str, names: Sequence[str]) -> str:
    """What the start of a job took: compilations and cache lookups, as the training logs of its
    nodes report them, and its first step.
    """

    def known(quantity: str) -> list[float]:
        found = (cluster.nodes[name].frame.value(quantity) for name in names)
        return [value for value in found if value is not None]

    seconds = known("node_compile_seconds_total")
    hits, misses = (sum(known(f"node_compile_cache_{kind}_total")) for kind in ("hits", "misses"))
    text = ""
    if seconds or hits or misses:
        text = (
            f"; compiled for {units.span(max(seconds, default=0.0))} on the longest node, "
            f"{units.count(hits)} cache hits, {units.count(misses)} misses"
        )
    if (first := cluster.first_steps.get(job)) is not None:
        text += f"; first step {units.seconds(first)}"
    return text


# Incidents


def _open(
    last: View, incidents: Sequence[Incident], acknowledged: Mapping[str, float]
) -> Iterator[str]:
    ongoing = sorted(
        (incident for incident in incidents if incident.open),
        key=lambda incident: (-incident.severity.rank, incident.opened_at),
    )
    if ongoing:
        yield "## Open"
    for number, incident in enumerate(ongoing, 1):
        age = units.span(last.time - incident.opened_at)
        yield f"### {number}. {plain(kind_name(incident.kind))}, {incident.severity}, for {age}"
        yield plain(incident.summary)
        detection = f" ({', '.join(incident.detection)})" if incident.detection else ""
        lines = [f"- Since {moment(incident.opened_at)}{detection}"]
        if (seen := acknowledged.get(incident.id)) is not None:
            lines.append(f"- Acknowledged {moment(seen)}")
        if where := _location(incident):
            lines.append(f"- Location: {where}")
        lines += [f"- {plain(evidence.located)}" for evidence in incident.evidence]
        if step := NEXT_STEPS.get(incident.kind):
            lines.append(f"- Next step: {plain(step)}")
            lines.append(f"- Runbook: `trntop rules {incident.kind}`")
        yield "\n".join(lines)


def _location(incident: Incident) -> str:
    job = f"job {incident.job}" if incident.job else ""
    return ", ".join(plain(part) for part in (incident.node, incident.component, job) if part)


def _closed(incidents: Sequence[Incident]) -> Iterator[str]:
    closed = sorted(
        (incident for incident in incidents if incident.closed_at is not None),
        key=lambda incident: incident.opened_at,
        reverse=True,
    )
    if not closed:
        return
    yield f"## Closed ({len(closed)})"
    rows = [("from, UTC", "duration", "kind", "severity", "location", "summary")]
    rows += [
        (
            moment(incident.opened_at).removesuffix(" UTC"),
            units.span((incident.closed_at or incident.opened_at) - incident.opened_at)
            + (f", recurred {incident.returns} ×" if incident.returns else ""),
            plain(kind_name(incident.kind)),
            str(incident.severity),
            _location(incident),
            plain(incident.summary),
        )
        for incident in closed[:MAX_ROWS]
    ]
    yield table(rows)
    if len(closed) > MAX_ROWS:
        more = len(closed) - MAX_ROWS
        yield f"and {more:,} earlier incidents (`trntop analyze --json` lists all)"
    detailed = [incident for incident in closed[:MAX_DETAILED] if incident.evidence]
    if detailed:
        yield "### Evidence"
        yield "\n".join(
            f"- {moment(incident.opened_at)} {plain(kind_name(incident.kind))}: "
            + "; ".join(plain(evidence.located) for evidence in incident.evidence[:MAX_EVIDENCE])
            for incident in detailed
        )


def _nodes(incidents: Sequence[Incident]) -> Iterator[str]:
    by_node: dict[str, Counter[str]] = {}
    for incident in incidents:
        if incident.node is not None:
            by_node.setdefault(incident.node, Counter())[incident.kind] += 1
    if not by_node:
        return
    yield "## Offending nodes"
    rows = [["node", "incidents", "kinds"]]
    worst = sorted(by_node, key=lambda node: (-by_node[node].total(), units.natural_sort_key(node)))
    rows += [
        [plain(node), f"{by_node[node].total()}", _kinds(by_node[node])]
        for node in worst[:MAX_ROWS]
    ]
    yield table(rows)
    if len(worst) > MAX_ROWS:
        yield f"and {len(worst) - MAX_ROWS:,} more nodes"


def _kinds(kinds: Counter[str]) -> str:
    """`EFA degraded 3, Straggler`."""
    return ", ".join(
        plain(kind_name(kind)) + (f" {count}" if count > 1 else "")
        for kind, count in kinds.most_common()
    )


# Not monitored


def _not_monitored(cluster: Cluster) -> Iterator[str]:
    lines = [
        f"- {source} of {plural(len(nodes), 'node')} ({_names(nodes)}), {plain(why)}"
        for (source, why), nodes in down_sources(cluster.nodes.values()).items()
    ]
    present = {source.name for _, source in sources_of(cluster.nodes.values())}
    if missing := [name for name in (*LOCAL_SOURCES, *PROBES) if name not in present]:
        lines.append(f"- Available on no node: {', '.join(missing)}")
    if lines:
        yield "## Not monitored"
        yield "\n".join(lines)


# Text


def _names(names: Iterable[str]) -> str:
    named = sorted(names, key=units.natural_sort_key)
    more = f", … {len(named) - MAX_NAMES} more" if len(named) > MAX_NAMES else ""
    return ", ".join(map(plain, named[:MAX_NAMES])) + more
