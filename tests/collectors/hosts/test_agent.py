import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.serving import served
from trntop.check.model import (
    BusyError,
    Inspection,
    ProbeError,
    ProbeResult,
    ProbeServer,
    ProbeSpec,
    RefusedError,
    UnreachableError,
)
from trntop.collectors.fleet.target import Target
from trntop.collectors.hosts import agent
from trntop.collectors.hosts.agent import AgentHost, SharedClient
from trntop.core.settings import Fleet

SPEC = ProbeSpec(provider="tcp", seconds=0.5)
SEEN = Inspection(node="ip-10-42-0-1", time=1_800_000_000.0)
RESULT = ProbeResult(tool="fi_pingpong", peer="trn-002", seconds=2e-5)


class Stub:
    """Replaces an agent: responds as set, and records the requests."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.answer: Response | None = None
        """Instead of the right one."""
        self.hang = False
        self.slow = 0.0
        """Seconds before an answer."""
        self.left = asyncio.Event()
        """Set when a client leaves during its response."""
        paths = {
            "/v1/inspection": self._inspection,
            "/v1/probe/server": self._serve,
            "/v1/probe/server/{id}": self._end,
            "/v1/probe/client": self._probe,
        }
        methods = ["GET", "POST", "DELETE"]
        self.app = Starlette(
            routes=[Route(path, call, methods=methods) for path, call in paths.items()]
        )

    async def _given(self, request: Request, right: object) -> Response:
        token = request.headers.get("authorization", "")
        self.paths.append(f"{request.method} {request.url.path} {token}".strip())
        if self.hang:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            self.left.set()
        await asyncio.sleep(self.slow)
        return self.answer or Response(msgspec.json.encode(right), media_type="application/json")

    async def _inspection(self, request: Request) -> Response:
        return await self._given(request, SEEN)

    async def _serve(self, request: Request) -> Response:
        msgspec.json.decode(await request.body(), type=ProbeSpec)
        return await self._given(request, ProbeServer(id="a1", port=21001))

    async def _probe(self, request: Request) -> Response:
        order = msgspec.json.decode(await request.body())
        peer = order["peer"]
        assert order["spec"]["provider"] == "tcp"
        server = msgspec.convert(order["server"], ProbeServer)
        assert server == ProbeServer(id="a1", port=21001, address="127.0.0.1")
        return await self._given(request, [msgspec.structs.replace(RESULT, peer=peer)])

    async def _end(self, request: Request) -> Response:
        return await self._given(request, f"{request.path_params['id']} has no error")


@contextlib.asynccontextmanager
async def host_of(stub: Stub, fleet: Fleet | None = None) -> AsyncIterator[AgentHost]:
    async with served(stub.app) as port:
        target = Target("trn-001", f"http://127.0.0.1:{port}")
        host = AgentHost(target, SharedClient(fleet or Fleet()))
        try:
            yield host
        finally:
            await host.close()


async def test_a_node_is_inspected_and_probed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    stub = Stub()
    fleet = Fleet(token_file=str(token))
    async with host_of(stub, fleet) as host:
        inspection = await host.inspect()
        assert inspection.node == "ip-10-42-0-1"
        served_side = await host.serve(SPEC)
        assert served_side == ProbeServer(id="a1", port=21001, address="127.0.0.1")
        assert await host.probe(SPEC, "trn-002", served_side) == [RESULT]
        assert await host.end(served_side) == "a1 has no error"
    assert stub.paths == [
        f"{order} Bearer s3cret"
        for order in (
            "GET /v1/inspection",
            "POST /v1/probe/server",
            "POST /v1/probe/client",
            "DELETE /v1/probe/server/a1",
        )
    ]


async def test_what_still_runs_is_ended_at_the_end() -> None:
    stub = Stub()
    async with host_of(stub) as host:
        await host.serve(SPEC)
    assert stub.paths[-1] == "DELETE /v1/probe/server/a1"


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (
            PlainTextResponse("probes are off: start it with --allow-probes\n", 403),
            RefusedError,
            "probes are off: start it with --allow-probes",
        ),
        (Response(status_code=401), RefusedError, "its agent needs another token"),
        (Response(status_code=403), RefusedError, "its agent permits no probes"),
        (Response(status_code=404), ProbeError, "no trntop agent there"),
        (PlainTextResponse("busy: a probe by 10.0.0.9", 409), BusyError, "busy: a probe by"),
        (
            HTMLResponse("<html>Bad Gateway</html>", 502),
            ProbeError,
            "its agent responds with 502",
        ),
        (PlainTextResponse("no \x1b[31mroom", 500), ProbeError, "its agent responds with 500: no "),
        (
            PlainTextResponse("{}"),
            ProbeError,
            "the response of its agent is not valid: Object missing",
        ),
        (
            PlainTextResponse(b"\xff\xfe"),
            ProbeError,
            "the response of its agent is not valid",
        ),
        (PlainTextResponse("x" * (agent.MAX_BYTES + 1)), ProbeError, "is too long"),
    ],
)
async def test_an_invalid_response_has_a_reason(
    answer: Response, kind: type[ProbeError], text: str
) -> None:
    stub = Stub()
    stub.answer = answer
    async with host_of(stub) as host:
        with pytest.raises(ProbeError, match=r".") as caught:
            await host.inspect()
    assert type(caught.value) is kind
    assert text in str(caught.value)
    assert str(caught.value).isprintable()


async def test_an_agent_that_hangs_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "INSPECTION_SECONDS", 1.0)
    stub = Stub()
    async with host_of(stub) as host:
        stub.hang = True
        with pytest.raises(UnreachableError, match=r"no response from its agent within 1 s"):
            await host.inspect()
        await asyncio.wait_for(stub.left.wait(), 5)
        stub.hang = False


async def test_a_probe_that_is_given_up_hangs_up() -> None:
    stub = Stub()
    async with host_of(stub) as host:
        server = await host.serve(SPEC)
        stub.hang = True
        task = asyncio.create_task(host.probe(SPEC, "trn-002", server))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(stub.left.wait(), 5)
        stub.hang = False


async def test_a_server_side_that_is_given_up_while_it_starts_is_ended() -> None:
    stub = Stub()
    async with host_of(stub) as host:
        stub.slow = 0.2
        task = asyncio.create_task(host.serve(SPEC))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert stub.paths == ["POST /v1/probe/server", "DELETE /v1/probe/server/a1"]


async def test_no_server() -> None:
    host = AgentHost(Target("trn-001", "http://127.0.0.1:9"), SharedClient(Fleet()))
    with pytest.raises(UnreachableError, match="connection refused"):
        await host.inspect()
    await host.close()
    await host.close()


async def test_one_client_for_all_is_closed_with_the_last() -> None:
    client = SharedClient(Fleet())
    hosts = [AgentHost(Target(name, "http://127.0.0.1:9"), client) for name in ("one", "two")]
    await hosts[0].close()
    assert not client.session.closed
    await hosts[1].close()
    assert client.session.closed


async def test_a_file_of_secrets_that_has_gone_is_named(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    async with host_of(Stub(), Fleet(token_file=str(token))) as host:
        token.unlink()
        with pytest.raises(ProbeError, match=r"token: No such file") as caught:
            await host.inspect()
    assert "s3cret" not in str(caught.value)
