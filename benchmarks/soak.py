"""An hour of the demo at accelerated time, its pages rendered in both formats: the memory that the
last two thirds of it add, and what 10,000 names of jobs leave behind.

The rings of the history fill within the first minutes; what grows later is a leak.
"""

import dataclasses
import gc
import itertools
import statistics
import tracemalloc
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.payloads import START, readings
from trntop.analysis.rulebook import rules
from trntop.catalog import Entity, Page
from trntop.collectors import simulator
from trntop.core.model import Cluster, NodeView, View
from trntop.core.settings import Settings
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition
from trntop.session.monitor import Monitor, play

NAMES = 10_000
LOOKS = 120
"""How often the memory of a run is looked at."""


def run(*, quick: bool) -> list[Figure]:
    minutes = 6 if quick else 60
    hours = [_hour(nodes, each, minutes) for nodes, each in ((1, 1), (16, 5))]
    return [*hours, *_churn(NAMES // (10 if quick else 1))]


def _exposition() -> Exposition:
    settings = Settings()
    return Exposition(rules=rules(settings.analysis, settings.rules))


def _render(exposition: Exposition, view: View) -> None:
    """All pages of a view in both formats."""
    rendered = exposition.render(view)
    for page, written in itertools.product(Page, Format):
        rendered.body(page, written)


def _hour(nodes: int, each: int, minutes: int) -> Figure:
    """MiB that the process grows by per hour of data, rendering at each `each`-th tick.

    The median of the slopes between any two looks: the allocator takes a few MiB now and then and
    gives them back, which a straight line through all looks would take for growth.
    """
    exposition = _exposition()
    simulation = simulator.parse(f"sim:demo?nodes={nodes}&minutes={minutes}")
    views = play(simulator.simulate(simulation, START), Monitor(Settings()))
    looks: list[tuple[float, float]] = []
    pages = 0
    for tick, view in enumerate(views):
        if tick % each == 0:
            _render(exposition, view)
            pages += len(Page) * len(Format)
        if tick % (60 * minutes // LOOKS) == 0 and tick >= 20 * minutes:
            gc.collect()
            looks.append((view.time / 3600, _resident_mib()))
    slopes = [(size - was) / (time - then)
              for (then, was), (time, size) in itertools.combinations(looks, 2)]  # fmt: skip
    what = f"{minutes} minutes of the demo, {nodes} node{'s' * (nodes > 1)}: growth"
    beside = f"{looks[0][1]:.1f} → {looks[-1][1]:.1f} MiB resident, {pages:,} pages"
    budget = 1.0 if minutes >= 60 else None
    return Figure(what, statistics.median(slopes), "MiB/h", budget, beside)


def _churn(names: int) -> list[Figure]:
    """What names of jobs and pids that never come again add to the pages and to the memory."""
    *_, view, _ = play(readings(1, 0.5), Monitor(Settings()))
    ((name, node),) = view.cluster.nodes.items()
    exposition = _exposition()
    sizes = set()
    kept = 0
    tracemalloc.start()
    for number in range(names):
        inventory = dataclasses.replace(
            node.inventory,
            version=number,
            keys={
                **node.inventory.keys,
                Entity.JOB: (f"job-{number:06}",),
                Entity.RUNTIME: (number,),
            },
        )
        cluster = Cluster(view.time, {name: NodeView(inventory, node.frame)})
        rendered = exposition.render(dataclasses.replace(view, cluster=cluster))
        sizes.add(rendered.body(Page.METRICS, Format.TEXT).count(b"\n"))
        if number in (names // 10, names - 1):
            gc.collect()
            kept = tracemalloc.get_traced_memory()[0] - kept
    tracemalloc.stop()
    return [
        Figure(f"{names:,} names of jobs and pids: sizes of /metrics", len(sizes), "", 1),
        Figure("  traced memory that the last nine tenths add", kept / 1024, "KiB", 64),
    ]


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)
