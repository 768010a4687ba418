"""Jobs that communicate too much, on small hand-made streams."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.analysis.harness import Detection, detections
from tests.analysis.training import SPINS, Job, Pause, analyzed
from tests.reports import efa_payload, efa_reading, step_reading
from trntop.analysis.detectors.comm import CommBound
from trntop.core.model import Cluster, Incident, Reading, Severity
from trntop.core.settings import Analysis, Settings
from trntop.session.monitor import Monitor, play


def steps(
    start: int,
    end: int,
    comm: float,
    exposed: float,
    job: str = "job",
    nodes: int = 4,
    **extra: object,
) -> list[Reading]:
    """Steps of 4 s, of which so many seconds are communication."""
    return [
        step_reading(
            float(t), node=f"{job}{node}", job=job, rank=node, step=t // 4,
            comm=comm, exposed=exposed, **extra,
        )
        for t in range(start, end, 4)
        for node in range(nodes)
    ]  # fmt: skip


def bound(readings: Iterable[Reading], **settings: Any) -> list[Detection]:
    return detections(CommBound(Analysis(**settings), 1.0), readings)


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
    assert "30 % exposed" in found.verdict.fields["exposed"]
    assert len(found.verdict.evidence) == 2


def test_below_the_limits() -> None:
    assert bound(steps(0, 100, 0.9, 0.9)) == []
    assert len(bound(steps(0, 100, 0.9, 0.2), comm_share=0.2)) == 1


def test_a_limit_of_nothing_is_passed_by_any_communication() -> None:
    assert len(bound(steps(0, 100, 0.1, 0.0), comm_share=0.0)) == 1


def test_the_mean_over_the_nodes_counts() -> None:
    """One of four communicates long: no other node slows it."""
    stream = [reading for reading in steps(0, 100, 0.4, 0.1) if reading.node != "job3"]
    stream += [reading for reading in steps(0, 100, 1.6, 0.1) if reading.node == "job3"]
    assert bound(stream) == []


def test_jobs_are_apart() -> None:
    stream = steps(0, 100, 0.4, 0.1, "one") + steps(0, 100, 1.6, 0.2, "two")
    (found,) = bound(stream)
    assert found.key == "two"
    assert "over 4 nodes" in found.verdict.evidence[0].text


def wire(share: float, reporting: int = 0) -> list[Reading]:
    """Four busy nodes whose EFA device of 100 Gb/s sends for so much of the time."""
    job = Job(reporting=reporting)
    sent = [
        efa_reading(
            efa_payload(rdmap0={"tx_bytes": int(t * share * 12.5e9), "rx_bytes": 0}), float(t), name
        )
        for t in range(0, 120, 5)
        for name in job.names()
    ]
    return job.readings(120) + sent


def test_the_bytes_on_the_wire_are_enough_where_no_shares_are_reported() -> None:
    (found,) = bound(wire(0.31))
    assert found.key is None
    assert found.verdict.fields["job"] == "4 nodes"
    assert found.verdict.fields["share"] == "takes at least 31 % of the time"
    assert bound(wire(0.24)) == []
    assert bound(wire(0.31), comm_ratio="exposed_share") == []


def test_reported_shares_count_more_than_the_bytes_on_the_wire() -> None:
    assert bound(wire(0.31, reporting=4)) == []


def test_one_slow_step_is_no_incident() -> None:
    stream = steps(0, 60, 0.6, 0.2) + steps(60, 64, 1.6, 0.2) + steps(64, 120, 0.6, 0.2)
    assert bound(stream) == []


def test_two_steps_of_all_nodes_well_above_the_limit_are_enough() -> None:
    (incident,) = analyzed_steps(steps(0, 60, 0.4, 0.2) + steps(60, 120, 3.0, 0.2))
    assert incident.opened_at == pytest.approx(60, abs=1)
    assert incident.detected_at is not None
    assert incident.detected_at <= 60 + 2 * 4 + 2
    assert "communication rose from 10 to 75 % of step time" in incident.summary


def test_the_node_for_which_the_others_wait_is_named_if_nothing_else_is() -> None:
    slow = [reading for reading in steps(0, 180, 0.2, 0.1) if reading.node == "job3"]
    others = [reading for reading in steps(0, 180, 2.0, 1.9) if reading.node != "job3"]
    (incident,) = analyzed_steps(slow + others)
    assert incident.detected_at is not None
    assert incident.detected_at > 90
    assert incident.summary.endswith("; job3 waits least")


def kinds(all_reduce: float, all_gather: float) -> dict[str, object]:
    """Members of records: seconds of each kind."""
    seconds = {"all_reduce": all_reduce, "all_gather": all_gather}
    return {
        "reduction_seconds": all_reduce,
        "collectives": {kind: {"count": 1, "seconds": each} for kind, each in seconds.items()},
    }


def test_the_kind_that_takes_most_is_named() -> None:
    (incident,) = analyzed_steps(
        steps(0, 60, 0.6, 0.2, **kinds(0.5, 0.1)) + steps(60, 120, 1.6, 0.2, **kinds(1.24, 0.4))
    )
    assert incident.summary == (
        "job: communication rose from 15 to 40 % of step time, 31 % all-reduce; no node stands out"
    )
    assert [piece.text for piece in incident.evidence[-2:]] == [
        "all-reduce 31 % of step time", "all-gather 10 % of step time",
    ]  # fmt: skip


@pytest.mark.parametrize(("limit", "count"), [(0.2, 1), (0.21, 0), (1.0, 0)])
def test_all_reduce_has_a_limit_of_its_own(limit: float, count: int) -> None:
    calm, busy = steps(0, 60, 0.6, 0.2, **kinds(0.4, 0.2)), kinds(0.84, 0.1)
    found = analyzed_steps(calm + steps(60, 140, 0.94, 0.2, **busy), comm_share_all_reduce=limit)
    assert [incident.summary for incident in found] == [
        "job: all-reduce takes 21.0 % of step time (limit 20.0 %); no node stands out"
    ] * count


@pytest.mark.parametrize(
    ("ratio", "limit", "summary"),
    [
        ("comm_share", 0.34, "communication takes 35.0 % of step time (limit 34.0 %)"),
        ("comm_share", 0.35, None),
        ("exposed_share", 0.2, "exposed communication rose from 5.0 to 25 % of step time"),
        ("exposed_share", 0.25, None),
        ("comm_compute", 0.46, "communication takes 46.7 % of compute time (limit 46.0 %)"),
        ("comm_compute", 0.47, None),
    ],
)
def test_the_ratio_is_chosen_and_its_limit_is_exact(
    ratio: str, limit: float, summary: str | None
) -> None:
    stream = steps(0, 60, 0.6, 0.2) + steps(60, 140, 1.4, 1.0)
    found = analyzed_steps(stream, comm_ratio=ratio, comm_share=limit)
    assert len(found) == (summary is not None)
    assert all(incident.summary.startswith(f"job: {summary}") for incident in found)


def test_near_the_limit_the_summary_has_a_decimal_and_the_limit() -> None:
    (incident,) = analyzed_steps(steps(0, 120, 1.012, 0.2))
    assert incident.summary == (
        "job: communication takes 25.3 % of step time (limit 25.0 %); no node stands out"
    )
    assert analyzed_steps(steps(0, 120, 1.0, 0.2)) == []


def analyzed_steps(readings: list[Reading], **analysis: Any) -> list[Incident]:
    monitor = Monitor(Settings(analysis=Analysis(**analysis)))
    *_, view = play(sorted(readings, key=lambda reading: reading.time), monitor)
    return [incident for incident in view.incidents if incident.kind == "comm_bound"]


def without(clusters: Iterable[Cluster], begin: float, end: float) -> Iterable[Cluster]:
    """Whose steps are not reported for a while."""
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
    assert [incident.kind for incident in found] == ["hang"]
