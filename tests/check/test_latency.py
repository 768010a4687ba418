"""Who is slow or cannot be reached, and who only has to do with them."""

from collections.abc import Callable

import pytest

from tests.check.fleet import LATENCY, Answer, Fleet, failed
from tests.check.test_runner import texts
from trntop.check.model import Action, Finding, Outcome, ProbeResult
from trntop.check.plan import Plan
from trntop.check.result import Check
from trntop.core.settings import Check as Limits
from trntop.core.settings import Settings

FULL = Plan(extent="full")


def only(check: Check) -> Finding:
    (finding,) = [finding for finding in check.findings if finding.outcome is not Outcome.PASS]
    return finding


def slow(node: str, times: float, rail: str = "") -> Callable[[str, str, str], float]:
    def answer(client: str, server: str, efa_device: str) -> float:
        here = node in (client, server) and rail in ("", efa_device)
        return LATENCY * times if here else LATENCY

    return answer


@pytest.mark.parametrize("count", [3, 4, 5, 8, 9, 16, 33])
@pytest.mark.parametrize("plan", [Plan(), FULL])
def test_only_the_slow_node_is_named(count: int, plan: Plan) -> None:
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
def test_two_racks_make_no_node_slow(plan: Plan) -> None:
    """Within one 20 µs, across 32 µs; neighbours are in different ones."""

    def answer(client: str, server: str, efa_device: str) -> float:
        racks = [int(name[-3:]) % 2 for name in (client, server)]
        return 20e-6 if racks[0] == racks[1] else 32e-6

    check = Fleet(16, answer).run(plan)
    assert check.outcome is Outcome.PASS
    assert any("two groups of latencies" in finding.next_step for finding in check.findings)


def test_many_slow_nodes_share_something() -> None:
    def answer(client: str, server: str, efa_device: str) -> float:
        return LATENCY * (4 if min(client, server) <= "trn-006" else 1)

    check = Fleet(16, answer).run(FULL)
    (finding,) = [finding for finding in check.findings if finding.outcome is Outcome.FAIL]
    unclear = texts(check, Outcome.UNKNOWN)
    assert set(unclear) == {f"trn-{index:03}" for index in range(1, 7)}, "inconclusive"
    assert finding.text.startswith("6 nodes are slow or fail with healthy partners (trn-001,")


def test_two_slow_nodes_at_once() -> None:
    def answer(client: str, server: str, efa_device: str) -> float:
        return LATENCY * (5 if {client, server} & {"trn-001", "trn-002"} else 1)

    check = Fleet(8, answer).run()
    assert set(texts(check)) == {"trn-001", "trn-002"}


def test_a_slow_path_names_no_node() -> None:
    def answer(client: str, server: str, efa_device: str) -> float:
        return LATENCY * (5 if {client, server} == {"trn-001", "trn-002"} else 1)

    check = Fleet(8, answer).run()
    finding = only(check)
    assert (finding.node, finding.component) == ("", "link:trn-001>trn-002")
    assert "between trn-001 and trn-002" in finding.text
    assert "neither node fails with enough other nodes" in finding.text
    assert check.verdict.startswith("FAIL: 8 of 8 nodes pass. trn-001–trn-002 slow path: between")


@pytest.mark.parametrize("plan", [Plan(), FULL])
def test_a_node_without_any_response_is_named_and_its_partners_are_not(plan: Plan) -> None:
    def answer(client: str, server: str, efa_device: str) -> Answer:
        return failed("no data within 10 s", "path") if "trn-004" in (client, server) else LATENCY

    finding = only(Fleet(8, answer).run(plan))
    assert (finding.node, finding.outcome) == ("trn-004", Outcome.FAIL)
    assert finding.fault == "probe failed" and "no data within 10 s" in finding.text


def test_a_side_that_fails_by_itself_is_named() -> None:
    def answer(client: str, server: str, efa_device: str) -> Answer:
        if "trn-003" not in (client, server):
            return LATENCY
        side = "client" if client == "trn-003" else "server"
        return failed("libfabric has no provider efa", side)

    finding = only(Fleet(6, answer).run())
    assert finding.node == "trn-003"
    assert "libfabric has no provider efa" in finding.text
    assert finding.check == "probe"


def test_losses_name_the_node_that_has_them() -> None:
    def answer(client: str, server: str, efa_device: str) -> Answer:
        if "trn-003" not in (client, server):
            return LATENCY
        return ProbeResult(tool="fi_pingpong", peer="?", seconds=LATENCY, size_bytes=64, lost=7)

    finding = only(Fleet(6, answer).run())
    assert (finding.node, finding.outcome) == ("trn-003", Outcome.WARN)
    assert "as its peers; " in finding.text and "7 messages with trn-00" in finding.text


def test_what_sometimes_fails_and_is_slow_otherwise() -> None:
    tries = {"trn-003": 0}

    def answer(client: str, server: str, efa_device: str) -> Answer:
        if "trn-003" not in (client, server):
            return LATENCY
        tries["trn-003"] += 1
        return failed("cut off after 10 s") if tries["trn-003"] % 2 else 300 * LATENCY

    finding = only(Fleet(8, answer).run())
    assert (finding.node, finding.outcome) == ("trn-003", Outcome.FAIL)
    assert "300 times" in finding.text and "failed: cut off after 10 s" in finding.text


def test_no_pair_works_and_none_is_named() -> None:
    check = Fleet(6, lambda *_: failed("connection timed out")).run()
    (finding,) = [finding for finding in check.findings if finding.outcome is Outcome.FAIL]
    assert len(texts(check, Outcome.UNKNOWN)) == 6, "no node passes of which nothing is known"
    assert finding.node == "" and "no single node is faulty: connection timed out" in finding.text
    assert "security group" in finding.next_step


def test_the_only_pair_fails_and_neither_passes() -> None:
    check = Fleet(2, lambda *_: failed("connection timed out")).run()
    assert [node_check.outcome for node_check in check.nodes] == [Outcome.UNKNOWN] * 2
    assert check.verdict == (
        "FAIL: 0 of 2 nodes pass; fail: probe failed; inconclusive: no good pair (trn-001, trn-002)"
    )


def test_all_sides_fail_equally_and_none_is_named() -> None:
    check = Fleet(4, lambda *_: failed("libfabric has no provider efa", "client")).run()
    (finding,) = [finding for finding in check.findings if finding.outcome is Outcome.FAIL]
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
    def answer(client: str, server: str, efa_device: str) -> float:
        return LATENCY * (5 if {client, server} == {"trn-001", "trn-002"} else 1)

    fleet = Fleet(8, answer)
    fleet.loads = {"trn-002": "load 201.5 of 192 cores"}
    check = fleet.run()
    assert (only(check).outcome, only(check).action) == (Outcome.UNKNOWN, Action.NONE)
    assert check.outcome.exit_code == 3


def test_a_slow_rail_is_named_with_its_efa_device() -> None:
    fleet = Fleet(6, slow("trn-002", 4, "rdmap48s27"))
    check = fleet.run(Plan(per_device=True))
    finding = only(check)
    assert (finding.node, finding.component) == ("trn-002", "efa:rdmap48s27")
    assert finding.fault == "slow EFA device" and finding.text.startswith("rdmap48s27 with trn-")
    (node_check,) = [entry for entry in check.nodes if entry.node == "trn-002"]
    assert [
        name
        for name, outcome in node_check.efa_device_outcomes.items()
        if outcome is not Outcome.PASS
    ] == ["rdmap48s27"]
    # Once more is the rail probed that is in doubt, not the other seven.
    again = [run for run in check.probe_runs if run.stage.startswith(("again", "suspects"))]
    assert {run.efa_device for run in again} == {"rdmap48s27"}


def test_faults_of_all_efa_devices_are_of_the_node() -> None:
    finding = only(Fleet(6, slow("trn-002", 4)).run(Plan(per_device=True)))
    assert (finding.node, finding.component) == ("trn-002", "")


def test_thresholds_are_settings() -> None:
    settings = Settings(check=Limits(slow=5, very_slow=9))
    assert Fleet(8, slow("trn-002", 4)).run(settings=settings).outcome is Outcome.PASS
