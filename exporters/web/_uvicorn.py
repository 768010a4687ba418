"""uvicorn's private API: everything of it that trntop uses.

- `H11Protocol`: uvicorn limits only the pause between requests (`timeout_keep_alive`). A client
  that sends half a head would keep its connection open without end; the subclass has a deadline.
- `Server.capture_signals`: uvicorn raises its signals again after it has stopped, which would end
  the process with the exit status of the signal.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""Limit for the head of a request, from the first byte or from connecting."""


class HttpConnection(H11Protocol):
    """uvicorn's HTTP connection, closed if a request head takes too long."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._clear_deadline()
        elif self._deadline is None:
            self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        super().connection_lost(exc)

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class QuietServer(uvicorn.Server):
    """A server that leaves signals to its caller.

    Args:
        config: of uvicorn.
        on_stop: called on the loop when `stop` is, to end responses that have no end.
    """

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        """Stops serving; a second call does not wait for responses."""
        self.force_exit = self.should_exit
        self.should_exit = True
        if self._on_stop is not None:
            self._on_stop()
