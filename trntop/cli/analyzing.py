"""`trntop analyze`: the incidents of recordings, simulations or live sources."""

import argparse
import shutil
import sys
from argparse import Namespace

from trntop.analysis.coverage import lacks, summary
from trntop.analysis.rule_inputs import rule_inputs
from trntop.cli import arguments, opening
from trntop.cli.choice import Choice, choice_of
from trntop.cli.opening import settings_of
from trntop.cli.snapshots import print_problems, write
from trntop.core.errors import UsageError
from trntop.core.model import View
from trntop.core.settings import Settings
from trntop.core.source_spec import Source, parse_all


def add_analyze_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.output_form(parser, "a shift handover report in Markdown")
    parser.add_argument(
        "--since", metavar="TIME",
        help="only incidents open at or after this time: 14:03 (UTC), 2026-11-20T14:03Z, or 30m,"
        " 2h before the end",
    )  # fmt: skip
    parser.add_argument(
        "--rule", action="append", default=[], metavar="KIND", dest="kinds",
        help="only incidents of this kind (trntop rules lists them); repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=arguments.positive, default=60.0,
        help="how long to watch live sources (default: 60)",
    )  # fmt: skip


def analyze(args: Namespace) -> int:
    """Incidents of recordings, simulations, or live sources watched for `--seconds`."""
    sources = parse_all(args.sources)
    settings = settings_of(args)
    choice = choice_of(args, settings)
    inputs = rule_inputs(settings.rules)
    if args.markdown:
        from trntop.exporters.report import COMPILED

        inputs |= COMPILED
    first, last, seconds = _watch(sources, settings, args.seconds, inputs)
    if args.json:
        _report_json(last, seconds, choice)
    elif args.markdown:
        _report_markdown(first, last, seconds, choice)
    else:
        _report(first, last, seconds, choice)
    if last.cluster.has_parts:
        if not last.incidents:
            _warn_if_too_short(last, seconds)
        return 0
    # Without data, the lack of incidents does not mean that the run is healthy.
    print_problems(last.cluster)
    return 1


def _warn_if_too_short(last: View, seconds: float) -> None:
    """Without this, a run too short for the rules would pass for healthy."""
    if not last.coverage.judges(last.time):
        texts = "; ".join(lacks(last.coverage, last.time))
        print(f"trntop: {seconds:.3g} s are too short: {texts}", file=sys.stderr)


def _watch(
    sources: list[Source], settings: Settings, seconds: float, inputs: frozenset[str]
) -> tuple[View, View, float]:
    """The first and the last view, and the seconds seen between them.

    Args:
        sources: of the user.
        settings: of the user.
        seconds: for which live sources are watched.
        inputs: the quantities that are needed of recordings and simulations.
    """
    if sources[0].stream:
        if opening.endless(sources):
            raise UsageError(f"{sources[0].text} never ends; add minutes, e.g. sim:demo?minutes=10")
        return opening.played(sources, settings, inputs)
    session = opening.session(sources, settings)
    first = session.view
    session.start()
    try:
        print(f"trntop: watching for {seconds:g} s; stop early with Ctrl-C", file=sys.stderr)
        while session.loading and not session.wait(0.05):
            pass
        session.wait(seconds)
    except KeyboardInterrupt:
        pass
    finally:
        session.stop()
    opening.refuse_failure(session)
    return first, session.view, session.view.time - first.time


def _report(first: View, last: View, seconds: float, choice: Choice) -> None:
    from trntop.exporters.table import incidents_text, span_text

    width = max(80, shutil.get_terminal_size((100, 24)).columns)
    print(span_text(first, last, seconds))
    if phrase := choice.phrase(last.time):
        print(f"only incidents {phrase}\n")
    if not last.cluster.has_parts:
        print("inconclusive: no data")
        return
    for text in summary(last.coverage, last.time):
        print(text)
    print()
    # In UTC, like the summaries of the incidents.
    print(incidents_text(choice.of(last.incidents, last.time), width, utc=True).rstrip())


def _report_json(last: View, seconds: float, choice: Choice) -> None:
    from trntop.exporters import document

    report = document.analysis(
        len(last.cluster.nodes),
        seconds,
        choice.of(last.incidents, last.time),
        coverage=last.coverage,
        now=last.time,
        simulated=last.cluster.simulated,
        problems=[] if last.cluster.has_parts else last.cluster.problems,
    )
    write(document.encode(report))


def _report_markdown(first: View, last: View, seconds: float, choice: Choice) -> None:
    from trntop.exporters.report import report

    incidents = choice.of(last.incidents, last.time)
    print(report(first, last, seconds, incidents, chosen=choice.phrase(last.time)).rstrip())
