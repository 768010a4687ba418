"""Agents on loopback, real ones that tick on request, and servers that are none."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable

from tests.builders import make_view
from tests.serving import served
from trntop.core.model import Cluster, View
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.web.access import Access
from trntop.exporters.web.history import HistoryBuffer
from trntop.exporters.web.server import build_app
from trntop.exporters.web.stream import Streams
from trntop.session.incident_log import IncidentLog

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: "


class FakeAgent:
    """An agent's application on views that a test gives.

    Args:
        view: the first.
        aggregator: whether the nodes are other machines.
        log: the incidents of its day.
    """

    def __init__(
        self, view: View | None = None, *, aggregator: bool = False, log: IncidentLog | None = None
    ) -> None:
        self.view: View | None = make_view(1) if view is None else view
        self.log = log
        self.streams = Streams(lambda: self.view, 1.0, aggregator=aggregator, log=log)
        self.history = HistoryBuffer(1.0, aggregator=aggregator)
        self.app = build_app(
            lambda: self.view, Exposition(20_000), self.streams, history=self.history
        )
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def tick(self, seconds: float = 1.0) -> None:
        """The same, some seconds later."""
        assert self.view is not None
        self.show(moved(self.view, seconds))

    def show(self, view: View | None) -> None:
        """Another view, or none."""
        self.view = view
        if self.log is not None and view is not None:
            self.log(view)
        self.streams.publish(view or make_view(0))
        if view is not None:
            self.history.append(view)


def moved(view: View, seconds: float) -> View:
    """A view some seconds later."""
    time = view.time + seconds
    nodes = {
        name: dataclasses.replace(node, frame=dataclasses.replace(node.frame, time=time))
        for name, node in view.cluster.nodes.items()
    }
    cluster = Cluster(time, nodes)
    return dataclasses.replace(view, time=time, cluster=cluster, generation=view.generation + 1)


@contextlib.asynccontextmanager
async def agent(
    view: View | None = None,
    access: Access | None = None,
    *,
    aggregator: bool = False,
    log: IncidentLog | None = None,
) -> AsyncIterator[FakeAgent]:
    """A real agent on loopback."""
    fake = FakeAgent(view, aggregator=aggregator, log=log)
    async with served(fake.app, access, fake.streams.stop) as port:
        fake.port = port
        yield fake


class _Answering(asyncio.Protocol):
    def __init__(self, answer: bytes, *, close: bool) -> None:
        self._answer = answer
        self._close = close

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._answer)
        if self._close:
            self._transport.close()


@contextlib.asynccontextmanager
async def answering(answer: bytes, *, close: bool = False) -> AsyncIterator[str]:
    """The address of something that answers any request with these bytes."""
    loop = asyncio.get_running_loop()
    make: Callable[[], asyncio.Protocol] = lambda: _Answering(answer, close=close)  # noqa: E731
    server = await loop.create_server(make, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@contextlib.asynccontextmanager
async def writing(head: bytes, pieces: Iterable[bytes], pause: float = 0.0) -> AsyncIterator[str]:
    """The address of something that goes on writing chunks for as long as it is read."""
    finished: list[asyncio.Event] = []

    async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        finished.append(done := asyncio.Event())
        writer.write(head)
        with contextlib.suppress(OSError):
            for piece in pieces:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(pause)
        writer.transport.abort()
        done.set()

    server = await asyncio.start_server(write, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.gather(*(event.wait() for event in finished))


def chunked(kind: str, body: bytes) -> bytes:
    """A response that does not end."""
    return HEAD + kind.encode() + b"\r\n\r\n" + b"%x\r\n" % len(body) + body + b"\r\n"


async def until(condition: Callable[[], object], seconds: float = 8.0) -> None:
    """Polls a condition until it holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
