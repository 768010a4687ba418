"""`trntop compare A B`: two runs side by side."""

import math
import re
import shutil
import sys
from argparse import Namespace
from pathlib import Path

from trntop.analysis import compare as comparing
from trntop.analysis.rule_inputs import rule_inputs
from trntop.cli import opening
from trntop.core.errors import RecordingError, UsageError
from trntop.core.settings import Settings
from trntop.core.source_spec import Source, parse_all
from trntop.core.text import clean
from trntop.session.monitor import Monitor, play

_TIME = r"(?:\d+(?:\.\d+)?[smh]?)"
_STRETCH = re.compile(rf"(?P<source>.+)@(?P<start>{_TIME})?-(?P<end>{_TIME})?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def compare(args: Namespace) -> int:
    """The figures of both, their ratio, and which is better."""
    settings = settings_with_price(args)
    given = comparing.Stretch(
        0.0 if args.start is None else _seconds(args.start),
        math.inf if args.end is None else _seconds(args.end),
    )
    sides = []
    for text, price in ((args.a, args.price_a), (args.b, args.price_b)):
        source, stretch = split(text, given)
        sides.append(_summed(text, source, stretch, settings, price))
    found = comparing.compare(*sides)
    _write(args, found)
    return 0


def settings_with_price(args: Namespace) -> Settings:
    """The settings in force; `screen.price_per_hour` is the default price of both sides."""
    settings = opening.settings_of(args)
    usual = settings.screen.price_per_hour or None
    args.price_a = usual if args.price_a is None else args.price_a
    args.price_b = usual if args.price_b is None else args.price_b
    return settings


def split(text: str, given: comparing.Stretch) -> tuple[Source, comparing.Stretch]:
    """A source and the part of it to compare: `run.jsonl@10m-20m`, else `given`.

    Raises:
        UsageError: the source is no stream, or the stretch is empty.
    """
    stretch = given
    found = None if Path(text).exists() else _STRETCH.fullmatch(text)
    if found:
        text = found["source"]
        start, end = found["start"], found["end"]
        stretch = comparing.Stretch(
            0.0 if start is None else _seconds(start), math.inf if end is None else _seconds(end)
        )
    if stretch.end <= stretch.start:
        raise UsageError(f"the time range of {clean(text, 80)} ends before it starts")
    (source,) = parse_all([text])
    if not source.stream:
        raise UsageError(f"compare needs recordings or simulations, not {clean(text, 80)}")
    if opening.endless([source]) and math.isinf(stretch.end):
        raise UsageError(f"{clean(text, 80)} never ends; add minutes, e.g. sim:demo?minutes=10")
    return source, stretch


def _summed(
    text: str,
    source: Source,
    stretch: comparing.Stretch,
    settings: Settings,
    price: float | None,
) -> comparing.Side:
    streams = opening.Streams([source])
    profiles = opening.known_profiles(settings)
    wanted = comparing.WANTED | rule_inputs(settings.rules)
    views = play(streams(), Monitor(settings, profiles=profiles, wanted=wanted))
    side = comparing.summary(views, clean(text), stretch, price)
    for note in streams.notes():
        print(f"trntop: {note}", file=sys.stderr)
    if side is None:
        raise RecordingError(f"{clean(text)} contains no readings")
    return side


def _seconds(text: str) -> float:
    """`90`, `90s`, `10m`, `1.5h`.

    Raises:
        UsageError: it is none of these.
    """
    if not re.fullmatch(_TIME, text):
        raise UsageError(
            f"{clean(text, 40)} is not a valid time from the start; use 90s, 10m or 2h"
        )
    unit = text[-1] if text[-1] in _SECONDS else "s"
    return float(text.rstrip("smh")) * _SECONDS[unit]


def _write(args: Namespace, found: comparing.Comparison) -> None:
    from trntop.exporters import compare as exported
    from trntop.exporters import document

    if args.json:
        sys.stdout.buffer.write(document.encode(exported.document(found)).rstrip(b"\n") + b"\n")
        sys.stdout.buffer.flush()
    elif args.markdown:
        print(exported.markdown(found), end="")
    else:
        width = max(80, shutil.get_terminal_size((100, 24)).columns)
        print(exported.text(found, width))
