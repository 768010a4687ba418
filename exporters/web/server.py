"""The exporter over HTTP: metrics pages, health and readiness.

Pages are rendered on the server's loop on request, once per view, and served as bytes.
"""

import asyncio
import errno
import gzip
import html
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from trntop import __version__
from trntop.catalog import Page
from trntop.core import descriptors, units
from trntop.core.model import View
from trntop.session.incident_log import IncidentLog

from ..metrics.exposition import Format
from ..metrics.pages import Exposition, Rendered
from ._uvicorn import AT_ONCE, MAX_CONNECTIONS, HttpConnection, QuietServer, TlsConnection
from .history import HistoryBuffer
from .incidents import ABOUT as ABOUT_INCIDENTS
from .incidents import Incidents
from .listening import url
from .negotiation import accepts_gzip, negotiate
from .probes import Probes
from .readiness import why_not_ready
from .stream import ABOUT as ABOUT_STREAMS
from .stream import Streams

if TYPE_CHECKING:
    from .access import Access

MAX_HEAD_BYTES = 32 << 10
MIN_GZIP_BYTES = 1024
IDLE_SECONDS = 75
"""Of a connection between requests; longer than a usual scrape interval."""
GRACE_SECONDS = 1
"""For responses in progress when the server stops."""

ABOUT = {
    Page.METRICS: "nodes, jobs, incidents, and what identifies a faulty device or EFA device",
    Page.DETAIL: "everything else about nodes, devices, EFA devices and links",
    Page.CORES: "NeuronCores",
}

Latest = Callable[[], View | None]


class _Cache:
    """The pages of the newest view, plain and compressed."""

    def __init__(self, latest: Latest, exposition: Exposition) -> None:
        self._latest = latest
        self._exposition = exposition
        self._view: View | None = None
        self._rendered: Rendered | None = None
        self._compressed: dict[tuple[Page, Format], bytes] = {}

    def get(self, page: Page, written: Format, *, compressed: bool) -> tuple[bytes, bool]:
        """A page, rendered at most once per view, and whether it is compressed."""
        view = self._latest()
        if self._rendered is None or view is None or view is not self._view:
            self._rendered, self._view = self._exposition.render(view), view
            self._compressed.clear()
        body = self._rendered.body(page, written)
        if not compressed or len(body) <= MIN_GZIP_BYTES:
            return body, False
        if (page, written) not in self._compressed:
            self._compressed[page, written] = gzip.compress(body, 1, mtime=0)
        return self._compressed[page, written], True


def build_app(
    latest: Latest,
    exposition: Exposition,
    streams: Streams | None = None,
    probes: Probes | None = None,
    incidents: Incidents | None = None,
    history: HistoryBuffer | None = None,
) -> Starlette:
    """The exporter's application.

    Args:
        latest: returns the newest view, or None without one; called on each request.
        exposition: renders the pages.
        streams: for dashboards; by default they get no new views.
        probes: for checks; by default none are allowed.
        incidents: those of the last day; by default none are kept.
        history: the last minutes, for dashboards that open later; by default empty.
    """
    streams = streams or Streams(latest, 1.0)
    incidents = incidents or Incidents(IncidentLog(1.0), latest)
    probes = probes or Probes()
    history = history or HistoryBuffer(1.0)
    cache = _Cache(latest, exposition)

    # Coroutines: Starlette runs plain functions in threads, and one thread renders the pages.
    def metrics(page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            return _page(request, cache, page)

        return respond

    async def ready(_: Request) -> Response:
        reason = why_not_ready(latest())
        return PlainTextResponse(f"{reason or 'ready'}\n", 503 if reason else 200)

    async def healthy(_: Request) -> Response:
        return PlainTextResponse("healthy\n")

    async def landing(_: Request) -> Response:
        return HTMLResponse(_landing(latest(), incidents.behind))

    endpoints = {
        "/": landing,
        **{page.path: metrics(page) for page in Page},
        "/-/healthy": healthy,
        "/health": healthy,
        "/-/ready": ready,
    }
    app = Starlette(
        routes=[
            *(Route(path, respond) for path, respond in endpoints.items()),
            *streams.routes,
            *incidents.routes,
            *history.routes,
            *probes.routes,
        ]
    )
    app.router.redirect_slashes = False
    return app


def _page(request: Request, cache: _Cache, page: Page) -> Response:
    written, content_type = negotiate(",".join(request.headers.getlist("accept")))
    gzip_accepted = accepts_gzip(",".join(request.headers.getlist("accept-encoding")))
    body, compressed = cache.get(page, written, compressed=gzip_accepted)
    headers = {"Vary": "Accept, Accept-Encoding", "Content-Type": content_type}
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers)


def _landing(view: View | None, behind: float) -> str:
    state = why_not_ready(view) or "ready"
    if behind:
        state += f", but behind: a tick was {units.span(behind)} late"
    simulated = (
        "<p><strong>SIMULATED values</strong></p>\n" if view and view.cluster.simulated else ""
    )
    about = {**{page.path: ABOUT[page] for page in Page}, **ABOUT_INCIDENTS, **ABOUT_STREAMS}
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


def _unambiguous(app: ASGIApp) -> ASGIApp:
    """The application without requests of two lengths.

    A proxy may read another end of such a request, and take what follows for one of its own clients
    (RFC 9112, 6.1): it is refused, and the connection closed.
    """

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            refusal = PlainTextResponse("two lengths\n", 400, {"Connection": "close"})
            await refusal(scope, receive, send)
            return
        await app(scope, receive, send)

    return checked


class Server(QuietServer):
    """uvicorn for the exporter; `stop` ends it within about a second.

    Args:
        app: the application.
        access: TLS and passwords; by default neither.
        on_stop: called on the loop when the server is stopped.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: "Access | None" = None,
        on_stop: Callable[[], None] | None = None,
    ) -> None:
        context = None if access is None else access.context
        config = uvicorn.Config(
            _unambiguous(app if access is None else access.guard(app)),
            http=HttpConnection if context is None else partial(TlsConnection, context),  # type: ignore[arg-type]
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            headers=[("X-Content-Type-Options", "nosniff")],
            proxy_headers=False,
            backlog=AT_ONCE,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        )
        super().__init__(config, on_stop)


@cache
def _report_limit() -> None:
    print("trntop: too many open files: connections wait; raise ulimit -Hn", file=sys.stderr)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Reports once that no connection is accepted: asyncio reports it again each second."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        _report_limit()
    else:
        loop.default_exception_handler(context)


def serve(
    app: ASGIApp,
    sockets: Sequence[socket.socket],
    access: "Access | None" = None,
    *,
    on_stop: Callable[[], None] | None = None,
    at_end: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, on the main thread; SIGHUP reads the web configuration again.

    Args:
        app: the application.
        sockets: listening ones; closed at the end.
        access: TLS and passwords; by default neither.
        on_stop: called on the loop when the server is stopped.
        at_end: awaited after the last response.
    """
    descriptors.reserve(MAX_CONNECTIONS)
    secure = access is not None and access.context is not None

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_report)
        server = Server(app, access, on_stop)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.stop)
        if access is not None:
            loop.add_signal_handler(signal.SIGHUP, access.reload)
        # After the handlers: a reader of the announcement may stop the server.
        for sock in sockets:
            address = url(sock, secure=secure)
            print(f"trntop: serving {address}/metrics", file=sys.stderr, flush=True)
        try:
            await server.serve(sockets=list(sockets))
        finally:
            if at_end is not None:
                await at_end()

    try:
        asyncio.run(run())
    finally:
        if access is not None:
            access.close()
