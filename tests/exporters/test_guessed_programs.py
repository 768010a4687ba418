"""How values are marked where it is a guess which program a process executes."""

import pytest

from tests.reports import monitor_reading, report, runtime
from trntop.catalog import Page
from trntop.core.model import NeffProfile, View
from trntop.core.settings import Settings
from trntop.exporters import document, table
from trntop.exporters.metrics.columns import METRICS, Templates
from trntop.session.monitor import Monitor

BANDWIDTH = "node_hbm_bandwidth_ratio"


@pytest.fixture
def view() -> View:
    """Two programs are loaded, one is running."""
    busy = runtime(utilization={0: 99.0}, memory={0: 1 << 30}, completed=10)
    models = busy["report"]["memory_used"]["loaded_models"]
    models.append({"name": "b.neff", "uuid": "v", "is_running": False})
    monitor = Monitor(Settings(), profiles=(NeffProfile("", "u", 8.2e9, 0.0, 0.05),))
    monitor.feed(monitor_reading(report(busy), 1.0))
    return monitor.tick(1.0)


def test_text(view: View) -> None:
    assert "10~" in table.snapshot_text(view, 200)


def test_json(view: View) -> None:
    (node,) = document.snapshot(view)["nodes"]
    assert node["provenance"][BANDWIDTH] == "estimated"
    assert node["provenance"]["node_neuroncores_busy"] == "derived"


def test_metrics(view: View) -> None:
    templates = Templates(view.cluster.nodes["n"].inventory, simulated=False)
    by_name = {metric.quantity.name: metric for metric in METRICS[Page.METRICS]}
    assert 'provenance="estimated"' in templates.of(by_name[BANDWIDTH])
    assert "provenance" not in templates.of(by_name["node_neuroncores_busy"])
