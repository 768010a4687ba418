import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.collectors.recording_sink import RecordingSink, running
from tests.exporter_server import giving, response, server
from trntop.catalog import EFA_EXPORTER, FLEET, NEURON_EXPORTER, Entity
from trntop.collectors.fleet import collectors_of, pages
from trntop.collectors.fleet.dns import Dns
from trntop.collectors.fleet.ec2 import Ec2
from trntop.collectors.fleet.finders import finder
from trntop.collectors.fleet.nodes_file import NodesFile
from trntop.collectors.fleet.slurm import Slurm
from trntop.collectors.fleet.target import FindError, Target
from trntop.collectors.fleet.watch import Watch
from trntop.core.errors import UsageError
from trntop.core.model import State
from trntop.core.settings import Fleet, Settings
from trntop.core.source_spec import parse
from trntop.session.monitor import Monitor

NEURON = (
    b'neuron_hardware_info{instance_type="trn1.32xlarge",neuron_device_count="1",'
    b'neuroncore_per_device_count="2"} 1\n'
    b'neuroncore_utilization_ratio{neuroncore="0",runtime_tag="9"} 0.25\n'
    b'neuroncore_utilization_ratio{neuroncore="1",runtime_tag="9"} 0.75\n'
)
EFA = b'node_amazonefa_tx_bytes{device="rdmap0s1",port="1"} 7\n'
SETTINGS = Settings(fleet=Fleet(refresh=5))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PERIOD", 0.05)


def test_each_kind_of_list_has_its_finder(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("trn-1\n")
    found = [
        finder(parse(text), SETTINGS)
        for text in (f"@{tmp_path}/nodes", "dns:agents", "slurm:7", "ec2:tag/run=7")
    ]
    assert [type(finder) for finder in found] == [NodesFile, Dns, Slurm, Ec2]
    assert [finder.period for finder in found] == [5] * 4
    assert found[2].text == "slurm:7"


@pytest.mark.parametrize("text", ["@/nonexistent", "dns:a b", "slurm:x", "ec2:x", "@"])
def test_mistakes_show_before_anything_is_watched(text: str) -> None:
    with pytest.raises(UsageError):
        collectors_of(parse(text), SETTINGS)


@contextlib.asynccontextmanager
async def exporters(*bodies: bytes) -> AsyncIterator[list[int]]:
    """Servers with these pages; their ports."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(server(giving(response(body)))) for body in bodies]


async def test_nodes_of_a_file_join_and_leave(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    sink = RecordingSink()
    async with exporters(NEURON, EFA) as (first, second):
        first_url, second_url = (f"http://127.0.0.1:{port}/metrics" for port in (first, second))
        path.write_text(f"{first_url}\n")
        nodes = NodesFile(path, SETTINGS.fleet)
        nodes.period = 0.05
        async with running(Watch(nodes, SETTINGS), sink):
            await sink.until(lambda: sink.readings)
            assert {(r.node, r.source) for r in sink.readings} == {("127.0.0.1", NEURON_EXPORTER)}
            path.write_text(f"{second_url}\n")
            await sink.until(lambda: any(r.source == EFA_EXPORTER for r in sink.readings))
            assert "127.0.0.1" in sink.removed
            path.write_text("http://a:b@c\n")
            await sink.until(lambda: sink.warnings)
    assert "line 1: http://…@c" in sink.warnings[0]
    assert "previous nodes stay" in sink.warnings[0]


class Instances:
    """A list of one stopped instance."""

    text = "ec2:tag/run=7"
    period: float | None = 0.05

    def __init__(self) -> None:
        self.targets: list[Target] | None = None

    def close(self) -> None:
        pass

    async def find(self) -> list[Target]:
        if self.targets is None:
            raise FindError("no AWS credentials found")
        return self.targets


async def test_a_list_that_fails_from_the_start_is_reported() -> None:
    sink = RecordingSink()
    async with running(Watch(Instances(), SETTINGS), sink):
        await sink.until(lambda: sink.statuses)
    status = sink.statuses[0]
    assert (status.node, status.source) == ("ec2:tag/run=7", FLEET)
    assert (status.state, status.reason) == (State.DOWN, "no AWS credentials found")


async def test_the_ec2_state_of_a_stopped_node_is_its_reason() -> None:
    sink, instances = RecordingSink(), Instances()
    facts = {"instance_state": "stopped", "state_reason": "Client.UserInitiatedShutdown: x",
             "instance_id": "i-1"}  # fmt: skip
    instances.targets = [Target("trn-1", "http://127.0.0.1:9", facts)]
    async with running(Watch(instances, SETTINGS), sink):
        await sink.until(lambda: sink.readings)
    monitor = Monitor(SETTINGS)
    for reading in sink.readings:
        monitor.feed(reading)
    view = monitor.tick(sink.readings[-1].time + 1).cluster.nodes["trn-1"]
    (state,) = view.frame.sources
    assert (state.state, state.reason) == (
        State.DOWN, "EC2 reports: stopped (Client.UserInitiatedShutdown: x)",
    )  # fmt: skip
    assert view.inventory.facts["instance_id"] == "i-1"


@pytest.mark.parametrize("path", ["/metrics", ""])
async def test_a_node_with_pages_only_is_shown_like_any_other(path: str) -> None:
    """Whether the page is named, or found where no agent answers."""
    sink = RecordingSink()
    stream = [] if path else [response(b"", "404 Not Found")]
    async with server(giving(*stream, response(NEURON + EFA))) as port:
        (collector,) = collectors_of(parse(f"http://127.0.0.1:{port}{path}"), SETTINGS)
        async with running(collector, sink):
            await sink.until(lambda: len(sink.readings) >= 4)
    monitor = Monitor(SETTINGS)
    for status in sink.statuses:
        monitor.status(status)
    for reading in sink.readings:
        monitor.feed(reading)
    view = monitor.tick(sink.readings[-1].time + 0.1).cluster.nodes["127.0.0.1"]
    assert view.state is State.FRESH
    assert view.frame.value("node_neuroncore_utilization_mean_ratio") == 0.5
    assert view.inventory.of(Entity.CORE) == (0, 1)
    assert view.inventory.core_device.tolist() == [0, 0]
    assert view.frame.at("efa_tx_bytes_total", 0) == 7


async def test_that_a_list_names_a_node_is_no_sign_of_life() -> None:
    """EC2 reports it running, and its agent does not respond: it is down, and was never up."""
    sink, instances = RecordingSink(), Instances()
    instances.targets = [Target("trn-1", "http://127.0.0.1:9", {"instance_state": "running"})]
    async with running(Watch(instances, SETTINGS), sink):
        await sink.until(lambda: sink.reasons(State.DOWN) and sink.readings)
    monitor = Monitor(SETTINGS)
    for status in sink.statuses:
        monitor.status(status)
    for reading in sink.readings:
        monitor.feed(reading)
    view = monitor.tick(sink.readings[-1].time + 0.1).cluster.nodes["trn-1"]
    assert {source.name: source.state for source in view.frame.sources} == {
        "agent": State.DOWN, FLEET: State.FRESH,
    }  # fmt: skip
    assert view.state is State.DOWN
    assert view.age() is None
