"""One tick of the whole analyzer over many nodes (node and job rules)."""

from benchmarks.figure import Figure, median_seconds
from benchmarks.payloads import readings
from trntop.analysis import Analyzer
from trntop.model import Cluster
from trntop.monitor import Monitor, play
from trntop.settings import Settings


def run(*, quick: bool) -> list[Figure]:
    settings = Settings()
    *_, view = play(readings(4, 0.5), Monitor(settings))
    sample = list(view.cluster.nodes.values())
    figures = []
    for nodes in (16, 1000):
        cluster = Cluster(
            view.time, {f"n{index:05}": sample[index % len(sample)] for index in range(nodes)}
        )
        analyzer = Analyzer(settings.analysis)
        seconds = median_seconds(lambda: analyzer.tick(cluster), 20 if quick else 100)  # noqa: B023
        figures.append(
            Figure(f"analyzer tick, {nodes} nodes ({nodes * 128:,} cores)", seconds * 1e3, "ms",
                   5.0 if nodes == 1000 else None)
        )  # fmt: skip
    return figures
