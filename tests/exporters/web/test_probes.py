"""The endpoints of a check: who may use them, what they refuse, and how they end."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil
import pytest
from starlette.datastructures import Address
from starlette.requests import Request
from starlette.types import ASGIApp

from tests.builders import make_view
from tests.serving import serving
from trntop.check.model import (
    BusyError,
    Host,
    Inspection,
    ProbeError,
    ProbeResult,
    ProbeServer,
    ProbeSpec,
)
from trntop.collectors.hosts.node import LocalHost
from trntop.core.errors import SettingsError
from trntop.core.settings import Settings
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.web.access import Access
from trntop.exporters.web.probes import Probes, Token
from trntop.exporters.web.server import build_app

pytestmark = pytest.mark.xdist_group("machine")

ROOT = Path(__file__).parents[3]
SECRET = "0123456789abcdef0123456789abcdef"
BEARER = {"Authorization": f"Bearer {SECRET}"}
SPEC = {"provider": "tcp", "iterations": 100, "repeats": 1, "seconds": 8}
SERVED = {"id": "s1", "port": 21001}
WAYS = (
    ("GET", "/v1/inspection", None),
    ("POST", "/v1/probe/server", SPEC),
    ("POST", "/v1/probe/client", {"spec": SPEC, "peer": "127.0.0.1", "server": SERVED}),
    ("DELETE", "/v1/probe/server/s1", None),
)


class Scripted:
    """A host controlled by a test."""

    name = "trn-001"

    def __init__(self) -> None:
        self.orders: list[Any] = []
        self.error: ProbeError | None = None
        self.hang = False
        self.cancelled = asyncio.Event()
        self.closed = False

    async def _do(self, *order: Any) -> None:
        self.orders.append(order)
        if self.error is not None:
            raise self.error
        try:
            if self.hang:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def inspect(self) -> Inspection:
        await self._do("inspect")
        return Inspection(node="trn-001", time=5.0, memlock_bytes=float("inf"))

    async def serve(self, spec: ProbeSpec) -> ProbeServer:
        await self._do("serve", spec)
        return ProbeServer(id="s1", port=21001)

    async def probe(self, spec: ProbeSpec, peer: str, server: ProbeServer) -> list[ProbeResult]:
        await self._do("probe", peer, server)
        return [ProbeResult(tool=spec.tool, peer=peer, seconds=2e-5)]

    async def end(self, server: ProbeServer) -> str:
        await self._do("end", server.id)
        return "nobody connected"

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    return path


def write(token: Path, content: str) -> None:
    token.write_text(content)


def app_of(host: Host | None, token: Path) -> ASGIApp:
    view = make_view(1)
    allowed = Probes() if host is None else Probes(host, Token(token))
    return build_app(lambda: view, Exposition(), probes=allowed)


@contextlib.asynccontextmanager
async def agent(
    token: Path, access: Access | None = None
) -> AsyncIterator[tuple[httpx.AsyncClient, Scripted, int]]:
    scripted = Scripted()
    async with serving(app_of(scripted, token), access) as (client, port):
        yield client, scripted, port


async def test_without_leave_nothing_is_done(token: Path) -> None:
    async with serving(app_of(None, token)) as (client, _):
        for method, path, body in WAYS:
            response = await client.request(method, path, json=body, headers=BEARER)
            assert response.status_code == 403
            assert "--allow-probes and --probe-token-file" in response.text


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", f"Bearer {SECRET}x", f"Bearer {SECRET[:-1]}", f"Basic {SECRET}", SECRET],
)
async def test_without_the_token_nothing_is_done(token: Path, authorization: str) -> None:
    async with agent(token) as (client, scripted, _):
        for method, path, body in WAYS:
            headers = {"Authorization": authorization}
            response = await client.request(method, path, json=body, headers=headers)
            message = "not the token of this agent" if authorization else "needs a token"
            assert response.status_code == 401 and message in response.text
            assert response.headers["www-authenticate"] == "Bearer"
    assert scripted.orders == []


async def test_what_is_done(token: Path) -> None:
    async with agent(token) as (client, scripted, _):
        answers = [
            await client.request(method, path, json=body, headers=BEARER)
            for method, path, body in WAYS
        ]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert msgspec.json.decode(answers[0].content, type=Inspection).node == "trn-001"
    assert answers[1].json() == SERVED | {"address": "", "load": ""}
    (result,) = msgspec.json.decode(answers[2].content, type=list[ProbeResult])
    assert (result.peer, result.seconds) == ("127.0.0.1", 2e-5)
    assert answers[3].json() == "nobody connected"
    spec = msgspec.convert(SPEC, ProbeSpec)
    assert scripted.orders == [
        ("inspect",),
        ("serve", spec),
        ("probe", "127.0.0.1", ProbeServer(id="s1", port=21001, address="127.0.0.1")),
        ("end", "s1"),
    ]


async def test_a_token_that_is_replaced(token: Path) -> None:
    async with agent(token) as (client, _, _):
        write(token, "another-token-that-is-long\n")
        assert (await client.get("/v1/inspection", headers=BEARER)).status_code == 401
        other = {"Authorization": "Bearer another-token-that-is-long"}
        assert (await client.get("/v1/inspection", headers=other)).status_code == 200
        write(token, "")
        assert (await client.get("/v1/inspection", headers=other)).status_code == 503


@pytest.mark.parametrize("content", ["", "short\n", "ünsagbar-lang-genug\n", "x" * 2000])
def test_files_that_hold_no_token(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    with pytest.raises(SettingsError, match="openssl rand -hex 32 makes one"):
        Token(path)
    with pytest.raises(SettingsError, match="No such file"):
        Token(tmp_path / "nosuch")


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"", 400, "Input data was truncated"),
        (b"[]", 400, "Expected `object`"),
        (b'{"tool": "rm -rf /"}', 400, "Invalid enum value 'rm -rf /'"),
        (b'{"argv": ["rm"]}', 400, "unknown field `argv`"),
        (b'{"provider": "shm"}', 400, "Invalid enum value"),
        (b'{"seconds": "long"}', 400, "Expected `float`"),
        (b" " * 20000, 413, "more than 16 KiB"),
    ],
)
async def test_orders_that_are_none(token: Path, body: bytes, status: int, sentence: str) -> None:
    async with agent(token) as (client, scripted, _):
        response = await client.post("/v1/probe/server", content=body, headers=BEARER)
    assert response.status_code == status
    assert sentence in response.text
    assert scripted.orders == []


async def test_refusals_in_words(token: Path) -> None:
    async with agent(token) as (client, scripted, _):
        scripted.error = BusyError("busy: another probe is under way")
        response = await client.post("/v1/probe/server", json=SPEC, headers=BEARER)
        assert (response.status_code, response.text) == (409, f"{scripted.error}\n")
        scripted.error = ProbeError("the server side does not start: no")
        response = await client.post("/v1/probe/server", json=SPEC, headers=BEARER)
        assert (response.status_code, response.text) == (422, f"{scripted.error}\n")


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.8.8.8", "169.254.169.254", "0.0.0.0", "224.0.0.1", "localhost"]
)
async def test_addresses_that_only_the_node_itself_may_reach(
    token: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    elsewhere = Address("10.0.0.5", 5000)
    monkeypatch.setattr(Request, "client", property(lambda _: elsewhere))
    async with agent(token) as (client, scripted, _):
        for peer, own in ((address, ""), ("10.0.0.2", address)):
            order = {"spec": SPEC, "peer": peer, "server": SERVED | {"address": own}}
            response = await client.post("/v1/probe/client", json=order, headers=BEARER)
            assert response.status_code == 403
            assert response.text.startswith("no probe to ")
        assert scripted.orders == []
        order = {"spec": SPEC, "peer": "10.0.0.2", "server": SERVED}
        response = await client.post("/v1/probe/client", json=order, headers=BEARER)
        assert response.status_code == 200


async def test_a_name_that_is_not_known_is_a_result(token: Path) -> None:
    order = {"spec": SPEC, "peer": "nosuch.invalid", "server": SERVED}
    async with agent(token) as (client, scripted, _):
        response = await client.post("/v1/probe/client", json=order, headers=BEARER)
    (result,) = msgspec.json.decode(response.content, type=list[ProbeResult])
    assert result.error.startswith("nosuch.invalid: host name does not resolve (")
    assert (result.faulty_side, scripted.orders) == ("client", [])


async def test_whoever_hangs_up_ends_the_probe(token: Path) -> None:
    async with agent(token) as (client, scripted, _):
        scripted.hang = True
        order = {"spec": SPEC, "peer": "127.0.0.1", "server": SERVED}
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v1/probe/client", json=order, headers=BEARER, timeout=0.5)
        await asyncio.wait_for(scripted.cancelled.wait(), 5)


async def test_passwords_leave_these_pages_to_the_token(token: Path, tmp_path: Path) -> None:
    import bcrypt

    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    file = tmp_path / "web.yml"
    file.write_text(f"basic_auth_users:\n  ada: {hashed}\n")
    async with agent(token, Access(file, print)) as (client, _, _):
        assert (await client.get("/v1/inspection", headers=BEARER)).status_code == 200
        assert (await client.get("/v1/inspection", auth=("ada", "secret"))).status_code == 401
        assert (await client.get("/v1/inventory", headers=BEARER)).status_code == 401
        assert (await client.get("/v1/inspectionx", headers=BEARER)).status_code == 401


@pytest.mark.skipif(not shutil.which("fi_pingpong"), reason="needs libfabric-bin")
async def test_real_probes(token: Path) -> None:
    host = LocalHost(Settings(), "trn-001")
    async with serving(app_of(host, token)) as (client, _):
        served = (await client.post("/v1/probe/server", json=SPEC, headers=BEARER)).json()
        busy = await client.post("/v1/probe/server", json=SPEC, headers=BEARER)
        assert busy.status_code == 409
        assert "another probe is under way, for" in busy.text
        order = {"spec": SPEC, "peer": "127.0.0.1", "server": served}
        response = await client.post("/v1/probe/client", json=order, headers=BEARER, timeout=20)
        results = msgspec.json.decode(response.content, type=list[ProbeResult])
        assert results[0].seconds
        path = f"/v1/probe/server/{served['id']}"
        assert (await client.delete(path, headers=BEARER)).json() == ""
    await host.close()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "trntop", "export", "sim:healthy?nodes=1", *arguments]


def started(*arguments: str) -> subprocess.Popen[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": "/nosuch"}
    return subprocess.Popen(
        command("--listen", "127.0.0.1:0", *arguments),
        stderr=subprocess.PIPE, text=True, env=environ,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--allow-probes"], "--allow-probes needs --probe-token-file"),
        (["--probe-token-file", "x"], "--probe-token-file needs --allow-probes"),
        (["--allow-probes", "--probe-token-file", "/nosuch"], "/nosuch: No such file"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], sentence: str) -> None:
    with started(*arguments) as process:
        assert process.stderr is not None
        assert sentence in process.stderr.read()
        assert process.wait(10) == 2


@pytest.mark.skipif(not shutil.which("fi_pingpong"), reason="needs libfabric-bin")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_that_stops_leaves_nothing_running(token: Path, number: signal.Signals) -> None:
    with started("--allow-probes", "--probe-token-file", str(token)) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "serving" in line)
            base = line.split()[2].removesuffix("/metrics")
            with httpx.Client(base_url=base, trust_env=False, timeout=20) as client:
                inspection = client.get("/v1/inspection", headers=BEARER).json()
                assert inspection["simulated"] is True
                client.post("/v1/probe/server", json=SPEC | {"seconds": 60}, headers=BEARER)
            tools = psutil.Process(process.pid).children(recursive=True)
            assert [tool.name() for tool in tools] == ["fi_pingpong"]
            process.send_signal(number)
            process.wait(10)
            assert psutil.wait_procs(tools, 5)[1] == []
        finally:
            process.kill()
