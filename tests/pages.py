"""Pages of metrics as a test reads them."""

from collections.abc import Mapping, Sequence

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from trntop.analysis.rule import Rule
from trntop.analysis.rulebook import RULEBOOK
from trntop.catalog import Kind, Page
from trntop.core.model import View
from trntop.exporters.metrics.exposition import Family, Format, number
from trntop.exporters.metrics.pages import Compat, Exposition

USAGE = [
    (Family(name, kind, f"Help of {name}"), [f"{name} {number(value)}\n"])
    for name, kind, value in (
        ("process_cpu_seconds_total", Kind.COUNTER, 12.25),
        ("process_resident_memory_bytes", Kind.GAUGE, 41943040.0),
        ("process_open_fds", Kind.GAUGE, 12.0),
    )
]

Labels = frozenset[tuple[str, str]]


def exposition(
    max_series: int = 100_000,
    rules: Sequence[Rule] = RULEBOOK,
    compat: Sequence[Compat] = (),
) -> Exposition:
    """One whose own cost is always the same."""
    return Exposition(max_series, lambda: USAGE, rules, compat)


def body_of(view: View | None, page: Page = Page.METRICS, written: Format = Format.TEXT) -> bytes:
    """A page of a view, from an exposition of its own."""
    return exposition().render(view).body(page, written)


def samples(body: bytes, written: Format = Format.TEXT) -> dict[tuple[str, Labels], float]:
    """Series → value, as prometheus_client reads them; fails on a duplicate."""
    parse = text_string_to_metric_families if written is Format.TEXT else openmetrics_families
    found: dict[tuple[str, Labels], float] = {}
    for family in parse(body.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


def names(body: bytes) -> set[str]:
    """The names of all series of a page."""
    return {name for name, _ in samples(body)}


def named(body: bytes, name: str) -> list[tuple[Mapping[str, str], float]]:
    """Labels and value of each series of one name."""
    return [
        (dict(pairs), value) for (sample, pairs), value in samples(body).items() if sample == name
    ]
