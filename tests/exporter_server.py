"""A server on loopback that answers each request with bytes that a test made up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

TEXT = "text/plain; version=0.0.4; charset=utf-8"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[int]:
    """A server that does with each connection what the handler does; its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                await handler(reader, writer)
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def response(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """An answer over HTTP; headers are spelled with underscores."""
    named = {"Content_Type": TEXT, "Content_Length": str(len(body)), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def giving(*answers: bytes) -> Handler:
    """Gives one answer after the other, the last for good."""
    left = list(answers)

    async def handle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()

    return handle
