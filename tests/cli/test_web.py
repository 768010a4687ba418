"""`--web`: who is served, and what a browser gets to see."""

import asyncio
import base64
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientSession, ClientTimeout, CookieJar, WSMsgType, WSServerHandshakeError
from aiohttp.test_utils import TestClient, TestServer, unused_port
from textual_serve import server

from trntop.cli import main
from trntop.cli.web import MAX_PAGES, Pages

pytestmark = pytest.mark.xdist_group("machine")

ROOT = Path(__file__).parents[2]
NODE = "trn-001"
SCENARIO = "healthy?nodes=2&type=trn1.2xlarge"
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome")
     if (path := shutil.which(name))),
    "",
)  # fmt: skip
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1000,700", "--remote-debugging-port=0",
)  # fmt: skip


@asynccontextmanager
async def client(pages: Pages) -> AsyncIterator[TestClient[Any, Any]]:
    cookies = {pages._cookie: pages._token}
    async with TestClient(TestServer(await pages._make_app()), cookies=cookies) as made:
        yield made


class NoProgram:
    """Replaces what a page starts."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    async def start(self, width: int, height: int) -> None:
        pass

    async def stop(self) -> None:
        pass


def pages_of(host: str = "127.0.0.1") -> Pages:
    return Pages("true", host, 1)


async def test_the_page_leads_back_to_where_it_was_found() -> None:
    async with client(pages_of()) as browser:
        answer = await browser.get("/", headers={"Host": "localhost:9999"})
        assert answer.status == 200
        text = await answer.text()
        assert "ws://localhost:9999/ws" in text
        assert "http://localhost:9999/static/" in text


async def test_the_page_loads_nothing_from_another_host() -> None:
    async with client(pages_of()) as browser:
        page = await (await browser.get("/", headers={"Host": "localhost:9999"})).text()
        loaded = re.findall(r"""(?:href|src|action|-url)=["']([^"']*)|url\(["']?([^"')]+)""", page)
        addresses = {first or second for first, second in loaded}
        assert "http://localhost:9999/static/css/xterm.css" in addresses
        assert {urlsplit(address).netloc for address in addresses} <= {"localhost:9999", ""}
        for address in addresses:
            if address.endswith(".css"):
                style = await (await browser.get(urlsplit(address).path)).text()
                # Comments name the authors' sites.
                rules = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
                assert not re.search(r"@import|//", rules)
        script = await (await browser.get("/static/js/textual.js")).text()
        assert "fonts.g" not in script


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("evil.example:1", "http://evil.example:1", 403),
        ("localhost:1", "http://evil.example", 403),
        ("localhost:1", "http://localhost:2", 403),
        ("localhost:1", "", 403),
        ("localhost:1", "http://localhost:1", 101),
        ("[::1]:1", "http://[::1]:1", 101),
    ],
)
async def test_only_its_own_pages_may_open_the_dashboard(
    host: str, origin: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "AppService", NoProgram)
    headers = {"Host": host} | ({"Origin": origin} if origin else {})
    async with client(pages_of()) as browser:
        try:
            async with browser.ws_connect("/ws", headers=headers):
                code = 101
        except WSServerHandshakeError as error:
            code = error.status
        assert code == status
        if host.startswith("evil"):
            assert (await browser.get("/", headers=headers)).status == 403


async def test_without_the_token_nothing_is_shown() -> None:
    pages = pages_of()
    headers = {"Host": "localhost:1", "Origin": "http://localhost:1"}
    async with TestClient(TestServer(await pages._make_app())) as stranger:
        for path in ("/", "/?token=guess", "/?token="):
            answer = await stranger.get(path, headers=headers)
            assert (answer.status, "token" in await answer.text()) == (403, True)
        with pytest.raises(WSServerHandshakeError, match="403"):
            await stranger.ws_connect("/ws", headers=headers)
        answer = await stranger.get(
            f"/?token={pages._token}", headers=headers, allow_redirects=False
        )
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
        assert f"{pages._cookie}={pages._token}" in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie


async def test_the_font_is_served_here() -> None:
    async with client(pages_of()) as browser:
        page = await (await browser.get("/", headers={"Host": "localhost:1"})).text()
        (path,) = re.findall(r'src: url\("([^"]+\.ttf)"\)', page)
        font = await browser.get(path)
        assert font.status == 200
        assert (await font.read())[:4] == b"\0\1\0\0"


async def test_names_of_another_interface_do_not_resolve() -> None:
    async with client(pages_of("0.0.0.0")) as browser:
        assert (await browser.get("/", headers={"Host": "head-node:1"})).status == 200


async def test_there_is_an_end_to_the_processes() -> None:
    pages = pages_of()
    pages._open = MAX_PAGES
    async with client(pages) as browser:
        headers = {"Host": "localhost:1", "Origin": "http://localhost:1"}
        with pytest.raises(WSServerHandshakeError, match="503"):
            await browser.ws_connect("/ws", headers=headers)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-", "--web"], "--web cannot be combined with -"),
        (["--web", "--listen", "x:y:z"], "is not a valid address"),
    ],
)
def test_what_cannot_be_served(
    capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert main(arguments) == 2
    assert reason in capsys.readouterr().err


def test_without_the_extra_it_names_what_to_install() -> None:
    code = (
        "import sys; sys.modules['textual_serve'] = None\n"
        "from trntop.cli import main\n"
        "raise SystemExit(main(['--web']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, cwd=ROOT
    )
    assert done.returncode == 2
    assert done.stderr == (
        "trntop: --web needs textual-serve:"
        " run .venv/bin/pip install '.[web]' in the clone of trntop\n"
    )


@contextlib.contextmanager
def served() -> Iterator[str]:
    """`trntop demo --web`; its address."""
    port = unused_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "trntop", "demo", SCENARIO, "--web", "--listen", str(port)],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": "/nonexistent"},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith(f"trntop: dashboard on http://127.0.0.1:{port}/?token=")
        yield line.split()[-1]
        process.send_signal(signal.SIGTERM)
        assert "Traceback" not in process.communicate(timeout=10)[1]
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait(10)
        if process.stderr is not None:
            process.stderr.close()


def test_requests_that_are_none_print_no_traceback() -> None:
    with served() as address:
        found = urlsplit(address)
        for line in ("GET / HTTP/1.1", "GET /?token=\xff HTTP/1.1", "\x1b]0;x\x07"):
            with socket.create_connection((found.hostname, found.port), timeout=10) as stranger:
                head = f"{line}\r\nHost: {found.netloc}\r\nCookie: trntop-{found.port}=\xff\r\n\r\n"
                stranger.sendall(head.encode("latin-1"))
                assert stranger.recv(100)[9:12] in (b"403", b"400")


async def test_the_dashboard_comes_over_the_socket() -> None:
    with served() as address:
        # The cookie of an address is kept only on request.
        async with (
            ClientSession(timeout=ClientTimeout(30), cookie_jar=CookieJar(unsafe=True)) as session,
            session.get(address) as page,
            session.ws_connect(
                page.url.with_path("/ws").with_query(width=100, height=30),
                origin=str(page.url.origin()),
            ) as dashboard,
        ):
            received = b""
            async with asyncio.timeout(30):
                while NODE.encode() not in received:
                    message = await dashboard.receive()
                    assert message.type is WSMsgType.BINARY
                    received += message.data


class Tab:
    """One page of a browser, by the DevTools protocol."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._number = 0
        self.received = b""
        """What came over the page's web sockets."""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method; its result."""
        self._number += 1
        call = {"id": self._number, "method": method, "params": parameters}
        await self._socket.send_json(call)
        while True:
            message = await self._next()
            if message.get("id") == self._number:
                result: dict[str, Any] = message["result"]
                return result

    async def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._socket.receive_json()
        if message.get("method") == "Network.webSocketFrameReceived":
            frame = message["params"]["response"]
            if frame["opcode"] == 2:
                self.received += base64.b64decode(frame["payloadData"])
        return message

    async def until(self, text: bytes) -> None:
        """Waits until the page has received a text."""
        while text not in self.received:
            await self._next()


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Tab]:
    """Chromium with an empty page, ended with all its processes."""
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, *FLAGS, f"--user-data-dir={folder}", "about:blank",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        port = folder / "DevToolsActivePort"
        while not (port.exists() and port.read_text().count("\n")):
            assert process.returncode is None
            await asyncio.sleep(0.05)
        address = f"http://127.0.0.1:{port.read_text().split()[0]}"
        async with ClientSession() as session:
            async with session.get(f"{address}/json/list") as answer:
                pages = [target for target in await answer.json() if target["type"] == "page"]
            url = pages[0]["webSocketDebuggerUrl"]
            async with session.ws_connect(url, max_msg_size=1 << 26) as socket:
                yield Tab(socket)
    finally:
        # The group is Chromium's own: it was started as one.
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
async def test_chromium_draws_it(tmp_path: Path) -> None:
    with served() as address:
        async with asyncio.timeout(50), browser(tmp_path) as tab:
            await tab.call("Network.enable")
            await tab.call("Page.enable")
            blank = base64.b64decode((await tab.call("Page.captureScreenshot"))["data"])
            await tab.call("Page.navigate", url=address)
            await tab.until(NODE.encode())
            drawn = blank
            # It is drawn some frames after it was received.
            while len(drawn) < 5 * len(blank):
                drawn = base64.b64decode((await tab.call("Page.captureScreenshot"))["data"])
