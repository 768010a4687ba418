"""The pages in a registry of prometheus_client, next to what else is in it."""

import shutil
import subprocess

import pytest
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from tests.builders import make_incident, make_view
from tests.pages import body_of, samples
from trntop.analysis.rulebook import RULEBOOK
from trntop.catalog import Page
from trntop.core.model import View
from trntop.exporters.collector import TrntopCollector
from trntop.exporters.metrics.exposition import Format

VIEW = make_view(2, incidents=[make_incident()])


def registry_of(view: View | None, pages: tuple[Page, ...] = tuple(Page)) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(TrntopCollector(lambda: view, pages, RULEBOOK))
    return registry


def test_the_registry_has_the_series_of_the_pages() -> None:
    expected = {}
    for page in Page:
        expected |= samples(body_of(VIEW, page))
    expected = {key: value for key, value in expected.items() if not key[0].startswith("process_")}
    registry = registry_of(VIEW)
    assert samples(generate_latest(registry)) == expected
    assert samples(openmetrics.generate_latest(registry), Format.OPENMETRICS) == expected


def test_only_the_pages_reserved() -> None:
    found = samples(generate_latest(registry_of(VIEW, (Page.CORES,))))
    assert found == samples(body_of(VIEW, Page.CORES))


def test_each_scrape_has_the_newest_view() -> None:
    views: list[View | None] = [None, VIEW]
    registry = CollectorRegistry()
    registry.register(TrntopCollector(lambda: views[0]))
    assert registry.get_sample_value("trn_instance_info") is None
    assert {name for name, _ in samples(generate_latest(registry))} == {
        "trntop_build_info", "trntop_nodes", "trntop_series_dropped"
    }  # fmt: skip
    del views[0]
    assert "trn_incident_active" in {name for name, _ in samples(generate_latest(registry))}


def test_it_goes_with_other_collectors() -> None:
    registry = registry_of(VIEW)
    ProcessCollector(registry=registry)
    Gauge("loss", "Of the job that exports itself", registry=registry).set(2.5)
    found = samples(generate_latest(registry))
    assert found["loss", frozenset()] == 2.5
    assert ("process_open_fds", frozenset()) in found


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing() -> None:
    page = generate_latest(registry_of(VIEW))
    run = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True)
    assert (run.returncode, run.stdout + run.stderr) == (0, b"")
