"""Names that nobody answers for hold up no others."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.agents import agent
from tests.collectors.notebook import Notebook, running
from trntop.collectors.fleet import names as names_module
from trntop.collectors.fleet.connection import reason
from trntop.collectors.fleet.names import DOUBTFUL_AT_ONCE, Names
from trntop.collectors.fleet.target import Target
from trntop.collectors.fleet.watch import Listed, Watch
from trntop.core.model import State
from trntop.core.settings import Fleet, Settings

BAD, GOOD = 200, 800


class SilentServer:
    """A name server that keeps those waiting who ask for names with `bad` in them."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.asked: list[str] = []
        self.waiting = 0
        self.most = 0
        self._lock = threading.Lock()

    def resolve(self, name: str) -> list[str]:
        with self._lock:
            self.asked.append(name)
        if "bad" not in name:
            return ["127.0.0.1"]
        with self._lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        self.hold.wait(30)
        with self._lock:
            self.waiting -= 1
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")


@pytest.fixture
def server() -> Iterator[SilentServer]:
    one = SilentServer()
    yield one
    one.hold.set()


async def check(names: Names, host: str, seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        assert await names.addresses(host)


async def test_those_that_can_be_resolved_do_not_wait(server: SilentServer) -> None:
    names = Names(server.resolve)
    bad = [asyncio.create_task(check(names, f"bad-{n}", 30)) for n in range(BAD)]
    await asyncio.gather(*(check(names, f"good-{n}") for n in range(GOOD)))
    await asyncio.gather(*(check(names, f"10.0.0.{n}") for n in range(9)))
    assert not any(task.done() for task in bad)
    server.hold.set()
    assert {type(why) for why in await asyncio.gather(*bad, return_exceptions=True)} == {
        socket.gaierror
    }


async def test_those_that_failed_wait_with_their_like(
    server: SilentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names_module, "AT_ONCE", 40)
    names = Names(server.resolve)
    server.hold.set()
    hosts = [f"bad-{n}" for n in range(BAD)]
    await asyncio.gather(*(check(names, one) for one in hosts), return_exceptions=True)
    server.hold.clear()
    server.most = 0
    again = [asyncio.create_task(check(names, one, 30)) for one in hosts]
    await asyncio.gather(*(check(names, f"good-{n}") for n in range(GOOD)))
    assert server.most <= DOUBTFUL_AT_ONCE
    server.hold.set()
    await asyncio.gather(*again, return_exceptions=True)


async def test_a_name_is_never_asked_for_twice_at_a_time(server: SilentServer) -> None:
    names = Names(server.resolve)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await check(names, "bad-1", 0.02)
    assert server.asked == ["bad-1"]
    server.hold.set()
    with pytest.raises(socket.gaierror) as refused:
        await check(names, "bad-1")
    assert reason(refused.value) == "host name does not resolve: no response from the name server"
    for _ in range(3):
        await check(names, "good-1")
    assert server.asked == ["bad-1", "good-1"]


async def test_a_name_that_is_none() -> None:
    with pytest.raises(OSError):
        await check(Names(), f"{'x' * 70}.invalid")


async def test_outcomes_are_not_kept_for_ever(
    server: SilentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(names_module, "monotonic", lambda: now)
    names = Names(server.resolve)
    await check(names, "good-1")
    now = 61.0
    await check(names, "good-1")
    await check(names, "good-2")
    assert server.asked == ["good-1", "good-1", "good-2"]
    now = 700.0
    await check(names, "good-3")
    assert set(names._outcomes) == {"good-3"}


async def test_a_node_is_heard_beside_many_that_cannot_be_resolved(
    server: SilentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def slow(host: object, *more: object, **other: object) -> object:
        server.resolve(str(host))
        return real(host, *more, **other)  # type: ignore[call-overload]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    sink = Notebook()
    async with agent() as one:
        targets = [Target(f"b{n}", f"http://bad-{n}:1") for n in range(60)]
        targets.append(Target("a", f"http://localhost:{one.port}"))
        settings = Settings(fleet=Fleet(connect=5.0))
        async with running(Watch(Listed("list", targets), settings), sink):
            await sink.until(lambda: sink.readings)
            await sink.until(lambda: sink.reasons(State.DOWN))
            server.hold.set()
    assert {one.node for one in sink.readings} == {"a"}
    assert set(sink.reasons(State.DOWN)) == {"no address for its name within 5 s"}
