"""Jobs that communicate too much, on small hand-made streams."""

from collections.abc import Iterable

import pytest

from tests.analysis.harness import Stretch, stretches
from tests.analysis.training import SPINS, Job, Pause, analyzed
from tests.reports import step_reading
from trntop.analysis.detectors.comm import CommBound
from trntop.core.model import Cluster, Incident, Reading, Severity
from trntop.core.settings import Analysis, Settings
from trntop.session.monitor import Monitor, play


def steps(
    start: int, end: int, comm: float, exposed: float, job: str = "job", nodes: int = 4
) -> list[Reading]:
    """Steps of 4 s, of which so many seconds are communication."""
    return [
        step_reading(
            float(t), node=f"{job}{node}", job=job, rank=node, step=t // 4,
            comm=comm, exposed=exposed,
        )
        for t in range(start, end, 4)
        for node in range(nodes)
    ]  # fmt: skip


def bound(readings: Iterable[Reading], **settings: float) -> list[Stretch]:
    return stretches(CommBound(Analysis(**settings), 1.0), readings)


def test_too_much_of_the_step() -> None:
    (found,) = bound(steps(0, 60, 0.6, 0.2) + steps(60, 120, 1.6, 0.2))
    assert found.key == "job"
    assert 60 <= found.begin <= 80
    assert found.verdict.severity is Severity.WARNING
    assert (found.verdict.job, found.verdict.node) == ("job", None)
    assert found.verdict.fields["exposed"] == ""


def test_exposed_communication_is_critical() -> None:
    (found,) = bound(steps(0, 100, 1.4, 1.2))
    assert found.verdict.severity is Severity.CRITICAL
    assert "exposed 30 %" in found.verdict.fields["exposed"]
    assert len(found.verdict.evidence) == 2


def test_below_the_limits() -> None:
    assert bound(steps(0, 100, 0.9, 0.9)) == []
    assert len(bound(steps(0, 100, 0.9, 0.2), comm_share=0.2)) == 1


def test_a_limit_of_nothing_is_passed_by_any_communication() -> None:
    assert len(bound(steps(0, 100, 0.1, 0.0), comm_share=0.0)) == 1


def test_the_mean_over_the_nodes_counts() -> None:
    """One of four communicates long: it waits for nobody but itself."""
    stream = [one for one in steps(0, 100, 0.4, 0.1) if one.node != "job3"]
    stream += [one for one in steps(0, 100, 1.6, 0.1) if one.node == "job3"]
    assert bound(stream) == []


def test_jobs_are_apart() -> None:
    stream = steps(0, 100, 0.4, 0.1, "one") + steps(0, 100, 1.6, 0.2, "two")
    (found,) = bound(stream)
    assert found.key == "two"
    assert "over 4 nodes" in found.verdict.evidence[0].text


def test_one_slow_step_is_no_incident() -> None:
    stream = steps(0, 60, 0.6, 0.2) + steps(60, 64, 1.6, 0.2) + steps(64, 120, 0.6, 0.2)
    assert bound(stream) == []


def test_two_steps_of_all_nodes_far_above_the_limit_are_enough() -> None:
    (incident,) = analyzed_steps(steps(0, 60, 0.4, 0.2) + steps(60, 120, 3.0, 0.2))
    assert incident.opened_at == pytest.approx(60, abs=1)
    assert incident.detected_at is not None
    assert incident.detected_at <= 60 + 2 * 4 + 2
    assert "communication takes 75 % of step time, before 10 %" in incident.summary


def test_the_node_for_which_the_others_wait_is_named_if_nothing_else_is() -> None:
    slow = [one for one in steps(0, 180, 0.2, 0.1) if one.node == "job3"]
    others = [one for one in steps(0, 180, 2.0, 1.9) if one.node != "job3"]
    (incident,) = analyzed_steps(slow + others)
    assert incident.detected_at is not None
    assert incident.detected_at > 90
    assert incident.summary.endswith("; job3 waits least")


def analyzed_steps(readings: list[Reading]) -> list[Incident]:
    monitor = Monitor(Settings())
    *_, view = play(sorted(readings, key=lambda reading: reading.time), monitor)
    return [incident for incident in view.incidents if incident.kind == "comm_bound"]


def without(clusters: Iterable[Cluster], begin: float, end: float) -> Iterable[Cluster]:
    """Of which the steps are not heard for a while."""
    for cluster in clusters:
        for view in cluster.nodes.values():
            columns = view.frame.columns
            assert isinstance(columns, dict)
            if begin <= cluster.time < end:
                for name in [name for name in columns if name.startswith(("rank", "job"))]:
                    del columns[name]
        yield cluster


def heavy(*pauses: Pause, seconds: int = 200) -> Iterable[Cluster]:
    """A job of which 40 % is communication."""
    for cluster in Job(pauses=pauses).clusters(seconds):
        for view in cluster.nodes.values():
            columns = view.frame.columns
            assert isinstance(columns, dict)
            if "job_comm_share_ratio" in columns:
                columns["job_comm_share_ratio"] = columns["job_comm_share_ratio"] * 0.0 + 0.4
        yield cluster


def comm(clusters: Iterable[Cluster]) -> tuple[Incident, ...]:
    return analyzed(clusters, ("comm_bound", "hang"))


def test_a_job_that_is_heavy_all_along() -> None:
    (incident,) = comm(heavy())
    assert incident.open
    assert incident.returns == 0
    assert incident.summary.startswith("job: communication takes 40 % of step time")


@pytest.mark.parametrize("end", [120, 160])
def test_missing_telemetry_neither_opens_nor_closes(end: int) -> None:
    (incident,) = comm(without(heavy(), 100, end))
    assert (incident.open, incident.returns) == (True, 0)
    assert comm(without(Job().clusters(200), 100, end)) == ()


def test_a_pause_neither_opens_nor_closes() -> None:
    (incident,) = comm(heavy(Pause(90, 25)))
    assert (incident.open, incident.returns) == (True, 0)


def test_it_closes_with_its_job() -> None:
    (incident,) = comm(heavy(Pause(90, 1000, gone=True), seconds=260))
    assert not incident.open


def test_a_hang_is_no_communication() -> None:
    found = comm(Job(pauses=(Pause(100, 200, SPINS),)).clusters(200))
    assert [one.kind for one in found] == ["hang"]
