"""`trntop incidents`: the incidents of the last day, from agents, aggregators or Prometheus."""

import argparse
import asyncio
import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING

from trntop.cli.opening import settings_of
from trntop.cli.snapshots import write
from trntop.core import units
from trntop.core.errors import TrntopError, UsageError
from trntop.core.model import Incident
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source, parse_all

if TYPE_CHECKING:
    from trntop.collectors.fleet.incident_report import IncidentReport

FOLLOW_SECONDS = 2.0
"""Seconds between two requests of `--follow`."""
_LISTS = (Origin.AGENT, Origin.NODES_FILE, Origin.DNS, Origin.SLURM, Origin.EC2)


def add_incidents_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--follow", action="store_true",
        help="print open incidents, then what opens, changes and closes, one per line",
    )  # fmt: skip


def incidents(args: Namespace) -> int:
    """The incidents of agents and aggregators, or of a Prometheus server."""
    settings = settings_of(args)
    sources = parse_all(args.sources or [f"http://127.0.0.1:{settings.fleet.port}"])
    for source in sources:
        if source.origin not in (*_LISTS, Origin.PROMETHEUS):
            raise UsageError(
                f"{source.text} keeps no incidents: name an agent, an aggregator or"
                " prometheus+http://HOST; for recordings, use trntop analyze"
            )
    if args.follow:
        return _follow(sources, settings, as_json=args.json)
    name, report = _fetch_report(sources, settings)
    for problem in report.problems:
        print(f"trntop: {name}: {problem}", file=sys.stderr)
    if args.json:
        write(_document(report))
    else:
        print(_table(name, report))
    return 0


def _fetch_report(sources: list[Source], settings: Settings) -> tuple[str, "IncidentReport"]:
    """The combined report of all sources, and its name; an aggregator precedes its agents."""
    from trntop.collectors.fleet.incident_report import IncidentReport, fetch
    from trntop.collectors.prometheus import address
    from trntop.collectors.prometheus import incident_report as backend

    if sources[0].origin is Origin.PROMETHEUS:
        backend_address = address.parse(sources[0].text)
        found, now = asyncio.run(backend.fetch(backend_address, settings.fleet))
        return backend_address.name, IncidentReport("prometheus", 0, tuple(found), now)

    async def gather() -> list[tuple[str, IncidentReport]]:
        return [pair for source in sources for pair in await fetch(source, settings)]

    reports = asyncio.run(gather())
    if len(reports) == 1:
        return reports[0]
    reports.sort(key=lambda pair: pair[1].judge == "agent")
    by_id: dict[str, Incident] = {}
    for _, report in reports:
        for incident in report.incidents:
            by_id.setdefault(incident.id, incident)
    times = [report.time for _, report in reports if report.time is not None]
    begun = [report.since for _, report in reports if report.since is not None]
    judged = [report.judged_from for _, report in reports if report.judged_from is not None]
    return f"{len(reports)} addresses", IncidentReport(
        reports[0][1].judge,
        sum(report.nodes for _, report in reports),
        tuple(sorted(by_id.values(), key=_order)),
        max(times, default=None),
        max(begun, default=None),
        max(judged) if len(judged) == len(reports) else None,
        max((report.behind_seconds or 0.0 for _, report in reports), default=0.0) or None,
        any(report.simulated for _, report in reports),
        tuple(f"{name}: {problem}" for name, report in reports for problem in report.problems),
    )


def _order(incident: Incident) -> tuple[bool, float]:
    return not incident.open, -(incident.closed_at or incident.opened_at)


def _document(report: "IncidentReport") -> bytes:
    from trntop.exporters import document

    return document.encode(
        document.incident_report(
            report.incidents,
            judge=report.judge,
            nodes=report.nodes,
            now=report.time,
            since=report.since,
            judged_from=report.judged_from,
            behind=report.behind_seconds or 0.0,
            simulated=report.simulated,
            problems=report.problems,
        )
    )


def _table(name: str, report: "IncidentReport") -> str:
    from trntop.analysis.runbook import kind_name

    now = report.time or time.time()
    facts = [name, *(["SIMULATED"] if report.simulated else [])]
    if report.judge == "prometheus":
        facts.append("Prometheus, to the minute")
    else:
        facts.append(f"{report.judge} of {report.nodes} node{'s' * (report.nodes != 1)}")
    if report.since is not None:
        facts.append(f"watching for {units.span(now - report.since)}")
        judged = report.judged_from
        facts.append("not judging yet" if judged is None else f"judging since {_stamp(judged)} UTC")
    if report.behind_seconds:
        facts.append(f"behind by {units.span(report.behind_seconds)}")
    lines = [" · ".join(facts)]
    if not report.incidents:
        return f"{lines[0]}\nno incidents in the last 24 h"
    rows = [("OPENED (UTC)", "LASTED", "SEVERITY", "KIND", "INCIDENT")]
    for incident in report.incidents:
        lasted = units.span((incident.closed_at or now) - incident.opened_at)
        rows.append(
            (_stamp(incident.opened_at), f"{'open ' * incident.open}{lasted}", incident.severity,
             kind_name(incident.kind), incident.summary)
        )  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=False))
        lines.append("  ".join((*cells, row[4])))
    return "\n".join(lines)


def _stamp(unix: float) -> str:
    return time.strftime("%m-%d %H:%M:%S", time.gmtime(unix))


def _follow(sources: list[Source], settings: Settings, *, as_json: bool) -> int:
    """Prints changes until interrupted; the first answer must come, later ones may fail."""
    known: dict[str, Incident] | None = None
    failed = ""
    while True:
        try:
            _, report = _fetch_report(sources, settings)
            failed = ""
        except TrntopError as error:
            if known is None:
                raise
            if str(error) != failed:
                print(f"trntop: {error}; trying again", file=sys.stderr, flush=True)
            failed = str(error)
        else:
            current = {incident.id: incident for incident in report.incidents}
            for incident in reversed(report.incidents):
                before = None if known is None else known.get(incident.id)
                if event := _event(before, incident, first=known is None):
                    _print_event(event, incident, as_json=as_json)
            known = current
        time.sleep(FOLLOW_SECONDS)


def _event(before: Incident | None, now: Incident, *, first: bool) -> str:
    """What happened to an incident; empty for nothing."""
    if before is None:
        return "open" if now.open else "" if first else "closed"
    if before.open is not now.open:
        return "open" if now.open else "closed"
    return "changed" if before.severity is not now.severity or before.node != now.node else ""


def _print_event(event: str, incident: Incident, *, as_json: bool) -> None:
    from trntop.analysis.runbook import kind_name
    from trntop.exporters import document

    if as_json:
        write(document.encode(document.incident(incident)))
        return
    at = incident.opened_at if incident.closed_at is None else incident.closed_at
    what = f"{kind_name(incident.kind)}  {incident.summary}"
    print(f"{_stamp(at)}  {event:<7}  {incident.severity:<8}  {what}", flush=True)
