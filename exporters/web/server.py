"""The exporter over HTTP: metrics pages, health and readiness.

Pages are rendered on the server's loop when somebody asks, once per view, and served as bytes.
"""

import asyncio
import gzip
import html
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trntop import __version__
from trntop.catalog import Page
from trntop.core import descriptors
from trntop.core.model import View

from ..metrics.exposition import Format
from ._uvicorn import QuietServer
from .connection import MAX_HEAD_BYTES, MAX_PLAIN, maker
from .listening import BACKLOG, url
from .negotiation import accepts_gzip, negotiate
from .probes import Probes
from .readiness import why_not_ready
from .stream import ABOUT as ABOUT_STREAMS
from .stream import Streams

if TYPE_CHECKING:
    from .access import Access

GZIP_FROM = 1024
"""Bytes below which compression is not worth its header."""
IDLE_SECONDS = 75
"""How long a connection may rest between requests; longer than a usual scrape interval."""
GRACE_SECONDS = 1
"""What responses under way get when the server stops; idle connections get nothing."""

ABOUT = {
    Page.METRICS: "nodes, jobs, incidents, and what tells a sick device or card from its siblings",
    Page.DETAIL: "everything else of nodes, devices, EFA cards and links",
    Page.CORES: "NeuronCores",
}

Latest = Callable[[], View | None]


class Rendered(Protocol):
    """The pages of one view; see `prometheus.Rendered`."""

    def body(self, page: Page, written: Format, /) -> bytes:
        """A page, encoded."""


class Renderer(Protocol):
    """What makes pages of a view; see `prometheus.Exposition`."""

    def render(self, view: View | None, /) -> Rendered:
        """The pages of a view; without one, what is known of the exporter alone."""


class _Cache:
    """The pages of the newest view, plain and compressed."""

    def __init__(self, latest: Latest, renderer: Renderer) -> None:
        self._latest = latest
        self._renderer = renderer
        self._view: View | None = None
        self._rendered: Rendered | None = None
        self._compressed: dict[tuple[Page, Format], bytes] = {}

    def get(self, page: Page, written: Format, *, compressed: bool) -> tuple[bytes, bool]:
        """A page, rendered at most once per view; and whether it is compressed."""
        view = self._latest()
        if self._rendered is None or view is None or view is not self._view:
            self._rendered, self._view = self._renderer.render(view), view
            self._compressed.clear()
        body = self._rendered.body(page, written)
        if not compressed or len(body) <= GZIP_FROM:
            return body, False
        if (page, written) not in self._compressed:
            self._compressed[page, written] = gzip.compress(body, 1, mtime=0)
        return self._compressed[page, written], True


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


def build_app(
    latest: Latest,
    renderer: Renderer,
    streams: Streams | None = None,
    probes: Probes | None = None,
) -> Starlette:
    """The exporter's application.

    Args:
        latest: gives the newest view, or None when there is none (any more); called on each
            request, must return at once.
        renderer: makes the pages.
        streams: what trntop itself listens to; by default one that is told of no new views.
        probes: what a check may do; by default nothing.
    """
    streams = streams or Streams(latest, 1.0)
    probes = probes or Probes()
    cache = _Cache(latest, renderer)

    def metrics(page: Page) -> Callable[[Request], Response]:
        return lambda request: _page(request, cache, page)

    def ready(_: Request) -> Response:
        reason = why_not_ready(latest())
        return PlainTextResponse(f"{reason or 'ready'}\n", 503 if reason else 200)

    def healthy(_: Request) -> Response:
        return PlainTextResponse("healthy\n")

    def landing(_: Request) -> Response:
        return HTMLResponse(_landing(latest()))

    endpoints = {
        "/": landing,
        **{page.path: metrics(page) for page in Page},
        "/-/healthy": healthy,
        "/health": healthy,
        "/-/ready": ready,
    }
    app = Starlette(
        routes=[
            *(Route(path, _on_loop(respond)) for path, respond in endpoints.items()),
            *streams.routes,
            *probes.routes,
        ],
        middleware=[Middleware(_Nosniff)],
    )
    app.router.redirect_slashes = False
    return app


def _on_loop(respond: Callable[[Request], Response]) -> Callable[[Request], object]:
    # Starlette sends plain functions to a thread, and pages are rendered by one thread only.
    async def endpoint(request: Request) -> Response:
        return respond(request)

    return endpoint


def _page(request: Request, cache: _Cache, page: Page) -> Response:
    written, content_type = negotiate(",".join(request.headers.getlist("accept")))
    wanted = accepts_gzip(",".join(request.headers.getlist("accept-encoding")))
    body, compressed = cache.get(page, written, compressed=wanted)
    headers = {"Vary": "Accept, Accept-Encoding", "Content-Type": content_type}
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers)


def _landing(view: View | None) -> str:
    state = why_not_ready(view) or "ready"
    simulated = (
        "<p><strong>SIMULATED values</strong></p>\n" if view and view.cluster.simulated else ""
    )
    about = {**{page.path: ABOUT[page] for page in Page}, **ABOUT_STREAMS}
    pages = "\n".join(
        f'<li><a href="{path}">{path}</a>: {what}</li>' for path, what in about.items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>trntop</title></head>
<body>
<h1>trntop {html.escape(__version__)}</h1>
<p>Prometheus exporter for AWS Trainium: {html.escape(state)}</p>
{simulated}<ul>
{pages}
<li><a href="/-/healthy">/-/healthy</a>, <a href="/-/ready">/-/ready</a></li>
</ul>
</body>
</html>
"""


class Server(QuietServer):
    """uvicorn as the exporter wants it; `should_exit = True` stops it within a second.

    Args:
        app: the application.
        access: who may connect and ask; without it anybody, without TLS.
    """

    def __init__(self, app: ASGIApp, access: "Access | None" = None) -> None:
        # Loaded before clients connect: later, no file descriptor may be left for an import.
        import prometheus_client  # noqa: F401

        super().__init__(
            uvicorn.Config(
                app if access is None else access.guard(app),
                http=maker(access),  # type: ignore[arg-type]
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            )
        )


def serve(
    app: ASGIApp,
    sockets: Sequence[socket.socket],
    access: "Access | None" = None,
    *,
    announce: Callable[[str], None] | None = None,
    at_end: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, on the main thread.

    Args:
        app: the application.
        sockets: that listen; closed at the end.
        access: who may connect and ask; without it anybody, without TLS.
        announce: is told the URL of each socket, all of which listen then; without it standard
            error is.
        at_end: awaited when nobody is served any more.
    """
    descriptors.allow(MAX_PLAIN)  # what is not allowed is refused one by one
    addresses = [url(one, secure=access is not None and access.secure) for one in sockets]

    def told() -> None:
        for address in addresses:
            (announce or _announce)(address)

    try:
        asyncio.run(_serve(Server(app, access), list(sockets), told, at_end))
    finally:
        if access is not None:
            access.close()


def _announce(address: str) -> None:
    print(f"trntop: serving {address}/metrics", file=sys.stderr, flush=True)


async def _serve(
    server: Server,
    sockets: list[socket.socket],
    listening: Callable[[], None],
    at_end: Callable[[], Awaitable[None]] | None,
) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stop)
    listening()  # only now: whoever hears of it may stop it
    try:
        await server.serve(sockets=sockets)
    finally:
        if at_end is not None:
            await at_end()
