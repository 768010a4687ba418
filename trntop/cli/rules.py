"""`trntop rules`: detection rules and thresholds, and the runbook of each rule.

Or the same for another program: `trntop rules prometheus`, `trntop rules grafana`.
"""

import argparse
import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trntop.analysis.custom import rule_of
from trntop.analysis.rule import Rule
from trntop.analysis.rulebook import RULEBOOK
from trntop.analysis.rulebook import rules as in_force
from trntop.analysis.runbook import runbook, title
from trntop.cli import arguments
from trntop.cli.choice import known_kind
from trntop.cli.opening import settings_of
from trntop.core.errors import UsageError
from trntop.core.settings import Analysis, Settings
from trntop.core.text import clean
from trntop.exporters import document
from trntop.exporters.grid import Column, fill, lines, wrapped

if TYPE_CHECKING:
    from trntop.exporters.rules import Group

PROMETHEUS, GRAFANA = "prometheus", "grafana"
"""Instead of a KIND: the rules for that program."""
_MATCHER = r'\s*\w+\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"\s*'
_SELECTOR = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*")
"""PromQL's label matchers, without the braces around them."""
OPTIONS = {
    PROMETHEUS: ("runbook_url", "dashboard_url", "selector"),
    GRAFANA: ("output",),
}
"""Options that need one of these."""


Row = dict[str, Any]
"""A rule as `--json` prints it."""


def add_rules_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind", nargs="?", metavar="KIND", help="e.g. efa_degraded; or prometheus or grafana"
    )
    arguments.output_form(parser)
    alerts = parser.add_argument_group("for prometheus")
    alerts.add_argument(
        "--runbook-url", metavar="URL", help="link runbooks as URL followed by KIND.md"
    )
    alerts.add_argument(
        "--dashboard-url", metavar="URL", help="Grafana address for links to dashboards"
    )
    alerts.add_argument(
        "--selector", metavar="MATCHERS",
        help="label matchers of the scrape jobs of trntop (default: job='trntop')",
    )  # fmt: skip
    boards = parser.add_argument_group("for grafana (without options: list the dashboards)")
    boards.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write the dashboards to a directory"
    )


def rules(args: Namespace) -> int:
    """The rules as a table or JSON; of one kind, everything."""
    settings = settings_of(args)
    _check(args)
    if args.kind == PROMETHEUS:
        sys.stdout.write(prometheus(args, settings))
        return 0
    if args.kind == GRAFANA:
        return grafana(args, settings)
    rows = list(table(settings))
    if args.kind is not None:
        rows = [row for row in rows if row["kind"] == known_kind(args.kind, settings)]
    if args.json:
        found = {"schema": document.SCHEMA, "rules": rows}
        sys.stdout.buffer.write(document.encode(found) + b"\n")
        return 0
    width = max(80, shutil.get_terminal_size((100, 24)).columns)
    if args.kind is None:
        print("\n".join(_grid(rows, width)))
    else:
        print("\n".join(_in_full(rows[0], min(width, 100))))
    return 0


def prometheus(args: Namespace, settings: Settings) -> str:
    """A file of recording rules and alerts for Prometheus.

    Raises:
        SettingsError: `analysis.disabled` has an unknown kind of incident.
    """
    from trntop.exporters.rules import rule_file

    links = {
        "runbooks": args.runbook_url, "dashboards": args.dashboard_url, "selector": args.selector,
    }  # fmt: skip
    return rule_file(rule_groups(settings, **{name: text for name, text in links.items() if text}))


def rule_groups(settings: Settings, **links: str) -> "Sequence[Group]":
    """The recording rules and alerts for the settings in force.

    Args:
        settings: the settings in force.
        links: fields of `Links` that differ from their defaults.

    Raises:
        SettingsError: `analysis.disabled` has an unknown kind of incident.
    """
    from trntop.exporters.rules import Links, incident_group, recording_groups, watch_group

    kinds = in_force(settings.analysis, settings.rules)
    titles = {rule.kind: about for rule in kinds if (about := title(rule.kind))}
    targets = Links(titles=titles, **links)
    return (
        *recording_groups(),
        incident_group(kinds, targets),
        watch_group(settings.analysis, targets),
    )


def grafana(args: Namespace, settings: Settings) -> int:
    """Lists the dashboards, or writes them to a directory, with the limits in force.

    Raises:
        UsageError: the directory cannot be written.
    """
    from trntop.exporters import shipped_dashboards as dashboards

    if args.output is None:
        for name, description in dashboards.descriptions().items():
            print(f"{name:<8}  {description}")
        print("trntop: write them with -o DIR", file=sys.stderr)
        return 0
    for path in dashboards.write(args.output, settings.analysis):
        print(f"trntop: wrote {path}", file=sys.stderr)
    return 0


def _check(args: Namespace) -> None:
    """Rejects options that do not apply."""
    for word, names in OPTIONS.items():
        given = [name for name in names if getattr(args, name)]
        if given and args.kind != word:
            option = given[0].replace("_", "-")
            raise UsageError(f"--{option} is only for trntop rules {word}")
    if args.selector and not _SELECTOR.fullmatch(args.selector):
        raise UsageError(
            f'{clean(args.selector, 60)} is not a valid --selector; use matchers: job="trntop"'
        )
    if args.json and args.kind in OPTIONS:
        raise UsageError(f"--json cannot be combined with trntop rules {args.kind}")


def table(settings: Settings) -> Iterator[Row]:
    """The built-in rules, then the custom rules.

    Raises:
        SettingsError: `analysis.disabled` has an unknown kind of incident.
    """
    analysis = settings.analysis
    active = {rule.kind for rule in in_force(analysis, settings.rules)}
    for rule in RULEBOOK:
        yield _row(rule, analysis, "on" if rule.kind in active else "off")
    for rule in map(rule_of, settings.rules):
        yield _row(rule, analysis, "own" if rule.kind in active else "off")


def _row(rule: Rule, settings: Analysis, state: str) -> Row:
    return {
        "kind": rule.kind,
        "severity": str(rule.severity),
        "condition": rule.stated(settings),
        "hold_seconds": settings.hold if rule.hold is None else rule.hold,
        "clear_hold_seconds": rule.clear_hold,
        "state": state,
        "summary": rule.summary,
        "advice": rule.advice or None,
        "settings": {f"analysis.{name}": getattr(settings, name) for name in rule.settings},
        "follows": list(rule.inhibited_by),
    }


def _grid(rows: Sequence[Row], width: int) -> Iterator[str]:
    """The table; conditions are wrapped below their column, not cut."""
    columns = [
        Column("kind", left=True),
        Column("severity", left=True),
        Column("hold", "s"),
        Column("state", left=True),
        Column("condition", left=True),
    ]
    cells = [
        (row["kind"], row["severity"], f"{row['hold_seconds']:g}", row["state"]) for row in rows
    ]
    titles = [tuple(column.title for column in columns[:-1])]
    room = width - sum(max(map(len, texts)) + 2 for texts in zip(*cells, *titles, strict=True))
    for row, first_cells in zip(rows, cells, strict=True):
        first, *rest = wrapped(row["condition"], max(room, 20), "") or [""]
        fill(columns, (*first_cells, first))
        for line in rest:
            fill(columns, ("", "", "", "", line))
    yield from (line.rstrip() for line in lines(columns, width))


def _in_full(row: Row, width: int) -> Iterator[str]:
    hold, clear_hold = row["hold_seconds"], row["clear_hold_seconds"]
    facts = [
        ("severity", row["severity"]),
        ("state", "off (analysis.disabled)" if row["state"] == "off" else row["state"]),
        ("condition", row["condition"]),
        ("opens", f"after {hold:g} s" if hold else "at once"),
        ("closes", f"{clear_hold:g} s after recovery" if clear_hold else "at recovery"),
        ("message", row["summary"]),
        ("first step", row["advice"]),
        ("inhibited by", ", ".join(row["follows"])),
    ]
    yield row["kind"]
    for name, text in facts:
        if text:
            first, *rest = wrapped(text, width - 16, "")
            yield f"  {name:<12}  {first}"
            yield from (f"{'':16}{line}" for line in rest)
    for key, value in row["settings"].items():
        default = getattr(Analysis(), key.partition(".")[2])
        note = "the default" if value == default else f"default {_plain(default)}"
        yield f"  {key} = {_plain(value)}  ({note})"
    if page := runbook(row["kind"]):
        yield ""
        yield page.rstrip()


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
