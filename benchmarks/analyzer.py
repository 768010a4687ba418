"""One tick of the whole analyzer, all rules, over ever larger clusters.

Not every tick evaluates everything, so the mean counts; the slowest of twenty is given too.

Each size runs in a process of its own, so that its peak of memory is its own. The nodes are
simulated trn2.48xlarge of 128 cores in one job; a thousand share each sample's columns, so
that the memory is the analyzer's rather than the columns'.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.payloads import readings
from trntop.analysis import Analyzer
from trntop.core.model import Cluster, Inventory, NodeView
from trntop.core.settings import Settings
from trntop.session.monitor import Monitor, play

CORES = 128
"""Of one node."""
SAMPLES = 4
"""Nodes that are simulated."""
WARM_UP = 45
"""Ticks until every window is full."""
SIZES = ((125, "16 k", None), (1024, "131 k", 5.0), (8192, "1 M", None), (31_250, "4 M", 250.0))
"""Nodes, their cores in words, and the budget in milliseconds."""
SMALL = 1024
"""Nodes of the largest size of a quick run."""
MEMORY = 2048.0
"""MiB, peak."""
TIMEOUT = 900.0


def run(*, quick: bool) -> list[Figure]:
    ticks = 20 if quick else 60
    figures = []
    for nodes, cores, budget in SIZES:
        if quick and nodes > SMALL:
            continue
        figure = json.loads(
            subprocess.run(
                (sys.executable, "-m", "benchmarks.analyzer", str(nodes), str(ticks)),
                check=True, stdout=subprocess.PIPE, timeout=TIMEOUT,
            ).stdout
        )  # fmt: skip
        each = 1e6 * figure["seconds"] / (nodes * CORES / 1000)
        figures += [
            Figure(f"analyzer tick, {cores} cores on {nodes:,} nodes", 1e3 * figure["seconds"],
                   "ms", budget,
                   f"{each:.1f} µs per 1,000 cores; one of twenty is above "
                   f"{1e3 * figure['slow']:.1f} ms"),
            Figure(f"analyzer, {cores} cores: peak of memory", figure["peak_mib"], "MiB", MEMORY,
                   f"{figure['base_mib']:.0f} MiB before the first tick"),
        ]  # fmt: skip
    return figures


def clusters(nodes: int, ticks: int) -> Iterator[Cluster]:
    """A simulated cluster of many nodes, tick by tick."""
    names = [f"n{index:05}" for index in range(nodes)]
    inventories: dict[str, tuple[Inventory, Inventory]] = {}
    views = play(readings(SAMPLES, ticks // 60 + 1), Monitor(Settings()))
    for view in islice(views, ticks):
        samples = list(view.cluster.nodes.values())
        made = {}
        for index, name in enumerate(names):
            sample = samples[index % len(samples)]
            known = inventories.get(name)
            if known is None or known[0] is not sample.inventory:
                known = inventories[name] = (
                    sample.inventory,
                    replace(sample.inventory, node=name),
                )
            made[name] = NodeView(known[1], replace(sample.frame, node=name))
        yield Cluster(view.time, made)


def measure(nodes: int, ticks: int) -> dict[str, float]:
    """Mean seconds of a tick, those that one of twenty exceeds, and the process's memory before
    the first and at its peak.
    """
    analyzer = Analyzer(Settings().analysis, 1.0)
    base = None
    times = []
    for number, cluster in enumerate(clusters(nodes, WARM_UP + ticks)):
        base = base or peak_mib()
        start = time.perf_counter()
        analyzer.tick(cluster)
        if number >= WARM_UP:
            times.append(time.perf_counter() - start)
    return {
        "seconds": statistics.fmean(times),
        "slow": statistics.quantiles(times, n=20)[-1],
        "base_mib": base or 0.0,
        "peak_mib": peak_mib(),
    }


def peak_mib() -> float:
    """The most memory this process ever had resident."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
