"""The exporter over HTTP: metrics pages, health and readiness.

Pages are rendered on the server's loop when somebody asks, once per view, and served as bytes.
"""

import asyncio
import contextlib
import errno
import gzip
import html
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from trntop import __version__
from trntop.errors import TrntopError, UsageError
from trntop.model import View
from trntop.text import clean

from .prometheus import CONTENT_TYPE, DEFAULT_MAX_SERIES, UP, Page, Pages

LOOPBACK = "127.0.0.1"
GZIP_FROM = 1024
"""Bytes below which compression is not worth its header."""
HEAD_SECONDS = 10.0
"""How long a client may take to send a request's head."""
READ_SECONDS = 30.0
"""How long it may take to read a response."""
IDLE_SECONDS = 75
"""How long a connection may rest between requests; longer than a usual scrape interval."""
MAX_HEAD_BYTES = 32 << 10
MAX_CONNECTIONS = 4096
GRACE_SECONDS = 1
"""What responses under way get when the server stops; idle connections get nothing."""
MAX_REASONS = 3

Latest = Callable[[], View | None]


class _Cache:
    """The pages of the newest view, plain and compressed."""

    def __init__(self, latest: Latest, page: Page) -> None:
        self._latest = latest
        self._page = page
        self._view: View | None = None
        self._pages: Pages | None = None
        self._compressed: dict[str, bytes] = {}

    def get(self, name: str, *, compressed: bool) -> bytes:
        """The page `name` of `Pages`, rendered at most once per view."""
        view = self._latest()
        if self._pages is None or view is None or view is not self._view:
            self._pages, self._view = self._page.render(view), view
            self._compressed.clear()
        body: bytes = getattr(self._pages, name)
        if not compressed:
            return body
        if name not in self._compressed:
            self._compressed[name] = gzip.compress(body, 1, mtime=0)
        return self._compressed[name]


class _Nosniff:
    """Sets `X-Content-Type-Options` on every response, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Content-Type-Options"] = "nosniff"
            await send(message)

        await self._app(scope, receive, with_header)


def build_app(latest: Latest, *, max_series: int = DEFAULT_MAX_SERIES) -> Starlette:
    """The exporter's application.

    Args:
        latest: gives the newest view, or None when there is none (any more); called on each
            request, must return at once.
        max_series: most series on one page.
    """
    cache = _Cache(latest, Page(max_series))

    def page(name: str) -> Callable[[Request], Response]:
        return lambda request: _page(request, cache, name)

    def ready(_: Request) -> Response:
        reason = why_not_ready(latest())
        return PlainTextResponse(f"{reason or 'ready'}\n", 503 if reason else 200)

    def healthy(_: Request) -> Response:
        return PlainTextResponse("healthy\n")

    def landing(_: Request) -> Response:
        return HTMLResponse(_landing(latest()))

    endpoints = {
        "/": landing,
        "/metrics": page("metrics"),
        "/metrics/cores": page("cores"),
        "/-/healthy": healthy,
        "/health": healthy,
        "/-/ready": ready,
    }
    app = Starlette(
        routes=[Route(path, _on_loop(respond)) for path, respond in endpoints.items()],
        middleware=[Middleware(_Nosniff)],
    )
    app.router.redirect_slashes = False
    return app


def _on_loop(respond: Callable[[Request], Response]) -> Callable[[Request], object]:
    # Starlette sends plain functions to a thread, and pages are rendered by one thread only.
    async def endpoint(request: Request) -> Response:
        return respond(request)

    return endpoint


def _page(request: Request, cache: _Cache, name: str) -> Response:
    body = cache.get(name, compressed=False)
    headers = {"Vary": "Accept-Encoding", "Content-Type": CONTENT_TYPE}
    if len(body) > GZIP_FROM and accepts_gzip(request.headers.get("accept-encoding", "")):
        body = cache.get(name, compressed=True)
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers)


def accepts_gzip(header: str) -> bool:
    """Whether an `Accept-Encoding` header allows gzip (RFC 9110, 12.5.3)."""
    for item in header.split(","):
        coding, *parameters = (part.strip().lower() for part in item.split(";"))
        if coding in ("gzip", "x-gzip"):
            return not any(re.fullmatch(r"q\s*=\s*0(\.0*)?", one) for one in parameters)
    return False


def why_not_ready(view: View | None) -> str:
    """Why the pages hold no live values, empty when they do."""
    if view is None:
        return "not collecting"
    if view.ended:
        return "the recording has ended"
    nodes = view.cluster.nodes
    if not nodes:
        return "no node has been heard yet"
    sources = [
        (name, source) for name, node in nodes.items() for source in node.frame.sources
    ]  # fmt: skip
    if any(source.state in UP for _, source in sources):
        return ""
    reasons = [
        f"{name}: {source.name} {source.state}{f' ({source.reason})' if source.reason else ''}"
        for name, source in sources[:MAX_REASONS]
    ]
    if len(sources) > MAX_REASONS:
        reasons.append("…")
    return "no source is heard; " + "; ".join(reasons)


def _landing(view: View | None) -> str:
    state = why_not_ready(view) or "ready"
    simulated = (
        "<p><strong>SIMULATED values</strong></p>\n" if view and view.cluster.simulated else ""
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>trntop</title></head>
<body>
<h1>trntop {html.escape(__version__)}</h1>
<p>Prometheus exporter for AWS Trainium: {html.escape(state)}</p>
{simulated}<ul>
<li><a href="/metrics">/metrics</a>: nodes, jobs, devices, EFA cards, incidents</li>
<li><a href="/metrics/cores">/metrics/cores</a>: NeuronCores</li>
<li><a href="/-/healthy">/-/healthy</a>, <a href="/-/ready">/-/ready</a></li>
</ul>
</body>
</html>
"""


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


def url(sock: socket.socket) -> str:
    """Where a listening socket is reached."""
    host, port = sock.getsockname()[:2]
    if host in ("::", "0.0.0.0"):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 lets the system choose.

    Raises:
        TrntopError: nobody can listen there; the sentence says why.
    """
    shown = f"{f'[{host}]' if ':' in host else host}:{port}"
    try:
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=MAX_CONNECTIONS
            )
        family, *_, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server((str(address[0]), port), family=family, backlog=MAX_CONNECTIONS)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise TrntopError(
                f"{shown} is taken by another program; choose another with --listen"
            ) from error
        if error.errno == errno.EACCES:
            raise TrntopError(f"{shown}: no permission to listen there") from error
        raise TrntopError(f"{shown}: cannot listen there: {error.strerror or error}") from error


class _Protocol(H11Protocol):
    """uvicorn's HTTP, with deadlines for what the client does.

    uvicorn only limits the rest between requests: a client that connects and sends nothing, or
    does not read its response, would hold the connection for ever.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._allow(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        answering = self._answering
        super().data_received(data)
        if self._answering and not answering:
            self._allow(READ_SECONDS)
        elif self._deadline is None:
            self._allow(HEAD_SECONDS)

    def on_response_complete(self) -> None:
        self._forget()
        super().on_response_complete()
        if self._answering:  # the next request was waiting already
            self._allow(READ_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _allow(self, seconds: float) -> None:
        self._forget()
        # Not `close`: that would wait for the client to take what is left.
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """uvicorn as the exporter wants it; `should_exit = True` stops it within a second."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Protocol,
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
                backlog=MAX_CONNECTIONS,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone: uvicorn would raise them again once it has stopped."""
        yield

    def stop(self) -> None:
        """Asks the server to stop; a second time, without waiting for anybody."""
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(
    app: ASGIApp,
    host: str,
    port: int,
    *,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, on the main thread.

    Args:
        app: the application.
        host: where to listen; empty means every interface.
        port: 0 lets the system choose.
        announce: is told the URL once the socket listens; without it standard error is.

    Raises:
        TrntopError: nobody can listen there.
    """
    sock = bind(host, port)
    (announce or _announce)(url(sock))
    asyncio.run(_serve(Server(app), sock))


def _announce(address: str) -> None:
    print(f"trntop: serving {address}/metrics", file=sys.stderr, flush=True)


async def _serve(server: Server, sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop)
    await server.serve(sockets=[sock])
