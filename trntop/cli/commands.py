"""One function per command; each returns its exit code. Data to stdout, messages to stderr."""

import os
import shutil
import signal
import sys
import textwrap
import threading
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from trntop.analysis.rule_inputs import rule_inputs
from trntop.cli import opening
from trntop.cli.choice import Choice, choice_of
from trntop.cli.opening import settings_of
from trntop.core.errors import RecordingError, TrntopError, UsageError
from trntop.core.folders import state_folder
from trntop.core.model import Cluster, Incident, SourceState, State, View
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source, parse_all
from trntop.session import node_history, parallel
from trntop.session.monitor import MAX_CATCH_UP, Monitor, play
from trntop.session.runner import Session
from trntop.sources import BY_NAME, DEVICE_SOURCES, TRAINING_SOURCES

if TYPE_CHECKING:
    from trntop.recording.writer import Recorder

WEB_LISTEN = "127.0.0.1:10043"
"""Default address of `--web`."""
SNAPSHOT_WAIT = 8.0
"""Seconds a snapshot of live sources waits for two readings of each, for the rates."""
SNAPSHOT_PERIOD = 2.0
"""Seconds between these two of the slow sources, at most."""


def top(args: Namespace) -> int:
    """The dashboard; without a terminal, one snapshot as text."""
    sources = parse_all(args.sources)
    settings = settings_of(args, screen__mouse=False if args.no_mouse else None)
    piped = any(source.origin is Origin.STDIN for source in sources)
    in_browser = "TEXTUAL_DRIVER" in os.environ
    if args.web and not in_browser:
        return _serve(args, piped=piped)
    keyboard = _keyboard() if piped and sys.stdout.isatty() else None
    if keyboard is None and not in_browser and not _is_screen():
        return _print_snapshot(sources, settings)
    session = opening.session(
        sources,
        settings,
        speed=args.speed,
        loop=args.loop,
        standard_input=keyboard or 0,
        lasting=True,
    )
    return _dashboard(session, settings)


def _is_screen() -> bool:
    dumb = os.environ.get("TERM", "") in ("", "dumb", "unknown")
    return not dumb and sys.stdout.isatty() and sys.stdin.isatty()


def _serve(args: Namespace, *, piped: bool) -> int:
    """Serves the dashboard to browsers; each page runs the same command line."""
    from trntop.exporters.web.listening import parse_listen

    if piped:
        raise UsageError(
            "--web cannot be combined with -: each browser page starts its own dashboard"
        )
    host, port = parse_listen(args.listen or WEB_LISTEN)
    try:
        from trntop.cli import web
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("trntop"):
            raise
        raise UsageError(
            "--web needs textual-serve: run .venv/bin/pip install '.[web]' in the clone of trntop"
        ) from error
    return web.serve(args.arguments, host or "0.0.0.0", port)


def _keyboard() -> int | None:
    """Replaces a piped standard input with the terminal's keyboard.

    Returns the pipe's new descriptor, or None without a terminal.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return None
    pipe = os.dup(0)
    os.dup2(terminal, 0)
    os.close(terminal)
    return pipe


def demo(args: Namespace) -> int:
    args.sources = [f"sim:{args.scenario.removeprefix('sim:')}"]
    args.loop = False
    return top(args)


def replay(args: Namespace) -> int:
    sources = parse_all(args.sources)
    if not all(source.stream for source in sources):
        raise UsageError("replay needs recordings; for live sources, use trntop SOURCE")
    return top(args)


def _dashboard(session: Session, settings: Settings) -> int:
    from trntop.tui.app import run

    return run(
        session,
        settings=settings,
        report=lambda first, last, seconds: _page(first, last, seconds, last.incidents, settings),
    )


def snapshot_view(sources: list[Source], settings: Settings) -> View:
    """One view: the end of a stream, or live sources after two readings of each."""
    if sources[0].stream:
        return _played(sources, settings)[1]
    session = opening.session(sources, _fast(settings))
    session.start()
    try:
        deadline = time.monotonic() + SNAPSHOT_WAIT
        while time.monotonic() < deadline and not _settled(session.view.cluster):
            if session.wait(0.1):
                break
        _refuse_failure(session)
        return session.view
    finally:
        session.stop()


def _fast(settings: Settings) -> Settings:
    """With slow sources read twice within `SNAPSHOT_WAIT`."""
    collect = settings.collect
    return structs.replace(
        settings,
        collect=structs.replace(
            collect,
            host_period=min(collect.host_period, SNAPSHOT_PERIOD),
            sysfs_period=min(collect.sysfs_period, SNAPSHOT_PERIOD),
        ),
    )


def _played(
    sources: list[Source], settings: Settings, wanted: frozenset[str] | None = None
) -> tuple[View, View, float]:
    """The first and the last view of a stream, and the seconds it covers.

    Of an endless stream, the last view of its warm-up. The views have only the quantities in
    `wanted`, if given.
    """
    streams = opening.Streams(sources)
    cut = opening.endless(sources)
    profiles = opening.known_profiles(settings)
    files = [source.text for source in sources if source.origin is Origin.RECORDING]
    damaged: opening.Streams | parallel.Shares
    workers = parallel.workers_for(files) if len(files) == len(sources) else 1
    if workers > 1:
        shares = parallel.Shares(streams, streams.notes, settings, profiles, workers, wanted)
        views, damaged = iter(shares), shares
    else:
        readings = opening.until(streams(), opening.WARM_UP) if cut else streams()
        monitor = Monitor(settings, profiles=profiles, wanted=wanted, sparse=streams.sparse)
        views, damaged = play(readings, monitor), streams
    first = last = None
    seconds = 0.0
    for view in views:
        if last is not None and 0 <= view.time - last.time <= MAX_CATCH_UP:
            seconds += view.time - last.time
        if last is None or not (view.ended and cut):
            last = view
        first = first or view
    _print_damage(damaged)
    if first is None or last is None:
        raise RecordingError(f"{sources[0].text} contains no readings")
    return first, last, seconds


def _print_damage(streams: "opening.Streams | parallel.Shares") -> None:
    for note in streams.notes():
        print(f"trntop: {note}", file=sys.stderr)


def _settled(cluster: Cluster) -> bool:
    sources = [source for view in cluster.nodes.values() for source in view.frame.sources]
    return bool(sources) and all(map(_complete, sources))


def _complete(source: SourceState) -> bool:
    """Whether a source has enough readings for a snapshot, or will have no more soon."""
    if source.name in TRAINING_SOURCES or source.state in (State.DOWN, State.ENDED):
        return True
    enough = 2 if (source.period or 0.0) <= SNAPSHOT_PERIOD else 1
    return source.counts.get("readings", 0) >= enough


def snapshot(args: Namespace) -> int:
    """One sample, as a table or JSON."""
    sources = parse_all(args.sources)
    settings = settings_of(args)
    if not args.json:
        return _print_snapshot(sources, settings)
    from trntop.exporters import document

    view = snapshot_view(sources, settings)
    _write(document.encode(document.snapshot(view)))
    return received(view.cluster)


def _print_snapshot(sources: list[Source], settings: Settings) -> int:
    from trntop.exporters.table import snapshot_text

    view = snapshot_view(sources, settings)
    width = max(80, shutil.get_terminal_size((100, 24)).columns)
    print(snapshot_text(view, width, color=False).rstrip())
    return received(view.cluster)


def received(cluster: Cluster) -> int:
    """Exit code of a snapshot: 1, with the reasons on standard error, if it has no values."""
    if cluster.has_values:
        return 0
    _print_problems(cluster)
    return 1


def _print_problems(cluster: Cluster) -> None:
    for problem in cluster.problems:
        print(f"trntop: {problem}", file=sys.stderr)


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data.rstrip(b"\n") + b"\n")
    sys.stdout.buffer.flush()


def analyze(args: Namespace) -> int:
    """Incidents of recordings, simulations, or live sources watched for `--seconds`."""
    sources = parse_all(args.sources)
    settings = settings_of(args)
    choice = choice_of(args, settings)
    first, last, seconds = _watch(sources, settings, args.seconds)
    if args.json:
        _report_json(last, seconds, choice)
    elif args.markdown:
        _report_markdown(first, last, seconds, choice, settings)
    else:
        _report(first, last, seconds, choice)
    if last.cluster.has_parts:
        if not last.incidents:
            _warn_if_too_short(seconds, settings)
        return 0
    # Without data, the lack of incidents does not mean that the run is healthy.
    _print_problems(last.cluster)
    return 1


def _warn_if_too_short(seconds: float, settings: Settings) -> None:
    """Without this, a run too short for a rule would pass for healthy."""
    from trntop.analysis.detectors.comm import TUNING

    needed = settings.analysis.window + TUNING.hold
    if seconds < needed:
        print(
            f"trntop: {seconds:.3g} s are too short to evaluate comm_bound: it needs {needed:g} s"
            f" (analysis.window + {TUNING.hold:g} s)",
            file=sys.stderr,
        )


def _watch(sources: list[Source], settings: Settings, seconds: float) -> tuple[View, View, float]:
    """The first and the last view, and the seconds seen between them."""
    if sources[0].stream:
        if opening.endless(sources):
            raise UsageError(f"{sources[0].text} never ends; add minutes, e.g. sim:demo?minutes=10")
        return _played(sources, settings, rule_inputs(settings.rules))
    session = opening.session(sources, settings)
    first = session.view
    session.start()
    try:
        print(f"trntop: watching for {seconds:g} s; stop early with Ctrl-C", file=sys.stderr)
        session.wait(seconds)
    except KeyboardInterrupt:
        pass
    finally:
        session.stop()
    _refuse_failure(session)
    return first, session.view, session.view.time - first.time


def _refuse_failure(session: Session) -> None:
    """Otherwise a session that failed would look like one without incidents."""
    if session.failure:
        raise TrntopError(f"data collection failed: {session.failure}")


def _report(first: View, last: View, seconds: float, choice: Choice) -> None:
    from trntop.exporters.table import incidents_text, span_text

    width = max(80, shutil.get_terminal_size((100, 24)).columns)
    print(span_text(first, last, seconds))
    if phrase := choice.phrase(last.time):
        print(f"only incidents {phrase}\n")
    if not last.cluster.has_parts:
        print("inconclusive: no data")
        return
    # In UTC, like the summaries of the incidents.
    print(incidents_text(choice.of(last.incidents, last.time), width, utc=True).rstrip())


def _report_json(last: View, seconds: float, choice: Choice) -> None:
    from trntop.exporters import document

    report = document.analysis(
        len(last.cluster.nodes),
        seconds,
        choice.of(last.incidents, last.time),
        simulated=last.cluster.simulated,
        problems=[] if last.cluster.has_parts else last.cluster.problems,
    )
    _write(document.encode(report))


def _report_markdown(
    first: View, last: View, seconds: float, choice: Choice, settings: Settings
) -> None:
    incidents = choice.of(last.incidents, last.time)
    page = _page(first, last, seconds, incidents, settings, choice.phrase(last.time))
    print(page.rstrip())


def _page(
    first: View,
    last: View,
    seconds: float,
    incidents: Sequence[Incident],
    settings: Settings,
    chosen: str = "",
) -> str:
    """The shift report, as Markdown."""
    from trntop.exporters.report import report

    history = _history(first, last)
    return report(first, last, seconds, incidents, settings, chosen=chosen, history=history)


def _history(first: View, last: View) -> dict[str, Counter[str]]:
    """Earlier incidents of these nodes, as logged on this machine; none of simulated nodes."""
    state = state_folder(os.environ)
    if state is None or last.cluster.simulated:
        return {}
    counts = node_history.counts(state / node_history.FILE, first.time)
    return {node: kinds for node, kinds in counts.items() if node in last.cluster.nodes}


def record(args: Namespace) -> int:
    """Writes readings to a file until stopped, the end of a stream, or a limit."""
    from trntop.recording.writer import Recorder, check_creatable

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
            _print_damage(streams)
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
    sources: list[Source], settings: Settings, recorder: "Recorder", max_seconds: float | None
) -> None:
    """Records a session until a signal or a limit.

    The time limit also ends a recording without any readings.
    """
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopped.set())
    session = opening.session(sources, settings, tap=recorder.write, guest=False)
    session.start()
    print("trntop: recording; stop with Ctrl-C", file=sys.stderr)
    deadline = None if max_seconds is None else time.monotonic() + max_seconds + 1.0
    while not stopped.wait(0.2) and not session.wait(0):
        if recorder.full or recorder.failed:
            break
        if deadline is not None and time.monotonic() > deadline:
            break
    if not recorder.readings:
        _print_problems(session.view.cluster)
    session.stop()
    _refuse_failure(session)


def doctor(args: Namespace) -> int:
    """Lists the sources of this machine; 0 if a device source is available, else 1."""
    from trntop.collectors import examine_all
    from trntop.sources import PLUGIN_PROBLEMS

    findings = examine_all(settings_of(args).collect)
    for finding in findings:
        row = BY_NAME[finding.source]
        print(f"{'✓' if finding.ok else '✗'} {finding.source}: {finding.found}")
        print(_indented(f"gives {row.gives}" if finding.ok else f"without it: {row.without}"))
        if finding.remedy:
            print(_indented(finding.remedy, "→ "))
    for problem in PLUGIN_PROBLEMS:
        print(f"✗ {problem}")
    if not any(finding.ok for finding in findings if finding.source in DEVICE_SOURCES):
        print("✕ no data: no Neuron or EFA device here. To see trntop at work: trntop demo")
        return 1
    return 0


def _indented(text: str, mark: str = "") -> str:
    return textwrap.fill(
        text, 96, initial_indent=f"    {mark}", subsequent_indent=" " * (4 + len(mark))
    )
