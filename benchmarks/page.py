"""Rendering the pages of metrics of one node with 128 cores and 16 EFA devices."""

import gzip
import time
from collections.abc import Callable, Iterable
from statistics import median

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from benchmarks.figure import Figure, median_seconds
from benchmarks.payloads import readings
from trntop.analysis.rulebook import rules
from trntop.catalog import Page
from trntop.core.settings import Settings
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition
from trntop.session.monitor import Monitor, play

Renderer = Callable[..., list[bytes]]


def run(*, quick: bool) -> list[Figure]:
    settings = Settings()
    *_, view, _ = play(readings(1, 0.5), Monitor(settings))
    exposition = Exposition(rules=rules(settings.analysis, settings.rules))
    repeats = 50 if quick else 300

    def render(pages: Iterable[Page] = Page, written: Format = Format.TEXT) -> list[bytes]:
        # Rendered from scratch each time: only what belongs to the inventory may be kept.
        rendered = exposition.render(view)
        return [rendered.body(page, written) for page in pages]

    figures = []
    for page in Page:
        own = median_seconds(lambda pages=(page,): render(pages), repeats)
        (body,) = render([page])
        packed = median_seconds(lambda pages=(page,): gzip.compress(*render(pages), 1), repeats)
        figures.append(
            Figure(
                f"{page.path}, {len(_samples([body])):,} series",
                own * 1e3,
                "ms",
                None,
                f"{packed * 1e3:.2f} ms with gzip level 1, "
                f"{len(body) >> 10} → {len(gzip.compress(body, 1)) >> 10} KiB",
            )
        )
    return figures + _against_theirs(render, repeats)


def _against_theirs(render: Renderer, repeats: int) -> list[Figure]:
    """All pages compared with the same series as prometheus_client's gauges, in both formats."""
    samples = _samples(render())
    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}
    for sample in samples:
        labels = sorted(sample.labels)
        if sample.name not in gauges:
            gauges[sample.name] = Gauge(sample.name, "help", labels, registry=registry)
        gauge = gauges[sample.name]
        values = [sample.labels[label] for label in labels]
        (gauge.labels(*values) if labels else gauge).set(sample.value)
    assert len(_samples([generate_latest(registry)])) == len(samples)
    figures = []
    for written, generate in (
        (Format.TEXT, generate_latest),
        (Format.OPENMETRICS, openmetrics.generate_latest),
    ):
        ours, theirs = _in_turn(
            lambda written=written: render(written=written),
            lambda generate=generate: generate(registry),
            repeats,
        )
        what = f"all pages, {len(samples):,} series (128 cores), {written.name.lower()}"
        figures += [
            Figure(what, ours * 1e3, "ms", 2.0),
            Figure(
                "  beside generate_latest with the same series",
                100 * ours / theirs,
                "%",
                10.0,
                f"{theirs / ours:.0f} × faster than its {theirs * 1e3:.1f} ms",
            ),
        ]
    bodies = render()
    ours, theirs = _in_turn(
        lambda: [gzip.compress(body, 1) for body in render()],
        lambda: gzip.compress(generate_latest(registry)),
        repeats,
    )
    whole = sum(map(len, bodies)) >> 10
    return [
        *figures,
        Figure(
            f"a scrape of all pages with gzip level 1, {whole} KiB",
            ours * 1e3,
            "ms",
            None,
            f"{theirs / ours:.0f} × faster than generate_latest with its level 9 "
            f"({theirs * 1e3:.1f} ms)",
        ),
    ]


def _in_turn(
    ours: Callable[[], object], theirs: Callable[[], object], repeats: int
) -> tuple[float, float]:
    """Median CPU seconds of two calls, taken in turn so that other load falls on both equally."""
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for call, times in zip((ours, theirs), spent, strict=True):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
    return median(spent[0]), median(spent[1])


def _samples(bodies: Iterable[bytes]) -> list[Sample]:
    return [
        sample
        for body in bodies
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    ]
