"""The command line.

Imports nothing heavy: each command imports what it needs, so that the exporter does not load the
screen.
"""

import argparse
import io
import os
import pkgutil
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from trntop import __version__
from trntop.core.errors import TrntopError, UsageError
from trntop.core.suggest import closest, unknown
from trntop.core.text import clean

DEFAULT_COMMAND = "top"

DESCRIPTION = """\
Live monitoring of AWS Trainium clusters.

  trntop                      dashboard for this machine
  trntop demo                 dashboard on a simulated 16-node run with scripted incidents
  trntop replay FILE          dashboard on a recording
  trntop COMMAND --help       options of a command
"""

SOURCES = """\
a SOURCE is one of
  local               this machine (default): neuron-monitor, drivers, EFA, host, logs
  -                   neuron-monitor output on standard input
  FILE                a recording or a file of neuron-monitor reports; plain, .gz or .zst
  sim:SCENARIO        a simulation, e.g. 'sim:efa-degraded?nodes=4&type=trn1.32xlarge&seed=7';
                      {SCENARIOS}
remote nodes (one or more SOURCEs):
  trn-[001-016]       nodes that run the agent (trntop export); also trn-007:10042,
                      https://trn-[001-016], or another exporter: http://HOST:8000/metrics
  ssh://trn-[001-016] nodes without an agent, over SSH
  @FILE  dns:NAME  slurm:JOBID  ec2:tag/Name=run7
                      node lists, refreshed: nodes that join are added
  prometheus+http://HOST
                      all nodes that a Prometheus, VictoriaMetrics, Thanos or Mimir scrapes
  cloudwatch:CLUSTER  Container Insights, if no other source is reachable
"""


CHECKED = """\
agents must run with --allow-probes; pass their token with --set fleet.token_file=FILE
"""

_COMMAND = re.compile(r"[A-Za-z][A-Za-z_-]*")
"""A first argument that can only be a command, unless it is a file or a source."""
_OPTION = re.compile(r"^ +(?:-\w(?: \S+)?, )?(--[a-z][\w.-]*)", re.MULTILINE)
"""An option in a help page."""
_SUBCOMMAND = re.compile(r"argument COMMAND: invalid choice: '(.+)' \(choose from (.+)\)")
_ARGPARSE = (
    (r"argument (\S+): expected .*argument.*", r"\1 needs a value"),
    (r"argument (\S+): invalid choice: (.+) \(choose from (.+)\)", r"\1 must be \3, not \2"),
    (r"argument (\S+): not allowed with argument (\S+)", r"\1 cannot be combined with \2"),
    (r"argument (\S+): ignored explicit argument .*", r"\1 takes no value"),
    (r"argument (\S+): (.*)", r"\1: \2"),
    (r"the following arguments are required: (.*)", r"missing \1"),
)
"""argparse's messages → ours; one that matches none stays as it is."""


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage in one line instead of a page."""

    def error(self, message: str) -> NoReturn:
        if match := _SUBCOMMAND.fullmatch(message):
            raise UsageError(unknown("command", match[1], re.findall(r"[\w-]+", match[2])))
        for pattern, replacement in _ARGPARSE:
            if match := re.fullmatch(pattern, message):
                message = match.expand(replacement)
                break
        raise UsageError(f"{message} (see {self.prog} --help)")

    def format_help(self) -> str:
        from trntop.collectors.simulator import SCENARIOS

        return (
            super()
            .format_help()
            .replace(
                "{SCENARIOS}",
                textwrap.fill(
                    ", ".join(SCENARIOS), 70, subsequent_indent=" " * 22, break_on_hyphens=False
                ),
            )
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        # A terminal without dashes and arrows gets question marks, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return _run(arguments)
    except TrntopError as error:
        print(f"trntop: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Otherwise Python reports the closed pipe again while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # Standard output on a full disk, a closed terminal.
        print(f"trntop: {error.strerror or error}", file=sys.stderr)
        return 1


def _run(arguments: list[str]) -> int:
    args = parse(arguments)
    return int(pkgutil.resolve_name(args.run)(args))


def parse(given: list[str]) -> argparse.Namespace:
    """The arguments of a command line; without a command, those of the dashboard.

    Raises:
        UsageError: a command or an option is unknown, or a value is missing or wrong.
    """
    parser, commands = _build()
    arguments = given
    first = given[0] if given else ""
    if first not in (*commands, "-h", "--help", "--version"):
        if is_word(first):
            raise UsageError(unknown("command", first, (*commands, "--help", "--version"), _bare))
        if later := set(commands).intersection(given[1:]):
            raise UsageError(f"put the command first: trntop {min(later)} {first} …")
        arguments = [DEFAULT_COMMAND, *given]
    args, rest = parser.parse_known_args(arguments)
    args.arguments = arguments
    if rest:
        # argparse itself would name the help page of trntop instead of the command's.
        wrong = rest[0].partition("=")[0]
        if not wrong.startswith("-"):
            raise UsageError(f"unexpected argument {clean(wrong, 40)} (see {args.prog} --help)")
        near = _similar_option(wrong, args)
        if not near and len(arguments) > len(given):
            # Options of other commands too, where none was named: trntop --json.
            similar = ((name, _similar_option(wrong, sub)) for name, sub in commands.items())
            near = next((f"trntop {name} {option}" for name, option in similar if option), None)
        hint = f"; did you mean {near}?" if near else f" (see {args.prog} --help)"
        raise UsageError(f"unknown option {clean(wrong, 40)}{hint}")
    return args


def _similar_option(wrong: str, parser: argparse.Namespace | _Parser) -> str | None:
    return closest(wrong, _OPTION.findall(parser.format_help()), _bare)


def is_word(text: str) -> bool:
    """Whether a first argument can only be a command: files and sources look different."""
    return bool(_COMMAND.fullmatch(text)) and text != "local" and not Path(text).exists()


def _bare(name: str) -> str:
    return name.lstrip("-").lower()


def _build() -> tuple[_Parser, dict[str, _Parser]]:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="trntop", description=DESCRIPTION, epilog=SOURCES, formatter_class=formatter
    )
    parser.add_argument("--version", action="version", version=f"trntop {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    common = _Parser(add_help=False)
    common.add_argument(
        "--config", type=Path, metavar="FILE",
        help="settings file (default: ~/.config/trntop/config.toml, if it exists)",
    )  # fmt: skip
    common.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments",
        help="override one setting, e.g. analysis.comm_share=0.3; repeatable",
    )  # fmt: skip

    def command(name: str, text: str, *, sources: str = "*", module: str = "commands") -> _Parser:
        sub = commands.add_parser(
            name, help=text, description=text, parents=[common],
            epilog=SOURCES if sources else None, formatter_class=formatter,
        )  # fmt: skip
        if sources:
            sub.add_argument("sources", nargs=sources, metavar="SOURCE")
        sub.set_defaults(
            run=f"trntop.cli.{module}:{name}", prog=sub.prog, format_help=sub.format_help
        )
        return sub

    def playback(sub: _Parser) -> None:
        sub.add_argument(
            "--speed",
            type=_positive,
            default=1.0,
            help="playback speed of recordings and simulations (default: 1, real time)",
        )
        sub.add_argument("--loop", action="store_true", help="restart a recording when it ends")

    def display(sub: _Parser) -> None:
        sub.add_argument(
            "--no-mouse", action="store_true",
            help="leave the mouse to the terminal, to select text",
        )  # fmt: skip
        sub.add_argument(
            "--web", action="store_true", help="serve the dashboard to a browser (extra: web)"
        )
        sub.add_argument(
            "--listen", metavar="HOST:PORT",
            help="with --web: address to serve on (default: 127.0.0.1:10043)",
        )  # fmt: skip

    top = command("top", "dashboard; the default command")
    playback(top)
    display(top)
    demo = command(
        "demo", "dashboard on a simulated 16-node trn2.48xlarge run with scripted incidents",
        sources="",
    )  # fmt: skip
    demo.add_argument(
        "scenario", nargs="?", default="demo", metavar="SCENARIO",
        help="another scenario, e.g. device-lost (trntop --help lists them)",
    )  # fmt: skip
    demo.add_argument(
        "--speed", type=_positive, default=1.0, help="playback speed (default: 1, real time)"
    )
    display(demo)
    replay = command("replay", "dashboard on a recording", sources="+")
    playback(replay)
    display(replay)

    record = command("record", "write a recording of the sources until stopped")
    record.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    record.add_argument("--overwrite", action="store_true", help="replace an existing file")
    record.add_argument("--note", default="", help="note to store in the header of the file")
    record.add_argument(
        "--max-bytes", type=_size, metavar="SIZE", help="stop at this file size, e.g. 500M"
    )
    record.add_argument(
        "--max-seconds", type=_positive, metavar="SECONDS", help="stop after this time"
    )

    snapshot = command("snapshot", "one sample of all values, as a table or JSON")
    snapshot.add_argument("--json", action="store_true", help="print JSON")

    analyze = command("analyze", "list incidents (no dashboard)")
    form = analyze.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument(
        "--markdown", action="store_true", help="print a shift handover report in Markdown"
    )
    analyze.add_argument(
        "--since", metavar="TIME",
        help="only incidents open at or after this time: 14:03 (UTC), 2026-11-20T14:03Z, or 30m,"
        " 2h before the end",
    )  # fmt: skip
    analyze.add_argument(
        "--rule", action="append", default=[], metavar="KIND", dest="kinds",
        help="only incidents of this kind (trntop rules lists them); repeatable",
    )  # fmt: skip
    analyze.add_argument(
        "--seconds", type=_positive, default=60.0,
        help="how long to watch live sources (default: 60)",
    )  # fmt: skip

    _add_compare(command)
    _add_check(command)
    _add_export(command, playback)

    rules = command(
        "rules",
        "list detection rules and thresholds; show one KIND with its runbook; write Prometheus"
        " alert rules or Grafana dashboards",
        sources="", module="rules",
    )  # fmt: skip
    rules.add_argument(
        "kind", nargs="?", metavar="KIND", help="e.g. efa_degraded; or prometheus or grafana"
    )
    rules.add_argument("--json", action="store_true", help="print JSON")
    alerts = rules.add_argument_group("for prometheus")
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
    boards = rules.add_argument_group("for grafana (without options: list the dashboards)")
    boards.add_argument("--dashboard", metavar="NAME", help="print one: cluster, node, efa or job")
    boards.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write all of them to a directory"
    )

    targets = command(
        "targets", "expand node lists to targets for Prometheus service discovery",
        sources="", module="targets",
    )  # fmt: skip
    targets.add_argument(
        "nodes", nargs="*", metavar="NODELIST", help="e.g. trn-[001-016,020], or @FILE"
    )
    targets.add_argument(
        "-f", "--file", type=Path, metavar="FILE",
        help="the same as @FILE: node lists, any number per line; # starts a comment",
    )  # fmt: skip
    targets.add_argument(
        "-p", "--port", type=_port, default=10042, metavar="PORT",
        help="port of the exporter on each node (default: 10042)",
    )  # fmt: skip
    targets.add_argument(
        "--label", action="append", default=[], metavar="NAME=VALUE", dest="labels",
        help="label for all targets; repeatable",
    )  # fmt: skip
    targets.add_argument(
        "--listen", metavar="HOST:PORT",
        help="serve the targets for http_sd_configs; files are read again at each request",
    )  # fmt: skip

    command(
        "doctor", "sources available on this machine, and what the missing ones need", sources=""
    )
    _add_imports(commands, common)
    return parser, dict(commands.choices)


def _add_check(command: Callable[..., _Parser]) -> None:
    check = command(
        "check",
        "check nodes and the EFA network between them before a job; exit code 0 pass, 1 warning,"
        " 2 failure, 3 inconclusive",
        sources="", module="checking",
    )  # fmt: skip
    check.epilog = CHECKED
    check.add_argument(
        "nodes", nargs="*", metavar="NODE",
        help="e.g. trn-[001-016], ssh://trn-[001-016], slurm:JOBID (default: this machine)",
    )  # fmt: skip
    extent = check.add_mutually_exclusive_group()
    extent.add_argument(
        "--quick", action="store_true", help="probe two peers of each node (default)"
    )
    extent.add_argument("--full", action="store_true", help="probe every pair of nodes")
    check.add_argument("--per-card", action="store_true", help="probe each EFA device separately")
    check.add_argument(
        "--dry-run", action="store_true", help="print the plan and its duration, probe nothing"
    )
    check.add_argument(
        "--include-busy", action="store_true", help="also probe nodes with running jobs"
    )
    check.add_argument(
        "--time-limit", type=_positive, metavar="SECONDS",
        help="stop after this time with partial results (default: 900)",
    )  # fmt: skip
    probe = check.add_argument_group("probes")
    probe.add_argument(
        "--provider", choices=("efa", "tcp"), default="efa",
        help="libfabric provider: efa or tcp (default: efa)",
    )  # fmt: skip
    probe.add_argument(
        "--tool", choices=("fi_pingpong", "ib_send_lat"), default="fi_pingpong", metavar="TOOL",
        help="fi_pingpong (default) or ib_send_lat",
    )  # fmt: skip
    probe.add_argument(
        "--size", type=_size, default=64, metavar="BYTES",
        help="message size, e.g. 1M (default: 64)",
    )  # fmt: skip
    probe.add_argument(
        "--iterations", type=_count, default=1000, metavar="N",
        help="messages per run (default: 1000)",
    )  # fmt: skip
    probe.add_argument(
        "--repeats", type=_count, default=3, metavar="N", help="runs per probe (default: 3)"
    )
    probe.add_argument(
        "--deadline", type=_positive, default=10.0, metavar="SECONDS",
        help="time limit per probe (default: 10)",
    )  # fmt: skip
    report = check.add_argument_group("report")
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


def _add_compare(command: Callable[..., _Parser]) -> None:
    compare = command("compare", "compare two runs", sources="", module="comparing")
    for side in "ab":
        compare.add_argument(
            side, metavar=side.upper(),
            help="a recording or sim:SCENARIO; SOURCE@10m-20m selects a part of it",
        )  # fmt: skip
    form = compare.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown, for a ticket")
    compare.add_argument(
        "--from", dest="start", metavar="TIME", help="skip the start of both runs: 90s, 10m, 2h"
    )
    compare.add_argument(
        "--to", dest="end", metavar="TIME", help="ignore both runs after this time"
    )
    for side in "ab":
        compare.add_argument(
            f"--price-{side}", type=_positive, metavar="DOLLARS",
            help=f"price of a node of {side.upper()} per hour (default: screen.price_per_hour)",
        )  # fmt: skip


def _add_export(command: Callable[..., _Parser], playback: Callable[[_Parser], None]) -> None:
    """`export`, which also accepts the option names of the Prometheus exporters."""
    export = command("export", "Prometheus exporter and node agent", module="exporting")
    export.add_argument(
        "--listen", "--web.listen-address", action="append", metavar="HOST:PORT",
        help="address to serve on (default: 127.0.0.1:10042); repeatable",
    )  # fmt: skip
    export.add_argument(
        "-p", "--port", type=_port_or_any, metavar="PORT",
        help="port to serve on, 0 for any free one (the option of neuron-monitor-prometheus.py)",
    )  # fmt: skip
    export.add_argument(
        "--web.systemd-socket", action="store_true", dest="systemd_socket",
        help="serve on sockets passed by systemd",
    )  # fmt: skip
    export.add_argument(
        "--web.config.file", metavar="FILE", dest="web_config_file",
        help="TLS, client certificates, passwords and rate limit (exporter-toolkit format)",
    )  # fmt: skip
    export.add_argument(
        "--max-series", type=_count, metavar="N", help="limit of series per page (default: 20000)"
    )
    export.add_argument(
        "--compat", metavar="NAMES",
        help="also export the metric names of neuron-monitor,amazonefa",
    )  # fmt: skip
    export.add_argument(
        "--allow-probes", action="store_true", default=None,
        help="allow trntop check to inspect this node and to probe from it",
    )  # fmt: skip
    export.add_argument(
        "--probe-token-file", metavar="FILE",
        help="with --allow-probes: file with the token that trntop check must send",
    )  # fmt: skip
    export.add_argument(
        "--probe-every", type=_duration, metavar="SECONDS",
        help="with --allow-probes: probe other agents at this interval, e.g. 5m",
    )  # fmt: skip
    export.add_argument(
        "--probe-peers", metavar="NODES",
        help="with --probe-every: agents to probe, the same list on all, e.g. trn-[001-016]",
    )  # fmt: skip
    export.add_argument(
        "--textfile", type=Path, metavar="FILE",
        help="write /metrics to FILE for the textfile collector of node_exporter, serve nothing",
    )  # fmt: skip
    export.add_argument(
        "--once", action="store_true", help="with --textfile: write once and exit; 1 on failure"
    )
    playback(export)


def _add_imports(commands: "argparse._SubParsersAction[_Parser]", common: _Parser) -> None:
    """The commands that have subcommands."""

    def group(name: str, text: str) -> "argparse._SubParsersAction[_Parser]":
        sub = commands.add_parser(name, help=text, description=text)
        subcommands = sub.add_subparsers(metavar="COMMAND")
        sub.set_defaults(
            run="trntop.cli:_refuse_group", prog=sub.prog, format_help=sub.format_help,
            subcommands=subcommands.choices,
        )  # fmt: skip
        return subcommands

    def command(
        parent: "argparse._SubParsersAction[_Parser]", name: str, text: str, run: str
    ) -> _Parser:
        sub = parent.add_parser(name, help=text, description=text, parents=[common])
        sub.set_defaults(
            run=f"trntop.cli.importing:{run}", prog=sub.prog, format_help=sub.format_help
        )
        return sub

    imports = group("import", "compute step times from profiler traces")
    trace = command(
        imports, "trace", "traces of torch.profiler or of the Neuron runtime", "import_trace"
    )
    trace.add_argument("files", nargs="+", type=Path, metavar="FILE", help="plain, .gz or .zst")
    trace.add_argument("--json", action="store_true", help="print JSON")
    trace.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="also write a recording for trntop replay"
    )
    trace.add_argument("--overwrite", action="store_true", help="replace an existing file")
    trace.add_argument(
        "--job", default="trace", help="name of the job in the recording (default: trace)"
    )
    trace.add_argument(
        "--format", choices=("auto", "kineto", "nrt"), default="auto",
        help="auto (default), kineto or nrt",
    )  # fmt: skip
    trace.add_argument(
        "--executions", type=_count, metavar="N",
        help="executions of a core per step (nrt; default: the whole trace is one step)",
    )  # fmt: skip

    profile = group("profile", "HBM traffic of each NEFF, for the HBM bandwidth")
    add = command(profile, "add", "save summary-json files of neuron-explorer", "profile_add")
    add.add_argument("files", nargs="+", type=Path, metavar="FILE")
    add.add_argument("--neff", default="", metavar="NAME", help="file name of the NEFF")
    add.add_argument("--uuid", default="", help="UUID of the NEFF")
    command(profile, "list", "list saved profiles", "profile_list")
    remove = command(profile, "remove", "delete a saved profile", "profile_remove")
    remove.add_argument("name", metavar="NAME", help="name or UUID of the NEFF")


def _refuse_group(args: argparse.Namespace) -> NoReturn:
    raise UsageError(f"{args.prog} needs a command: {', '.join(args.subcommands)}")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) == int(text)):
        raise argparse.ArgumentTypeError(f"{clean(text, 40)} is not a whole number above 0")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) < 65536):
        raise argparse.ArgumentTypeError(f"{clean(text, 40)} is not a valid port")
    return int(text)


def _port_or_any(text: str) -> int:
    return 0 if text == "0" else _port(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{clean(text, 40)} is not a number above 0")
    return value


def _duration(text: str) -> float:
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    factor = units.get(text[-1:].lower())
    try:
        return _positive(text if factor is None else text[:-1]) * (factor or 1.0)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{clean(text, 40)} is not a valid duration; use 300 or 5m"
        ) from None


def _size(text: str) -> int:
    units = {"K": 10**3, "M": 10**6, "G": 10**9}
    factor = units.get(text[-1:].upper(), 1)
    try:
        value = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{clean(text, 40)} is not a valid size; use 500M or 2G")
    return int(value)
