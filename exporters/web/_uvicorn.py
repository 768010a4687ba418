"""uvicorn's private API: everything of it that trntop uses.

- `H11Protocol`: the only limit among uvicorn's settings is `timeout_keep_alive`, between requests.
  A client that sends half a head, or does not read its response, would keep its connection for
  ever; a subclass can set deadlines.
- `send_400_response`: uvicorn answers 400 to everything that h11 refuses; a head that is too long
  is a 431.
- `server_state.connections`: what uvicorn closes when it stops; a TLS handshake belongs there.
- `Server.capture_signals`: uvicorn raises its signals again once it has stopped, which would end
  the process with the signal's exit status.
"""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol


class HttpProtocol(H11Protocol):
    """uvicorn's HTTP on one connection."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        # Handlers find the connection as `request.state.ongoing`.
        self.app_state = {**self.app_state, "ongoing": self}

    @property
    def answering(self) -> bool:
        """Whether a response is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    def refuse(self, message: str) -> None:
        """Answers what h11 could not read with the status that h11 suggests, such as 431."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # in the midst of a response
            return
        status = getattr(sys.exception(), "error_status_hint", 400)
        body = f"{message}\n".encode()
        headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        events = (
            h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status]),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        # Closed at once, with more on its way, the client would see a reset instead.
        if self.transport.can_write_eof():
            self.transport.write_eof()


def open_connections(given: dict[str, Any]) -> set[asyncio.Protocol]:
    """The connections that uvicorn closes when it stops, of the arguments for a protocol."""
    connections: set[asyncio.Protocol] = given["server_state"].connections
    return connections


class QuietServer(uvicorn.Server):
    """A server that leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none."""
        yield

    def stop(self) -> None:
        """Asks the server to stop; a second time, without waiting for responses."""
        self.force_exit = self.should_exit
        self.should_exit = True
