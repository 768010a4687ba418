"""The command line.

Imports nothing heavy: each command loads what it needs, so that the exporter never pays for
the screen nor `--help` for anything.
"""

import argparse
import io
import os
import pkgutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from trntop import __version__
from trntop.errors import TrntopError, UsageError

DEFAULT_COMMAND = "top"

DESCRIPTION = """\
Live monitoring of AWS Trainium clusters.

  trntop                      the dashboard for this machine
  trntop demo                 a simulated 16-node run with scripted incidents
  trntop replay FILE          a recording, in its own time
  trntop COMMAND --help       options of a command
"""

SOURCES = """\
a SOURCE is
  local               everything on this machine: neuron-monitor, drivers, EFA, host, logs
                      (the default)
  -                   neuron-monitor's output on standard input
  FILE                a recording, or a file of neuron-monitor reports; plain, .gz or .zst
  sim:SCENARIO        a simulation, e.g. 'sim:efa-degraded?nodes=4&type=trn1.32xlarge&seed=7';
                      {SCENARIOS}
other machines, several if need be:
  trn-[001-016]       nodes whose agents (trntop export) stream; also trn-007:10042,
                      https://trn-[001-016], http://HOST:8000/metrics of another exporter
  ssh://trn-[001-016] nodes on which nothing is installed
  @FILE  dns:NAME  slurm:JOBID  ec2:tag/Name=run7
                      lists of nodes, watched: who joins is shown, who leaves is not
  prometheus+http://HOST
                      what a Prometheus, VictoriaMetrics, Thanos or Mimir knows of all nodes
  cloudwatch:CLUSTER  Container Insights, where nothing else can be reached
"""


CHECKED = """\
agents answer with --allow-probes and want their token: --set fleet.token_file=FILE
"""


class _Parser(argparse.ArgumentParser):
    """One line on bad use, not a page."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")

    def format_help(self) -> str:
        """The page, with the scenarios by name: loaded only when somebody asks."""
        from trntop.collectors.simulator import NAMES

        return (
            super()
            .format_help()
            .replace(
                "{SCENARIOS}",
                textwrap.fill(
                    ", ".join(NAMES), 70, subsequent_indent=" " * 22, break_on_hyphens=False
                ),
            )
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that knows no dashes and arrows gets question marks, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return _run(arguments)
    except TrntopError as error:
        print(f"trntop: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader has seen enough. Python would complain again while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # Standard output on a full disk, a closed terminal.
        print(f"trntop: {error.strerror or error}", file=sys.stderr)
        return 1


def _run(arguments: list[str]) -> int:
    parser, names = _build()
    if not arguments or not (
        arguments[0] in names or arguments[0] in ("-h", "--help", "--version")
    ):
        if later := names.intersection(arguments[1:]):
            raise UsageError(f"put the command first: trntop {min(later)} {arguments[0]} …")
        arguments = [DEFAULT_COMMAND, *arguments]
    args, unknown = parser.parse_known_args(arguments)
    args.arguments = arguments
    if unknown:
        # Left to argparse, this would name the help of trntop and not that of the command.
        raise UsageError(f"unrecognized arguments: {' '.join(unknown)} (see {args.prog} --help)")
    return int(pkgutil.resolve_name(args.run)(args))


def _build() -> tuple[_Parser, frozenset[str]]:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="trntop", description=DESCRIPTION, epilog=SOURCES, formatter_class=formatter
    )
    parser.add_argument("--version", action="version", version=f"trntop {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    common = _Parser(add_help=False)
    common.add_argument(
        "--config", type=Path, metavar="FILE", help="settings file (default: the user's own)"
    )
    common.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments",
        help="one setting, e.g. analysis.comm_share=0.3; repeatable",
    )  # fmt: skip

    def command(name: str, text: str, *, sources: str = "*", module: str = "commands") -> _Parser:
        sub = commands.add_parser(
            name, help=text, description=text, parents=[common],
            epilog=SOURCES if sources else None, formatter_class=formatter,
        )  # fmt: skip
        if sources:
            sub.add_argument("sources", nargs=sources, metavar="SOURCE")
        sub.set_defaults(run=f"trntop.cli.{module}:{name}", prog=sub.prog)
        return sub

    def pace(sub: _Parser) -> None:
        sub.add_argument(
            "--speed",
            type=_positive,
            default=1.0,
            help="times real time for recordings and simulations (1)",
        )
        sub.add_argument("--loop", action="store_true", help="start a recording anew at its end")

    def looks(sub: _Parser) -> None:
        sub.add_argument(
            "--no-mouse", action="store_true", help="leave the mouse to the terminal, for selecting"
        )
        sub.add_argument("--web", action="store_true", help="in a browser (needs trntop[web])")
        sub.add_argument(
            "--listen", metavar="HOST:PORT", help="with --web: where (127.0.0.1:10043)"
        )

    top = command("top", "the dashboard")
    pace(top)
    looks(top)
    demo = command(
        "demo", "the dashboard on a simulated 16-node trn2.48xlarge run with scripted incidents",
        sources="",
    )  # fmt: skip
    demo.add_argument("scenario", nargs="?", default="demo", help="another scenario (demo)")
    demo.add_argument("--speed", type=_positive, default=1.0, help="times real time (1)")
    looks(demo)
    replay = command("replay", "a recording on the dashboard", sources="+")
    pace(replay)
    looks(replay)

    record = command("record", "write what sources give to a recording, until stopped")
    record.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    record.add_argument("--overwrite", action="store_true", help="replace an existing file")
    record.add_argument("--note", default="", help="a remark kept in the file's header")
    record.add_argument("--max-bytes", type=_size, metavar="SIZE", help="stop there (e.g. 500M)")
    record.add_argument("--max-seconds", type=_positive, metavar="SECONDS", help="stop then")

    snapshot = command("snapshot", "one reading, as a table or JSON")
    snapshot.add_argument("--json", action="store_true", help="as JSON")

    analyze = command("analyze", "the incidents, without a screen")
    form = analyze.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument(
        "--markdown", action="store_true", help="as a report to hand over at the end of a shift"
    )
    analyze.add_argument(
        "--since", metavar="TIME",
        help="only what was open then or later: 14:03 (UTC), 2026-11-20T14:03Z, or 30m, 2h before"
        " the end",
    )  # fmt: skip
    analyze.add_argument(
        "--rule", action="append", default=[], metavar="KIND", dest="kinds",
        help="only this kind of incident (trntop rules lists them); repeatable",
    )  # fmt: skip
    analyze.add_argument(
        "--seconds", type=_positive, default=60.0, help="how long to watch live sources (60)"
    )

    _add_compare(command)
    _add_check(command)
    _add_export(command, pace)

    rules = command(
        "rules",
        "what is looked for, with the numbers in force; of one KIND, its runbook too; or the same"
        " as alerts for Prometheus, and dashboards for Grafana",
        sources="", module="rules",
    )  # fmt: skip
    rules.add_argument(
        "kind", nargs="?", metavar="KIND", help="such as efa_degraded; or prometheus, grafana"
    )
    rules.add_argument("--json", action="store_true", help="as JSON")
    alerts = rules.add_argument_group("for prometheus")
    alerts.add_argument("--runbook-url", metavar="URL", help="what stands before KIND.md in links")
    alerts.add_argument(
        "--dashboard-url", metavar="URL", help="the address of Grafana, for links to dashboards"
    )
    alerts.add_argument(
        "--selector", metavar="MATCHERS",
        help="label matchers of the scrape jobs of trntop (job='trntop')",
    )  # fmt: skip
    boards = rules.add_argument_group("for grafana")
    boards.add_argument("--dashboard", metavar="NAME", help="one: cluster, node, efa or job")
    boards.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="all of them, as files in a folder"
    )

    lemons = command(
        "lemons", "how often which node was to blame, as seen from this machine",
        sources="", module="lemons",
    )  # fmt: skip
    choice = lemons.add_mutually_exclusive_group()
    choice.add_argument("--json", action="store_true", help="as JSON")
    choice.add_argument("--forget", metavar="NODE", help="start anew with a node, after its repair")

    targets = command(
        "targets", "the nodes of host lists, as Prometheus' service discovery takes them",
        sources="", module="targets",
    )  # fmt: skip
    targets.add_argument("nodes", nargs="*", metavar="NODELIST", help="such as trn-[001-016,020]")
    targets.add_argument(
        "-f", "--file", type=Path, metavar="FILE",
        help="host lists, any number a line; # begins a remark",
    )  # fmt: skip
    targets.add_argument(
        "-p", "--port", type=int, default=10042, metavar="PORT",
        help="of each node's exporter (10042)",
    )  # fmt: skip
    targets.add_argument(
        "--label", action="append", default=[], metavar="NAME=VALUE", dest="labels",
        help="of all these targets; repeatable",
    )  # fmt: skip
    targets.add_argument(
        "--listen", metavar="HOST:PORT",
        help="serve them for http_sd_configs, instead; the file is read at each request",
    )  # fmt: skip

    command("doctor", "which sources exist here, and what each missing one needs", sources="")
    _add_imports(commands, common)
    return parser, frozenset(commands.choices)


def _add_check(command: Callable[..., _Parser]) -> None:
    """`check`."""
    check = command(
        "check",
        "whether the nodes and EFA between them are fit for a job; exits with 0 if they pass, 1"
        " with a warning, 2 if something fails, 3 if that cannot be told",
        sources="", module="checking",
    )  # fmt: skip
    check.epilog = CHECKED
    check.add_argument(
        "nodes", nargs="*", metavar="NODE",
        help="such as trn-[001-016], ssh://trn-[001-016], slurm:JOBID (this machine alone)",
    )  # fmt: skip
    extent = check.add_mutually_exclusive_group()
    extent.add_argument(
        "--quick", action="store_true", help="two partners for each node (the default)"
    )
    extent.add_argument("--full", action="store_true", help="every pair")
    check.add_argument("--per-card", action="store_true", help="each EFA card by itself")
    check.add_argument(
        "--plan", action="store_true", help="say what would be done and how long, and do nothing"
    )
    check.add_argument("--disturb", action="store_true", help="probe nodes with running jobs too")
    check.add_argument(
        "--ec2", action="store_true",
        help="ask EC2 for zones, subnets, security groups and interfaces of the nodes (needs"
        " trntop[aws]; asked anyway with ec2:)",
    )  # fmt: skip
    check.add_argument(
        "--time-limit", type=_positive, metavar="SECONDS", help="end with what there is (900)"
    )
    probe = check.add_argument_group("probes")
    probe.add_argument("--provider", choices=("efa", "tcp"), default="efa", help="(efa)")
    probe.add_argument(
        "--tool", choices=("fi_pingpong", "ib_send_lat", "ib_write_bw", "nccom-test"),
        default="fi_pingpong",
        help="(fi_pingpong)",
    )  # fmt: skip
    probe.add_argument(
        "--size", type=_size, default=64, metavar="BYTES", help="of a message, e.g. 1M (64)"
    )
    probe.add_argument("--iterations", type=_count, default=1000, metavar="N", help="(1000)")
    probe.add_argument(
        "--repeats", type=_count, default=3, metavar="N", help="runs of each probe (3)"
    )
    probe.add_argument(
        "--deadline", type=_positive, default=10.0, metavar="SECONDS", help="of each probe (10)"
    )
    report = check.add_argument_group("report")
    form = report.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--markdown", action="store_true", help="to be pasted into a ticket")
    report.add_argument(
        "--junit", type=Path, metavar="FILE", help="also as JUnit XML, for continuous integration"
    )
    report.add_argument(
        "--write", type=Path, metavar="FILE",
        help="also the probes as a recording, which trntop replay shows",
    )  # fmt: skip
    report.add_argument(
        "--baseline", type=Path, metavar="FILE",
        help="compare with this result of --json (the newest kept one of the same nodes)",
    )  # fmt: skip
    report.add_argument(
        "--no-keep", action="store_false", dest="keep", help="do not keep the result as a baseline"
    )
    report.add_argument(
        "--import-nccom", type=Path, metavar="FILE", dest="nccom",
        help="add a report of nccom-test, its JSON or its table",
    )  # fmt: skip
    report.add_argument(
        "--stage", action="append", default=[], metavar="RECORDING", dest="stages",
        help="add what a finished run spent in communication, and a forecast for twice its nodes;"
        " repeatable, for runs of different sizes",
    )  # fmt: skip


def _add_compare(command: Callable[..., _Parser]) -> None:
    """`compare`, whose two sources are A and B."""
    compare = command("compare", "two runs side by side", sources="", module="comparing")
    for side in "ab":
        compare.add_argument(
            side, metavar=side.upper(),
            help="a recording or sim:SCENARIO; of a part of it, SOURCE@10m-20m from its beginning",
        )  # fmt: skip
    form = compare.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--markdown", action="store_true", help="as a table for a ticket")
    compare.add_argument(
        "--from", dest="start", metavar="TIME", help="of both, from here on: 90s, 10m, 2h"
    )
    compare.add_argument("--to", dest="end", metavar="TIME", help="of both, up to here")
    for side in "ab":
        compare.add_argument(
            f"--price-{side}", type=_positive, metavar="DOLLARS",
            help=f"for a node of {side.upper()} and hour (screen.price_per_hour)",
        )  # fmt: skip


def _add_export(command: Callable[..., _Parser], pace: Callable[[_Parser], None]) -> None:
    """`export`, whose options are also spelled as those of the Prometheus exporters."""
    export = command("export", "the Prometheus exporter", module="exporting")
    export.add_argument(
        "--listen", "--web.listen-address", action="append", metavar="HOST:PORT",
        help="where to serve (127.0.0.1:10042); repeatable",
    )  # fmt: skip
    export.add_argument(
        "-p", "--port", type=int, metavar="PORT",
        help="the port alone, as neuron-monitor-prometheus.py spells it",
    )  # fmt: skip
    export.add_argument(
        "--web.systemd-socket", action="store_true", dest="systemd_socket",
        help="serve on the sockets that systemd passes, instead",
    )  # fmt: skip
    export.add_argument(
        "--web.config.file", metavar="FILE", dest="web_config_file",
        help="TLS, client certificates, passwords, rate limit; as of the Prometheus exporters",
    )  # fmt: skip
    export.add_argument(
        "--max-series", type=_count, metavar="N", help="most series on one page (20000)"
    )
    export.add_argument(
        "--compat", metavar="NAMES",
        help="also the names of other exporters: neuron-monitor,amazonefa",
    )  # fmt: skip
    export.add_argument(
        "--allow-probes", action="store_true", default=None,
        help="let trntop check look at this node and probe from it",
    )  # fmt: skip
    export.add_argument(
        "--probe-token-file", metavar="FILE", help="with --allow-probes: the token that it sends"
    )
    export.add_argument(
        "--probe-every", type=_duration, metavar="SECONDS",
        help="with --allow-probes: probe the way to other agents now and then, e.g. each 5m",
    )  # fmt: skip
    export.add_argument(
        "--probe-peers", metavar="NODES",
        help="with --probe-every: those agents, the same list for all, such as trn-[001-016]",
    )  # fmt: skip
    export.add_argument(
        "--textfile", type=Path, metavar="FILE",
        help="write /metrics to FILE, for node_exporter's textfile collector, instead of serving",
    )  # fmt: skip
    export.add_argument(
        "--once", action="store_true", help="with --textfile: write once; 1 where that failed"
    )
    pace(export)


def _add_imports(commands: "argparse._SubParsersAction[_Parser]", common: _Parser) -> None:
    """The commands that have commands of their own."""

    def group(name: str, text: str) -> "argparse._SubParsersAction[_Parser]":
        sub = commands.add_parser(name, help=text, description=text)
        return sub.add_subparsers(metavar="COMMAND", required=True)

    def command(
        parent: "argparse._SubParsersAction[_Parser]", name: str, text: str, run: str
    ) -> _Parser:
        sub = parent.add_parser(name, help=text, description=text, parents=[common])
        sub.set_defaults(run=f"trntop.cli.importing:{run}", prog=sub.prog)
        return sub

    imports = group("import", "step times from what a profiler wrote")
    trace = command(
        imports, "trace", "traces of torch.profiler or of the Neuron runtime", "import_trace"
    )
    trace.add_argument("files", nargs="+", type=Path, metavar="FILE", help="plain, .gz or .zst")
    trace.add_argument("--json", action="store_true", help="as JSON")
    trace.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="also as a recording, for replay"
    )
    trace.add_argument("--overwrite", action="store_true", help="replace an existing file")
    trace.add_argument("--job", default="trace", help="the job's name in the recording (trace)")
    trace.add_argument("--format", choices=("auto", "kineto", "nrt"), default="auto")
    trace.add_argument(
        "--executions", type=_count, metavar="N",
        help="how many executions of a core are a step (nrt; without it a trace is one step)",
    )  # fmt: skip

    profile = group("profile", "what one execution of a NEFF does, for HBM bandwidth")
    add = command(profile, "add", "keep summary-json files of neuron-explorer", "profile_add")
    add.add_argument("files", nargs="+", type=Path, metavar="FILE")
    add.add_argument("--neff", default="", metavar="NAME", help="file name of the NEFF")
    add.add_argument("--uuid", default="", help="uuid of the NEFF")
    command(profile, "list", "what is kept", "profile_list")
    remove = command(profile, "remove", "forget a profile", "profile_remove")
    remove.add_argument("name", metavar="NAME", help="name or uuid of the NEFF")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) == int(text)):
        raise argparse.ArgumentTypeError(f"{text} is no whole number above 0")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return value


def _duration(text: str) -> float:
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    factor = units.get(text[-1:].lower())
    try:
        return _positive(text if factor is None else text[:-1]) * (factor or 1.0)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text} is no time: say 300 or 5m") from None


def _size(text: str) -> int:
    units = {"K": 10**3, "M": 10**6, "G": 10**9}
    factor = units.get(text[-1:].upper(), 1)
    try:
        value = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no size: say 500M or 2G") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no size: say 500M or 2G")
    return int(value)
