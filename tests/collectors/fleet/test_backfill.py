"""The past of agents: taken once, before the stream, and never at its cost."""

import asyncio
import math
from collections.abc import Callable

import pytest

from tests.agents import FakeAgent, agent, answering, chunked, until, writing
from tests.builders import make_view
from tests.collectors.fleet.test_agents import watch
from tests.collectors.recording_sink import RecordingSink, running
from trntop.exporters.web.history import HistoryBuffer
from trntop.remote import backfill, wire


class Recaller(RecordingSink):
    """A sink of a session that has just started."""

    def __init__(self) -> None:
        super().__init__()
        self.wants_backfill = True

    def frames(self) -> list[float]:
        """Times of all frames by the agent's clock: of the past, then of the stream."""
        readings = [*(reading for each in self.backfills for reading in each), *self.readings]
        heads = [wire.head(reading.data) for reading in readings]
        return [head.time for head in heads if head.type == wire.FRAME]


async def ticked(fake: FakeAgent, count: int) -> None:
    for _ in range(count):
        fake.tick()


async def test_the_past_and_the_stream_have_each_frame_once() -> None:
    async with agent(make_view(1, time=5000.0)) as fake:
        await ticked(fake, 50)
        sink, collector = Recaller(), watch(fake.address)
        async with running(collector, sink):
            await collector.backfilled()
            fake.tick()
            await sink.until(lambda: sink.frames()[-1] == 5051.0)
    frames = sink.frames()
    assert frames[-50:] == [float(time) for time in range(5002, 5052)]
    assert len(set(frames)) == len(frames)


async def test_times_are_those_of_the_local_clock() -> None:
    async with agent(make_view(1, time=5000.0)) as fake:
        await ticked(fake, 9)
        sink, collector = Recaller(), watch(fake.address)
        async with running(collector, sink):
            await collector.backfilled()
            now = sink.now()
    (readings,) = sink.backfills
    assert now - 12.0 < readings[0].time < now - 8.0
    assert {reading.node for reading in readings} == {"n0"}


async def test_a_session_that_runs_already_takes_none() -> None:
    async with agent(make_view(1, time=5000.0)) as fake:
        await ticked(fake, 9)
        sink, collector = RecordingSink(), watch(fake.address)
        async with running(collector, sink):
            await collector.backfilled()
    assert sink.backfills == []


@pytest.mark.parametrize("broken", ["missing", "garbage", "clock"])
async def test_fault_23_an_agent_without_a_usable_past_streams(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_: dict[str, Callable[[FakeAgent], None]] = {
        "missing": lambda fake: fake.app.routes.remove(
            next(route for route in fake.app.routes if getattr(route, "path", "") == "/v1/history")
        ),
        "garbage": lambda _: monkeypatch.setattr(backfill, "pack", lambda *_: b"garbage"),
        "clock": lambda fake: setattr(fake.history, "_appended", -math.inf),
    }
    async with agent(make_view(1, time=5000.0)) as fake:
        await ticked(fake, 5)
        break_[broken](fake)
        sink, collector = Recaller(), watch(fake.address)
        async with running(collector, sink):
            await collector.backfilled()
            await sink.until(lambda: 5005.0 in sink.frames())
    assert sink.backfills == []


async def test_a_past_that_never_ends_does_not_stop_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requested, never = asyncio.Event(), asyncio.Event()

    async def hung(_self: HistoryBuffer, _request: object) -> None:
        requested.set()
        await never.wait()

    monkeypatch.setattr(HistoryBuffer, "_history", hung)
    async with agent(make_view(1, time=5000.0)) as fake:
        sink, collector = Recaller(), watch(fake.address)
        async with running(collector, sink):
            await requested.wait()
            fake.tick()
            await sink.until(lambda: 5001.0 in sink.frames())
        never.set()


async def test_nodes_that_are_down_or_no_agents_are_not_waited_for() -> None:
    page = chunked("text/html", b"<!DOCTYPE html>")
    async with answering(page) as other, writing(b"HTTP/1.1 503 X\r\n\r\n", []) as broken:
        collector = watch("http://127.0.0.1:1", other, broken)
        async with running(collector, Recaller()):
            async with asyncio.timeout(20):
                await collector.backfilled()


async def test_with_many_agents_the_past_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    from trntop.collectors.fleet import backfill as client

    monkeypatch.setattr(client, "MAX_FRAMES", 20)
    async with agent(make_view(2, time=5000.0)) as fake:
        await ticked(fake, 300)
        sink, collector = Recaller(), watch(fake.address)
        async with running(collector, sink):
            await collector.backfilled()
            await until(lambda: len(sink.backfills) == 2)
    begin = min(sink.frames())
    assert 5300.0 - 40.0 - 120.0 <= begin <= 5300.0 - 40.0
