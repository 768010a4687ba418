"""Lists that change: new nodes are watched, removed ones are not, and a failing list is kept."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.agents import agent, until
from tests.collectors.recording_sink import RecordingSink, running
from tests.exporter_server import giving, response, server
from trntop.catalog import AGENT, EFA_EXPORTER, FLEET, NEURON_EXPORTER, SSH
from trntop.collectors.fleet import watch as watch_module
from trntop.collectors.fleet.agent import Agent
from trntop.collectors.fleet.target import FindError, Target
from trntop.collectors.fleet.watch import Listed, Watch
from trntop.collectors.ssh.node import SshNode
from trntop.core import descriptors
from trntop.core.model import Reading, State
from trntop.core.settings import Settings
from trntop.session.clock import SteadyClock
from trntop.session.collector import Sink
from trntop.session.monitor import Monitor
from trntop.session.runner import _Sink

SETTINGS = Settings()


class Changing:
    """A list that a test changes."""

    text = "list"

    def __init__(self, *targets: Target) -> None:
        self.period: float | None = 0.03
        self.targets = list(targets)
        self.error = ""
        self.polls = 0

    def close(self) -> None:
        pass

    async def find(self) -> list[Target]:
        self.polls += 1
        if self.error:
            raise FindError(self.error)
        return list(self.targets)


def frames(sink: RecordingSink, node: str) -> int:
    return sum(reading.node == node and reading.source == AGENT for reading in sink.readings)


def facts(readings: list[Reading]) -> list[dict[str, str]]:
    return [
        msgspec.json.decode(reading.data)["facts"]
        for reading in readings
        if reading.source == FLEET
    ]


async def test_nodes_join_and_leave() -> None:
    sink = RecordingSink()
    async with agent() as fake:
        a, b = Target("a", fake.address), Target("b", fake.address)
        finder = Changing(a)
        async with running(Watch(finder, SETTINGS), sink):
            await sink.until(lambda: frames(sink, "a") == 3)
            finder.targets = [a, b]
            await sink.until(lambda: frames(sink, "b") == 3)
            finder.targets = [b]
            await sink.until(lambda: sink.removed == ["a"])
            before = frames(sink, "a")
            fake.tick()
            await sink.until(lambda: frames(sink, "b") == 4)
            assert frames(sink, "a") == before == 3
            # Another address under the same name is another node.
            finder.targets = [Target("b", f"{fake.address}/")]
            await sink.until(lambda: sink.removed == ["a", "b"])


async def test_a_failing_list_keeps_its_targets() -> None:
    sink = RecordingSink()
    async with agent() as fake:
        finder = Changing(Target("a", fake.address))
        async with running(Watch(finder, SETTINGS), sink):
            await sink.until(lambda: frames(sink, "a") == 3)
            finder.error = "no response"
            polls = finder.polls
            await sink.until(lambda: sink.warnings)
            while finder.polls < polls + 5:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            fake.tick()
            await sink.until(lambda: frames(sink, "a") == 4)
        assert sink.warnings == ["no response; the previous nodes stay"]
        assert sink.removed == []


async def test_a_list_that_never_existed_reports_the_reason() -> None:
    sink = RecordingSink()
    async with agent() as fake:
        finder = Changing()
        finder.error = "no response"
        async with running(Watch(finder, SETTINGS), sink):
            await sink.until(lambda: sink.statuses)
            status = sink.statuses[0]
            assert (status.node, status.source, status.state) == ("list", FLEET, State.DOWN)
            assert status.reason == "no response"
            finder.error = ""
            await sink.until(lambda: sink.statuses[-1].reason == "list: no nodes")
            finder.targets = [Target("a", fake.address)]
            await sink.until(lambda: frames(sink, "a") == 3)
            assert sink.removed == ["list"]


async def test_facts_of_the_list_about_a_node() -> None:
    sink = RecordingSink()
    async with agent() as fake:
        finder = Changing(Target("a", fake.address, {"zone": "x", "event": "reboot"}))
        async with running(Watch(finder, SETTINGS), sink):
            await sink.until(lambda: facts(sink.readings))
            finder.targets = [Target("a", fake.address, {"zone": "y"})]
            await sink.until(lambda: facts(sink.readings)[-1]["zone"] == "y")
        reported = facts(sink.readings)
        assert reported[0] == {"zone": "x", "event": "reboot"}
        assert {"zone": "y", "event": ""} in reported


async def test_facts_of_the_list_belong_to_its_own_machine() -> None:
    sink = RecordingSink()
    sink.register("a", "http://other")
    async with agent() as fake, agent(aggregator=True) as other:
        listed = [
            Target("a", fake.address, {"zone": "x"}),
            Target("relay", other.address, {"zone": "y"}),
            Target("b", fake.address, {"zone": "z"}),
        ]
        finder = Changing(*listed)
        async with running(Watch(finder, SETTINGS), sink):
            await sink.until(lambda: frames(sink, "b") == frames(sink, "trn-000") == 3)
            before, polls = len(sink.readings), finder.polls
            await sink.until(lambda: len(sink.readings) > before and finder.polls > polls + 2)
        reported = {(reading.node, reading.data) for reading in sink.readings[before:]}
        assert {node for node, _ in reported} == {"b"}
        assert not any(reading.node == "a" for reading in sink.readings)


PAGES = {
    "neuron": b"neuron_hardware_info{x='1'} 1\n",
    "efa": b"node_amazonefa_info 1\n",
}


@contextlib.asynccontextmanager
async def page(kind: str) -> AsyncIterator[str]:
    """Where the page of an exporter is."""
    async with server(giving(response(PAGES[kind]))) as port:
        yield f"http://127.0.0.1:{port}/metrics"


async def test_pages_of_one_host_go_together_and_no_others() -> None:
    sink = RecordingSink()
    async with (
        page("neuron") as first,
        page("efa") as second,
        page("efa") as third,
        page("neuron") as owner,
        agent() as fake,
        contextlib.AsyncExitStack() as stack,
    ):
        owner = owner.replace("127.0.0.1", "localhost")
        for address in (first, second, fake.address):
            watch = Watch(Listed("list", [Target("n", address)]), SETTINGS)
            await stack.enter_async_context(running(watch, sink))
            expected = {first: NEURON_EXPORTER, second: EFA_EXPORTER}.get(address, AGENT)
            await sink.until(lambda what=expected: any(r.source == what for r in sink.readings))
        for address in (third, owner):
            watch = Watch(Listed("list", [Target("n", address)]), SETTINGS)
            await stack.enter_async_context(running(watch, sink))
            await sink.until(lambda at=address: any(s.node == at for s in sink.statuses))
        assert {reading.node for reading in sink.readings} == {"n"}
    reasons = {status.node: status.reason for status in sink.statuses if status.state is State.DOWN}
    assert reasons == {
        third: f"n belongs to {second}",
        owner: f"n belongs to {first}",
    }


async def test_leaving_a_shared_node_removes_its_own_data() -> None:
    monitor = Monitor(Settings())
    sink = _Sink(monitor, SteadyClock(), None, lambda _: None, lambda _: None)
    sources = lambda: {  # noqa: E731
        name: {source.name for source in node.frame.sources}
        for name, node in monitor.cluster(sink.now()).nodes.items()
    }
    async with agent() as fake, page("neuron") as other:
        finder = Changing(Target("n", fake.address), Target("m", fake.address))
        second = Watch(Listed("list", [Target("n", other)]), SETTINGS)
        tasks = [asyncio.create_task(each.run(sink)) for each in (Watch(finder, SETTINGS), second)]
        try:
            await until(lambda: sources().get("n", set()) >= {AGENT, NEURON_EXPORTER})
            await until(lambda: AGENT in sources().get("m", ()))
            finder.targets = [Target("m", fake.address)]
            await until(lambda: AGENT not in sources()["n"])
            assert sources()["n"] == {NEURON_EXPORTER}
            assert AGENT in sources()["m"]
            finder.targets.append(Target("n", fake.address))
            await until(lambda: AGENT in sources()["n"])
            # The page leaves, and the agent stays.
            sink.remove("n", other)
            assert NEURON_EXPORTER not in sources()["n"]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_defect_takes_down_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    running_as = Agent.run

    async def run(self: Agent) -> None:
        if "b" in self.nodes:
            raise ZeroDivisionError
        await running_as(self)

    monkeypatch.setattr(Agent, "run", run)
    sink = RecordingSink()
    async with agent() as fake:
        targets = [Target(name, fake.address) for name in "abc"]
        async with running(Watch(Listed("list", targets), SETTINGS), sink):
            await sink.until(lambda: frames(sink, "a") == frames(sink, "c") == 3)
    assert sink.reasons(State.DOWN) == ["internal error: ZeroDivisionError"]


async def test_a_defect_is_reported_under_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(self: SshNode, sink: Sink) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(SshNode, "run", run)
    sink = RecordingSink()
    listed = Listed("list", [Target("a", "ssh://a.invalid")])
    async with running(Watch(listed, SETTINGS), sink):
        await sink.until(lambda: sink.statuses)
    assert [(status.node, status.source) for status in sink.statuses] == [("a", SSH)]


async def test_cancelled_it_leaves_nothing_behind() -> None:
    sink = RecordingSink()
    async with agent() as fake:
        before = asyncio.all_tasks()
        async with running(Watch(Listed("list", [Target("a", fake.address)]), SETTINGS), sink):
            await sink.until(lambda: frames(sink, "a") == 3)
        await until(lambda: not fake.streams.clients)
        names = {task.get_name() for task in asyncio.all_tasks() - before}
        assert "a" not in names


async def test_very_many_get_the_advice_to_use_an_aggregator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch_module, "MANY", 3)
    monkeypatch.setattr(descriptors, "reserve", lambda _: "")
    sink = RecordingSink()
    targets = [Target(f"n{n}", "http://127.0.0.1:9") for n in range(4)]
    async with running(Watch(Listed("list", targets), SETTINGS), sink):
        await sink.until(lambda: sink.warnings)
    assert "connect to aggregators" in sink.warnings[0]


async def test_what_is_not_watched_any_more_needs_no_open_files() -> None:
    before = descriptors._reserved
    finder = Changing(*(Target(f"n{n}", "http://127.0.0.1:9") for n in range(4)))
    sink = RecordingSink()
    async with running(Watch(finder, SETTINGS), sink):
        await until(lambda: descriptors._reserved == before + 4)
        del finder.targets[1:]
        await until(lambda: descriptors._reserved == before + 1)
    assert descriptors._reserved == before


def test_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [1024, 4096]

    def raised(_: int, new: tuple[int, int]) -> None:
        limits[:] = new

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", raised)
    monkeypatch.setattr(descriptors, "_reserved", 0)
    assert descriptors.reserve(100) == ""
    assert limits == [1024, 4096]
    assert descriptors.reserve(1900) == ""
    assert limits == [2256, 4096]
    assert descriptors.reserve(3000) == (
        "5,000 connections need 5,256 open files, and 4,096 are allowed: "
        "raise the limit (ulimit -Hn, LimitNOFILE=)"
    )
    assert limits == [4096, 4096]
