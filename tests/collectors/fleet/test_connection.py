"""HTTP sessions: names that do not resolve delay no others."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.agents import agent
from tests.collectors.recording_sink import RecordingSink, running
from trntop.collectors.fleet import connection
from trntop.collectors.fleet.target import Target
from trntop.collectors.fleet.watch import Listed, Watch
from trntop.core.model import State
from trntop.core.settings import Fleet, Settings


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until it is set, names with `bad` in them get no response."""
    over, real = threading.Event(), socket.getaddrinfo

    def lookup(host: object, *more: object, **other: object) -> object:
        if b"bad" in str(host).encode():
            over.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "no response")
        return real("localhost" if "good" in str(host) else host, *more, **other)  # type: ignore[call-overload]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    yield over
    over.set()


async def test_a_node_is_read_while_many_names_do_not_resolve(silence: threading.Event) -> None:
    sink = RecordingSink()
    async with agent() as fake:
        targets = [Target(f"b{n}", f"http://bad-{n}:1") for n in range(60)]
        targets.append(Target("a", f"http://good:{fake.port}"))
        settings = Settings(fleet=Fleet(connect=5.0))
        async with running(Watch(Listed("list", targets), settings), sink):
            await sink.until(lambda: sink.readings)
            await sink.until(lambda: sink.reasons(State.DOWN))
            silence.set()
    assert {reading.node for reading in sink.readings} == {"a"}
    assert set(sink.reasons(State.DOWN)) == {"no address for its name within 5 s"}


async def test_a_name_without_an_address(silence: threading.Event) -> None:
    silence.set()
    for host, why in (
        ("bad", "host name does not resolve: no response from the name server"),
        (f"{'x' * 70}.invalid", "host name does not resolve"),
    ):
        async with connection.session(Fleet()) as session:
            with pytest.raises(OSError) as failed:
                await session.get(f"http://{host}:1/")
        assert connection.reason(failed.value).startswith(why)
