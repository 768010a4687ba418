"""Where the exporter listens: addresses, and sockets that systemd opened for it."""

import contextlib
import errno
import os
import re
import socket
from collections.abc import Iterable, MutableMapping
from urllib.parse import quote

from trntop.core.errors import TrntopError, UsageError
from trntop.core.text import clean

LOOPBACK = "127.0.0.1"
BACKLOG = 4096
"""Connections that the kernel keeps until they are accepted."""
READ_SECONDS = 30
"""How long a client may leave data unread until the kernel closes its connection."""
FIRST_PASSED = 3
"""The first descriptor that systemd passes, SD_LISTEN_FDS_START of sd_listen_fds(3)."""


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port of a listen address; an empty host means every interface.

    A port alone is on loopback.

    Raises:
        UsageError: it is not `HOST:PORT`, `[ADDRESS]:PORT`, `:PORT` or `PORT`.
    """
    match = re.fullmatch(
        r"(?:\[([0-9A-Fa-f:.]+(?:%\w+)?)\]:|([^\s:/\[\]]*):)?(\d{1,5})", text, re.ASCII
    )
    if match is None or int(match[3]) > 65535:
        raise UsageError(
            f"{clean(text)} is not a valid address; use 127.0.0.1:10042, [::1]:10042 or :10042"
        )
    host = match[1] if match[1] is not None else match[2]
    return (LOOPBACK if host is None else host), int(match[3])


def listen(addresses: Iterable[str]) -> list[socket.socket]:
    """A listening socket for each address.

    Raises:
        UsageError: an address is not valid.
        TrntopError: an address cannot be used; no socket is left open.
    """
    pairs = [parse_listen(address) for address in dict.fromkeys(addresses)]
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(bind(host, port)) for host, port in pairs]
        opened.pop_all()
    return sockets


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; with port 0 the system chooses one.

    Raises:
        TrntopError: the address cannot be used.
    """
    shown = f"{f'[{host}]' if ':' in host else host}:{port}"
    try:
        if not host and socket.has_dualstack_ipv6():
            return _configured(
                socket.create_server(
                    ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
                )
            )
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # As in other exporters, IPv4 if a name has both.
        family, *_, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
        return _configured(
            socket.create_server((str(address[0]), port), family=family, backlog=BACKLOG)
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise TrntopError(f"{shown} is in use; choose another with --listen") from error
        raise TrntopError(f"cannot listen on {shown}: {error.strerror or error}") from error


def from_systemd(environ: MutableMapping[str, str]) -> list[socket.socket]:
    """The listening sockets that systemd passed to this process, see sd_listen_fds(3).

    Args:
        environ: the process environment; its `LISTEN_` variables are removed, so that no child
            process uses them.

    Raises:
        TrntopError: it passed none, or something else.
    """
    passed = {name: environ.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES")}
    count = int(passed["FDS"]) if re.fullmatch(r"[1-9]\d{0,3}", passed["FDS"], re.ASCII) else 0
    if passed["PID"] != str(os.getpid()) or not count:
        raise TrntopError(
            "systemd passed no socket; start the .socket unit, or omit --web.systemd-socket"
        )
    return [_passed(FIRST_PASSED + index) for index in range(count)]


def _passed(descriptor: int) -> socket.socket:
    try:
        sock = socket.socket(fileno=descriptor)
        listening = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise TrntopError(f"descriptor {descriptor} from systemd: {error.strerror}") from error
    if sock.type is not socket.SOCK_STREAM or not listening:
        raise TrntopError(
            f"descriptor {descriptor} from systemd is not a listening stream socket; use"
            " ListenStream= and Accept=no"
        )
    sock.set_inheritable(False)
    return _configured(sock)


def _configured(sock: socket.socket) -> socket.socket:
    """Sets what accepted connections inherit."""
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        # Head and body are two packets; without this the second waits 40 ms for the client's
        # acknowledgment. asyncio sets it only for sockets made with the protocol's number.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, READ_SECONDS * 1000)
    return sock


def url(sock: socket.socket, *, secure: bool = False) -> str:
    """The URL of a listening socket."""
    if sock.family == socket.AF_UNIX:
        return f"http+unix://{quote(sock.getsockname(), safe='')}"
    host, port = sock.getsockname()[:2]
    if host in ("::", "0.0.0.0"):
        host = socket.gethostname()
    return f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
