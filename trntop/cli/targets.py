"""`trntop targets`: expands node lists to targets for Prometheus service discovery.

It is the input of `file_sd_configs`: a JSON list of `{"targets": ["HOST:PORT"], "labels": {…}}`,
`[]` for none.
"""

import argparse
import itertools
import re
import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from trntop.cli import arguments
from trntop.core.errors import TrntopError, UsageError
from trntop.core.text import clean
from trntop.remote.hostlist import MAX_BYTES, MAX_HOSTS, expand_all

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


def add_targets_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "nodes", nargs="+", metavar="NODELIST",
        help="e.g. trn-[001-016,020], or @FILE: any number of lists per line, # starts a comment",
    )  # fmt: skip
    parser.add_argument(
        "-p", "--port", type=arguments.port, default=10042, metavar="PORT",
        help="port of the exporter on each node (default: 10042)",
    )  # fmt: skip
    parser.add_argument(
        "--label", action="append", default=[], metavar="NAME=VALUE", dest="labels",
        help="label for all targets; repeatable",
    )  # fmt: skip


def targets(args: Namespace) -> int:
    """Prints the targets."""
    labels = _labels(args.labels)
    listed = (
        _hosts(Path(node[1:])) if node.startswith("@") else expand_all([node])
        for node in args.nodes
    )
    hosts = dict.fromkeys(itertools.chain.from_iterable(listed))
    if len(hosts) > MAX_HOSTS:
        raise UsageError(f"more than {MAX_HOSTS:,} hosts")
    group = {"targets": [f"{host}:{args.port}" for host in hosts], "labels": labels}
    document = msgspec.json.encode([group] if hosts else [])
    sys.stdout.buffer.write(msgspec.json.format(document, indent=2) + b"\n")
    return 0


def _labels(assignments: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not _LABEL.fullmatch(name):
            raise UsageError(f"{clean(assignment, 40)} is not a valid --label; use NAME=VALUE")
        labels[name] = clean(value)
    return labels


def _hosts(path: Path) -> tuple[str, ...]:
    """The hosts of a file of host lists with comments."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise TrntopError(f"{path} is larger than {MAX_BYTES >> 20} MiB")
        lines = data.decode().splitlines()
    except OSError as error:
        raise TrntopError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TrntopError(f"{path} is not UTF-8 at byte {error.start}") from error
    try:
        return expand_all(line.partition("#")[0] for line in lines)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
