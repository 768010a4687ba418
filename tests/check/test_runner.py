"""The conductor over a made-up fleet: order, deadlines, and what it leaves behind (nothing)."""

import asyncio
import time
from itertools import combinations

import pytest

from tests.check.fleet import LATENCY, Fleet, failed, inspection, refusal
from trntop.check import runner
from trntop.check.model import Action, BusyError, Outcome, ProbeError, ProbeSpec, UnreachableError
from trntop.check.plan import Plan
from trntop.check.result import Check, Progress

SPEC = ProbeSpec(seconds=0.2)


def texts(check: Check, outcome: Outcome = Outcome.FAIL) -> dict[str, str]:
    """Node (or component, if it has no node) → text of its finding."""
    return {
        finding.node or finding.component: finding.text
        for finding in check.findings
        if finding.outcome is outcome
    }


def test_a_healthy_fleet_passes() -> None:
    fleet = Fleet(8)
    check = fleet.run()
    assert check.outcome is Outcome.PASS, check.findings
    assert check.verdict == "PASS: 8 nodes are fit"
    assert len(fleet.probes) == 8
    assert sorted(fleet.closed) == fleet.names
    assert not fleet.running
    assert [entry.ratio for entry in check.nodes] == [1.0] * 8


def test_pairs_of_a_round_run_at_once_but_never_two_on_a_host() -> None:
    fleet = Fleet(8)
    fleet.run()
    assert fleet.most == 8  # FakeHost refuses a second one
    few = Fleet(8)
    few.run(Plan(pairs=1))
    assert few.most == 2


def test_a_full_tournament_probes_every_pair() -> None:
    fleet = Fleet(7)
    fleet.run(Plan(extent="full"))
    met = sorted(tuple(sorted(pair)) for *pair, _ in fleet.probes)
    assert met == list(combinations(fleet.names, 2))


def test_efa_devices_are_probed_in_turn_with_their_counterparts() -> None:
    fleet = Fleet(2)
    check = fleet.run(Plan(per_device=True))
    assert len(fleet.probes) == 8
    assert {(run.efa_device, run.peer_efa_device) for run in check.probe_runs} == {
        (f"rdmap{16 * index}s27",) * 2 for index in range(1, 9)
    }


def test_one_node_is_probed_against_itself() -> None:
    fleet = Fleet(1)
    check = fleet.run()
    assert fleet.probes == [("trn-001", "trn-001", "")]
    assert check.outcome is Outcome.PASS
    broken = Fleet(1, lambda *_: failed("fi_getinfo: no data available"))
    check = broken.run()
    assert texts(check) == {"trn-001": "loopback probe: fi_getinfo: no data available"}


def test_without_nodes_the_result_is_inconclusive() -> None:
    fleet = Fleet(2)
    fleet.broken = dict.fromkeys(fleet.names, UnreachableError("connection refused"))
    check = fleet.run()
    assert check.outcome is Outcome.UNKNOWN
    assert not any(finding.action or "drain" in finding.next_step for finding in check.findings)
    assert fleet.probes == []


@pytest.mark.parametrize("down", [2, 1])
def test_a_host_name_that_does_not_resolve_is_named_by_its_fault(down: int) -> None:
    fleet = Fleet(2)
    names = fleet.names[-down:]
    fleet.broken = dict.fromkeys(names, UnreachableError("host name does not resolve"))
    check = fleet.run()
    found = [finding for finding in check.findings if finding.check == "reachable"]
    assert {(finding.node, finding.fault, finding.text, finding.action) for finding in found} == {
        (name, "unreachable", "host name does not resolve", Action.NONE) for name in names
    }
    assert {finding.sentence(finding.node) for finding in found} == {
        f"{name} unreachable: host name does not resolve. Check DNS or /etc/hosts."
        for name in names
    }


def test_the_verdict_gives_the_thing_the_cause_and_the_action() -> None:
    fleet = Fleet(2)
    fleet.broken = dict.fromkeys(fleet.names, UnreachableError("host name does not resolve"))
    assert fleet.run().verdict == (
        "INCONCLUSIVE: 0 of 2 nodes pass. trn-001, trn-002 unreachable: host name does not resolve."
        " Check DNS or /etc/hosts."
    )


def test_a_host_with_an_unexpected_response_is_not_to_be_drained() -> None:
    fleet = Fleet(4)
    fleet.broken["trn-002"] = ProbeError("no agent of trntop answers there")
    check = fleet.run()
    assert texts(check) == {}
    assert texts(check, Outcome.UNKNOWN) == {"trn-002": "no agent of trntop answers there"}


def test_refusing_and_hanging_hosts_delay_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "CLOSE_SECONDS", 0.05)
    fleet = Fleet(6)
    fleet.broken["trn-002"] = refusal()
    fleet.hanging.add("trn-005")
    begun = time.monotonic()
    check = fleet.run(Plan(inspect_seconds=0.1))
    assert time.monotonic() - begun < 3
    assert texts(check) == {"trn-005": "no response within 100 ms"}
    assert texts(check, Outcome.UNKNOWN) == {
        "trn-002": "its agent was started without --allow-probes"
    }
    assert check.outcome is Outcome.FAIL
    assert check.outcome.exit_code == 2
    assert check.verdict == (
        "FAIL: 4 of 6 nodes pass; fail: unreachable (trn-005); inconclusive: probes refused"
        " (trn-002)"
    )


def test_a_node_that_dies_during_the_check_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "CALL_SECONDS", 0.05)
    monkeypatch.setattr(runner, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(runner, "CLOSE_SECONDS", 0.05)
    fleet = Fleet(6)

    def answer(client: str, server: str, efa_device: str) -> float:
        fleet.hanging.add("trn-003")
        return LATENCY

    fleet.answer = answer
    check = fleet.run(Plan(spec=SPEC, pairs=1, inspect_seconds=0.05))
    assert list(texts(check)) == ["trn-003"]
    assert texts(check)["trn-003"].startswith("no response within")
    assert {entry.node for entry in check.nodes if entry.outcome is Outcome.PASS} == {
        name for name in fleet.names if name != "trn-003"
    }


def test_a_node_that_starts_no_probe_differs_from_one_that_is_gone() -> None:
    def answer(client: str, server: str, efa_device: str) -> float | ProbeError:
        return ProbeError("fi_pingpong is not installed") if client == "trn-003" else LATENCY

    fleet = Fleet(5, answer)
    check = fleet.run()
    assert texts(check) == {
        "trn-003": "2 probes failed on this node's side: fi_pingpong is not installed"
    } or texts(check, Outcome.WARN) == {
        "trn-003": "1 probe failed on this node's side: fi_pingpong is not installed"
    }


def test_a_node_that_gives_no_answer_once_is_not_gone() -> None:
    tries = iter(range(9))

    def answer(client: str, server: str, efa_device: str) -> float | ProbeError:
        if "trn-003" in (client, server) and next(tries) == 1:
            return UnreachableError("no answer within 12 s")
        return LATENCY

    check = Fleet(6, answer).run()
    assert texts(check) == {}
    assert texts(check, Outcome.WARN) == {
        "trn-003": "1 probe failed on this node's side: no answer within 12 s"
    }
    assert not any(inspect.error for inspect in check.inspections)


def test_a_node_without_the_tool_is_not_probed_and_has_no_fault() -> None:
    fleet = Fleet(4)
    fleet.inspections["trn-004"] = lambda _: inspection("trn-004", tools=[])
    check = fleet.run()
    assert texts(check) == {}
    assert texts(check, Outcome.UNKNOWN) == {"trn-004": "not probed, fi_pingpong is not installed"}
    (finding,) = [finding for finding in check.findings if finding.node == "trn-004"]
    assert "Debian's libfabric-bin" in finding.next_step
    assert not any("trn-004" in probe for probe in fleet.probes)


def test_the_check_waits_for_a_node_in_another_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RETRY_SECONDS", 0.01)
    busy = iter([BusyError("another probe is under way")] * 3)
    fleet = Fleet(2, lambda *_: next(busy, LATENCY))
    assert fleet.run().outcome is Outcome.PASS
    monkeypatch.setattr(runner, "BUSY_SECONDS", 0.05)
    fleet = Fleet(2, lambda *_: BusyError("another probe is under way"))
    check = fleet.run()
    assert texts(check) == {}, "nothing is known of it, least of all a fault"
    assert texts(check, Outcome.UNKNOWN)["trn-001"] == "another probe is under way"


def test_busy_nodes_are_left_alone_by_default() -> None:
    def inspect(number: int) -> object:
        return inspection("trn-004", busy=["job 4711", "pid 12 python"])

    fleet = Fleet(4)
    fleet.inspections["trn-004"] = inspect  # type: ignore[assignment]
    check = fleet.run()
    assert texts(check, Outcome.UNKNOWN) == {
        "trn-004": "not probed, used by job 4711, pid 12 python"
    }
    assert check.outcome.exit_code == 3
    assert not any("trn-004" in probe for probe in fleet.probes)
    assert fleet.run(Plan(include_busy=True)).outcome is Outcome.PASS


def test_a_passing_disturbance_is_ignored() -> None:
    slow = iter([10 * LATENCY])
    fleet = Fleet(
        8,
        lambda client, server, efa_device: (
            next(slow, LATENCY) if "trn-003" in (client, server) else LATENCY
        ),
    )
    check = fleet.run()
    assert check.outcome is Outcome.PASS
    assert [run.stage for run in check.probe_runs].count("again 1.1") == 1


def test_a_time_limit_ends_it_with_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(4, lambda *_: LATENCY)

    async def forever(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("tests.check.fleet.FakeHost.probe", forever)
    check = fleet.run(Plan(time_limit=0.2))
    assert check.cut_short == "time limit of 0 s exceeded: round 1"
    assert check.outcome is Outcome.UNKNOWN
    assert sorted(fleet.closed) == fleet.names
    assert not fleet.running


def test_cancelled_it_ends_what_runs_everywhere() -> None:
    fleet = Fleet(4)
    fleet.hanging.add("trn-002")

    async def cancelled() -> None:
        task = asyncio.create_task(fleet.check(Plan(inspect_seconds=60)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert sorted(fleet.closed) == fleet.names


def test_a_host_that_breaks_is_no_verdict() -> None:
    fleet = Fleet(4)

    def answer(*_: str) -> float:
        raise ZeroDivisionError

    fleet.answer = answer
    with pytest.raises(ExceptionGroup):
        fleet.run()
    assert sorted(fleet.closed) == fleet.names


def test_progress_is_reported() -> None:
    steps: list[Progress] = []
    Fleet(4).run(progress=steps.append)
    assert [step.stage for step in steps if step.done == step.total] == [
        "inspecting the nodes before the probes",
        "round 1",
        "round 2",
        "inspecting the nodes after the probes",
    ]
