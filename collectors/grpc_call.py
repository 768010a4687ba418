"""One gRPC call over a Unix socket: an empty request, one response.

The package grpcio would need 19 MB on disk, 12 MiB of memory and seven threads; h2 needs 1 MB, 1
MiB and none.

Format: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from trntop.core.text import clean

if TYPE_CHECKING:
    from h2.connection import H2Connection
    from h2.events import Event

MAX_BYTES = 16 << 20
"""Longest response; the limit of the kubelet."""
_CHUNK = 1 << 16
_EMPTY = b"\0" + bytes(4)
"""A message, not compressed, of no bytes."""


class CallError(OSError):
    """There is no usable response; the text is the reason."""


@dataclass(slots=True)
class _Answer:
    data: bytearray = field(default_factory=bytearray)
    headers: dict[str, str] = field(default_factory=dict)
    """Headers and trailers."""
    ended: bool = False


def call(path: Path, method: str, seconds: float) -> bytes:
    """The response of `method` to an empty request.

    Args:
        path: the Unix socket.
        method: such as `/v1.PodResourcesLister/List`.
        seconds: timeout of the call.

    Raises:
        ImportError: the package h2 is not installed.
        OSError: there is no usable response.
    """
    import h2.config
    import h2.connection
    import h2.exceptions

    deadline = time.monotonic() + seconds
    config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
    connection = h2.connection.H2Connection(config)
    answer = _Answer()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        try:
            _wait(stream, deadline)
            stream.connect(str(path))
            connection.initiate_connection()
            number = connection.get_next_available_stream_id()
            connection.send_headers(
                number,
                [
                    (":method", "POST"),
                    (":scheme", "http"),
                    (":path", method),
                    (":authority", "localhost"),
                    ("content-type", "application/grpc"),
                    ("te", "trailers"),
                    ("grpc-timeout", f"{seconds * 1000:.0f}m"),
                ],
            )
            connection.send_data(number, _EMPTY, end_stream=True)
            while not answer.ended:
                if pending := connection.data_to_send():
                    _wait(stream, deadline)
                    stream.sendall(pending)
                _wait(stream, deadline)
                chunk = stream.recv(_CHUNK)
                if not chunk:
                    raise CallError("the connection was closed during the response")
                _handle(answer, connection, connection.receive_data(chunk))
        except TimeoutError:
            raise CallError(f"no response within {seconds:g} s") from None
        except h2.exceptions.ProtocolError as error:
            raise CallError(f"it does not support HTTP/2: {clean(str(error))}") from error
    return _message(answer)


def _wait(stream: socket.socket, deadline: float) -> None:
    """Sets the timeout of the next operation to the rest of the call."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    stream.settimeout(left)


def _handle(answer: _Answer, connection: "H2Connection", events: Sequence["Event"]) -> None:
    import h2.events

    for event in events:
        match event:
            case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                answer.headers |= {str(name): str(value) for name, value in event.headers or ()}
            case h2.events.DataReceived():
                answer.data += event.data or b""
                if len(answer.data) > MAX_BYTES:
                    raise CallError(f"a response of more than {MAX_BYTES >> 20} MiB")
                connection.acknowledge_received_data(
                    event.flow_controlled_length or 0, event.stream_id or 0
                )
            case h2.events.StreamEnded():
                answer.ended = True
            case h2.events.StreamReset() | h2.events.ConnectionTerminated():
                if event.error_code and not answer.ended:
                    raise CallError(f"it ended the call (HTTP/2 error {event.error_code})")


def _message(answer: _Answer) -> bytes:
    """The message of a response."""
    headers, data = answer.headers, answer.data
    status = headers.get("grpc-status", "")
    if status not in ("", "0"):
        reason = clean(unquote(headers.get("grpc-message", "")))
        raise CallError(f"it refused: gRPC status {clean(status)}{f', {reason}' if reason else ''}")
    if headers.get(":status") != "200" or not status:
        raise CallError(
            f"it does not support gRPC (HTTP status {clean(headers.get(':status', ''))})"
        )
    size = int.from_bytes(data[1:5], "big")
    if len(data) < len(_EMPTY) or data[0] or len(data) != len(_EMPTY) + size:
        raise CallError("the response is not one message")
    return bytes(data[len(_EMPTY) :])
