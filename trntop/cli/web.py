"""The dashboard in a browser: textual-serve starts the same command for each open page.

It binds to loopback by default. The printed address contains a token, which becomes a cookie,
because other users of the machine and other pages in the browser can also connect to the port.
"""

import hmac
import ipaddress
import logging
import os
import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.server import Server

import trntop

MAX_PAGES = 8
"""Limit of dashboards that are open at the same time: each is a process."""
_EXTERNAL_FONT_LINK = re.compile(r"<link\b[^>]*\bhref=\"https?://fonts\.[^>]*>")
_STYLE = """<style>
      @font-face { font-family: "Roboto Mono"; font-weight: 100 700;
        src: url("/static/fonts/RobotoMono-VariableFont_wght.ttf"); }
      .xterm .xterm-viewport { overflow-y: hidden !important; }
    </style>"""
"""The font of textual-serve's template, from its own files instead of a third party's, and no bar
to scroll with, which covers the last column: a dashboard has no lines to scroll back to.
"""
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def serve(arguments: Sequence[str], host: str, port: int) -> int:
    """Serves `trntop ARGUMENTS` until stopped.

    Args:
        arguments: command-line arguments. The started processes draw for the browser because of
            the environment that textual-serve sets.
        host: the address of the interface.
        port: the port.
    """
    # Each page runs this package, not a `trntop` in the current directory.
    root = str(Path(trntop.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(
        part for part in (root, os.environ.get("PYTHONPATH", "")) if part
    )
    command = shlex.join([sys.executable, "-P", "-m", "trntop", *arguments])
    if not _is_local(host):
        print(
            f"trntop: warning: not encrypted: anyone who reads the traffic to {host} has the token",
            file=sys.stderr,
        )
    Pages(command, host, port).serve()
    return 0


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Pages(Server):
    """The server of textual-serve, restricted to pages that it has served."""

    def __init__(self, command: str, host: str, port: int) -> None:
        super().__init__(command, host=host, port=port, title="trntop")
        self._local = _is_local(host)
        self._names = LOCAL_NAMES | {host}
        self._open = 0
        self._token = secrets.token_urlsafe(16)
        self._cookie = f"trntop-{port}"

    def serve(self, debug: bool = False) -> None:
        """Prints the address once the port is bound; textual-serve prints it before."""
        # A request that is none would print a traceback for anybody who can connect.
        logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
        web.run_app(self._make_app(), host=self.host, port=self.port, print=self._print_address)

    async def on_startup(self, app: web.Application) -> None:
        """Omits the banner of textual-serve."""

    def _print_address(self, _: str) -> None:
        address = f"{self.public_url}/?token={self._token}"
        print(f"trntop: dashboard on {address}", file=sys.stderr, flush=True)

    async def handle_index(self, request: web.Request) -> web.Response:
        """The page; its links use the address in the browser, so that tunnels work."""
        if self._is_token(request.query.get("token", "")):
            found = web.HTTPSeeOther("/")  # without the token, which would stay in the history
            found.set_cookie(self._cookie, self._token, httponly=True, samesite="Strict")
            raise found
        self._check_access(request)
        self.public_url = f"http://{request.host}"
        response: web.Response = await super().handle_index(request)  # type: ignore[assignment]
        response.text = _EXTERNAL_FONT_LINK.sub(_STYLE, response.text or "")
        return response

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """The dashboard of one page."""
        self._check_access(request)
        # Browsers do not prevent other sites from opening web sockets; servers have to.
        if urlsplit(request.headers.get("Origin", "")).netloc != request.host:
            raise web.HTTPForbidden(text="not a page of trntop\n")
        if self._open >= MAX_PAGES:
            raise web.HTTPServiceUnavailable(text=f"{MAX_PAGES} dashboards are already open\n")
        self._open += 1
        try:
            return await super().handle_websocket(request)
        finally:
            self._open -= 1

    def _is_token(self, text: str) -> bool:
        # Bytes of a header that are not UTF-8 are surrogates.
        return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), self._token.encode())

    def _check_access(self, request: web.Request) -> None:
        """Rejects requests without the cookie, and host names chosen by others."""
        if not self._is_token(request.cookies.get(self._cookie, "")):
            raise web.HTTPForbidden(text="open the address that trntop printed: it has a token\n")
        if self._local and urlsplit(f"//{request.host}").hostname not in self._names:
            raise web.HTTPForbidden(text=f"use http://{self.host}:{self.port}\n")
