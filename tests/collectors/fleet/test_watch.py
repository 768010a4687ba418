"""Lists that change: who joins is watched, who leaves is not, and a list that fails stands."""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.agents import agent, until
from tests.collectors.notebook import Notebook, running
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
        self.looks = 0

    def close(self) -> None:
        pass

    async def find(self) -> list[Target]:
        self.looks += 1
        if self.error:
            raise FindError(self.error)
        return list(self.targets)


def frames(sink: Notebook, node: str) -> int:
    return sum(one.node == node and one.source == AGENT for one in sink.readings)


def facts(readings: list[Reading]) -> list[dict[str, str]]:
    return [msgspec.json.decode(one.data)["facts"] for one in readings if one.source == FLEET]


async def test_nodes_join_and_leave() -> None:
    sink = Notebook()
    async with agent() as one:
        a, b = Target("a", one.address), Target("b", one.address)
        finder = Changing(a)
        async with running(Watch(finder, SETTINGS), sink):
            await sink.until(lambda: frames(sink, "a") == 3)
            finder.targets = [a, b]
            await sink.until(lambda: frames(sink, "b") == 3)
            finder.targets = [b]
            await sink.until(lambda: sink.forgotten == ["a"])
            before = frames(sink, "a")
            one.tick()
            await sink.until(lambda: frames(sink, "b") == 4)
            assert frames(sink, "a") == before == 3
            # Another address under the same name is another node.
            finder.targets = [Target("b", f"{one.address}/")]
            await sink.until(lambda: sink.forgotten == ["a", "b"])


async def test_a_list_that_fails_stands() -> None:
    sink = Notebook()
    async with agent() as one:
        finder = Changing(Target("a", one.address))
        async with running(Watch(finder, SETTINGS), sink):
            await sink.until(lambda: frames(sink, "a") == 3)
            finder.error = "no response"
            looks = finder.looks
            await sink.until(lambda: sink.warnings)
            while finder.looks < looks + 5:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            one.tick()
            await sink.until(lambda: frames(sink, "a") == 4)
        assert sink.warnings == ["no response; the previous nodes stay"]
        assert sink.forgotten == []


async def test_a_list_that_was_never_there_says_why() -> None:
    sink = Notebook()
    async with agent() as one:
        finder = Changing()
        finder.error = "no response"
        async with running(Watch(finder, SETTINGS), sink):
            await sink.until(lambda: sink.statuses)
            status = sink.statuses[0]
            assert (status.node, status.source, status.state) == ("list", FLEET, State.DOWN)
            assert status.reason == "no response"
            finder.error = ""
            await sink.until(lambda: sink.statuses[-1].reason == "list: no nodes")
            finder.targets = [Target("a", one.address)]
            await sink.until(lambda: frames(sink, "a") == 3)
            assert sink.forgotten == ["list"]


async def test_what_the_list_tells_of_a_node() -> None:
    sink = Notebook()
    async with agent() as one:
        finder = Changing(Target("a", one.address, {"zone": "x", "event": "reboot"}))
        async with running(Watch(finder, SETTINGS), sink):
            await sink.until(lambda: facts(sink.readings))
            finder.targets = [Target("a", one.address, {"zone": "y"})]
            await sink.until(lambda: facts(sink.readings)[-1]["zone"] == "y")
        told = facts(sink.readings)
        assert told[0] == {"zone": "x", "event": "reboot"}
        assert {"zone": "y", "event": ""} in told


async def test_what_the_list_tells_is_of_its_own_machine() -> None:
    sink = Notebook()
    sink.register("a", "http://other")
    async with agent() as one, agent(aggregator=True) as other:
        listed = [
            Target("a", one.address, {"zone": "x"}),
            Target("relay", other.address, {"zone": "y"}),
            Target("b", one.address, {"zone": "z"}),
        ]
        finder = Changing(*listed)
        async with running(Watch(finder, SETTINGS), sink):
            await sink.until(lambda: frames(sink, "b") == frames(sink, "trn-000") == 3)
            before, looks = len(sink.readings), finder.looks
            await sink.until(lambda: len(sink.readings) > before and finder.looks > looks + 2)
        told = {(one.node, one.data) for one in sink.readings[before:]}
        assert {node for node, _ in told} == {"b"}
        assert not any(one.node == "a" for one in sink.readings)


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
    sink = Notebook()
    async with (
        page("neuron") as first,
        page("efa") as second,
        page("efa") as third,
        page("neuron") as far,
        agent() as one,
        contextlib.AsyncExitStack() as stack,
    ):
        far = far.replace("127.0.0.1", "localhost")
        for address in (first, second, one.address):
            watch = Watch(Listed("list", [Target("n", address)]), SETTINGS)
            await stack.enter_async_context(running(watch, sink))
            expected = {first: NEURON_EXPORTER, second: EFA_EXPORTER}.get(address, AGENT)
            await sink.until(lambda what=expected: any(r.source == what for r in sink.readings))
        for address in (third, far):
            watch = Watch(Listed("list", [Target("n", address)]), SETTINGS)
            await stack.enter_async_context(running(watch, sink))
            await sink.until(lambda at=address: any(s.node == at for s in sink.statuses))
        assert {one.node for one in sink.readings} == {"n"}
    reasons = {one.node: one.reason for one in sink.statuses if one.state is State.DOWN}
    assert reasons == {
        third: f"n belongs to {second}",
        far: f"n belongs to {first}",
    }


async def test_who_leaves_a_shared_node_takes_along_what_it_brought() -> None:
    monitor = Monitor(Settings())
    sink = _Sink(monitor, SteadyClock(), None, lambda _: None, lambda _: None)
    sources = lambda: {  # noqa: E731
        name: {one.name for one in node.frame.sources}
        for name, node in monitor.cluster(sink.now()).nodes.items()
    }
    async with agent() as one, page("neuron") as other:
        finder = Changing(Target("n", one.address), Target("m", one.address))
        beside = Watch(Listed("list", [Target("n", other)]), SETTINGS)
        tasks = [asyncio.create_task(each.run(sink)) for each in (Watch(finder, SETTINGS), beside)]
        try:
            await until(lambda: sources().get("n", set()) >= {AGENT, NEURON_EXPORTER})
            await until(lambda: AGENT in sources().get("m", ()))
            finder.targets = [Target("m", one.address)]
            await until(lambda: AGENT not in sources()["n"])
            assert sources()["n"] == {NEURON_EXPORTER}
            assert AGENT in sources()["m"]
            finder.targets.append(Target("n", one.address))
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
    sink = Notebook()
    async with agent() as one:
        targets = [Target(name, one.address) for name in "abc"]
        async with running(Watch(Listed("list", targets), SETTINGS), sink):
            await sink.until(lambda: frames(sink, "a") == frames(sink, "c") == 3)
    assert sink.reasons(State.DOWN) == ["internal error: ZeroDivisionError"]


async def test_a_defect_is_told_as_the_source_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(self: SshNode, sink: Sink) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(SshNode, "run", run)
    sink = Notebook()
    listed = Listed("list", [Target("a", "ssh://a.invalid")])
    async with running(Watch(listed, SETTINGS), sink):
        await sink.until(lambda: sink.statuses)
    assert [(one.node, one.source) for one in sink.statuses] == [("a", SSH)]


async def test_cancelled_it_leaves_nothing_behind() -> None:
    sink = Notebook()
    async with agent() as one:
        before = asyncio.all_tasks()
        async with running(Watch(Listed("list", [Target("a", one.address)]), SETTINGS), sink):
            await sink.until(lambda: frames(sink, "a") == 3)
        await until(lambda: not one.streams.clients)
        names = {task.get_name() for task in asyncio.all_tasks() - before}
        assert "a" not in names


async def test_very_many_are_told_of_a_better_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "MANY", 3)
    monkeypatch.setattr(descriptors, "reserve", lambda _: "")
    sink = Notebook()
    targets = [Target(f"n{n}", "http://127.0.0.1:9") for n in range(4)]
    async with running(Watch(Listed("list", targets), SETTINGS), sink):
        await sink.until(lambda: sink.warnings)
    assert "connect to aggregators" in sink.warnings[0]


async def test_what_is_not_watched_any_more_needs_no_open_files() -> None:
    before = descriptors._reserved
    finder = Changing(*(Target(f"n{n}", "http://127.0.0.1:9") for n in range(4)))
    sink = Notebook()
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
