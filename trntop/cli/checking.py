"""`trntop check`: checks nodes and the network between them before a job."""

import argparse
import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trntop.check import readings
from trntop.check.model import Host, Outcome, ProbeError, ProbeSpec
from trntop.check.plan import Plan
from trntop.check.result import Check, Progress
from trntop.check.runner import run_check
from trntop.cli import arguments
from trntop.cli.opening import settings_of
from trntop.core import units
from trntop.core.errors import RecordingError, SettingsError, TrntopError, UsageError
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source, parse
from trntop.recording.writer import check_creatable

EFA_DEVICES = 16
"""EFA devices that a plan assumes: those of a trn2.48xlarge."""
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
    parser.add_argument(
        "--per-device", action="store_true", help="probe each EFA device separately"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the plan and its duration, probe nothing"
    )
    parser.add_argument(
        "--include-busy", action="store_true", help="also probe nodes with running jobs"
    )
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
        help="do not save the probes for the dashboard on this machine",
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
    try:
        hosts = _hosts(sources, settings)
        if args.dry_run:
            print(_plan_text(plan, [host.name for host in hosts]))
            return 0
        _warn_about_time(plan, len(hosts))
        found = _run(hosts, plan, settings)
    except (UsageError, SettingsError):
        raise
    except TrntopError as error:
        print(f"trntop: inconclusive: {error}", file=sys.stderr)
        return Outcome.UNKNOWN.exit_code
    _report(found, args)
    if args.write is not None:
        readings.write(found, args.write)
    if args.save:
        _save(found)
    return found.outcome.exit_code


# Before


def _sources(texts: Sequence[str]) -> list[Source]:
    """The NODE arguments; unlike elsewhere, a bare name is a node, too."""
    sources = [
        Source(Origin.AGENT, text) if _is_name(text) else parse(text)
        for text in dict.fromkeys(texts)
    ] or [Source(Origin.LOCAL, "local")]
    if any(source.stream for source in sources):
        raise UsageError("check needs nodes, not a recording or a simulation")
    return sources


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text != "local" and not Path(text).exists()


def _plan(args: Namespace, settings: Settings) -> Plan:
    from trntop.collectors.probes.run import check_spec

    if args.per_device and args.provider != "efa":
        raise UsageError("--per-device needs --provider efa")
    spec = ProbeSpec(
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
    return Plan(
        extent="full" if args.full else "quick",
        per_device=args.per_device,
        include_busy=args.include_busy,
        spec=spec,
        pairs=settings.check.pairs,
        inspect_seconds=settings.check.inspect_seconds,
        time_limit=settings.check.time_limit,
    )


def _hosts(sources: list[Source], settings: Settings) -> list[Host]:
    from trntop.collectors.hosts import hosts_of

    return hosts_of(sources, settings)


def _plan_text(plan: Plan, names: Sequence[str]) -> str:
    """The plan in words, and each of its rounds."""
    count = len(names)
    healthy, suspect = plan.seconds(count, EFA_DEVICES)
    efa_devices = f", each of {EFA_DEVICES} EFA devices" if plan.per_device else ""
    rounds = plan.rounds(count)
    lines = [
        f"{plan.extent} check of {count:,} {'node' if count == 1 else 'nodes'}{efa_devices}:"
        f" {sum(map(len, rounds)):,} pairs in {len(rounds)} rounds, about {units.span(healthy)},"
        f" or {units.span(suspect)} if nodes are suspect"
    ]
    lines += [
        f"  round {number}: "
        + " ".join(f"{names[first]}>{names[second]}" for first, second in pairs)
        for number, pairs in enumerate(rounds, 1)
    ]
    return "\n".join(lines)


def _warn_about_time(plan: Plan, count: int) -> None:
    needed, _ = plan.seconds(count, EFA_DEVICES)
    if needed > plan.time_limit:
        print(
            f"trntop: this check needs about {units.span(needed)} but stops after"
            f" {units.span(plan.time_limit)}; raise --time-limit",
            file=sys.stderr,
        )


# During


def _run(hosts: Sequence[Host], plan: Plan, settings: Settings) -> Check:
    """Runs the check. A signal cancels it and all its probes."""
    from rich.console import Console

    status = Console(stderr=True).status("", spinner="line")

    def report(progress: Progress) -> None:
        status.update(f"{progress.stage}: {progress.done} of {progress.total}")

    async def run_until_signal() -> Check:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        for number in HANDLED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                loop.add_signal_handler(number, task.cancel)
        return await run_check(hosts, plan, settings.check, report)

    try:
        with status if sys.stderr.isatty() else contextlib.nullcontext():
            return asyncio.run(run_until_signal())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


# After


def _report(found: Check, args: Namespace) -> None:
    from trntop.exporters.check import markdown, text

    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    elif args.markdown:
        print(markdown.markdown(found).rstrip())
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(text.text(found, width, color=color).rstrip())
    sys.stdout.flush()


def _save(found: Check) -> None:
    path = readings.newest_file(os.environ)
    if path is None:
        return
    try:
        readings.save(found, path)
    except (OSError, RecordingError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        print(f"trntop: cannot write to {path.parent}: {why}", file=sys.stderr)
