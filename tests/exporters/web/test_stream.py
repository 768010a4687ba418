"""What the agent tells those who listen."""

import asyncio
import dataclasses
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import bcrypt
import httpx
import pytest

from tests.agents import agent, moved, until
from tests.builders import NOON, make_view
from tests.serving import Authority
from trntop.analysis.rule_inputs import rule_columns
from trntop.catalog import CATALOG, Entity
from trntop.core.model import Cluster, NodeView
from trntop.exporters.web import _uvicorn, listening, stream
from trntop.exporters.web.access import Access
from trntop.remote import wire
from trntop.remote.wire import FrameDecoder, FrameReader


class Ear:
    """Listens to one response."""

    def __init__(self, response: httpx.Response) -> None:
        self._chunks = response.aiter_raw()
        self._deframer = FrameReader()
        self._listeners: dict[str, FrameDecoder] = {}
        self.messages: list[wire.Head] = []

    async def views(self, count: int) -> list[NodeView]:
        """The next so many views."""
        found: list[NodeView] = []
        async with asyncio.timeout(5):
            while len(found) < count:
                found += self._take(await anext(self._chunks))
        return found

    async def until_gone(self) -> None:
        """Until a message says that a node is gone."""
        async with asyncio.timeout(5):
            while not any(head.type == wire.GONE for head in self.messages):
                self._take(await anext(self._chunks))

    async def ends(self) -> bool:
        """Whether the response comes to its end."""
        async with asyncio.timeout(5):
            async for chunk in self._chunks:
                self._take(chunk)
        return True

    def _take(self, chunk: bytes) -> list[NodeView]:
        found = []
        for message in self._deframer.feed(chunk):
            if message:
                head = wire.head(message)
                self.messages.append(head)
                listener = self._listeners.setdefault(head.node, FrameDecoder(head.node))
                if view := listener.decode(message):
                    found.append(view)
        return found


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as one:
        yield one


class TestStream:
    async def test_each_view_is_told_once(self, client: httpx.AsyncClient) -> None:
        async with agent() as one, client.stream("GET", f"{one.address}/v1/stream") as response:
            assert response.status_code == 200
            assert response.headers["content-type"] == wire.CONTENT_TYPE
            assert response.headers["cache-control"] == "no-store"
            ear = Ear(response)
            assert one.view is not None
            (first,) = await ear.views(1)
            assert first.frame.time == one.view.time
            one.tick()
            (second,) = await ear.views(1)
            assert second.frame.time == first.frame.time + 1
            assert [head.type for head in ear.messages] == ["announcement", "held", *["frame"] * 2]

    async def test_some_nodes_of_several(self, client: httpx.AsyncClient) -> None:
        async with (
            agent(make_view(4)) as one,
            client.stream("GET", f"{one.address}/v1/stream?nodes=trn-001,trn-003,x") as response,
        ):
            ear = Ear(response)
            assert [view.name for view in await ear.views(2)] == ["trn-001", "trn-003"]
            assert ear.messages[0].nodes == 4

    async def test_only_what_rules_and_roll_ups_read(self, client: httpx.AsyncClient) -> None:
        async with agent(make_view(1)) as one:
            url = f"{one.address}/v1/stream"
            async with (
                client.stream("GET", f"{url}?columns=rules") as lean,
                client.stream("GET", url) as full,
            ):
                (some,), (every,) = await Ear(lean).views(1), await Ear(full).views(1)
        kept, known = some.frame.columns.keys(), every.frame.columns.keys()
        assert kept == known & rule_columns()
        nodes = {name for name in known if CATALOG[name].entity is Entity.NODE}
        assert kept >= nodes | {"neuroncore_utilization_ratio", "efa_retrans_pkts_total"}
        assert known - kept >= {"device_power_watts"} & known
        assert kept < known
        assert some.inventory.keys == every.inventory.keys

    async def test_a_frame_each_few_seconds(self, client: httpx.AsyncClient) -> None:
        async with (
            agent(make_view(1)) as one,
            client.stream("GET", f"{one.address}/v1/stream?period=4") as slow,
            client.stream("GET", f"{one.address}/v1/stream") as quick,
        ):
            seldom, often = Ear(slow), Ear(quick)
            views = await seldom.views(1)
            await often.views(1)
            for _ in range(9):
                one.tick()
                await often.views(1)
            views += await seldom.views(2)
        assert [view.frame.time - NOON for view in views] == [0.0, 4.0, 8.0]
        assert next(head.period for head in seldom.messages if head.period) == 4.0
        assert one.streams._skipped == 0

    @pytest.mark.parametrize("period", ["", "0", "-3", "x", "1e9", "99999999999"])
    async def test_periods_that_are_none(self, client: httpx.AsyncClient, period: str) -> None:
        url = f"/v1/stream?period={period}"
        async with agent() as one, client.stream("GET", f"{one.address}{url}") as response:
            ear = Ear(response)
            await ear.views(1)
            assert 1.0 <= ear.messages[0].period <= wire.MAX_PERIOD

    async def test_a_node_that_leaves_is_gone(self, client: httpx.AsyncClient) -> None:
        async with (
            agent(make_view(2)) as one,
            client.stream("GET", f"{one.address}/v1/stream") as response,
        ):
            ear = Ear(response)
            await ear.views(2)
            assert one.view is not None
            left = dict(list(one.view.cluster.nodes.items())[:1])
            one.show(dataclasses.replace(moved(one.view, 1), cluster=Cluster(one.view.time, left)))
            await ear.until_gone()
            assert [head.node for head in ear.messages if head.type == wire.GONE] == ["trn-001"]

    async def test_newest_wins(self, client: httpx.AsyncClient) -> None:
        """A client that does not read gets no queue: after a while it hears the present."""
        async with agent(make_view(64, devices=8)) as one:
            async with client.stream("GET", f"{one.address}/v1/stream") as response:
                assert one.view is not None
                start = one.view.time
                for _ in range(200):
                    one.tick()
                    await asyncio.sleep(0.005)
                ear = Ear(response)
                times = []
                async with asyncio.timeout(20):
                    while not times or times[-1] < start + 200:
                        times += [view.frame.time for view in await ear.views(1)]
                assert len(times) < 64 * 150
                assert times == sorted(times)
            told = (await client.get(f"{one.address}/v1/inventory")).json()
            assert told["streams"]["skipped_total"] > 0
            assert told["streams"]["clients"] == 0

    async def test_fault_38_a_stream_that_nobody_reads_is_cut(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listening, "READ_SECONDS", 1)
        async with agent(make_view(64, devices=8)) as one:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port, limit=1024)
            writer.write(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readline()
            async with asyncio.timeout(60):
                while one.streams.clients:
                    one.tick()
                    await asyncio.sleep(0.005)
            writer.transport.abort()

    async def test_it_outlasts_the_deadlines(
        self, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listening, "READ_SECONDS", 1)
        monkeypatch.setattr(_uvicorn, "HEAD_SECONDS", 0.2)
        async with agent() as one, client.stream("GET", f"{one.address}/v1/stream") as response:
            ear = Ear(response)
            await ear.views(1)
            for _ in range(12):
                await asyncio.sleep(0.1)
                one.tick()
                await ear.views(1)

    async def test_it_ends_when_nothing_is_collected_any_more(
        self, client: httpx.AsyncClient
    ) -> None:
        async with agent() as one, client.stream("GET", f"{one.address}/v1/stream") as response:
            ear = Ear(response)
            await ear.views(1)
            one.show(None)
            assert await ear.ends()
            answer = await client.get(f"{one.address}/v1/stream")
            assert (answer.status_code, answer.text) == (503, "not collecting\n")

    async def test_it_lives_while_there_is_nothing_new(
        self, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stream, "KEEPALIVE_SECONDS", 0.02)
        async with agent() as one, client.stream("GET", f"{one.address}/v1/stream") as response:
            ear = Ear(response)
            await ear.views(1)
            async with asyncio.timeout(5):
                assert await anext(ear._chunks) == stream.EMPTY
            assert one.view is not None
            # What has ended stands, and is said again.
            one.show(dataclasses.replace(one.view, ended=True))
            assert len(await ear.views(3)) == 3

    async def test_there_are_never_too_many(
        self, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stream, "MAX_STREAMS", 1)
        async with agent() as one:
            url = f"{one.address}/v1/stream"
            async with client.stream("GET", url) as response:
                await Ear(response).views(1)
                refused = await client.get(url)
                assert refused.status_code == 503
                assert refused.headers["retry-after"] == "10"
            await until(lambda: not one.streams.clients)
            async with client.stream("GET", url) as response:
                assert response.status_code == 200

    async def test_nor_when_many_ask_in_one_moment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stream, "MAX_STREAMS", 3)
        async with agent() as one:
            pairs = [await asyncio.open_connection("127.0.0.1", one.port) for _ in range(20)]
            for _, writer in pairs:
                writer.write(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(5):
                heads = [await reader.readline() for reader, _ in pairs]
            assert sorted(Counter(heads).values()) == [3, 17]
            for _, writer in pairs:
                writer.transport.abort()
            await until(lambda: not one.streams.clients)

    async def test_the_server_stops_all_the_same(self, client: httpx.AsyncClient) -> None:
        async with asyncio.timeout(5):
            async with agent() as one:
                response = await client.send(
                    client.build_request("GET", f"{one.address}/v1/stream"), stream=True
                )
                ear = Ear(response)
                await ear.views(1)
            assert await ear.ends()

    async def test_behind_tls_and_a_password(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        certificate, key = authority.issue("server", "127.0.0.1")
        hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
        web = tmp_path / "web.yml"
        web.write_text(
            f"tls_server_config: {{cert_file: {certificate}, key_file: {key}}}\n"
            f"basic_auth_users: {{ann: {hashed}}}\n"
        )
        access = Access(web, lambda _: None)
        trust = authority.trust()
        async with (
            agent(access=access) as one,
            httpx.AsyncClient(verify=trust, trust_env=False) as secure,
        ):
            url = f"https://127.0.0.1:{one.port}/v1/stream"
            assert (await secure.get(url)).status_code == 401
            async with secure.stream("GET", url, auth=("ann", "secret")) as response:
                assert len(await Ear(response).views(1)) == 1


class TestFrame:
    async def test_the_newest_of_each_node(self, client: httpx.AsyncClient) -> None:
        async with agent(make_view(3)) as one:
            answer = await client.get(f"{one.address}/v1/frame")
            assert answer.headers["content-type"] == wire.CONTENT_TYPE
            assert answer.headers["vary"] == "Accept"
        names = set()
        for message in FrameReader().feed(answer.content):
            names.add(wire.head(message).node)
        assert names == {"trn-000", "trn-001", "trn-002"}

    @pytest.mark.parametrize(
        ("accept", "json_wanted"),
        [
            ("application/json", True),
            ("application/json, */*;q=0.1", True),
            ("*/*", False),
            (f"{wire.CONTENT_TYPE}, application/json;q=0.5", False),
            ("application/json;q=0", False),
        ],
    )
    async def test_in_json(self, client: httpx.AsyncClient, accept: str, json_wanted: bool) -> None:
        async with agent() as one:
            answer = await client.get(f"{one.address}/v1/frame", headers={"Accept": accept})
        assert (answer.headers["content-type"] == "application/json") is json_wanted
        if json_wanted:
            assert json.loads(answer.content)["nodes"][0]["node"] == "trn-000"

    async def test_some_nodes_of_several(self, client: httpx.AsyncClient) -> None:
        async with agent(make_view(4)) as one:
            some = {"params": {"nodes": "trn-001,trn-003"}}
            url = f"{one.address}/v1/frame"
            frames = (await client.get(url, **some)).content
            told = (await client.get(url, headers={"Accept": "application/json"}, **some)).json()
            there = (await client.get(f"{one.address}/v1/inventory", **some)).json()
        expected = ["trn-001", "trn-003"]
        heads = [wire.head(one) for one in FrameReader().feed(frames)]
        assert [head.node for head in heads if head.type == wire.FRAME] == expected
        assert [node["node"] for node in told["nodes"]] == expected
        assert [node["node"] for node in there["nodes"]] == expected

    async def test_without_a_view(self, client: httpx.AsyncClient) -> None:
        async with agent() as one:
            one.show(None)
            assert (await client.get(f"{one.address}/v1/frame")).status_code == 503
            told = (await client.get(f"{one.address}/v1/inventory")).json()
            assert (told["time"], told["nodes"]) == (None, [])


async def test_the_inventory(client: httpx.AsyncClient) -> None:
    async with agent(make_view(2)) as one:
        told = (await client.get(f"{one.address}/v1/inventory")).json()
        landing = (await client.get(one.address)).text
    assert [node["node"] for node in told["nodes"]] == ["trn-000", "trn-001"]
    assert told["nodes"][0]["instance_type"] == "trn2.48xlarge"
    assert told["nodes"][0]["parts"]["device"] == [0, 1]
    assert told["period_seconds"] == 1
    assert all(f'href="/v1/{page}"' in landing for page in ("inventory", "frame", "stream"))
