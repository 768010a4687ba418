"""What the agent sends to its clients."""

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


class StreamReader:
    """Listens to one response."""

    def __init__(self, response: httpx.Response) -> None:
        self._chunks = response.aiter_raw()
        self._deframer = FrameReader()
        self._decoders: dict[str, FrameDecoder] = {}
        self.messages: list[wire.Head] = []

    async def views(self, count: int) -> list[NodeView]:
        """The next so many views."""
        found: list[NodeView] = []
        async with asyncio.timeout(5):
            while len(found) < count:
                found += self._receive(await anext(self._chunks))
        return found

    async def until_gone(self) -> None:
        """Until a message removes a node."""
        async with asyncio.timeout(5):
            while not any(head.type == wire.GONE for head in self.messages):
                self._receive(await anext(self._chunks))

    async def ends(self) -> bool:
        """Whether the response comes to its end."""
        async with asyncio.timeout(5):
            async for chunk in self._chunks:
                self._receive(chunk)
        return True

    def _receive(self, chunk: bytes) -> list[NodeView]:
        found = []
        for message in self._deframer.feed(chunk):
            if message:
                head = wire.head(message)
                self.messages.append(head)
                decoder = self._decoders.setdefault(head.node, FrameDecoder(head.node))
                if view := decoder.decode(message):
                    found.append(view)
        return found


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client


class TestStream:
    async def test_each_view_is_sent_once(self, client: httpx.AsyncClient) -> None:
        async with agent() as fake, client.stream("GET", f"{fake.address}/v1/stream") as response:
            assert response.status_code == 200
            assert response.headers["content-type"] == wire.CONTENT_TYPE
            assert response.headers["cache-control"] == "no-store"
            reader = StreamReader(response)
            assert fake.view is not None
            (first,) = await reader.views(1)
            assert first.frame.time == fake.view.time
            fake.tick()
            (second,) = await reader.views(1)
            assert second.frame.time == first.frame.time + 1
            assert [head.type for head in reader.messages] == [
                "announcement",
                "held",
                *["frame"] * 2,
            ]

    async def test_some_nodes_of_several(self, client: httpx.AsyncClient) -> None:
        async with (
            agent(make_view(4)) as fake,
            client.stream("GET", f"{fake.address}/v1/stream?nodes=trn-001,trn-003,x") as response,
        ):
            reader = StreamReader(response)
            assert [view.name for view in await reader.views(2)] == ["trn-001", "trn-003"]
            assert reader.messages[0].nodes == 4

    async def test_only_what_rules_and_roll_ups_read(self, client: httpx.AsyncClient) -> None:
        async with agent(make_view(1)) as fake:
            url = f"{fake.address}/v1/stream"
            async with (
                client.stream("GET", f"{url}?columns=rules") as lean,
                client.stream("GET", url) as full,
            ):
                (some,), (every,) = (
                    await StreamReader(lean).views(1),
                    await StreamReader(full).views(1),
                )
        kept, known = some.frame.columns.keys(), every.frame.columns.keys()
        assert kept == known & rule_columns()
        nodes = {name for name in known if CATALOG[name].entity is Entity.NODE}
        assert kept >= nodes | {"neuroncore_utilization_ratio", "efa_retrans_pkts_total"}
        assert known - kept >= {"device_power_watts"} & known
        assert kept < known
        assert some.inventory.keys == every.inventory.keys

    async def test_a_frame_each_few_seconds(self, client: httpx.AsyncClient) -> None:
        async with (
            agent(make_view(1)) as fake,
            client.stream("GET", f"{fake.address}/v1/stream?period=4") as slow,
            client.stream("GET", f"{fake.address}/v1/stream") as quick,
        ):
            seldom, often = StreamReader(slow), StreamReader(quick)
            views = await seldom.views(1)
            await often.views(1)
            for _ in range(9):
                fake.tick()
                await often.views(1)
            views += await seldom.views(2)
        assert [view.frame.time - NOON for view in views] == [0.0, 4.0, 8.0]
        assert next(head.period for head in seldom.messages if head.period) == 4.0
        assert fake.streams._skipped == 0

    @pytest.mark.parametrize("period", ["", "0", "-3", "x", "1e9", "99999999999"])
    async def test_periods_that_are_none(self, client: httpx.AsyncClient, period: str) -> None:
        url = f"/v1/stream?period={period}"
        async with agent() as fake, client.stream("GET", f"{fake.address}{url}") as response:
            reader = StreamReader(response)
            await reader.views(1)
            assert 1.0 <= reader.messages[0].period <= wire.MAX_PERIOD

    async def test_a_node_that_leaves_is_gone(self, client: httpx.AsyncClient) -> None:
        async with (
            agent(make_view(2)) as fake,
            client.stream("GET", f"{fake.address}/v1/stream") as response,
        ):
            reader = StreamReader(response)
            await reader.views(2)
            assert fake.view is not None
            left = dict(list(fake.view.cluster.nodes.items())[:1])
            fake.show(
                dataclasses.replace(moved(fake.view, 1), cluster=Cluster(fake.view.time, left))
            )
            await reader.until_gone()
            assert [head.node for head in reader.messages if head.type == wire.GONE] == ["trn-001"]

    async def test_newest_wins(self, client: httpx.AsyncClient) -> None:
        """A client that does not read gets no queue: after a while it gets the present."""
        async with agent(make_view(64, devices=8)) as fake:
            async with client.stream("GET", f"{fake.address}/v1/stream") as response:
                assert fake.view is not None
                start = fake.view.time
                for _ in range(200):
                    fake.tick()
                    await asyncio.sleep(0.005)
                reader = StreamReader(response)
                times = []
                async with asyncio.timeout(20):
                    while not times or times[-1] < start + 200:
                        times += [view.frame.time for view in await reader.views(1)]
                assert len(times) < 64 * 150
                assert times == sorted(times)
            inventory = (await client.get(f"{fake.address}/v1/inventory")).json()
            assert inventory["streams"]["skipped_total"] > 0
            assert inventory["streams"]["clients"] == 0

    async def test_fault_38_an_unread_stream_is_cut(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listening, "READ_SECONDS", 1)
        async with agent(make_view(64, devices=8)) as fake:
            reader, writer = await asyncio.open_connection("127.0.0.1", fake.port, limit=1024)
            writer.write(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readline()
            async with asyncio.timeout(60):
                while fake.streams.clients:
                    fake.tick()
                    await asyncio.sleep(0.005)
            writer.transport.abort()

    async def test_it_outlasts_the_deadlines(
        self, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listening, "READ_SECONDS", 1)
        monkeypatch.setattr(_uvicorn, "HEAD_SECONDS", 0.2)
        async with agent() as fake, client.stream("GET", f"{fake.address}/v1/stream") as response:
            reader = StreamReader(response)
            await reader.views(1)
            for _ in range(12):
                await asyncio.sleep(0.1)
                fake.tick()
                await reader.views(1)

    async def test_it_ends_when_nothing_is_collected_any_more(
        self, client: httpx.AsyncClient
    ) -> None:
        async with agent() as fake, client.stream("GET", f"{fake.address}/v1/stream") as response:
            reader = StreamReader(response)
            await reader.views(1)
            fake.show(None)
            assert await reader.ends()
            answer = await client.get(f"{fake.address}/v1/stream")
            assert (answer.status_code, answer.text) == (503, "not collecting\n")

    async def test_it_lives_while_there_is_nothing_new(
        self, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stream, "KEEPALIVE_SECONDS", 0.02)
        async with agent() as fake, client.stream("GET", f"{fake.address}/v1/stream") as response:
            reader = StreamReader(response)
            await reader.views(1)
            async with asyncio.timeout(5):
                assert await anext(reader._chunks) == stream.EMPTY
            assert fake.view is not None
            # What has ended is kept, and is sent again.
            fake.show(dataclasses.replace(fake.view, ended=True))
            assert len(await reader.views(3)) == 3

    async def test_there_are_never_too_many(
        self, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stream, "MAX_STREAMS", 1)
        async with agent() as fake:
            url = f"{fake.address}/v1/stream"
            async with client.stream("GET", url) as response:
                await StreamReader(response).views(1)
                refused = await client.get(url)
                assert refused.status_code == 503
                assert refused.headers["retry-after"] == "10"
            await until(lambda: not fake.streams.clients)
            async with client.stream("GET", url) as response:
                assert response.status_code == 200

    async def test_nor_with_many_simultaneous_requests(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stream, "MAX_STREAMS", 3)
        async with agent() as fake:
            pairs = [await asyncio.open_connection("127.0.0.1", fake.port) for _ in range(20)]
            for _, writer in pairs:
                writer.write(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(5):
                heads = [await reader.readline() for reader, _ in pairs]
            assert sorted(Counter(heads).values()) == [3, 17]
            for _, writer in pairs:
                writer.transport.abort()
            await until(lambda: not fake.streams.clients)

    async def test_the_server_stops_all_the_same(self, client: httpx.AsyncClient) -> None:
        async with asyncio.timeout(5):
            async with agent() as fake:
                response = await client.send(
                    client.build_request("GET", f"{fake.address}/v1/stream"), stream=True
                )
                reader = StreamReader(response)
                await reader.views(1)
            assert await reader.ends()

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
            agent(access=access) as fake,
            httpx.AsyncClient(verify=trust, trust_env=False) as secure,
        ):
            url = f"https://127.0.0.1:{fake.port}/v1/stream"
            assert (await secure.get(url)).status_code == 401
            async with secure.stream("GET", url, auth=("ann", "secret")) as response:
                assert len(await StreamReader(response).views(1)) == 1


class TestFrame:
    async def test_the_newest_of_each_node(self, client: httpx.AsyncClient) -> None:
        async with agent(make_view(3)) as fake:
            answer = await client.get(f"{fake.address}/v1/frame")
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
        async with agent() as fake:
            answer = await client.get(f"{fake.address}/v1/frame", headers={"Accept": accept})
        assert (answer.headers["content-type"] == "application/json") is json_wanted
        if json_wanted:
            assert json.loads(answer.content)["nodes"][0]["node"] == "trn-000"

    async def test_some_nodes_of_several(self, client: httpx.AsyncClient) -> None:
        async with agent(make_view(4)) as fake:
            some = {"params": {"nodes": "trn-001,trn-003"}}
            url = f"{fake.address}/v1/frame"
            frames = (await client.get(url, **some)).content
            inventory = (
                await client.get(url, headers={"Accept": "application/json"}, **some)
            ).json()
            there = (await client.get(f"{fake.address}/v1/inventory", **some)).json()
        expected = ["trn-001", "trn-003"]
        heads = [wire.head(frame) for frame in FrameReader().feed(frames)]
        assert [head.node for head in heads if head.type == wire.FRAME] == expected
        assert [node["node"] for node in inventory["nodes"]] == expected
        assert [node["node"] for node in there["nodes"]] == expected

    async def test_without_a_view(self, client: httpx.AsyncClient) -> None:
        async with agent() as fake:
            fake.show(None)
            assert (await client.get(f"{fake.address}/v1/frame")).status_code == 503
            inventory = (await client.get(f"{fake.address}/v1/inventory")).json()
            assert (inventory["time"], inventory["nodes"]) == (None, [])


async def test_the_inventory(client: httpx.AsyncClient) -> None:
    async with agent(make_view(2)) as fake:
        inventory = (await client.get(f"{fake.address}/v1/inventory")).json()
        landing = (await client.get(fake.address)).text
    assert [node["node"] for node in inventory["nodes"]] == ["trn-000", "trn-001"]
    assert inventory["nodes"][0]["instance_type"] == "trn2.48xlarge"
    assert inventory["nodes"][0]["parts"]["device"] == [0, 1]
    assert inventory["period_seconds"] == 1
    assert all(f'href="/v1/{page}"' in landing for page in ("inventory", "frame", "stream"))
