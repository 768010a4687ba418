import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from trntop.catalog import CATALOG, Kind, Page, page_of
from trntop.core.settings import Export
from trntop.exporters.metrics.otlp import COUNTERPARTS, describe

ROOT = Path(__file__).parents[3]
COLLECTOR = ROOT / "deploy" / "otel" / "collector.yaml"
UNITS = {"By": "bytes", "By/s": "bytes_per_second", "1": "ratio"}


def collector() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(COLLECTOR.read_text())
    return config


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "otlp.md").read_text() == describe() + "\n", "run: make docs"


def test_every_counterpart_is_of_a_quantity_on_a_page_with_its_unit_and_kind() -> None:
    for ours, theirs in COUNTERPARTS.items():
        quantity = CATALOG[ours]
        assert page_of(quantity) is not None
        assert (theirs.instrument == "Counter") == (quantity.kind is Kind.COUNTER), ours
        if theirs.unit in UNITS:
            assert quantity.unit == UNITS[theirs.unit], ours


def test_no_two_quantities_become_one_series() -> None:
    assert len({(one.name, one.attributes) for one in COUNTERPARTS.values()}) == len(COUNTERPARTS)


def test_the_page_names_every_metric_of_the_catalog_once() -> None:
    named = re.findall(r"`(trn_\w+)`", describe())
    exported = {one.metric for one in CATALOG.values() if page_of(one) is not None}
    counted = {name: named.count(name) for name in exported}
    assert counted == dict.fromkeys(exported, 1)


def test_the_collector_names_only_what_it_declares() -> None:
    config = collector()
    for pipeline in config["service"]["pipelines"].values():
        for part in ("receivers", "processors", "exporters"):
            assert set(pipeline[part]) <= set(config[part])


def test_the_collector_scrapes_every_page_and_lets_all_of_it_pass() -> None:
    jobs = collector()["receivers"]["prometheus"]["config"]["scrape_configs"]
    assert {job.get("metrics_path", "/metrics") for job in jobs} == {page.path for page in Page}
    # With what says how much was left off, a full page has one series more.
    assert all(job["sample_limit"] > Export().max_series for job in jobs)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_reads_the_collectors_scrape_configs(tmp_path: Path) -> None:
    file = tmp_path / "prometheus.json"
    file.write_text(json.dumps(collector()["receivers"]["prometheus"]["config"]))  # JSON is YAML
    ran = subprocess.run(
        ["promtool", "check", "config", file],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
