"""`trntop record`: writes readings to a file."""

import argparse
import signal
import sys
import threading
import time
from argparse import Namespace
from pathlib import Path

from trntop.cli import arguments, opening
from trntop.cli.opening import settings_of
from trntop.cli.snapshots import print_problems
from trntop.core.errors import UsageError
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source, parse_all
from trntop.recording.writer import Recorder, check_creatable


def add_record_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")
    parser.add_argument("--note", default="", help="note to store in the header of the file")
    parser.add_argument(
        "--max-bytes", type=arguments.size, metavar="SIZE", help="stop at this file size, e.g. 500M"
    )
    parser.add_argument(
        "--max-seconds", type=arguments.positive, metavar="SECONDS", help="stop after this time"
    )


def record(args: Namespace) -> int:
    """Writes readings to a file until stopped, the end of a stream, or a limit."""
    sources = parse_all(args.sources)
    settings = settings_of(args)
    if str(args.output) == "-":
        raise UsageError("record cannot write to standard output; use -o FILE")
    files = [source.text for source in sources if source.origin is Origin.RECORDING]
    if args.output.exists() and any(args.output.samefile(file) for file in files):
        raise UsageError(f"{args.output} is also the source; choose another file")
    check_creatable(args.output, overwrite=args.overwrite)
    capped = args.max_seconds is not None or args.max_bytes is not None
    if not capped and sources[0].stream and opening.endless(sources):
        raise UsageError(
            f"{sources[0].text} never ends; add --max-seconds, or minutes to the scenario"
        )
    streams = opening.Streams(sources) if sources[0].stream else None
    with Recorder(
        args.output,
        note=args.note,
        overwrite=args.overwrite,
        max_bytes=args.max_bytes,
        max_seconds=args.max_seconds,
        created=time.time(),
    ) as recorder:
        if streams is None:
            _record_live(sources, settings, recorder, args.max_seconds)
        else:
            for reading in streams():
                recorder.write(reading)
                if recorder.full or recorder.failed:
                    break
            opening.print_notes(streams.notes())
    if recorder.failed:
        print(f"trntop: {args.output}: {recorder.failed}", file=sys.stderr)
        return 1
    if not recorder.readings:
        print(f"trntop: no readings received; {args.output} is empty", file=sys.stderr)
        return 1
    why = " (limit reached)" if recorder.full else ""
    print(
        f"trntop: {recorder.readings:,} readings, {recorder.bytes:,} bytes in {args.output}{why}",
        file=sys.stderr,
    )
    return 0


def _record_live(
    sources: list[Source], settings: Settings, recorder: Recorder, max_seconds: float | None
) -> None:
    """Records a session until a signal or a limit.

    The time limit also ends a recording without any readings.
    """
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopped.set())
    session = opening.session(sources, settings, tap=recorder.write, observer=False)
    session.start()
    print("trntop: recording; stop with Ctrl-C", file=sys.stderr)
    deadline = None if max_seconds is None else time.monotonic() + max_seconds + 1.0
    while not stopped.wait(0.2) and not session.wait(0):
        if recorder.full or recorder.failed:
            break
        if deadline is not None and time.monotonic() > deadline:
            break
    if not recorder.readings:
        print_problems(session.view.cluster)
    session.stop()
    opening.refuse_failure(session)
