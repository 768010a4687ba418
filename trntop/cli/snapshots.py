"""`trntop snapshot` and `trntop doctor`."""

import argparse
import shutil
import sys
import textwrap
import time
from argparse import Namespace

from msgspec import structs

from trntop.cli import arguments, opening
from trntop.cli.opening import settings_of
from trntop.core.model import Cluster, SourceState, State, View
from trntop.core.settings import Settings
from trntop.core.source_spec import Source, parse_all
from trntop.sources import BY_NAME, DEVICE_SOURCES, TRAINING_SOURCES

SNAPSHOT_WAIT = 8.0
"""Seconds a snapshot of live sources waits for two readings of each, for the rates."""
AGENT_SECONDS = 1.0
"""How long doctor waits for the agent of this machine."""
SNAPSHOT_PERIOD = 2.0
"""Seconds between these two of the slow sources, at most."""


def add_snapshot_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.output_form(parser)


def snapshot(args: Namespace) -> int:
    """One sample, as a table or JSON."""
    sources = parse_all(args.sources)
    settings = settings_of(args)
    if not args.json:
        return print_snapshot(sources, settings)
    from trntop.exporters import document

    view = snapshot_view(sources, settings)
    write(document.encode(document.snapshot(view)))
    return received(view.cluster)


def print_snapshot(sources: list[Source], settings: Settings) -> int:
    from trntop.exporters.table import snapshot_text

    view = snapshot_view(sources, settings)
    width = max(80, shutil.get_terminal_size((100, 24)).columns)
    print(snapshot_text(view, width).rstrip())
    return received(view.cluster)


def snapshot_view(sources: list[Source], settings: Settings) -> View:
    """One view: the end of a stream, or live sources after two readings of each."""
    if sources[0].stream:
        return opening.played(sources, settings)[1]
    session = opening.session(sources, _fast(settings))
    session.start()
    try:
        deadline = time.monotonic() + SNAPSHOT_WAIT
        while time.monotonic() < deadline and (
            session.loading or not _settled(session.view.cluster)
        ):
            if session.wait(0.1):
                break
        opening.refuse_failure(session)
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


def _settled(cluster: Cluster) -> bool:
    if cluster.whole is not None and cluster.whole.problem and not cluster.nodes:
        return True  # the Prometheus backend fails
    sources = [source for view in cluster.nodes.values() for source in view.frame.sources]
    return bool(sources) and all(map(_complete, sources))


def _complete(source: SourceState) -> bool:
    """Whether a source has enough readings for a snapshot, or will have no more soon."""
    if source.name in TRAINING_SOURCES or source.state in (State.DOWN, State.ENDED):
        return True
    enough = 2 if (source.period or 0.0) <= SNAPSHOT_PERIOD else 1
    return source.counts.get("readings", 0) >= enough


def received(cluster: Cluster) -> int:
    """Exit code of a snapshot: 1, with the reasons on standard error, if it has no values."""
    if cluster.has_values:
        return 0
    print_problems(cluster)
    return 1


def print_problems(cluster: Cluster) -> None:
    for problem in cluster.problems:
        print(f"trntop: {problem}", file=sys.stderr)


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data.rstrip(b"\n") + b"\n")
    sys.stdout.buffer.flush()


def doctor(args: Namespace) -> int:
    """Lists the sources of this machine; 0 if a device source is available, else 1."""
    from trntop.collectors import examine_all
    from trntop.sources import PLUGIN_PROBLEMS

    settings = settings_of(args)
    findings = examine_all(settings.collect)
    for finding in findings:
        row = BY_NAME[finding.source]
        print(f"{'✓' if finding.ok else '✗'} {finding.source}: {finding.found}")
        print(_indented(f"gives {row.gives}" if finding.ok else f"without it: {row.without}"))
        if finding.remedy:
            print(_indented(finding.remedy, "→ "))
    for problem in PLUGIN_PROBLEMS:
        print(f"✗ {problem}")
    _report_aggregator(settings)
    if not any(finding.ok for finding in findings if finding.source in DEVICE_SOURCES):
        print("✕ no data: no Neuron or EFA device here. To see trntop at work: trntop demo")
        return 1
    return 0


def _report_aggregator(settings: Settings) -> None:
    """Prints whether an aggregator reads the agent of this machine; nothing without an agent."""
    import httpx

    from trntop.exporters.web.listening import parse_listen

    host, port = parse_listen(settings.export.listen[0])
    try:
        url = f"http://{host or '127.0.0.1'}:{port}/v1/inventory"
        found = httpx.get(url, timeout=AGENT_SECONDS, trust_env=False).json()
        aggregated = found["streams"]["aggregated"]
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return
    if aggregated:
        print("✓ aggregator: one reads the agent of this machine and judges its jobs")
        return
    print("✗ aggregator: none reads the agent of this machine")
    print(_indented("without it: only single-node rules are evaluated while no dashboard is open"))
    print(_indented("run trntop export NODES on a head node: deploy/README.md", "→ "))


def _indented(text: str, mark: str = "") -> str:
    return textwrap.fill(
        text, 96, initial_indent=f"    {mark}", subsequent_indent=" " * (4 + len(mark))
    )
