"""`trntop compare A B`: two runs side by side."""

import argparse
import math
import re
import shutil
import sys
from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from trntop.analysis import compare as comparing
from trntop.analysis.rule_inputs import rule_inputs
from trntop.cli import arguments, opening
from trntop.cli.snapshots import write
from trntop.core import durations
from trntop.core.errors import RecordingError, UsageError
from trntop.core.settings import Settings
from trntop.core.source_spec import Source, parse_all
from trntop.core.text import clean
from trntop.session.monitor import Monitor, play

_STRETCH = re.compile(r"(?P<source>.+)@(?P<start>\d[\w.]*)?-(?P<end>\d[\w.]*)?")


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    for side in "ab":
        parser.add_argument(
            side, metavar=side.upper(),
            help="a recording or sim:SCENARIO; SOURCE@10m-20m selects a part of it",
        )  # fmt: skip
    arguments.output_form(parser)
    for side in "ab":
        parser.add_argument(
            f"--price-{side}", type=arguments.positive, metavar="DOLLARS",
            help=f"price of a node of {side.upper()} per hour (default: screen.price_per_hour)",
        )  # fmt: skip


def compare(args: Namespace) -> int:
    """The figures of both, their ratio, and which is better."""
    settings = opening.settings_of(args)
    usual = settings.screen.price_per_hour or None
    # Both are opened before the first is read, which may take minutes.
    parts = [(text, *split(text)) for text in (args.a, args.b)]
    streams = [opening.Streams([source]) for _, source, _ in parts]
    sides = []
    for (text, _, window), stream, price in zip(
        parts, streams, (args.price_a or usual, args.price_b or usual), strict=True
    ):
        with _status(f"reading {clean(text, 80)}"):
            sides.append(_summed(text, stream, window, settings, price))
    _write(args, comparing.compare(*sides))
    return 0


def split(text: str) -> tuple[Source, comparing.Window]:
    """A source and the part of it to compare: `run.jsonl@10m-20m`, else all of it.

    Raises:
        UsageError: the source is not a stream, or the part is empty.
    """
    window = comparing.Window(0.0, math.inf)
    found = None if Path(text).exists() else _STRETCH.fullmatch(text)
    if found:
        text = found["source"]
        window = comparing.Window(_seconds(found["start"], 0.0), _seconds(found["end"], math.inf))
    if window.end <= window.start:
        raise UsageError(f"the time range of {clean(text, 80)} ends before it starts")
    (source,) = parse_all([text])
    if not source.stream:
        raise UsageError(f"compare needs recordings or simulations, not {clean(text, 80)}")
    if opening.endless([source]) and math.isinf(window.end):
        raise UsageError(f"{clean(text, 80)} never ends; add minutes, e.g. sim:demo?minutes=10")
    return source, window


def _summed(
    text: str,
    streams: opening.Streams,
    window: comparing.Window,
    settings: Settings,
    price: float | None,
) -> comparing.Side:
    profiles = opening.known_profiles(settings)
    wanted = comparing.WANTED | rule_inputs(settings.rules)
    views = play(streams(), Monitor(settings, profiles=profiles, wanted=wanted))
    side = comparing.summary(views, clean(text), window, price)
    opening.print_notes(streams.notes())
    if side is None:
        raise RecordingError(f"{clean(text)} contains no readings")
    return side


def _status(text: str) -> AbstractContextManager[object]:
    """A line on a terminal while something takes long."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(text, spinner="line")


def _seconds(text: str | None, default: float) -> float:
    if text is None:
        return default
    seconds = durations.parse(text)
    if seconds is None:
        raise UsageError(f"{clean(text, 40)} is not a valid time; use 10m or 90s")
    return seconds


def _write(args: Namespace, found: comparing.Comparison) -> None:
    from trntop.exporters import compare as exported
    from trntop.exporters import document

    if args.json:
        write(document.encode(exported.document(found)))
    else:
        width = max(80, shutil.get_terminal_size((100, 24)).columns)
        print(exported.text(found, width))
