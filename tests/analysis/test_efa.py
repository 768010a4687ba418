"""Cards that are degraded or down, and what only looks like it. All counters are made up."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.analysis.harness import Stretch, Unjudged, stretches
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
"""Counter → what it grows by in a second, `[node, card]`."""


def name(card: int) -> str:
    return f"rdmap{16 * (card + 1)}s27"


def fleet(
    change: Callable[[float, Rates], None] = lambda time, rates: None,
    *,
    nodes: int = 4,
    cards: int = 8,
    seconds: float = 120,
    pace: float = 1.0,
    noise: float = 0.02,
    uneven: float = 0.0,
    burst: float = 0.2,
    missing: Mapping[float, Iterable[tuple[int, int]]] | None = None,
    facts: Callable[[float, int, int], dict[str, Any]] = lambda time, node, card: {},
    seed: int = 1,
) -> list[Reading]:
    """Cards that carry about 10 GB/s each way together; every other second is a quieter one."""
    rng = np.random.default_rng(seed)
    shape = nodes, cards
    weight = np.exp(rng.normal(0.0, uneven, shape)) if uneven else np.ones(shape)
    counts: Rates = {}
    found = []
    for tick in range(round(seconds / pace)):
        time = tick * pace
        volume = pace * 10e9 / cards * (1.0 - burst * (tick % 2))
        rates: Rates = {"tx_bytes": volume * weight * np.exp(rng.normal(0.0, noise, shape))}
        rates["rx_bytes"] = rates["tx_bytes"] * np.exp(rng.normal(0.0, noise / 2, shape))
        rates["retrans_pkts"] = rng.poisson(2e-6 * rates["tx_bytes"] / PACKET).astype(float)
        for event in ("retrans_timeout_events", "impaired_remote_conn_events", "rx_drops"):
            rates[event] = rng.poisson(0.001 * pace, shape).astype(float)
        rates["unresponsive_remote_events"] = np.zeros(shape)
        rates["no_completion_cmds"] = np.zeros(shape)
        change(time, rates)
        rates["tx_pkts"] = np.round(rates["tx_bytes"] / PACKET)
        for counter, growth in rates.items():
            counts[counter] = counts.get(counter, np.full(shape, 1e6)) + np.round(growth)
        lost = {one for since, ones in (missing or {}).items() if time >= since for one in ones}
        for node in range(nodes):
            devices = {
                name(card): {
                    "port": {key: int(value[node, card]) for key, value in counts.items()},
                    "device": {"no_completion_cmds": int(counts["no_completion_cmds"][node, card])},
                }
                | facts(time, node, card)
                for card in range(cards)
                if (node, card) not in lost
            }
            payload = {"driver": "2.17.3g", "devices": devices}
            found.append(efa_reading(payload, time + 0.01 * node, f"n{node}"))
    return found


def resent(rates: Rates, node: int, card: int, share: float) -> None:
    packets = rates["tx_bytes"][node, card] / PACKET
    rates["retrans_pkts"][node, card] = share * packets


def degraded(readings: list[Reading]) -> list[Stretch]:
    return stretches(EfaDegraded(SETTINGS, 1.0), readings)


def down(readings: list[Reading]) -> list[Stretch]:
    return stretches(EfaDown(SETTINGS, 1.0), readings)


def last_verdict(detector: EfaDegraded | EfaDown, readings: list[Reading]) -> Verdict:
    """What is said of n1's third card when the stream is over."""
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


class TestResends:
    def test_a_card_that_sends_again(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if 50 <= time < 80:
                resent(rates, 1, 2, 0.021)

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
            resent(rates, 1, 2, share * (time >= 20))

        verdict = last_verdict(EfaDegraded(SETTINGS, 1.0), fleet(change, seconds=45))
        assert verdict.severity is severity
        percent = f"{100 * share:.1f} % retransmits (limit 0.2 %, peers 0"
        assert verdict.fields["symptom"].startswith(percent)

    @pytest.mark.parametrize("share", [0.0015, 0.02])
    def test_what_all_cards_do_is_no_cards_fault(self, share: float) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 40:
                rates["retrans_pkts"] = share * rates["tx_bytes"] / PACKET

        assert degraded(fleet(change, seconds=80)) == []

    @pytest.mark.parametrize("pace", [1.0, 5.0])
    def test_a_burst_is_none(self, pace: float) -> None:
        def change(time: float, rates: Rates) -> None:
            if 40 <= time <= 49:
                resent(rates, 1, 2, 0.01)

        assert degraded(fleet(change, seconds=80, pace=pace)) == []

    @pytest.mark.parametrize(("nodes", "found"), [(slice(1, 2), 1), (slice(None), 0)])
    def test_bursts_again_and_again(self, nodes: slice, found: int) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 20 and (time - 20) % 30 < 10:
                packets = rates["tx_bytes"][nodes] / PACKET
                rates["retrans_pkts"][nodes] = 0.03 * packets * (np.arange(8) == 2)

        stretches = degraded(fleet(change, seconds=130, pace=5.0))
        assert [one.key for one in stretches] == [("n1", name(2))] * found
        for one in stretches:
            assert 80 <= one.begin <= 95
            assert one.verdict.since is not None
            assert abs(one.verdict.since - 20) <= 5
            assert " retransmits on average over " in one.verdict.fields["symptom"]
            assert " in 3 bursts (limit 0.2 %, peers 0" in one.verdict.fields["symptom"]

    def test_few_packets_say_nothing(self) -> None:
        def change(time: float, rates: Rates) -> None:
            for counter in ("tx_bytes", "rx_bytes"):
                rates[counter] *= 1e-6
            rates["retrans_pkts"][1, 2] = 0.2

        assert degraded(fleet(change)) == []

    def test_of_a_sick_card_and_its_peers_the_sick_one_is_named(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 30:
                for node in range(4):
                    resent(rates, node, 2, 0.003)
                resent(rates, 1, 2, 0.03)

        assert {one.key for one in degraded(fleet(change, seconds=80))} == {("n1", name(2))}

    def test_a_whole_node(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 30:
                for card in range(8):
                    resent(rates, 3, card, 0.01 + 0.002 * card)

        (found,) = degraded(fleet(change, seconds=80))
        assert (found.verdict.node, found.verdict.component) == ("n3", None)
        assert found.verdict.fields["card"] in (
            "all 8 EFA devices",
            "7 of 8 EFA devices",
            "6 of 8 EFA devices",
        )

    @pytest.mark.parametrize("cards", [1, 2])
    def test_nodes_with_few_cards_are_compared_with_one_another(self, cards: int) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 30:
                resent(rates, 1, 0, 0.02)

        (found,) = degraded(fleet(change, seconds=80, cards=cards))
        assert found.key == ("n1", name(0))

    def test_two_nodes_with_one_card_each(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 30:
                resent(rates, 1, 0, 0.02)

        (found,) = degraded(fleet(change, seconds=80, nodes=2, cards=1))
        assert found.key == ("n1", name(0))


class TestLostTraffic:
    @pytest.mark.parametrize(
        ("share", "noise", "uneven"),
        [(0.13, 0.01, 0.3), (0.15, 0.03, 0.3), (0.55, 0.03, 0.0), (0.9, 0.01, 0.0)],
    )
    def test_a_card_that_carries_less(self, share: float, noise: float, uneven: float) -> None:
        (found,) = degraded(fleet(lossy(share, 60, 100), seconds=140, noise=noise, uneven=uneven))
        assert found.key == ("n1", name(2))
        assert found.begin <= (83 if share > 0.13 else 88)
        assert found.end <= 116
        assert found.verdict.since is not None
        assert abs(found.verdict.since - 60) <= 4

    @pytest.mark.parametrize("pace", [2.0, 5.0])
    def test_at_a_slower_pace(self, pace: float) -> None:
        (found,) = degraded(fleet(lossy(0.15, 100), seconds=160, pace=pace))
        assert found.key == ("n1", name(2))
        assert found.begin <= 120 + pace

    def test_less_than_all_others_from_the_start(self) -> None:
        (found,) = degraded(fleet(lossy(0.45, 0, 150), seconds=250, pace=5.0))
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
            (0.45, 0.0, {"cards": 3}),
        ],
    )
    def test_a_start_that_may_be_by_design(
        self, share: float, uneven: float, options: dict[str, int]
    ) -> None:
        readings = fleet(lossy(share, 0), seconds=150, pace=5.0, uneven=uneven, **options)
        assert degraded(readings) == []

    def test_the_same_device_on_several_nodes_is_design(self) -> None:
        def change(time: float, rates: Rates) -> None:
            for counter in ("tx_bytes", "rx_bytes"):
                rates[counter][:2, 2] *= 0.55

        assert degraded(fleet(change, seconds=150, pace=5.0)) == []

    def test_the_words(self) -> None:
        (found,) = degraded(fleet(lossy(0.4, 60), seconds=90))
        assert found.verdict.severity is Severity.CRITICAL
        symptom = found.verdict.fields["symptom"]
        assert symptom.startswith(("carries 39", "carries 40", "carries 41"))

    @pytest.mark.parametrize(("share", "pace"), [(0.3, 5.0), (0.99, 1.0)])
    def test_a_blip_is_none(self, share: float, pace: float) -> None:
        readings = fleet(lossy(share, 60, 65), seconds=120, pace=pace)
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

    def test_a_job_that_uses_the_cards_otherwise(self) -> None:
        rng = np.random.default_rng(5)
        other = np.exp(rng.normal(0.0, 0.5, (4, 8)))

        def change(time: float, rates: Rates) -> None:
            if time >= 90:
                for counter in ("tx_bytes", "rx_bytes"):
                    rates[counter] *= other

        assert degraded(fleet(change, seconds=200)) == []

    def test_unused_cards(self) -> None:
        def change(time: float, rates: Rates) -> None:
            for counter in ("tx_bytes", "rx_bytes"):
                rates[counter][:, 4:] = 0.0

        readings = fleet(change)
        assert degraded(readings) == []
        assert down(readings) == []


class TestErrors:
    @pytest.mark.parametrize("kind", ["retrans_timeout_events", "rx_drops", "rdma_read_wr_err"])
    def test_a_card_with_errors(self, kind: str) -> None:
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

    @pytest.mark.parametrize("cards", [slice(None), slice(2, 3)])
    def test_peers_that_miss_another_are_not_to_blame(self, cards: slice) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 40:
                rates["unresponsive_remote_events"][:, cards] = 4.0

        assert degraded(fleet(change, seconds=80)) == []

    def test_those_who_talked_to_a_lost_card_are_not_to_blame(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 40:
                rates["unresponsive_remote_events"][0, 2] = 4.0

        readings = fleet(change, nodes=2, seconds=80, missing={40: [(1, 2)]})
        assert degraded(readings) == []
        assert [one.key for one in down(readings)] == [("n1", name(2))]


class TestDown:
    def test_a_card_that_is_gone(self) -> None:
        readings = fleet(missing={50: [(1, 2)]}, seconds=80)
        (found,) = down(readings)
        assert found.key == ("n1", name(2))
        assert found.begin <= 52
        assert found.verdict.component == f"efa:{name(2)}"
        assert found.verdict.fields["symptom"] == "not readable"
        assert degraded(readings) == []

    def test_a_card_that_cannot_be_read(self) -> None:
        def facts(time: float, node: int, card: int) -> dict[str, Any]:
            return {"error": "No such device"} if time >= 50 and (node, card) == (1, 2) else {}

        assert [one.key for one in down(fleet(facts=facts, seconds=80))] == [("n1", name(2))]

    def test_all_cards_of_a_node(self) -> None:
        (found,) = down(fleet(missing={50: [(1, card) for card in range(8)]}, seconds=80))
        assert (found.verdict.node, found.verdict.component) == ("n1", None)
        assert found.verdict.fields["card"] == "all 8 EFA devices"

    @pytest.mark.parametrize(("state", "is_down"), [("4: ACTIVE", False), ("1: DOWN", True)])
    def test_the_state_of_a_port(self, state: str, is_down: bool) -> None:
        def facts(time: float, node: int, card: int) -> dict[str, Any]:
            odd = time >= 50 and (node, card) == (1, 2)
            return {"state": state if odd else "4: ACTIVE"}

        found = down(fleet(facts=facts, seconds=80))
        assert [one.key for one in found] == [("n1", name(2))] * is_down
        assert all(one.verdict.fields["symptom"] == "port is DOWN" for one in found)

    def test_commands_that_never_complete(self) -> None:
        def change(time: float, rates: Rates) -> None:
            rates["no_completion_cmds"][1, 2] = 1.0 * (50 <= time < 53)

        (found,) = down(fleet(change, seconds=150))
        assert found.key == ("n1", name(2))
        assert 50 <= found.begin <= 52
        assert 110 <= found.end <= 115 + POLL.interval

    def test_a_card_that_carries_nothing(self) -> None:
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

    def test_a_job_on_half_of_the_cards_after_one_on_all(self) -> None:
        def change(time: float, rates: Rates) -> None:
            if time >= 50:
                for counter in ("tx_bytes", "rx_bytes"):
                    rates[counter][:, 4:] = 0.0

        readings = fleet(change)
        assert down(readings) == []
        assert degraded(readings) == []

    def test_a_silent_source_says_nothing(self) -> None:
        readings = [one for one in fleet(lossy(1.0, 50)) if one.node != "n1" or one.time < 53]
        assert down(readings) == []

    def test_counters_that_began_anew(self) -> None:
        readings = fleet(seconds=60) + [
            Reading(one.node, one.source, one.time + 60, one.data) for one in fleet(seconds=60)
        ]
        assert down(readings) == []
        assert degraded(readings) == []


def test_no_cards_at_all() -> None:
    readings = [Reading("n0", "host", float(time), b"{}") for time in range(5)]
    assert down(readings) == degraded(readings) == []
