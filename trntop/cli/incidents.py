"""`trntop incidents`: the incidents of the last day, as those who judge have kept them."""

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
    from trntop.collectors.fleet.day import Day

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
    name, day = _day(sources, settings)
    for problem in day.problems:
        print(f"trntop: {name}: {problem}", file=sys.stderr)
    if args.json:
        write(_document(day))
    else:
        print(_table(name, day))
    return 0


def _day(sources: list[Source], settings: Settings) -> tuple[str, "Day"]:
    """The day of all sources as one, and its name; an aggregator precedes its agents."""
    from trntop.collectors.fleet.day import Day, fetch
    from trntop.collectors.prometheus import address
    from trntop.collectors.prometheus import day as backend

    if sources[0].origin is Origin.PROMETHEUS:
        place = address.parse(sources[0].text)
        found, now = asyncio.run(backend.fetch(place, settings.fleet))
        return place.name, Day("prometheus", 0, tuple(found), now)

    async def gather() -> list[tuple[str, Day]]:
        return [pair for source in sources for pair in await fetch(source, settings)]

    days = asyncio.run(gather())
    if len(days) == 1:
        return days[0]
    days.sort(key=lambda pair: pair[1].judge == "agent")
    every: dict[str, Incident] = {}
    for _, day in days:
        for incident in day.incidents:
            every.setdefault(incident.id, incident)
    times = [day.time for _, day in days if day.time is not None]
    begun = [day.since for _, day in days if day.since is not None]
    judged = [day.judged_from for _, day in days if day.judged_from is not None]
    return f"{len(days)} addresses", Day(
        days[0][1].judge,
        sum(day.nodes for _, day in days),
        tuple(sorted(every.values(), key=_order)),
        max(times, default=None),
        max(begun, default=None),
        max(judged) if len(judged) == len(days) else None,
        max((day.behind_seconds or 0.0 for _, day in days), default=0.0) or None,
        any(day.simulated for _, day in days),
        tuple(f"{name}: {problem}" for name, day in days for problem in day.problems),
    )


def _order(incident: Incident) -> tuple[bool, float]:
    return not incident.open, -(incident.closed_at or incident.opened_at)


def _document(day: "Day") -> bytes:
    from trntop.exporters import document

    return document.encode(
        document.day(
            day.incidents,
            judge=day.judge,
            nodes=day.nodes,
            now=day.time,
            since=day.since,
            judged_from=day.judged_from,
            behind=day.behind_seconds or 0.0,
            simulated=day.simulated,
            problems=day.problems,
        )
    )


def _table(name: str, day: "Day") -> str:
    now = day.time or time.time()
    facts = [name, *(["SIMULATED"] if day.simulated else [])]
    if day.judge == "prometheus":
        facts.append("Prometheus, to the minute")
    else:
        facts.append(f"{day.judge} of {day.nodes} node{'s' * (day.nodes != 1)}")
    if day.since is not None:
        facts.append(f"watching for {units.span(now - day.since)}")
        judged = day.judged_from
        facts.append("not judging yet" if judged is None else f"judging since {_stamp(judged)} UTC")
    if day.behind_seconds:
        facts.append(f"behind by {units.span(day.behind_seconds)}")
    lines = [" · ".join(facts)]
    if not day.incidents:
        return f"{lines[0]}\nno incidents in the last 24 h"
    rows = [("OPENED (UTC)", "LASTED", "SEVERITY", "KIND", "INCIDENT")]
    for one in day.incidents:
        lasted = units.span((one.closed_at or now) - one.opened_at)
        rows.append(
            (_stamp(one.opened_at), f"{'open ' * one.open}{lasted}", one.severity, one.kind,
             one.summary)
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
            _, day = _day(sources, settings)
            failed = ""
        except TrntopError as error:
            if known is None:
                raise
            if str(error) != failed:
                print(f"trntop: {error}; trying again", file=sys.stderr, flush=True)
            failed = str(error)
        else:
            current = {one.id: one for one in day.incidents}
            for one in reversed(day.incidents):
                before = None if known is None else known.get(one.id)
                if event := _event(before, one, first=known is None):
                    _print_event(event, one, as_json=as_json)
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
    from trntop.exporters import document

    if as_json:
        write(document.encode(document.incident(incident)))
        return
    at = incident.opened_at if incident.closed_at is None else incident.closed_at
    print(
        f"{_stamp(at)}  {event:<7}  {incident.severity:<8}  {incident.kind}  {incident.summary}",
        flush=True,
    )
