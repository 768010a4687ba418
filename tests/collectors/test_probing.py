import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.builders import make_view
from tests.collectors.recording_sink import RecordingSink, running
from trntop.catalog import PROBE
from trntop.check.model import (
    BusyError,
    Inspection,
    ProbeError,
    ProbeResult,
    ProbeServer,
    ProbeSpec,
)
from trntop.collectors import probing
from trntop.collectors.fleet import agents
from trntop.collectors.probes.turns import Turns
from trntop.collectors.probing import Probing, busy_reason, next_on_ring, own_name, probing_of, wait
from trntop.core.errors import UsageError
from trntop.core.model import State
from trntop.core.settings import Export, Fleet, Settings
from trntop.sources import probe as decode

SPEC = ProbeSpec(provider="tcp")
NAMES = [f"trn-{number:03d}" for number in range(1, 9)]


class Fake:
    """A host that answers at once, and remembers what it was asked."""

    def __init__(self, name: str, error: ProbeError | None = None) -> None:
        self.name = name
        self.error = error
        self.served: list[str] = []

    async def inspect(self) -> Inspection:
        raise NotImplementedError

    async def serve(self, spec: ProbeSpec) -> ProbeServer:
        self.served.append("serve")
        if self.error is not None:
            raise self.error
        return ProbeServer(id=self.name, port=7)

    async def probe(self, spec: ProbeSpec, peer: str, server: ProbeServer) -> list[ProbeResult]:
        self.served.append(f"probe {peer} {server.id}")
        if self.error is not None:
            raise self.error
        result = ProbeResult(tool=spec.tool, peer=peer, size_bytes=64, seconds=2e-5)
        return [result]

    async def end(self, server: ProbeServer) -> str:
        self.served.append(f"end {server.id}")
        return ""

    async def close(self) -> None:
        self.served.append("close")


def prober(here: Fake, *others: Fake, disturbed: Callable[[], str] = str) -> Probing:
    return Probing(here.name, here, others, 0.01, SPEC, lambda _: disturbed())


@pytest.mark.parametrize("count", [2, 3, 8])
def test_each_node_is_at_the_end_of_two_links(count: int) -> None:
    hosts = [Fake(f"trn-{number:03d}") for number in range(count)]
    partners = [next_on_ring(here, [host for host in hosts if host is not here]) for here in hosts]
    assert all(partner is not here for here, partner in zip(hosts, partners, strict=True))
    assert {partner.name for partner in partners if partner} == {host.name for host in hosts}


def test_turns_are_spread_and_do_not_follow_from_the_start() -> None:
    now, every = 1_800_000_000.0, 300.0
    turns = [now + wait(name, every, now) for name in NAMES]
    assert len({round(turn) for turn in turns}) == len(NAMES)
    for name, turn in zip(NAMES, turns, strict=True):
        assert 0 < turn - now <= every
        assert turn - 1 + wait(name, every, turn - 1) == pytest.approx(turn)


def test_a_node_has_one_turn_in_each_interval_and_meets_no_other_each_time() -> None:
    every, count = 300.0, 50
    turns: dict[str, list[float]] = {name: [1_800_000_000.0] for name in NAMES[:2]}
    for name, times in turns.items():
        for _ in range(count):
            times.append(times[-1] + wait(name, every, times[-1]))
        assert [int(time // every) for time in times[1:]] == [
            int(times[0] // every) + number for number in range(count)
        ]
    turn, other = turns.values()
    near = [abs(a - b) < 10 for a, b in zip(turn[1:], other[1:], strict=True)]
    assert sum(near) < count / 5


async def test_results_are_readings_of_source_probe() -> None:
    here, there = Fake("trn-001"), Fake("trn-002")
    sink = RecordingSink()
    async with running(prober(here, there), sink):
        await sink.until(lambda: len(sink.readings) >= 2 and len(sink.statuses) >= 2)
    assert {(reading.node, reading.source) for reading in sink.readings} == {("trn-001", PROBE)}
    assert decode.decode(sink.readings[0].data).part == "trn-002"
    assert sink.statuses[-1].state is State.FRESH
    assert sink.statuses[1].counts == {"probes": 2, "skipped": 0}
    # A server side is ended after its probe, and everything at the end.
    assert there.served[:2] == ["serve", "end trn-002"]
    assert [host.served[-1] for host in (here, there)] == ["close"] * 2


async def test_a_node_that_works_is_left_in_peace() -> None:
    here, there = Fake("trn-001"), Fake("trn-002")
    reasons = iter(["load 150.0 on 192 vCPUs"])
    sink = RecordingSink()
    async with running(prober(here, there, disturbed=lambda: next(reasons, "")), sink):
        await sink.until(lambda: sink.readings)
    assert sink.statuses[0].reason == "not probed: load 150.0 on 192 vCPUs"
    assert sink.statuses[0].counts == {"probes": 0, "skipped": 1}


async def test_a_busy_partner_is_no_failure() -> None:
    busy = Fake("trn-002", BusyError("trn-002: busy with a probe by 10.42.0.3"))
    sink = RecordingSink()
    async with running(prober(Fake("trn-001"), busy), sink):
        await sink.until(lambda: sink.statuses)
        assert sink.statuses[0].reason == "not probed: trn-002: busy with a probe by 10.42.0.3"
        assert not sink.readings


async def test_a_failed_probe_has_a_reason_and_no_latency() -> None:
    lost = Fake("trn-002", ProbeError("trn-002: connection refused"))
    sink = RecordingSink()
    async with running(prober(Fake("trn-001"), lost), sink):
        await sink.until(lambda: sink.readings)
    sample = decode.decode(sink.readings[0].data)
    assert np.isnan(sample.columns["link_latency_seconds"]).all()
    assert sample.problems == ("trn-002: trn-002: connection refused",)


async def test_a_server_side_is_ended_if_the_client_breaks() -> None:
    here, there = Fake("trn-001", ProbeError("fi_pingpong is not installed")), Fake("trn-002")
    sink = RecordingSink()
    async with running(prober(here, there), sink):
        await sink.until(lambda: sink.readings)
    assert there.served[:2] == ["serve", "end trn-002"]


async def test_without_peers_it_reports_it_and_ends() -> None:
    sink = RecordingSink()
    await asyncio.wait_for(prober(Fake("trn-001")).run(sink), 5)
    assert sink.reasons(State.DOWN) == ["--probe-peers names no other node"]


def test_a_node_is_disturbed_by_load_and_by_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing.os, "cpu_count", lambda: 192)
    monkeypatch.setattr(probing.os, "getloadavg", lambda: (100.0, 0.0, 0.0))
    view = make_view(1)
    (node,) = view.cluster.nodes.values()
    share = node.frame.columns["node_efa_tx_share_ratio"]
    assert busy_reason(view, node.name, 0.5) == "load 100.0 on 192 vCPUs"
    share[:] = 0.4
    assert busy_reason(view, node.name, 0.9) == "its EFA devices send at 40 % of their rate"
    share[:] = np.nan
    assert busy_reason(view, node.name, 0.9) == ""
    assert busy_reason(view, "another", 0.9) == ""
    assert busy_reason(None, node.name, 0.9) == ""


def test_a_list_may_hold_this_machine() -> None:
    targets = agents.targets("trn-[001-003].example,127.0.0.[2-3]:10099", Fleet())
    assert own_name(targets, "trn-002", [":10042"]) == "trn-002"
    assert own_name(targets, "trn-002.other", [":10042"]) == "trn-002"
    assert own_name(targets, "ip-10-0-0-9", ["127.0.0.3:10099"]) == "127.0.0.3"
    assert own_name(targets, "ip-10-0-0-9", ["127.0.0.3:10098"]) == ""
    here = agents.targets("127.0.0.1", Fleet())
    assert own_name(here, "ip-10-0-0-9", [":10042"]) == "127.0.0.1"


@pytest.mark.parametrize(
    ("export", "text"),
    [
        ({"allow_probes": False}, "needs --allow-probes"),
        ({"probe_peers": ""}, "needs --probe-peers NODES"),
        ({"probe_peers": "ssh://trn-001"}, "use nodes such as"),
    ],
)
def test_missing_parts_are_reported(export: dict[str, Any], text: str) -> None:
    options = {"allow_probes": True, "probe_peers": "trn-[1-2]", "probe_every": 60.0, **export}
    with pytest.raises(UsageError, match=text):
        probing_of("trn-1", Settings(export=Export(**options)), Turns())
