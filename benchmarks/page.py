"""Rendering the metrics pages of one node with 128 cores and 16 EFA cards."""

import dataclasses
import itertools

from benchmarks.figure import Figure, median_seconds
from benchmarks.payloads import readings
from trntop.exporters.prometheus import Page
from trntop.monitor import Monitor, play
from trntop.settings import Settings


def run(*, quick: bool) -> list[Figure]:
    from prometheus_client import CollectorRegistry, Gauge, generate_latest
    from prometheus_client.parser import text_string_to_metric_families

    *_, view = play(readings(1, 0.5), Monitor(Settings()))
    page = Page()
    generation = itertools.count(1)

    def render() -> bytes:
        # A new generation each time: nothing but the prefixes may be kept.
        pages = page.render(dataclasses.replace(view, generation=next(generation)))
        return pages.metrics + pages.cores

    text = render().decode()
    samples = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels
    ]
    # The yardstick: the same series as prometheus_client gauges.
    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}
    for sample in samples:
        labels = sorted(sample.labels)
        if sample.name not in gauges:
            gauges[sample.name] = Gauge(sample.name, "help", labels, registry=registry)
        gauges[sample.name].labels(*(sample.labels[label] for label in labels)).set(sample.value)
    repeats = 50 if quick else 300
    ours = median_seconds(render, repeats)
    theirs = median_seconds(lambda: generate_latest(registry), min(repeats, 100))
    beside = f"{theirs / ours:.0f} × faster than generate_latest ({theirs * 1e3:.1f} ms)"
    what = f"both pages, {len(samples):,} series (64 logical cores)"
    return [Figure(what, ours * 1e3, "ms", 2.0, beside)]
