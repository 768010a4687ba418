"""`trntop targets`: expands node lists to targets for Prometheus service discovery.

Printed, it is the input of `file_sd_configs`; with `--listen`, the response to `http_sd_configs`.
Format: Prometheus' documentation, "Writing HTTP service discovery": a JSON list of
`{"targets": ["HOST:PORT"], "labels": {…}}`, the whole list each time, `[]` for none.
"""

import argparse
import itertools
import re
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trntop.cli import arguments
from trntop.core.errors import TrntopError, UsageError
from trntop.core.text import clean
from trntop.remote.hostlist import MAX_BYTES, MAX_HOSTS, expand_all

if TYPE_CHECKING:
    from starlette.applications import Starlette

PATH = "/targets"

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


class Group(msgspec.Struct, frozen=True):
    """Targets that share their labels."""

    targets: list[str]
    labels: dict[str, str]


class Inventory:
    """The nodes on the command line and in files.

    Args:
        nodes: host lists, or `@FILE` of host lists: any number per line, `#` starts a comment.
        port: of each node's exporter.
        labels: of all targets.
    """

    def __init__(self, nodes: list[str], port: int, labels: dict[str, str]) -> None:
        self._nodes = nodes
        self._port = port
        self._labels = labels

    def document(self) -> bytes:
        """The list as JSON; files are read again.

        Raises:
            UsageError: a host list is not valid.
            TrntopError: the file cannot be read.
        """
        listed = (
            _hosts(Path(node[1:])) if node.startswith("@") else expand_all([node])
            for node in self._nodes
        )
        hosts = dict.fromkeys(itertools.chain.from_iterable(listed))
        if len(hosts) > MAX_HOSTS:
            raise UsageError(f"more than {MAX_HOSTS:,} hosts")
        targets = [f"{host}:{self._port}" for host in hosts]
        return msgspec.json.encode([Group(targets, self._labels)] if targets else [])


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
    parser.add_argument(
        "--listen", metavar="HOST:PORT",
        help="serve the targets for http_sd_configs; files are read again at each request",
    )  # fmt: skip


def targets(args: Namespace) -> int:
    """Prints the targets, or serves them."""
    inventory = Inventory(args.nodes, args.port, _labels(args.labels))
    document = inventory.document()
    if args.listen is None:
        sys.stdout.buffer.write(msgspec.json.format(document, indent=2) + b"\n")
        return 0
    from trntop.exporters.web.listening import listen
    from trntop.exporters.web.server import serve

    serve(build_app(inventory), listen([args.listen]), path=PATH)
    return 0


def build_app(inventory: Inventory) -> "Starlette":
    """The list over HTTP, at `/targets` and at `/`.

    If a list cannot be read, the answer is 503 with the reason: Prometheus keeps its targets.
    """
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    # Starlette runs a plain function in a thread: the file may hang on a network.
    def listed(_: Request) -> Response:
        try:
            return Response(inventory.document(), media_type="application/json")
        except TrntopError as error:
            return PlainTextResponse(f"{error}\n", 503)

    app = Starlette(routes=[Route(path, listed) for path in (PATH, "/")])
    app.router.redirect_slashes = False
    return app


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
