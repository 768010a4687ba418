"""The probes of the newest check reach a running dashboard."""

import asyncio
import json
from pathlib import Path

import msgspec

from tests.builders import make_node, view_of
from tests.check.fleet import NOW, Fleet
from tests.collectors.recording_sink import RecordingSink
from trntop.check.readings import save
from trntop.check.result import Check
from trntop.collectors.checks import SavedCheck
from trntop.core.model import View
from trntop.sources import probe

FILE = "check.jsonl"


class Sink(RecordingSink):
    def now(self) -> float:
        return NOW + 60


def at(check: Check, hours: float) -> Check:
    probe_runs = [
        msgspec.structs.replace(run, time=run.time + 3600 * hours) for run in check.probe_runs
    ]
    return msgspec.structs.replace(check, started=NOW + 3600 * hours, probe_runs=probe_runs)


def showing(*names: str) -> View:
    return view_of(*(make_node(name=name) for name in names))


async def write_check(path: Path, sink: Sink, shown: list[str], enough: int) -> None:
    collector = SavedCheck(path, period=0.01)
    collector(showing(*shown))
    task = asyncio.create_task(collector.run(sink))
    try:
        await sink.until(lambda: len(sink.readings) >= enough)
        await asyncio.sleep(0.05)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_nodes_that_are_shown_get_what_they_probed_once(tmp_path: Path) -> None:
    sink = Sink()
    save(Fleet(4).run(), tmp_path / FILE)
    asyncio.run(write_check(tmp_path / FILE, sink, ["trn-001", "trn-003"], 3))
    assert sorted({reading.node for reading in sink.readings}) == ["trn-001", "trn-003"]
    assert len(sink.readings) == 3  # 1>2, 3>4, 1>3
    sample = probe.decode(sink.readings[0].data)
    assert sample.columns["link_latency_seconds"].tolist() == [20e-6]
    assert json.loads(sink.readings[0].data)["results"][0]["peer"] == "trn-002"


def test_a_check_that_is_made_meanwhile_and_a_node_that_joins(tmp_path: Path) -> None:
    async def watched() -> None:
        sink = Sink()
        collector = SavedCheck(tmp_path / "none yet" / FILE, period=0.01)
        task = asyncio.create_task(collector.run(sink))
        try:
            await asyncio.sleep(0.05)
            save(check, tmp_path / "none yet" / FILE)
            await asyncio.sleep(0.05)
            assert not sink.readings
            collector(showing("trn-001"))
            await sink.until(lambda: len(sink.readings) == 2)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    check = Fleet(4).run()
    asyncio.run(watched())


def test_what_is_old_or_broken_is_not_shown(tmp_path: Path) -> None:
    sink = Sink()
    save(at(Fleet(4).run(), -1), tmp_path / FILE)
    asyncio.run(write_check(tmp_path / FILE, sink, Fleet(4).names, 0))
    (tmp_path / FILE).write_text("{")
    asyncio.run(write_check(tmp_path / FILE, sink, Fleet(4).names, 0))
    assert sink.readings == []
