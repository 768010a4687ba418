"""The past of an agent, recorded whether or not anybody is connected."""

import dataclasses
import itertools

import httpx
import pytest
import zstandard

from tests.agents import agent, moved
from tests.builders import make_view
from trntop.catalog import CATALOG, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import NodeView, View
from trntop.exporters.web import history
from trntop.exporters.web.history import HistoryBuffer
from trntop.remote import backfill, wire
from trntop.remote.wire import FrameDecoder, FrameReader


def record(recorded: HistoryBuffer, view: View, seconds: int) -> View:
    for _ in range(seconds):
        recorded.append(view)
        view = moved(view, 1.0)
    return view


def blocks(data: bytes) -> list[backfill.Block]:
    return [backfill.decode(message) for message in FrameReader().feed(data)]


def times(block: backfill.Block) -> list[float]:
    return sorted({time for time, _, _ in backfill.frames(block)})


def received(
    recorded: HistoryBuffer, seconds: float = backfill.SECONDS, **options: bool
) -> list[backfill.Block]:
    return blocks(b"".join(recorded.blocks(None, seconds, **options)))


def views(found: list[backfill.Block]) -> list[NodeView]:
    decoder = FrameDecoder("n")
    messages = [message for block in found for message in backfill.messages(block)]
    return [view for message in messages if (view := decoder.decode(message)) is not None]


def test_each_tick_of_the_newest_minutes_and_each_step_of_the_rest() -> None:
    recorded = HistoryBuffer(1.0)
    view = make_view(1, time=8000.0)
    record(recorded, view, 1200)
    found = received(recorded)
    dense = [time for block in found if block.period == 1.0 for time in times(block)]
    sparse = [time for block in found if block.period == backfill.STEP for time in times(block)]
    begin = 9199.0 - backfill.DENSE_SECONDS
    assert dense == [float(time) for time in range(int(dense[0]), 9200)]
    assert begin - history.BLOCK <= dense[0] <= begin
    assert {after - before for before, after in itertools.pairwise(sparse)} == {4.0}
    begin = 9196.0 - backfill.SECONDS
    assert begin - history.BLOCK * backfill.STEP <= sparse[0] <= begin


def test_each_block_can_be_decoded_alone() -> None:
    recorded = HistoryBuffer(1.0)
    view = make_view(1, columns={"node_memory_total_bytes": [7.0]})
    record(recorded, view, 2 * history.BLOCK + 5)
    for block in received(recorded):
        (first, *_) = views([block])
        assert first.frame.time == block.begin
        assert first.frame.value("node_memory_total_bytes") == 7.0


def test_it_has_what_rules_and_charts_read() -> None:
    recorded = HistoryBuffer(1.0)
    record(recorded, make_view(1), 2)
    names = views(received(recorded))[0].frame.columns.keys()
    assert {"node_hbm_bandwidth_ratio", "neuroncore_utilization_ratio"} <= names
    assert "neuroncore_hbm_bandwidth_ratio" not in names


def test_many_nodes_are_recorded_at_steps_without_their_cores() -> None:
    recorded = HistoryBuffer(1.0, aggregator=True)
    record(recorded, make_view(backfill.DENSE_NODES + 1), 20)
    found = received(recorded)
    assert {block.period for block in found} == {backfill.STEP}
    assert len({block.node for block in found}) == backfill.DENSE_NODES + 1
    columns = views([found[0]])[0].frame.columns
    assert not any(CATALOG[name].entity is Entity.CORE for name in columns)


def test_it_is_shorter_rather_than_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_BYTES", 1)
    recorded = HistoryBuffer(1.0)
    record(recorded, make_view(1, time=8000.0), 1200)
    first, *_ = received(recorded, dense=False)
    assert first.begin > 9199.0 - backfill.SECONDS / 2


def test_nodes_that_are_gone_and_other_times_are_dropped() -> None:
    recorded = HistoryBuffer(1.0)
    view = record(recorded, make_view(2, time=8000.0), 10)
    part = dataclasses.replace(
        view.cluster, nodes=dict(list(view.cluster.nodes.items())[:1]), time=view.time
    )
    recorded.append(dataclasses.replace(view, cluster=part))
    assert {block.node for block in received(recorded)} == set(part.nodes)
    recorded.append(make_view(2, time=100.0))
    assert {block.begin for block in received(recorded)} == {100.0}


class TestPage:
    async def test_it_is_served_with_the_time_of_the_views(self) -> None:
        async with agent(make_view(2, time=5000.0)) as fake, httpx.AsyncClient() as client:
            for _ in range(90):
                fake.tick()
            response = await client.get(f"{fake.address}/v1/history")
            assert response.headers["content-type"] == backfill.CONTENT_TYPE
            assert 5090.0 <= float(response.headers[backfill.CLOCK_HEADER]) < 5100.0
            found = blocks(response.content)
            assert {block.node for block in found} == {"trn-000", "trn-001"}
            assert max(block.end for block in found) == 5090.0
            query = "?nodes=trn-001&seconds=20&sparse"
            response = await client.get(f"{fake.address}/v1/history{query}")
            (block,) = blocks(response.content)
            assert (block.node, block.period) == ("trn-001", backfill.STEP)
            assert (await client.get(f"{fake.address}/v1/history?seconds=x")).status_code == 400

    async def test_without_views_it_is_empty(self) -> None:
        async with agent() as fake, httpx.AsyncClient() as client:
            assert (await client.get(f"{fake.address}/v1/history")).content == b""


class TestBlocks:
    def test_what_is_none(self) -> None:
        block = backfill.decode(backfill.pack("n", [wire.gone("n"), _frame()], 1.0))
        for data in (b"", b"\x80", wire.gone("n")):
            with pytest.raises(DecodeError):
                backfill.decode(data)
        for messages in (b"garbage", block.messages[:-9]):
            with pytest.raises(DecodeError):
                backfill.messages(backfill.Block(1, "n", 1.0, 1.0, 1.0, messages))

    def test_a_block_that_would_be_too_large(self) -> None:
        bomb = zstandard.ZstdCompressor().compress(bytes(backfill.MAX_BLOCK + 1))
        with pytest.raises(DecodeError, match="8,388,609"):
            backfill.messages(backfill.Block(1, "n", 1.0, 1.0, 1.0, bomb))


def _frame() -> bytes:
    (node,) = make_view(1).cluster.nodes.values()
    return wire.FrameEncoder("n", 1.0).messages(node)[1]
