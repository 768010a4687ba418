"""The command line.

Imports nothing heavy: each command imports what it needs, so that the exporter does not load the
screen.
"""

import argparse
import gc
import importlib
import io
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from trntop import __version__
from trntop.cli import arguments
from trntop.core.errors import TrntopError, UsageError
from trntop.core.suggest import closest, unknown
from trntop.core.text import clean


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its function, in a module of this package, has its name."""

    module: str
    help: str
    sources: str = ""
    """`nargs` of its SOURCE arguments; empty without any."""


COMMANDS = {
    "top": Command("dashboard", "dashboard; the default command", "*"),
    "demo": Command(
        "dashboard", "dashboard on a simulated 16-node trn2.48xlarge run with scripted incidents"
    ),
    "replay": Command("dashboard", "dashboard on a recording", "+"),
    "record": Command("recording", "write a recording of the sources until stopped", "*"),
    "snapshot": Command("snapshots", "one sample of all values, as a table or JSON", "*"),
    "analyze": Command("analyzing", "list incidents (no dashboard)", "*"),
    "incidents": Command(
        "incidents", "incidents of the last day, from an agent, an aggregator or Prometheus", "*"
    ),
    "compare": Command("comparing", "compare two runs"),
    "check": Command(
        "checking",
        "check nodes and the EFA network between them before a job; exit code 0 pass, 1 warning,"
        " 2 failure, 3 inconclusive",
    ),
    "export": Command("exporting", "Prometheus exporter and node agent", "*"),
    "rules": Command(
        "rules",
        "list detection rules and thresholds; show one KIND with its runbook; write Prometheus"
        " alert rules or Grafana dashboards",
    ),
    "targets": Command("targets", "expand node lists to targets for Prometheus service discovery"),
    "doctor": Command(
        "snapshots", "sources available on this machine, and what the missing ones need"
    ),
    "import": Command("importing", "compute step times from profiler traces"),
    "profile": Command("importing", "HBM traffic of each NEFF, for the HBM bandwidth"),
}
GROUPS = ("import", "profile")
"""Commands that have subcommands."""
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
        return with_scenarios(super().format_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; its exit code."""
    # What is made at the start lasts: looking for garbage in it takes a tenth of the time.
    gc.set_threshold(100_000)
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
    return int(args.run(args))


def parse(given: list[str]) -> argparse.Namespace:
    """The arguments of a command line; without a command, those of the dashboard.

    Raises:
        UsageError: a command or an option is unknown, or a value is missing or wrong.
    """
    first = given[0] if given else ""
    if first in ("-h", "--help", "--version"):
        print(f"trntop {__version__}" if first == "--version" else _help())
        raise SystemExit(0)
    words = given
    if first not in COMMANDS:
        if is_word(first):
            raise UsageError(unknown("command", first, (*COMMANDS, "--help", "--version"), _bare))
        if later := COMMANDS.keys() & set(given[1:]):
            raise UsageError(f"put the command first: trntop {min(later)} {first} …")
        words = [DEFAULT_COMMAND, *given]
    name = words[0]
    args, rest = parser_of(name).parse_known_args(words[1:])
    args.arguments = words
    if rest:
        # argparse itself would name the help page of trntop instead of the command's.
        wrong = rest[0].partition("=")[0]
        if not wrong.startswith("-"):
            raise UsageError(f"unexpected argument {clean(wrong, 40)} (see {args.prog} --help)")
        near = _similar_option(wrong, args.format_help())
        if not near and len(words) > len(given):
            # Options of other commands too, if none was named: trntop --json.
            similar = (
                (other, _similar_option(wrong, parser_of(other).format_help()))
                for other in COMMANDS
            )
            near = next((f"trntop {other} {option}" for other, option in similar if option), None)
        hint = f"; did you mean {near}?" if near else f" (see {args.prog} --help)"
        raise UsageError(f"unknown option {clean(wrong, 40)}{hint}")
    return args


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of a command; its module declares the arguments."""
    command = COMMANDS[name]
    parser = _Parser(
        prog=f"trntop {name}",
        description=command.help,
        epilog=SOURCES if command.sources else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if command.sources:
        parser.add_argument("sources", nargs=command.sources, metavar="SOURCE")
    parser.set_defaults(command=name, prog=parser.prog, format_help=parser.format_help)
    module = importlib.import_module(f"trntop.cli.{command.module}")
    if name in GROUPS:
        parser.set_defaults(run=_refuse_group)
        module.add_subcommands(name, parser)
    else:
        parser.set_defaults(run=getattr(module, name))
        arguments.settings(parser)
        add = getattr(module, f"add_{name}_arguments", None)
        if add is not None:
            add(parser)
    return parser


def _help() -> str:
    rows = "\n".join(
        textwrap.fill(command.help, 90, initial_indent=f"  {name:<12}", subsequent_indent=" " * 14)
        for name, command in COMMANDS.items()
    )
    return with_scenarios(f"{DESCRIPTION}\ncommands:\n{rows}\n\n{SOURCES}").rstrip()


def with_scenarios(text: str) -> str:
    from trntop.collectors.simulator import SCENARIOS

    names = textwrap.fill(
        ", ".join(SCENARIOS), 70, subsequent_indent=" " * 22, break_on_hyphens=False
    )
    return text.replace("{SCENARIOS}", names)


def _similar_option(wrong: str, page: str) -> str | None:
    return closest(wrong, _OPTION.findall(page), _bare)


def is_word(text: str) -> bool:
    """Whether a first argument can only be a command: files and sources look different."""
    return bool(_COMMAND.fullmatch(text)) and text != "local" and not Path(text).exists()


def _bare(name: str) -> str:
    return name.lstrip("-").lower()


def _refuse_group(args: argparse.Namespace) -> NoReturn:
    raise UsageError(f"{args.prog} needs a command: {', '.join(args.subcommands)}")
