"""Links that have become slow. All latencies are made up."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.analysis.harness import Detection, detections
from trntop.analysis.detectors.latency import LatencyRegression
from trntop.core.model import Reading
from trntop.core.settings import Analysis

USUAL = 16.5e-6
ROUND = 20.0
"""Seconds in which every link is probed once."""
Slow = Callable[[float, str, str], float]
"""Time, prober and peer → times the usual latency."""


def mesh(
    slow: Slow = lambda time, prober, peer: 1.0,
    *,
    nodes: int = 4,
    rounds: int = 12,
    period: float = ROUND,
    noise: float = 0.03,
    **members: Any,
) -> list[Reading]:
    """Every node probes every other one once in `period` seconds."""
    rng = np.random.default_rng(3)
    names = [f"n{number}" for number in range(nodes)]
    pairs = [(prober, peer) for prober in names for peer in names if peer != prober]
    found = []
    for turn in range(rounds):
        for index, (prober, peer) in enumerate(pairs):
            time = period * (turn + index / len(pairs))
            seconds = USUAL * rng.normal(1.0, noise) * slow(time, prober, peer)
            found.append(probe(time, prober, peer, seconds, **members))
    return found


def probe(time: float, prober: str, peer: str, seconds: float, **members: Any) -> Reading:
    result = {
        "tool": "fi_pingpong", "peer": peer, "size_bytes": 64, "statistic": "mean",
        "seconds": seconds, "load": "idle",
    } | members  # fmt: skip
    return Reading(prober, "probe", time, json.dumps(result).encode())


def run(readings: list[Reading]) -> list[Detection]:
    return detections(LatencyRegression(Analysis(), 1.0), readings)


def test_healthy_links() -> None:
    assert run(mesh(noise=0.1)) == []


@pytest.mark.parametrize("factor", [1.8, 4.0])
def test_a_slow_pair(factor: float) -> None:
    def slow(time: float, prober: str, peer: str) -> float:
        return factor if {prober, peer} == {"n1", "n2"} and 5 * ROUND <= time < 9 * ROUND else 1.0

    (found,) = run(mesh(slow))
    verdict = found.verdict
    assert found.begin <= (6.4 if factor > 3 else 7.4) * ROUND
    assert 9 * ROUND <= found.end <= 10.1 * ROUND
    assert (verdict.node, verdict.component) in [("n1", "link:n2"), ("n2", "link:n1")]
    assert verdict.since is not None
    assert 5 * ROUND <= verdict.since <= 6 * ROUND
    assert "; either end may be faulty" in verdict.fields["what"]
    assert "which end is faulty" in verdict.evidence[-1].text


@pytest.mark.parametrize(("nodes", "factor"), [(3, 1.8), (4, 2.5), (6, 1.8)])
def test_a_slow_node(nodes: int, factor: float) -> None:
    def slow(time: float, prober: str, peer: str) -> float:
        return factor if "n1" in (prober, peer) and time >= 5 * ROUND else 1.0

    (found,) = run(mesh(slow, nodes=nodes))
    assert (found.verdict.node, found.verdict.component) == ("n1", None)
    assert found.verdict.fields["where"] == "n1"
    assert found.verdict.fields["what"].startswith("up to ")


def test_a_slow_efa_device() -> None:
    def slow(time: float, prober: str, peer: str) -> float:
        return 2.5 if prober == "n1" and time >= 5 * ROUND else 1.0

    other = [
        Reading(
            reading.node,
            reading.source,
            reading.time + 1,
            reading.data.replace(b"rdmap16", b"rdmap32"),
        )
        for reading in mesh(card="rdmap16s27")
    ]
    (found,) = run(sorted(mesh(slow, card="rdmap16s27") + other, key=lambda reading: reading.time))
    assert (found.verdict.node, found.verdict.component) == ("n1", "efa:rdmap16s27")


def test_one_slow_result_is_none() -> None:
    def slow(time: float, prober: str, peer: str) -> float:
        return 2.5 if (prober, peer) == ("n1", "n2") and 5 * ROUND <= time < 6 * ROUND else 1.0

    assert run(mesh(slow)) == []


def test_what_is_slow_for_all_names_no_node() -> None:
    assert run(mesh(lambda time, prober, peer: 4.0 if time >= 5 * ROUND else 1.0, nodes=4)) == []


def test_two_nodes_alone() -> None:
    (found,) = run(mesh(lambda time, *_: 2.0 if time >= 5 * ROUND else 1.0, nodes=2))
    assert found.verdict.component in ("link:n0", "link:n1")


def test_results_of_different_kinds_are_not_compared() -> None:
    def kind(turn: int) -> dict[str, Any]:
        return {"size_bytes": 1 << 20} if turn % 2 else {"statistic": "p99"}

    readings = [
        probe(ROUND * turn + 5 * (node == "n1"), node, peer, USUAL * (1 + 9 * (turn % 2)),
              **kind(turn))
        for turn in range(16)
        for node, peer in (("n0", "n1"), ("n1", "n0"))
    ]  # fmt: skip
    assert run(readings) == []


def test_a_link_without_a_past() -> None:
    readings = [probe(ROUND * turn, "n0", "n1", USUAL * 10**turn) for turn in range(3)]
    assert run(readings) == []


def test_equal_results_count_each() -> None:
    seconds = [16e-6] * 5 + [32e-6] * 3
    (found,) = run([probe(ROUND * turn, "n0", "n1", second) for turn, second in enumerate(seconds)])
    assert 6 * ROUND <= found.begin <= 6 * ROUND + 1


def test_failed_probes_give_no_detection() -> None:
    readings = mesh(rounds=6)
    readings += [probe((7 + turn) * ROUND, "n1", "n2", 0.0, error="timed out") for turn in range(3)]
    assert run(readings) == []
