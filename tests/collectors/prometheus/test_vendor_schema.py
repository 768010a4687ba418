"""Other people's series in a real Prometheus: what AWS's exporters serve, after their formats."""

import asyncio
from pathlib import Path

import pytest

from tests.collectors.prometheus.test_collector import Watched
from tests.pages_server import serving
from tests.prometheus_server import Scrape, needs_prometheus, prometheus
from trntop.collectors.prometheus.address import parse
from trntop.collectors.prometheus.collector import PrometheusCollector
from trntop.core.model import State
from trntop.core.settings import Fleet

pytestmark = pytest.mark.xdist_group("servers")

INSTANCE = (
    'instance_name="worker",instance_id="i-07",instance_type="trn1.32xlarge",'
    'availability_zone="us-west-2d",region="us-west-2",subnet_id="subnet-1"'
)


def neuron_page(second: int, scale: float) -> bytes:
    """As neuron-monitor-prometheus.py has it, two cores of two runtimes."""
    lines = [
        f'neuroncore_utilization_ratio{{{INSTANCE},neuroncore="{core}",runtime_tag="1"}} '
        f"{(0.5 + 0.25 * core) * scale}"
        for core in range(2)
    ]
    lines += [
        f'execution_status_total{{{INSTANCE},status_type="completed",runtime_tag="1"}} '
        f"{10 * second}",
        f'execution_latency_seconds{{{INSTANCE},percentile="p99",runtime_tag="1"}} 0.25',
        f"neuron_runtime_memory_used_bytes{{{INSTANCE},"
        f'memory_location="neuron_device",runtime_tag="1"}} 1024',
        f"neuron_hardware_info{{{INSTANCE}}} 1",
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def efa_page(second: int) -> bytes:
    """As AWS's fork of the node exporter has it."""
    return "".join(
        f'node_amazonefa_{way}_bytes{{device="rdmap{card}s27",port="1"}} {1000 * second}\n'
        for way in ("tx", "rx")
        for card in (16, 32)
    ).encode()


@needs_prometheus
@pytest.mark.parametrize("scale", [1.0, 100.0])
async def test_what_aws_exports_is_shown(tmp_path: Path, scale: float) -> None:
    pages = {
        "/neuron": [neuron_page(second, scale) for second in range(60)],
        "/efa": [efa_page(second) for second in range(60)],
    }

    def target(port: int, path: str, address: str) -> dict[str, object]:
        labels = {"instance": f"10.0.0.7:{port}", "__metrics_path__": path}
        return {"targets": [address], "labels": labels}

    with serving(pages) as server:
        scrapes = [
            Scrape(name, options={"static_configs": [target(port, path, server.address)]})
            for name, port, path in (("neuron", 8000, "/neuron"), ("efa", 9109, "/efa"))
        ]
        with prometheus(tmp_path, scrapes) as real:
            for name in ("node_amazonefa_tx_bytes", "execution_status_total"):
                real.until(f"count_over_time({name}[1m]) > 2")
            address = parse(f"prometheus+{real.url}")
            watched = Watched(PrometheusCollector(address, Fleet(), least=0.2))
            task = asyncio.create_task(watched.collector.run(watched))
            try:
                view = await watched.until(lambda view: view.cluster.nodes)
                assert list(view.cluster.nodes) == ["10.0.0.7"], "two exporters, one machine"
                node = view.cluster.nodes["10.0.0.7"]
                assert node.state is State.FRESH
                assert node.inventory.facts["instance_id"] == "i-07"
                values = {
                    "node_neuroncore_utilization_mean_ratio": 0.625,
                    "node_neuroncore_utilization_max_ratio": 0.75,
                    "node_neuroncores_busy": 2,
                    "node_total_latency_p99_seconds": 0.25,
                    "node_device_memory_used_bytes": 1024,
                    "node_efa_cards": 2,
                    "node_efa_tx_bytes_per_second": 2000,
                    "node_executions_completed_per_second": 10,
                }
                for name, value in values.items():
                    assert node.frame.value(name) == pytest.approx(value, rel=0.3), name
                watched.collector.set_focus("10.0.0.7")
                view = await watched.until(
                    lambda view: (
                        "neuroncore_utilization_ratio"
                        in view.cluster.nodes["10.0.0.7"].frame.columns
                    )
                )
                cores = view.cluster.nodes["10.0.0.7"].frame.columns
                assert cores["neuroncore_utilization_ratio"].tolist() == pytest.approx([0.5, 0.75])
                assert watched.whole.notes == (
                    ("neuroncore_utilization_ratio goes to 100 there: read as percent",)
                    if scale == 100.0
                    else ()
                )
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
