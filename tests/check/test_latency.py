"""Who is slow or cannot be reached, and who only has to do with them."""

from collections.abc import Callable

import pytest

from tests.check.fleet import LATENCY, Answer, Fleet, failed
from tests.check.test_runner import told
from trntop.check.model import Action, Finding, Outcome, ProbeResult
from trntop.check.plan import Plan
from trntop.check.result import Check
from trntop.core.settings import Check as Limits
from trntop.core.settings import Settings

FULL = Plan(extent="full")


def only(check: Check) -> Finding:
    (finding,) = [one for one in check.findings if one.outcome is not Outcome.PASS]
    return finding


def slow(node: str, times: float, rail: str = "") -> Callable[[str, str, str], float]:
    def answer(one: str, two: str, efa_device: str) -> float:
        here = node in (one, two) and rail in ("", efa_device)
        return LATENCY * times if here else LATENCY

    return answer


@pytest.mark.parametrize("count", [3, 4, 5, 8, 9, 16, 33])
@pytest.mark.parametrize("plan", [Plan(), FULL])
def test_a_slow_node_is_named_and_nobody_else(count: int, plan: Plan) -> None:
    finding = only(Fleet(count, slow("trn-002", 4)).run(plan))
    assert (finding.node, finding.outcome) == ("trn-002", Outcome.FAIL)
    assert finding.action is Action.ISOLATE
    assert "80.0 µs (fi_pingpong, efa, 64 B, mean), 4.0 times" in finding.text
    assert "scontrol update nodename=trn-002 state=drain reason='trntop check" in finding.next_step
    assert "kubectl cordon trn-002" in finding.next_step


def test_slightly_slow_is_a_warning_and_less_is_nothing() -> None:
    check = Fleet(8, slow("trn-002", 2)).run()
    assert (only(check).outcome, check.outcome.exit_code) == (Outcome.WARN, 1)
    assert Fleet(8, slow("trn-002", 1.4)).run().outcome is Outcome.PASS


@pytest.mark.parametrize("plan", [Plan(), FULL])
def test_two_racks_make_nobody_slow(plan: Plan) -> None:
    """Within one 20 µs, across 32 µs; neighbours are in different ones."""

    def answer(one: str, two: str, efa_device: str) -> float:
        racks = [int(name[-3:]) % 2 for name in (one, two)]
        return 20e-6 if racks[0] == racks[1] else 32e-6

    check = Fleet(16, answer).run(plan)
    assert check.outcome is Outcome.PASS
    assert any("two groups of latencies" in one.next_step for one in check.findings)


def test_many_slow_nodes_share_something() -> None:
    def answer(one: str, two: str, efa_device: str) -> float:
        return LATENCY * (4 if min(one, two) <= "trn-006" else 1)

    check = Fleet(16, answer).run(FULL)
    (finding,) = [one for one in check.findings if one.outcome is Outcome.FAIL]
    unclear = told(check, Outcome.UNKNOWN)
    assert set(unclear) == {f"trn-{place:03}" for place in range(1, 7)}, "of them nobody can say"
    assert finding.text.startswith("6 nodes are slow or fail with healthy partners (trn-001,")


def test_two_slow_nodes_at_once() -> None:
    def answer(one: str, two: str, efa_device: str) -> float:
        return LATENCY * (5 if {one, two} & {"trn-001", "trn-002"} else 1)

    check = Fleet(8, answer).run()
    assert set(told(check)) == {"trn-001", "trn-002"}


def test_a_slow_path_blames_no_node() -> None:
    def answer(one: str, two: str, efa_device: str) -> float:
        return LATENCY * (5 if {one, two} == {"trn-001", "trn-002"} else 1)

    check = Fleet(8, answer).run()
    finding = only(check)
    assert (finding.node, finding.component) == ("", "link:trn-001>trn-002")
    assert "between trn-001 and trn-002" in finding.text
    assert "neither node fails with enough other nodes" in finding.text
    assert check.verdict.startswith("FAIL: 8 of 8 nodes pass. trn-001–trn-002 slow path: between")


@pytest.mark.parametrize("plan", [Plan(), FULL])
def test_a_node_that_answers_nobody_is_named_and_its_partners_are_not(plan: Plan) -> None:
    def answer(one: str, two: str, efa_device: str) -> Answer:
        return failed("no data within 10 s", "path") if "trn-004" in (one, two) else LATENCY

    finding = only(Fleet(8, answer).run(plan))
    assert (finding.node, finding.outcome) == ("trn-004", Outcome.FAIL)
    assert finding.fault == "probe failed" and "no data within 10 s" in finding.text


def test_a_side_that_fails_by_itself_is_to_blame() -> None:
    def answer(one: str, two: str, efa_device: str) -> Answer:
        if "trn-003" not in (one, two):
            return LATENCY
        side = "client" if one == "trn-003" else "server"
        return failed("libfabric has no provider efa", side)

    finding = only(Fleet(6, answer).run())
    assert finding.node == "trn-003"
    assert "libfabric has no provider efa" in finding.text
    assert finding.check == "probe"


def test_losses_name_the_node_that_has_them() -> None:
    def answer(one: str, two: str, efa_device: str) -> Answer:
        if "trn-003" not in (one, two):
            return LATENCY
        return ProbeResult(tool="fi_pingpong", peer="?", seconds=LATENCY, size_bytes=64, lost=7)

    finding = only(Fleet(6, answer).run())
    assert (finding.node, finding.outcome) == ("trn-003", Outcome.WARN)
    assert "as its peers; " in finding.text and "7 messages with trn-00" in finding.text


def test_what_sometimes_fails_and_is_slow_otherwise() -> None:
    tries = {"trn-003": 0}

    def answer(one: str, two: str, efa_device: str) -> Answer:
        if "trn-003" not in (one, two):
            return LATENCY
        tries["trn-003"] += 1
        return failed("cut off after 10 s") if tries["trn-003"] % 2 else 300 * LATENCY

    finding = only(Fleet(8, answer).run())
    assert (finding.node, finding.outcome) == ("trn-003", Outcome.FAIL)
    assert "300 times" in finding.text and "failed: cut off after 10 s" in finding.text


def test_no_pair_works_and_none_is_to_blame() -> None:
    check = Fleet(6, lambda *_: failed("connection timed out")).run()
    (finding,) = [one for one in check.findings if one.outcome is Outcome.FAIL]
    assert len(told(check, Outcome.UNKNOWN)) == 6, "no node passes of which nothing is known"
    assert finding.node == "" and "no single node is faulty: connection timed out" in finding.text
    assert "security group" in finding.next_step


def test_the_only_pair_fails_and_neither_passes() -> None:
    check = Fleet(2, lambda *_: failed("connection timed out")).run()
    assert [place.outcome for place in check.nodes] == [Outcome.UNKNOWN] * 2
    assert check.verdict == (
        "FAIL: 0 of 2 nodes pass; fail: probe failed; inconclusive: no good pair (trn-001, trn-002)"
    )


def test_all_sides_fail_alike_and_none_is_to_blame() -> None:
    check = Fleet(4, lambda *_: failed("libfabric has no provider efa", "client")).run()
    (finding,) = [one for one in check.findings if one.outcome is Outcome.FAIL]
    assert (finding.node, finding.action) == ("", Action.NONE)
    assert "no single node is faulty: libfabric has no provider efa" in finding.text


@pytest.mark.parametrize("plan", [Plan(), FULL])
@pytest.mark.parametrize("loaded", ["trn-002", "all"])
def test_a_host_without_a_core_to_spare_is_not_judged_slow(plan: Plan, loaded: str) -> None:
    fleet = Fleet(8, slow("trn-002", 4))
    names = fleet.names if loaded == "all" else [loaded]
    fleet.loads = dict.fromkeys(names, "load 201.5 of 192 cores")
    finding = only(fleet.run(plan))
    assert (finding.node, finding.outcome) == ("trn-002", Outcome.UNKNOWN)
    assert "201.5 of 192 cores" in finding.text and "no idle core" in finding.text
    assert finding.action is Action.NONE and "when the hosts are idle" in finding.next_step
    eager = Settings(check=Limits(load=2))
    assert only(fleet.run(plan, settings=eager)).outcome is Outcome.FAIL


def test_load_of_one_partner_excuses_nothing_where_idle_ones_see_it_too() -> None:
    fleet = Fleet(8, slow("trn-002", 4))
    fleet.loads = {"trn-001": "load 201.5 of 192 cores", "trn-005": "load 0.3 of 192 cores"}
    finding = only(fleet.run(FULL))
    assert (finding.node, finding.outcome) == ("trn-002", Outcome.FAIL)


def test_a_path_that_is_slow_under_load() -> None:
    def answer(one: str, two: str, efa_device: str) -> float:
        return LATENCY * (5 if {one, two} == {"trn-001", "trn-002"} else 1)

    fleet = Fleet(8, answer)
    fleet.loads = {"trn-002": "load 201.5 of 192 cores"}
    check = fleet.run()
    assert (only(check).outcome, only(check).action) == (Outcome.UNKNOWN, Action.NONE)
    assert check.outcome.exit_code == 3


def test_a_slow_rail_is_named_with_its_card() -> None:
    fleet = Fleet(6, slow("trn-002", 4, "rdmap48s27"))
    check = fleet.run(Plan(per_device=True))
    finding = only(check)
    assert (finding.node, finding.component) == ("trn-002", "efa:rdmap48s27")
    assert finding.fault == "slow EFA device" and finding.text.startswith("rdmap48s27 with trn-")
    (place,) = [one for one in check.nodes if one.node == "trn-002"]
    assert [name for name, one in place.efa_device_outcomes.items() if one is not Outcome.PASS] == [
        "rdmap48s27"
    ]
    # Once more is the rail probed that is in doubt, not the other seven.
    again = [one for one in check.probe_runs if one.stage.startswith(("again", "suspects"))]
    assert {one.efa_device for one in again} == {"rdmap48s27"}


def test_all_cards_of_a_node_are_the_node() -> None:
    finding = only(Fleet(6, slow("trn-002", 4)).run(Plan(per_device=True)))
    assert (finding.node, finding.component) == ("trn-002", "")


def test_thresholds_are_settings() -> None:
    settings = Settings(check=Limits(slow=5, very_slow=9))
    assert Fleet(8, slow("trn-002", 4)).run(settings=settings).outcome is Outcome.PASS
