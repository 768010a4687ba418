"""`trntop [SOURCE…]`, `demo` and `replay`: the dashboard."""

import argparse
import os
import sys
from argparse import Namespace

from trntop.cli import arguments, opening, snapshots
from trntop.cli.opening import settings_of
from trntop.core.errors import UsageError
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, parse_all
from trntop.session.runner import Session

WEB_LISTEN = "127.0.0.1:10043"
"""Default address of `--web`."""


def add_top_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.playback(parser)
    parser.add_argument(
        "--no-mouse", action="store_true", help="leave the mouse to the terminal, to select text"
    )
    parser.add_argument(
        "--web", action="store_true", help="serve the dashboard to a browser (extra: web)"
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT",
        help="with --web: address to serve on (default: 127.0.0.1:10043)",
    )  # fmt: skip


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
        return snapshots.print_snapshot(sources, settings)
    session = opening.session(
        sources,
        settings,
        speed=args.speed,
        loop=args.loop,
        standard_input=keyboard or 0,
        lasting=True,
    )
    return _dashboard(session, settings)


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenario", nargs="?", default="demo", metavar="SCENARIO",
        help="another scenario, e.g. device-lost (trntop --help lists them)",
    )  # fmt: skip
    add_top_arguments(parser)


def demo(args: Namespace) -> int:
    args.sources = [f"sim:{args.scenario.removeprefix('sim:')}"]
    return top(args)


add_replay_arguments = add_top_arguments


def replay(args: Namespace) -> int:
    sources = parse_all(args.sources)
    if not all(source.stream for source in sources):
        raise UsageError("replay needs recordings; for live sources, use trntop SOURCE")
    return top(args)


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


def _dashboard(session: Session, settings: Settings) -> int:
    from trntop.exporters.report import report
    from trntop.tui.app import run

    return run(
        session,
        settings=settings,
        report=lambda first, last, seconds, acknowledged: report(
            first, last, seconds, last.incidents, acknowledged=acknowledged
        ),
    )
