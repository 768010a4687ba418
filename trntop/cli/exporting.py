"""`trntop export`: serves pages of metrics until stopped, or writes one to a file."""

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from trntop.analysis import rulebook
from trntop.catalog import Page
from trntop.cli import arguments, opening
from trntop.cli.opening import settings_of
from trntop.core.errors import UsageError
from trntop.core.folders import state_folder
from trntop.core.model import View
from trntop.core.settings import Settings
from trntop.core.source_spec import Origin, Source, parse_all
from trntop.session.incident_log import IncidentLog, Journal, JournalError
from trntop.session.runner import Session

if TYPE_CHECKING:
    import socket

    from trntop.collectors.probes.turns import Turns
    from trntop.collectors.probing import Probing
    from trntop.exporters.metrics.exposition import Block
    from trntop.exporters.metrics.pages import Exposition
    from trntop.exporters.web.access import Access
    from trntop.exporters.web.probes import Probes

_OWN = (Origin.LOCAL, Origin.STDIN)
"""Sources of this machine."""

HUNG_SECONDS = 15.0
HUNG_PERIODS = 3
"""A live session is hung if its last tick is older than both."""


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Includes the option names of the Prometheus exporters."""
    parser.add_argument(
        "--listen", "--web.listen-address", action="append", metavar="HOST:PORT",
        help="address to serve on (default: 127.0.0.1:10042); repeatable",
    )  # fmt: skip
    parser.add_argument(
        "-p", "--port", type=arguments.port_or_any, metavar="PORT",
        help="port to serve on, 0 for any free one (the option of neuron-monitor-prometheus.py)",
    )  # fmt: skip
    parser.add_argument(
        "--web.systemd-socket", action="store_true", dest="systemd_socket",
        help="serve on sockets passed by systemd",
    )  # fmt: skip
    parser.add_argument(
        "--web.config.file", metavar="FILE", dest="web_config_file",
        help="TLS, client certificates and passwords (exporter-toolkit format)",
    )  # fmt: skip
    parser.add_argument(
        "--state", metavar="DIRECTORY",
        help="directory of the journal of incidents (default: ~/.local/state/trntop)",
    )  # fmt: skip
    parser.add_argument(
        "--compat", metavar="NAMES",
        help="also export the metric names of neuron-monitor,amazonefa",
    )  # fmt: skip
    parser.add_argument(
        "--allow-probes", action="store_true", default=None,
        help="allow trntop check to inspect this node and to probe from it",
    )  # fmt: skip
    parser.add_argument(
        "--probe-token-file", metavar="FILE",
        help="with --allow-probes: file with the token that trntop check must send",
    )  # fmt: skip
    parser.add_argument(
        "--probe-every", type=arguments.duration, metavar="SECONDS",
        help="with --allow-probes: probe other agents at this interval, e.g. 5m",
    )  # fmt: skip
    parser.add_argument(
        "--probe-peers", metavar="NODES",
        help="with --probe-every: agents to probe, the same list on all, e.g. trn-[001-016]",
    )  # fmt: skip
    parser.add_argument(
        "--textfile", type=Path, metavar="FILE",
        help="write /metrics to FILE for the textfile collector of node_exporter, serve nothing",
    )  # fmt: skip
    parser.add_argument(
        "--once", action="store_true", help="with --textfile: write once and exit; 1 on failure"
    )
    arguments.playback(parser)


def export(args: Namespace) -> int:
    """Serves the pages of metrics, or writes `/metrics` to a file."""
    from trntop.exporters.web.listening import parse_listen

    sources = parse_all(args.sources)
    for address in args.listen or ():
        parse_listen(address)  # so that the message names the option, not the setting
    settings = settings_of(
        args,
        export__listen=args.listen,
        export__web_config_file=args.web_config_file,
        export__state=args.state,
        export__compat=args.compat,
        export__allow_probes=args.allow_probes,
        export__probe_token_file=args.probe_token_file,
        export__probe_every=args.probe_every,
        export__probe_peers=args.probe_peers,
    )
    if args.textfile is not None:
        return _write(args, sources, settings)
    if args.once:
        raise UsageError("--once needs --textfile")
    return _serve(args, sources, settings)


def _serve(args: Namespace, sources: list[Source], settings: Settings) -> int:
    from trntop.collectors.probes.turns import Turns
    from trntop.exporters.metrics import judging, process
    from trntop.exporters.web.history import HistoryBuffer
    from trntop.exporters.web.incidents import Incidents
    from trntop.exporters.web.server import build_app, serve
    from trntop.exporters.web.stream import Streams

    turns = Turns()
    session = _session(args, sources, settings, _probing(sources, settings, turns))
    # Wrong options are reported before collection starts.
    access = _access(settings)
    probes = _probes(sources, settings, turns)
    exposition = _exposition(
        settings,
        lambda: [
            *process.families(),
            *judging.families(aggregated=streams.aggregated, behind=log.behind),
        ],
    )
    sockets = _sockets(args, settings)
    aggregator = any(source.origin not in _OWN and not source.stream for source in sources)
    log = IncidentLog(session.period, _journal(sources, settings, aggregator=aggregator))
    session.recover(*log.earlier)
    session.subscribe(log)
    streams = Streams(
        lambda: latest(session),
        session.period,
        lambda: session.loading,
        aggregator=aggregator,
        log=log,
        custom_rules=settings.rules,
    )
    session.subscribe(streams.publish)
    incidents = Incidents(log, lambda: latest(session), aggregator=aggregator)
    history = HistoryBuffer(
        session.period, aggregator=aggregator, judge=streams.judge, custom_rules=settings.rules
    )
    session.subscribe(history.append)
    session.start()
    try:
        app = build_app(lambda: latest(session), exposition, streams, probes, incidents, history)
        serve(app, sockets, access, on_stop=streams.stop, at_end=probes.close)
    finally:
        session.stop()
        log.close()
    return 0


def _journal(sources: list[Source], settings: Settings, *, aggregator: bool) -> Journal | None:
    """The journal of incidents; without one they are kept in memory, and the reason is printed."""
    folder = Path(settings.export.state) if settings.export.state else state_folder(os.environ)
    if folder is None or (sources[0].stream and not settings.export.state):
        return None
    name = f"incidents-{'aggregator' if aggregator else 'agent'}.jsonl"
    try:
        return Journal(folder / name, _print)
    except JournalError as error:
        _print(f"incidents are not kept for a restart: {error}")
        return None


def _session(
    args: Namespace, sources: list[Source], settings: Settings, probing: "Probing | None" = None
) -> Session:
    session = opening.session(
        sources,
        settings,
        speed=args.speed,
        loop=args.loop,
        observer=False,
        lasting=True,
        probing=probing,
    )
    session.warn = _print
    return session


def _write(args: Namespace, sources: list[Source], settings: Settings) -> int:
    from trntop.exporters.metrics import textfile
    from trntop.exporters.metrics.exposition import Format

    if args.listen or args.port is not None or args.systemd_socket:
        raise UsageError(
            "--textfile cannot be combined with --listen, --port or --web.systemd-socket"
        )
    if args.probe_every or args.allow_probes:
        raise UsageError("--textfile cannot be combined with --allow-probes or --probe-every")
    file = textfile.Textfile(args.textfile)
    # node_exporter has its own `process_…` and rejects duplicates.
    exposition = _exposition(settings, tuple)

    def page(view: View | None) -> bytes:
        return exposition.render(view).body(Page.METRICS, Format.TEXT)

    if args.once:
        from trntop.cli.snapshots import received, snapshot_view

        view = snapshot_view(sources, settings)
        try:
            file.write(page(view))
        except textfile.TextfileError as error:
            _print(str(error))
            return 1
        return received(view.cluster)
    session = _session(args, sources, settings)
    session.start()
    try:
        textfile.run(file, lambda: page(latest(session)), _print)
    finally:
        session.stop()
    return 0


def latest(session: Session) -> View | None:
    """The newest view; None if it is out of date: the session failed, hangs or loads a backfill."""
    view = session.view
    if session.failure or session.loading:
        return None
    if session.playback is None:
        # A thread that waits for a dead file system raises no error.
        since = session.clock.now() - view.time
        if since > max(HUNG_SECONDS, HUNG_PERIODS * session.period):
            return None
    return view


def _exposition(settings: Settings, own: "Callable[[], Iterable[Block]]") -> "Exposition":
    from trntop.exporters.metrics.compat import compat_of
    from trntop.exporters.metrics.pages import Exposition

    return Exposition(
        settings.export.max_series,
        own,
        rules=rulebook.rules(settings.analysis, settings.rules),
        compat=compat_of(settings.export.compat),
        settings=settings.analysis,
    )


def _access(settings: Settings) -> "Access | None":
    if not settings.export.web_config_file:
        return None
    from trntop.exporters.web.access import Access

    return Access(Path(settings.export.web_config_file), _print)


def _probing(sources: list[Source], settings: Settings, turns: "Turns") -> "Probing | None":
    """The collector of `--probe-every`, if enabled."""
    if not settings.export.probe_every:
        return None
    if not any(source.origin is Origin.LOCAL for source in sources):
        raise UsageError("--probe-every needs the source local")
    from trntop.collectors.probing import probing_of

    return probing_of(opening.node_name(), settings, turns)


def _probes(sources: list[Source], settings: Settings, turns: "Turns") -> "Probes":
    """The probes that a check may run here: none without `--allow-probes` and a token."""
    from trntop.exporters.web.probes import Probes, Token

    export = settings.export
    if not export.allow_probes:
        if export.probe_token_file:
            raise UsageError("--probe-token-file needs --allow-probes")
        return Probes()
    if not export.probe_token_file:
        raise UsageError("--allow-probes needs --probe-token-file FILE")
    from trntop.collectors.hosts.node import LocalHost

    simulated = any(source.origin is Origin.SIMULATION for source in sources)
    host = LocalHost(settings, opening.node_name(), turns, simulated=simulated)
    return Probes(host, Token(Path(export.probe_token_file)))


def _sockets(args: Namespace, settings: Settings) -> "list[socket.socket]":
    from trntop.exporters.web.listening import from_systemd, listen, parse_listen

    addresses = list(settings.export.listen)
    if args.systemd_socket:
        if args.listen or args.port is not None:
            raise UsageError("--web.systemd-socket cannot be combined with --listen or --port")
        return from_systemd(os.environ)
    if args.port is not None:
        if len(addresses) > 1:
            raise UsageError("--port needs a single address; add the port to each --listen instead")
        host, _ = parse_listen(addresses[0])
        addresses = [f"{f'[{host}]' if ':' in host else host}:{args.port}"]
    return listen(addresses)


def _print(text: str) -> None:
    print(f"trntop: {text}", file=sys.stderr, flush=True)
