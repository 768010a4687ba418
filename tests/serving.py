"""The exporter's server over real sockets on loopback, and certificates for it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import trustme
from starlette.types import ASGIApp

from tests.builders import make_view
from trntop.core.model import View
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.web.access import Access
from trntop.exporters.web.listening import bind
from trntop.exporters.web.server import Server, build_app


def app_of(view: View | None = None, *, max_series: int = 20_000) -> ASGIApp:
    """The application on one view, which is that of a node unless another is given."""
    shown = make_view(1) if view is None else view
    return build_app(lambda: shown, Exposition(max_series))


@contextlib.asynccontextmanager
async def served(
    app: ASGIApp, access: Access | None = None, on_stop: Callable[[], None] | None = None
) -> AsyncIterator[int]:
    """The port where the application is served."""
    sock = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    server = Server(app, access, on_stop)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield port
    finally:
        server.stop()
        await asyncio.wait_for(task, 5)
        if access is not None:
            access.close()


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp, access: Access | None = None, trust: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[httpx.AsyncClient, int]]:
    """A client of the application, and the port; over TLS with `trust` as the certificate."""
    async with served(app, access) as port:
        scheme = "http" if trust is None else "https"
        async with httpx.AsyncClient(
            base_url=f"{scheme}://127.0.0.1:{port}", trust_env=False, verify=trust or False
        ) as client:
            yield client, port


async def raw(port: int, request: bytes, seconds: float = 5) -> bytes:
    """All that comes back for these bytes until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), seconds)
    finally:
        writer.close()


class Authority:
    """A certificate authority of its own, and files of what it issues.

    Args:
        folder: where the files are written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ca = trustme.CA()
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(
        self, name: str, *identities: str, common_name: str | None = None
    ) -> tuple[Path, Path]:
        """A certificate for these names and its key, in files of that name."""
        issued = self._ca.issue_cert(*identities, common_name=common_name)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.unlink(missing_ok=True)
        key.touch(0o600)
        key.write_bytes(issued.private_key_pem.bytes())
        return certificate, key

    def trust(self, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """A client's context that believes this authority, with a certificate of its own or not."""
        context = ssl.create_default_context(cafile=str(self.file))
        if client is not None:
            context.load_cert_chain(*client)
        return context
