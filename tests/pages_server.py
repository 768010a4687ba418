"""Serves given pages of metrics on loopback, one after the other."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from trntop.exporters.metrics.exposition import Format


class Pages(ThreadingHTTPServer):
    """Gives each path its next page at each request; at the end, the last one again."""

    daemon_threads = True

    def __init__(self, pages: Mapping[str, Sequence[bytes]], written: Format) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.written = written
        self._left = {path: list(reversed(bodies)) for path, bodies in pages.items()}

    def next(self, path: str) -> bytes:
        left = self._left[path]
        return left.pop() if len(left) > 1 else left[0]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def over(self) -> bool:
        """Whether there is nothing but the last page of each path."""
        return all(len(left) == 1 for left in self._left.values())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Pages

    def do_GET(self) -> None:
        body = self.server.next(self.path)
        self.send_response(200)
        self.send_header("Content-Type", self.server.written.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving(pages: Mapping[str, Sequence[bytes]], written: Format = Format.TEXT) -> Iterator[Pages]:
    """A server of the pages, by path, until the end of the block."""
    server = Pages(pages, written)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
