"""`trntop check`: checks nodes and the network between them before a job."""

import argparse
import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from trntop.check import kept, readings
from trntop.check.model import Host, Outcome, ProbeError, ProbeResult, ProbeSpec
from trntop.check.plan import Plan, plan_of
from trntop.check.result import Check, Progress
from trntop.check.runner import FetchFacts, run_check
from trntop.check.stage import COMM, EXPOSED, STEP, Outlook, Stage, outlook_of, stage_of
from trntop.cli import arguments, opening
from trntop.cli.opening import settings_of
from trntop.core import units
from trntop.core.errors import SettingsError, TrntopError, UsageError
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source, parse
from trntop.recording.writer import check_creatable
from trntop.session.monitor import Monitor, play

CARDS = 16
"""EFA devices that a plan assumes: those of a trn2.48xlarge."""
REDRAWN = 0.2
"""Minimum seconds between updates of the progress line."""
PERFTEST = ("ib_send_lat", "ib_write_bw")
"""Tools without libfabric providers."""
HANDLED = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a check as Ctrl-C does."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


AGENTS = """\
agents must run with --allow-probes; pass their token with --set fleet.token_file=FILE
"""


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = AGENTS
    parser.add_argument(
        "nodes", nargs="*", metavar="NODE",
        help="e.g. trn-[001-016], ssh://trn-[001-016], slurm:JOBID (default: this machine)",
    )  # fmt: skip
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument(
        "--quick", action="store_true", help="probe two peers of each node (default)"
    )
    extent.add_argument("--full", action="store_true", help="probe every pair of nodes")
    parser.add_argument("--per-card", action="store_true", help="probe each EFA device separately")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the plan and its duration, probe nothing"
    )
    parser.add_argument(
        "--include-busy", action="store_true", help="also probe nodes with running jobs"
    )
    parser.add_argument(
        "--ec2", action="store_true",
        help="query EC2 for zones, subnets, security groups and interfaces of the nodes (extra:"
        " aws; always on with ec2:)",
    )  # fmt: skip
    parser.add_argument(
        "--time-limit", type=arguments.positive, metavar="SECONDS",
        help="stop after this time with partial results (default: 900)",
    )  # fmt: skip
    probe = parser.add_argument_group("probes")
    probe.add_argument(
        "--provider", choices=("efa", "tcp"), default="efa",
        help="libfabric provider: efa or tcp (default: efa)",
    )  # fmt: skip
    probe.add_argument(
        "--tool", choices=("fi_pingpong", "ib_send_lat", "ib_write_bw"),
        default="fi_pingpong", metavar="TOOL",
        help="fi_pingpong (default), ib_send_lat or ib_write_bw",
    )  # fmt: skip
    probe.add_argument(
        "--size", type=arguments.size, default=64, metavar="BYTES",
        help="message size, e.g. 1M (default: 64)",
    )  # fmt: skip
    probe.add_argument(
        "--iterations", type=arguments.count, default=1000, metavar="N",
        help="messages per run (default: 1000)",
    )  # fmt: skip
    probe.add_argument(
        "--repeats",
        type=arguments.count,
        default=3,
        metavar="N",
        help="runs per probe (default: 3)",
    )
    probe.add_argument(
        "--deadline", type=arguments.positive, default=10.0, metavar="SECONDS",
        help="time limit per probe (default: 10)",
    )  # fmt: skip
    report = parser.add_argument_group("report")
    form = report.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown, for a ticket")
    report.add_argument(
        "--write", type=Path, metavar="FILE",
        help="also write the probes as a recording for trntop replay",
    )  # fmt: skip
    report.add_argument(
        "--no-save", action="store_false", dest="save",
        help="do not save the result as a baseline",
    )  # fmt: skip
    report.add_argument(
        "--import-nccom", type=Path, metavar="FILE", dest="nccom",
        help="add a JSON report of nccom-test",
    )  # fmt: skip
    report.add_argument(
        "--stage", action="append", default=[], metavar="RECORDING", dest="stages",
        help="add the communication time of a finished run; repeatable",
    )  # fmt: skip


def check(args: Namespace) -> int:
    """Inspects nodes and probes them; 0 pass, 1 warn, 2 fail, 3 inconclusive."""
    sources = _sources(args.nodes)
    if args.write is not None:
        if args.write.exists():
            raise UsageError(f"{args.write} already exists; choose another file")
        check_creatable(args.write)
    settings = settings_of(args, check__time_limit=args.time_limit)
    plan = _plan(args, settings)
    outlook = _outlook(args.stages, settings)
    try:
        imported = _imported(args.nccom)
        # Stages alone are asked about, not this machine.
        hosts = [] if outlook is not None and not args.nodes else _hosts(sources, settings)
        if args.dry_run:
            print(_plan_text(plan, [host.name for host in hosts]))
            return 0
        _talk_about_time(plan, len(hosts))
        baseline = _baseline(plan, hosts)
        fetch_facts = _fetch_facts(sources, args.ec2, settings)
        found = _run(hosts, plan, settings, baseline, imported, outlook, fetch_facts)
    except (UsageError, SettingsError):
        raise
    except TrntopError as error:
        print(f"trntop: inconclusive: {error}", file=sys.stderr)
        return Outcome.UNKNOWN.exit_code
    _report(found, args)
    if hosts and settings.check.keep and args.save:
        _keep(found, settings.check.keep)
    return found.outcome.exit_code


# Before


def _sources(texts: Sequence[str]) -> list[Source]:
    """The NODE arguments; unlike elsewhere, a bare name is a node, too."""
    sources = [
        Source(Origin.AGENT, text) if _is_name(text) else parse(text)
        for text in dict.fromkeys(texts)
    ] or [Source(Origin.LOCAL, "local")]
    if any(source.stream for source in sources):
        raise UsageError(
            "check needs nodes; for the recording of a finished run, use --stage RECORDING"
        )
    return sources


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text != "local" and not Path(text).exists()


def _plan(args: Namespace, settings: Settings) -> Plan:
    from trntop.collectors.probes.tool import check_spec

    if args.per_card and args.provider != "efa":
        raise UsageError("--per-card needs --provider efa")
    if args.tool in PERFTEST and args.provider != "efa":
        raise UsageError(f"{args.tool} needs --provider efa")
    spec = ProbeSpec(
        tool=args.tool,
        provider=args.provider,
        size_bytes=args.size,
        iterations=args.iterations,
        repeats=args.repeats,
        seconds=args.deadline,
    )
    try:
        check_spec(spec)
    except ProbeError as error:
        raise UsageError(f"invalid probe: {error}") from error
    return plan_of(
        settings.check,
        spec,
        extent="full" if args.full else "quick",
        per_card=args.per_card,
        disturb=args.include_busy,
    )


def _hosts(sources: list[Source], settings: Settings) -> list[Host]:
    from trntop.collectors.hosts import hosts_of

    return hosts_of(sources, settings)


def _fetch_facts(sources: Sequence[Source], wanted: bool, settings: Settings) -> FetchFacts | None:
    """The query of EC2, with `--ec2` or for nodes listed by EC2."""
    if not wanted and all(source.origin is not Origin.EC2 for source in sources):
        return None
    from trntop.collectors.ec2_network import Ec2Network

    return Ec2Network(settings.fleet)


def _imported(path: Path | None) -> list[ProbeResult]:
    if path is None:
        return []
    from trntop.collectors.probes import nccom

    try:
        return nccom.results_of(path)
    except ProbeError as error:
        raise UsageError(str(error)) from error


def _outlook(paths: Sequence[str], settings: Settings) -> Outlook | None:
    if not paths:
        return None
    return outlook_of((_stage(path, settings) for path in paths), settings.analysis)


def _stage(path: str, settings: Settings) -> Stage:
    streams = opening.Streams([parse(path)])
    if opening.endless([parse(path)]):
        raise UsageError(f"{path} never ends; add minutes, e.g. sim:healthy?minutes=10")
    monitor = Monitor(settings, wanted=frozenset((STEP, COMM, EXPOSED)))
    stage = stage_of(path, play(streams(), monitor))
    for note in streams.notes():
        print(f"trntop: {note}", file=sys.stderr)
    return stage


def _baseline(plan: Plan, hosts: Sequence[Host]) -> Check | None:
    folder = kept.folder_of(os.environ)
    if folder is None or not hosts:
        return None
    return kept.baseline(folder, plan, [host.name for host in hosts])


def _plan_text(plan: Plan, names: Sequence[str]) -> str:
    """The plan in words, and each of its rounds."""
    count = len(names)
    well, worse = plan.seconds(count, CARDS)
    cards = f", each of {CARDS} EFA devices" if plan.per_card else ""
    rounds = plan.rounds(count)
    lines = [
        f"{plan.extent} check of {count:,} {'node' if count == 1 else 'nodes'}{cards}:"
        f" {sum(map(len, rounds)):,} pairs in {len(rounds)} rounds, about {units.span(well)},"
        f" or {units.span(worse)} if nodes are suspect"
    ]
    lines += [
        f"  round {number}: " + " ".join(f"{names[one]}>{names[two]}" for one, two in pairs)
        for number, pairs in enumerate(rounds, 1)
    ]
    return "\n".join(lines)


def _talk_about_time(plan: Plan, count: int) -> None:
    needed, _ = plan.seconds(count, CARDS)
    if needed > plan.time_limit:
        print(
            f"trntop: this check needs about {units.span(needed)} but stops after"
            f" {units.span(plan.time_limit)}; raise --time-limit",
            file=sys.stderr,
        )


# During


def _run(
    hosts: Sequence[Host],
    plan: Plan,
    settings: Settings,
    baseline: Check | None,
    imported: Sequence[ProbeResult],
    outlook: Outlook | None,
    fetch_facts: FetchFacts | None,
) -> Check:
    """Runs the check. A signal cancels it and all its probes."""
    line = _Line(sys.stderr.isatty())

    async def run_until_signal() -> Check:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        for number in HANDLED:
            if signal.getsignal(number) is signal.SIG_IGN:  # under nohup
                continue
            loop.add_signal_handler(number, task.cancel)
        return await run_check(
            hosts,
            plan,
            settings,
            line.tell,
            baseline=baseline,
            imported=imported,
            outlook=outlook,
            fetch_facts=fetch_facts,
        )

    try:
        return asyncio.run(run_until_signal())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        line.clear()


class _Line:
    """The progress line; only on a terminal."""

    def __init__(self, terminal: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._clock = clock
        self._drawn = -REDRAWN

    def tell(self, progress: Progress) -> None:
        """Redraws the line, at most every `REDRAWN` seconds."""
        now = self._clock()
        if not self._terminal or (now < self._drawn + REDRAWN and progress.done < progress.total):
            return
        self._drawn = now
        left = f", about {units.span(progress.left)} left" if progress.left >= 1 else ""
        text = f"{progress.stage}: {progress.done} of {progress.total}{left}"
        room = max(shutil.get_terminal_size().columns - 1, 20)
        self._write(f"\r\x1b[K{text[:room]}")

    def clear(self) -> None:
        if self._terminal:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal was closed
            sys.stderr.write(text)
            sys.stderr.flush()


# After


def _report(found: Check, args: Namespace) -> None:
    from trntop.exporters.check import markdown, text

    if args.json:
        sys.stdout.buffer.write(kept.encode(found) + b"\n")
    elif args.markdown:
        print(markdown.markdown(found).rstrip())
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(text.text(found, width, color=color).rstrip())
    sys.stdout.flush()
    if args.write is not None:
        _record(found, args.write)


def _record(found: Check, path: Path) -> None:
    from trntop.recording.writer import Recorder

    with Recorder(path, created=found.started, note=found.verdict) as recorder:
        for reading in readings.readings(found):
            recorder.write(reading)
    if recorder.failed:
        print(f"trntop: {path}: {recorder.failed}", file=sys.stderr)


def _keep(found: Check, newest: int) -> None:
    folder = kept.folder_of(os.environ)
    if folder is None:
        return
    try:
        kept.keep(found, folder, newest)
    except OSError as error:
        print(f"trntop: cannot write to {folder}: {error.strerror}", file=sys.stderr)
