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
"""Connections the kernel keeps until they are accepted."""
FIRST_PASSED = 3
"""The first descriptor that systemd passes, SD_LISTEN_FDS_START of sd_listen_fds(3)."""


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port of a listen address; an empty host means every interface.

    A port alone stays on loopback: opening up takes a colon.

    Raises:
        UsageError: it is none of `HOST:PORT`, `[ADDRESS]:PORT`, `:PORT`, `PORT`.
    """
    match = re.fullmatch(
        r"(?:\[([0-9A-Fa-f:.]+(?:%\w+)?)\]:|([^\s:/\[\]]*):)?(\d{1,5})", text, re.ASCII
    )
    if match is None or int(match[3]) > 65535:
        raise UsageError(
            f"{clean(text)}: not an address to listen on; "
            "say 127.0.0.1:10042, [::1]:10042 or :10042"
        )
    host = match[1] if match[1] is not None else match[2]
    return (LOOPBACK if host is None else host), int(match[3])


def listen(addresses: Iterable[str]) -> list[socket.socket]:
    """A listening socket for each address.

    Raises:
        UsageError: one is no address.
        TrntopError: nobody can listen at one of them; none is left open then.
    """
    pairs = [parse_listen(address) for address in dict.fromkeys(addresses)]
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(bind(host, port)) for host, port in pairs]
        opened.pop_all()
    return sockets


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 lets the system choose.

    Raises:
        TrntopError: nobody can listen there; the sentence says why.
    """
    shown = f"{f'[{host}]' if ':' in host else host}:{port}"
    try:
        if not host and socket.has_dualstack_ipv6():
            return _prompt(
                socket.create_server(
                    ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
                )
            )
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # As other exporters do, IPv4 where a name has both.
        family, *_, address = min(found, key=lambda one: one[0] != socket.AF_INET)
        return _prompt(
            socket.create_server((str(address[0]), port), family=family, backlog=BACKLOG)
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise TrntopError(f"{shown} is taken; choose another with --listen") from error
        if error.errno == errno.EACCES:
            raise TrntopError(f"{shown}: no permission to listen there") from error
        raise TrntopError(f"{shown}: cannot listen there: {error.strerror or error}") from error


def from_systemd(environ: MutableMapping[str, str]) -> list[socket.socket]:
    """The listening sockets that systemd passed to this process, see sd_listen_fds(3).

    Args:
        environ: the process environment; the variables that tell of them are taken out, so that
            no child takes them for its own.

    Raises:
        TrntopError: it passed none, or something else.
    """
    told = {name: environ.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES")}
    count = int(told["FDS"]) if re.fullmatch(r"[1-9]\d{0,3}", told["FDS"], re.ASCII) else 0
    if told["PID"] != str(os.getpid()) or not count:
        raise TrntopError(
            "systemd passed no socket: start the .socket unit, or leave out --web.systemd-socket"
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
            f"descriptor {descriptor} from systemd: no stream socket that listens;"
            " the .socket unit needs ListenStream= and Accept=no"
        )
    sock.set_inheritable(False)
    return _prompt(sock)


def _prompt(sock: socket.socket) -> socket.socket:
    """The socket, whose connections do not hold back the second half of an answer.

    A head and a body are two packets, and without this the kernel would send the other when the
    client has confirmed the one, which takes it 40 ms. asyncio sets it only where a socket was
    made with its protocol's number.
    """
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def url(sock: socket.socket, *, secure: bool = False) -> str:
    """Where a listening socket is reached."""
    if sock.family == socket.AF_UNIX:
        return f"http+unix://{quote(sock.getsockname(), safe='')}"
    host, port = sock.getsockname()[:2]
    if host in ("::", "0.0.0.0"):
        host = socket.gethostname()
    return f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
