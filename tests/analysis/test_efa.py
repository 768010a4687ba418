"""EFA devices that are degraded or down, and what only resembles it. All counters are made up."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.analysis.harness import Detection, Unjudged, detections
from tests.reports import efa_reading
from trntop.analysis.detector import Verdict
from trntop.analysis.detectors.efa import EfaDegraded, EfaDown
from trntop.analysis.efa_devices import TUNING as POLL
from trntop.core.model import Reading, Severity
from trntop.core.settings import Analysis
from trntop.pipeline.runs import Runs
from trntop.pipeline.tick import Axes
from trntop.session.monitor import play

PACKET = 8160.0
SETTINGS = Analysis()
Rates = dict[str, np.ndarray]
"""Counter → what it grows by in a second, `[node, device]`."""


def name(device: int) -> str:
    return f"rdmap{16 * (device + 1)}s27"


def fleet(
    change: Callable[[float, Rates], None] = lambda time, rates: None,
    *,
    nodes: int = 4,
    devices: int = 8,
    seconds: float = 120,
    period: float = 1.0,
    noise: float = 0.02,
    uneven: float = 0.0,
    burst: float = 0.2,
    missing: Mapping[float, Iterable[tuple[int, int]]] | None = None,
    facts: Callable[[float, int, int], dict[str, Any]] = lambda time, node, device: {},
    seed: int = 1,
) -> list[Reading]:
    """EFA devices that carry about 10 GB/s each way in total; each other second is quieter."""
    rng = np.random.default_rng(seed)
    shape = nodes, devices
    weight = np.exp(rng.normal(0.0, uneven, shape)) if uneven else np.ones(shape)
    counts: Rates = {}
    found = []
    for tick in range(round(seconds / period)):
        time = tick * period
        volume = period * 10e9 / devices * (1.0 - burst * (tick % 2))
        rates: Rates = {"tx_bytes": volume * weight * np.exp(rng.normal(0.0, noise, shape))}
        rates["rx_bytes"] = rates["tx_bytes"] * np.exp(rng.normal(0.0, noise / 2, shape))
        rates["retrans_pkts"] = rng.poisson(2e-6 * rates["tx_bytes"] / PACKET).astype(float)
        for event in ("retrans_timeout_events", "impaired_remote_conn_events", "rx_drops"):
            rates[event] = rng.poisson(0.001 * period, shape).astype(float)
        rates["unresponsive_remote_events"] = np.zeros(shape)
        rates["no_completion_cmds"] = np.zeros(shape)
        change(time, rates)
        rates["tx_pkts"] = np.round(rates["tx_bytes"] / PACKET)
        for counter, growth in rates.items():
            counts[counter] = counts.get(counter, np.full(shape, 1e6)) + np.round(growth)
        lost = {
            device
            for since, devices_lost in (missing or {}).items()
            if time >= since
            for device in devices_lost
        }
        for node in range(nodes):
            ports = {
                name(device): {
                    "port": {key: int(value[node, device]) for key, value in counts.items()},
                    "device": {
                        "no_completion_cmds": int(counts["no_completion_cmds"][node, device])
                    },
                }
                | facts(time, node, device)
                for device in range(devices)
                if (node, device) not in lost
            }
            payload = {"driver": "2.17.3g", "devices": ports}
            found.append(efa_reading(payload, time + 0.01 * node, f"n{node}"))
    return found


def set_retransmits(rates: Rates, node: int, device: int, share: float) -> None:
    packets = rates["tx_bytes"][node, device] / PACKET
    rates["retrans_pkts"][node, device] = share * packets


def degraded(readings: list[Reading]) -> list[Detection]:
    return detections(EfaDegraded(SETTINGS, 1.0), readings)


def down(readings: list[Reading]) -> list[Detection]:
    return detections(EfaDown(SETTINGS, 1.0), readings)


def last_verdict(detector: EfaDegraded | EfaDown, readings: list[Reading]) -> Verdict:
    """The evidence on n1's third device when the stream is over."""
    axes, runs = Axes(), Runs()
    for view in play(iter(readings), Unjudged(detector)):
        tick = axes.tick(view.cluster)
        runs.update(tick)
        detector.signal(tick)
    return detector.verdict(("n1", name(2)), tick)


def lossy(share: float, start: float, end: float = 1e9) -> Callable[[float, Rates], None]:
    def change(time: float, rates: Rates) -> None:
        if start <= time < end:
            for counter in ("tx_bytes", "rx_bytes"):
                rates[counter][1, 2] *= 1 - share

    return change


class TestRetransmits:
    def test_an_efa_device_that_retransmits(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if 50 <= time < 80:
                set_retransmits(rates, 1, 2, 0.021)

        (found,) = degraded(fleet(change, seconds=130))
        assert found.key == ("n1", name(2))
        assert 62 <= found.begin <= 68
        assert 95 <= found.end <= 105
        verdict = found.verdict
        assert verdict.component == f"efa:{name(2)}"
        assert verdict.since is not None
        assert abs(verdict.since - 50) <= 3
        assert " retransmits (limit 0.2 %, peers 0" in verdict.fields["symptom"]

    @pytest.mark.parametrize(
        ("share", "severity"), [(0.005, Severity.WARNING), (0.05, Severity.CRITICAL)]
    )
    def test_how_bad_it_is(self, share: float, severity: Severity) -> None:
        def change(time: float, rates: Rates) -> None:
            set_retransmits(rates, 1, 2, share * (time >= 20))

        verdict = last_verdict(EfaDegraded(SETTINGS, 1.0), fleet(change, seconds=45))
        assert verdict.severity is severity
        percent = f"{100 * share:.1f} % retransmits (limit 0.2 %, peers 0"
        assert verdict.fields["symptom"].startswith(percent)

    @pytest.mark.parametrize("share", [0.0015, 0.02])
    def test_what_all_devices_do_is_no_devices_fault(self, share: float) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 40:
                rates["retrans_pkts"] = share * rates["tx_bytes"] / PACKET

        assert degraded(fleet(change, seconds=80)) == []

    @pytest.mark.parametrize("period", [1.0, 5.0])
    def test_a_burst_is_none(self, period: float) -> None:
        def change(time: float, rates: Rates) -> None:
            if 40 <= time <= 49:
                set_retransmits(rates, 1, 2, 0.01)

        assert degraded(fleet(change, seconds=80, period=period)) == []

    @pytest.mark.parametrize(("nodes", "found"), [(slice(1, 2), 1), (slice(None), 0)])
    def test_bursts_again_and_again(self, nodes: slice, found: int) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 20 and (time - 20) % 30 < 10:
                packets = rates["tx_bytes"][nodes] / PACKET
                rates["retrans_pkts"][nodes] = 0.03 * packets * (np.arange(8) == 2)

        detections = degraded(fleet(change, seconds=130, period=5.0))
        assert [detection.key for detection in detections] == [("n1", name(2))] * found
        for detection in detections:
            assert 80 <= detection.begin <= 95
            assert detection.verdict.since is not None
            assert abs(detection.verdict.since - 20) <= 5
            assert " retransmits on average over " in detection.verdict.fields["symptom"]
            assert " in 3 bursts (limit 0.2 %, peers 0" in detection.verdict.fields["symptom"]

    def test_few_packets_give_no_detection(self) -> None:
        def change(time: float, rates: Rates) -> None:
            for counter in ("tx_bytes", "rx_bytes"):
                rates[counter] *= 1e-6
            rates["retrans_pkts"][1, 2] = 0.2

        assert degraded(fleet(change)) == []

    def test_only_the_degraded_device_is_named_and_not_its_peers(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 30:
                for node in range(4):
                    set_retransmits(rates, node, 2, 0.003)
                set_retransmits(rates, 1, 2, 0.03)

        assert {detection.key for detection in degraded(fleet(change, seconds=80))} == {
            ("n1", name(2))
        }

    def test_a_whole_node(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 30:
                for device in range(8):
                    set_retransmits(rates, 3, device, 0.01 + 0.002 * device)

        (found,) = degraded(fleet(change, seconds=80))
        assert (found.verdict.node, found.verdict.component) == ("n3", None)
        assert found.verdict.fields["efa_device"] in (
            "all 8 EFA devices",
            "7 of 8 EFA devices",
            "6 of 8 EFA devices",
        )

    @pytest.mark.parametrize("devices", [1, 2])
    def test_nodes_with_few_efa_devices_are_compared_with_one_another(self, devices: int) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 30:
                set_retransmits(rates, 1, 0, 0.02)

        (found,) = degraded(fleet(change, seconds=80, devices=devices))
        assert found.key == ("n1", name(0))

    def test_two_nodes_with_one_efa_device_each(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 30:
                set_retransmits(rates, 1, 0, 0.02)

        (found,) = degraded(fleet(change, seconds=80, nodes=2, devices=1))
        assert found.key == ("n1", name(0))


class TestLostTraffic:
    @pytest.mark.parametrize(
        ("share", "noise", "uneven"),
        [(0.13, 0.01, 0.3), (0.15, 0.03, 0.3), (0.55, 0.03, 0.0), (0.9, 0.01, 0.0)],
    )
    def test_an_efa_device_with_less_traffic(
        self, share: float, noise: float, uneven: float
    ) -> None:
        (found,) = degraded(fleet(lossy(share, 60, 100), seconds=140, noise=noise, uneven=uneven))
        assert found.key == ("n1", name(2))
        assert found.begin <= (83 if share > 0.13 else 88)
        assert found.end <= 116
        assert found.verdict.since is not None
        assert abs(found.verdict.since - 60) <= 4

    @pytest.mark.parametrize("period", [2.0, 5.0])
    def test_at_a_longer_interval(self, period: float) -> None:
        (found,) = degraded(fleet(lossy(0.15, 100), seconds=160, period=period))
        assert found.key == ("n1", name(2))
        assert found.begin <= 120 + period

    def test_less_than_all_others_from_the_start(self) -> None:
        (found,) = degraded(fleet(lossy(0.45, 0, 150), seconds=250, period=5.0))
        assert found.key == ("n1", name(2))
        assert 60 <= found.begin <= 80
        assert found.end <= 200
        assert found.verdict.fields["symptom"].startswith(
            ("carries 44", "carries 45", "carries 46")
        )
        assert found.verdict.since is not None
        assert found.verdict.since <= 10

    @pytest.mark.parametrize(
        ("share", "uneven", "options"),
        [
            (0.2, 0.0, {}),
            (0.45, 0.3, {}),
            (0.45, 0.0, {"nodes": 2}),
            (0.45, 0.0, {"devices": 3}),
        ],
    )
    def test_a_start_that_may_be_by_design(
        self, share: float, uneven: float, options: dict[str, int]
    ) -> None:
        readings = fleet(lossy(share, 0), seconds=150, period=5.0, uneven=uneven, **options)
        assert degraded(readings) == []

    def test_the_same_device_on_several_nodes_is_design(self) -> None:
        def change(time: float, rates: Rates) -> None:
            for counter in ("tx_bytes", "rx_bytes"):
                rates[counter][:2, 2] *= 0.55

        assert degraded(fleet(change, seconds=150, period=5.0)) == []

    def test_the_words(self) -> None:
        (found,) = degraded(fleet(lossy(0.4, 60), seconds=90))
        assert found.verdict.severity is Severity.CRITICAL
        symptom = found.verdict.fields["symptom"]
        assert symptom.startswith(("carries 39", "carries 40", "carries 41"))

    @pytest.mark.parametrize(("share", "period"), [(0.3, 5.0), (0.99, 1.0)])
    def test_a_blip_is_none(self, share: float, period: float) -> None:
        readings = fleet(lossy(share, 60, 65), seconds=120, period=period)
        assert degraded(readings) == []

    @pytest.mark.parametrize(("noise", "uneven"), [(0.02, 0.0), (0.1, 0.5)])
    def test_noise_is_none(self, noise: float, uneven: float) -> None:
        assert degraded(fleet(seconds=300, noise=noise, uneven=uneven)) == []

    def test_a_checkpoint_and_the_end_of_a_job(self) -> None:
        def change(time: float, rates: Rates) -> None:
            busy = 0.0 if 60 <= time < 85 or time >= 160 else min(time / 30, 1.0)
            for counter in ("tx_bytes", "rx_bytes"):
                rates[counter] *= busy

        readings = fleet(change, seconds=200, uneven=0.3)
        assert degraded(readings) == []
        assert down(readings) == []

    def test_a_job_with_a_different_traffic_pattern(self) -> None:
        rng = np.random.default_rng(5)
        other = np.exp(rng.normal(0.0, 0.5, (4, 8)))

        def change(time: float, rates: Rates) -> None:
            if time >= 90:
                for counter in ("tx_bytes", "rx_bytes"):
                    rates[counter] *= other

        assert degraded(fleet(change, seconds=200)) == []

    def test_unused_efa_devices(self) -> None:
        def change(time: float, rates: Rates) -> None:
            for counter in ("tx_bytes", "rx_bytes"):
                rates[counter][:, 4:] = 0.0

        readings = fleet(change)
        assert degraded(readings) == []
        assert down(readings) == []


class TestErrors:
    @pytest.mark.parametrize("kind", ["retrans_timeout_events", "rx_drops", "rdma_read_wr_err"])
    def test_an_efa_device_with_errors(self, kind: str) -> None:
        def change(time: float, rates: Rates) -> None:
            rates.setdefault(kind, np.zeros((4, 8)))
            if time >= 40:
                rates[kind][1, 2] = 3.0

        (found,) = degraded(fleet(change, seconds=80))
        assert found.key == ("n1", name(2))
        assert "errors/s (" in found.verdict.fields["symptom"]
        assert found.verdict.severity is Severity.WARNING

    def test_one_burst_is_none(self) -> None:
        def change(time: float, rates: Rates) -> None:
            rates["rx_drops"][1, 2] = 500.0 * (time == 50)

        assert degraded(fleet(change, seconds=80)) == []

    @pytest.mark.parametrize("devices", [slice(None), slice(2, 3)])
    def test_peers_of_an_unresponsive_device_are_not_named(self, devices: slice) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 40:
                rates["unresponsive_remote_events"][:, devices] = 4.0

        assert degraded(fleet(change, seconds=80)) == []

    def test_peers_of_a_lost_device_are_not_named(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 40:
                rates["unresponsive_remote_events"][0, 2] = 4.0

        readings = fleet(change, nodes=2, seconds=80, missing={40: [(1, 2)]})
        assert degraded(readings) == []
        assert [detection.key for detection in down(readings)] == [("n1", name(2))]


class TestDown:
    def test_an_efa_device_that_is_gone(self) -> None:
        readings = fleet(missing={50: [(1, 2)]}, seconds=80)
        (found,) = down(readings)
        assert found.key == ("n1", name(2))
        assert found.begin <= 52
        assert found.verdict.component == f"efa:{name(2)}"
        assert found.verdict.fields["symptom"] == "not readable"
        assert degraded(readings) == []

    def test_an_efa_device_that_cannot_be_read(self) -> None:
        def facts(time: float, node: int, device: int) -> dict[str, Any]:
            return {"error": "No such device"} if time >= 50 and (node, device) == (1, 2) else {}

        assert [detection.key for detection in down(fleet(facts=facts, seconds=80))] == [
            ("n1", name(2))
        ]

    def test_all_efa_devices_of_a_node(self) -> None:
        (found,) = down(fleet(missing={50: [(1, device) for device in range(8)]}, seconds=80))
        assert (found.verdict.node, found.verdict.component) == ("n1", None)
        assert found.verdict.fields["efa_device"] == "all 8 EFA devices"

    @pytest.mark.parametrize(("state", "is_down"), [("4: ACTIVE", False), ("1: DOWN", True)])
    def test_the_state_of_a_port(self, state: str, is_down: bool) -> None:
        def facts(time: float, node: int, device: int) -> dict[str, Any]:
            odd = time >= 50 and (node, device) == (1, 2)
            return {"state": state if odd else "4: ACTIVE"}

        found = down(fleet(facts=facts, seconds=80))
        assert [detection.key for detection in found] == [("n1", name(2))] * is_down
        assert all(detection.verdict.fields["symptom"] == "port is DOWN" for detection in found)

    def test_commands_that_never_complete(self) -> None:
        def change(time: float, rates: Rates) -> None:
            rates["no_completion_cmds"][1, 2] = 1.0 * (50 <= time < 53)

        (found,) = down(fleet(change, seconds=150))
        assert found.key == ("n1", name(2))
        assert 50 <= found.begin <= 52
        assert 110 <= found.end <= 115 + POLL.interval

    def test_an_efa_device_without_traffic(self) -> None:
        readings = fleet(lossy(1.0, 50, 90), seconds=120)
        (found,) = down(readings)
        assert found.key == ("n1", name(2))
        assert 59 <= found.begin <= 64
        assert 89 <= found.end <= 93
        assert found.verdict.since is not None
        assert abs(found.verdict.since - 50) <= POLL.interval + 0.5
        assert degraded(readings) == []

    def test_a_short_silence_is_none(self) -> None:
        assert down(fleet(lossy(1.0, 50, 57), seconds=80)) == []

    def test_a_job_on_half_of_the_devices_after_one_on_all(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 50:
                for counter in ("tx_bytes", "rx_bytes"):
                    rates[counter][:, 4:] = 0.0

        readings = fleet(change)
        assert down(readings) == []
        assert degraded(readings) == []

    def test_a_silent_source_gives_no_incident(self) -> None:
        readings = [
            reading
            for reading in fleet(lossy(1.0, 50))
            if reading.node != "n1" or reading.time < 53
        ]
        assert down(readings) == []

    def test_counters_that_were_reset(self) -> None:
        readings = fleet(seconds=60) + [
            Reading(reading.node, reading.source, reading.time + 60, reading.data)
            for reading in fleet(seconds=60)
        ]
        assert down(readings) == []
        assert degraded(readings) == []


def test_no_efa_devices_at_all() -> None:
    readings = [Reading("n0", "host", float(time), b"{}") for time in range(5)]
    assert down(readings) == degraded(readings) == []
