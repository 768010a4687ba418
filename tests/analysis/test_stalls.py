"""Jobs without progress, and the many that look so and are healthy."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec
import pytest

from tests.analysis.training import (
    CALM,
    SPINS,
    Job,
    Pause,
    Slow,
    analyzed,
    incidents,
    named,
    together,
)
from trntop.catalog import LOG
from trntop.core.model import Cluster, Incident, Reading, Severity

STALLS = ("hang", "recompile", "checkpoint_stall")
SAVING = CALM | {"io_wait": 9.0, "idle": 79.0}
COMPILING = CALM | {"user": 40.0, "idle": 58.0}


def stalls(clusters: Iterable[Cluster]) -> tuple[Incident, ...]:
    return analyzed(clusters, STALLS)


def paused(*pauses: Pause, seconds: int = 240, **job: object) -> tuple[Incident, ...]:
    made = replace(Job(pauses=pauses), **job)
    return stalls(made.clusters(seconds))


# Healthy jobs.


@pytest.mark.parametrize(("seconds", "first"), [(3, 25), (10, 70), (30, 25), (30, 70)])
def test_regular_checkpoints(seconds: int, first: int) -> None:
    """Cores idle, executions stop, nothing is written where we could see it."""
    begins = range(first, 300, 60)
    assert paused(*(Pause(t, seconds) for t in begins), seconds=300) == ()


def test_checkpoints_take_now_longer_now_shorter() -> None:
    seconds = (8, 12, 7, 16, 9, 20)
    pauses = [Pause(60.0 * (index + 1), second) for index, second in enumerate(seconds)]
    assert paused(*pauses, seconds=440) == ()


@pytest.mark.parametrize(
    "pause",
    [
        Pause(60, 20, vcpu=SAVING),
        Pause(60, 20, written=2e9),
        Pause(60, 30, stage="checkpointing"),
        Pause(60, 200, stage="evaluating"),
        Pause(60, 8, SPINS),  # a slow step
        Pause(60, 45),  # the first pause, for whatever it is
    ],
)
def test_pauses_that_are_none_of_our_business(pause: Pause) -> None:
    assert paused(pause, seconds=300, host=True) == ()


def test_an_evaluation_executes_without_steps() -> None:
    assert paused(Pause(80, 150, 85.0, completed=10), seconds=300) == ()


@pytest.mark.parametrize("seconds", [40, 200])
def test_a_compilation_at_the_start(seconds: int) -> None:
    start = Pause(0, seconds, compilers=8, vcpu=COMPILING)
    assert paused(start, seconds=seconds + 60, host=True) == ()


def test_a_compilation_after_the_first_step() -> None:
    """The second step of a run has graphs of its own."""
    pause = Pause(2, 60, compilers=8, vcpu=COMPILING)
    assert paused(pause, seconds=120, host=True) == ()


def test_collectives_that_timed_out_are_evidence_of_a_hang() -> None:
    job = Job(pauses=(Pause(100, 1000, SPINS),))
    readings = job.readings(240)
    payload = {"file": "train.log", "timeouts": {"count": 1, "lines": [
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
        "OpType=ALLREDUCE, Timeout(ms)=60000) ran for 60060 milliseconds before timing out."
    ]}}  # fmt: skip
    line = Reading(job.names()[0], LOG, readings[0].time + 170, msgspec.json.encode(payload))
    found = [incident for incident in incidents([*readings, line]) if incident.kind == "hang"]
    assert [incident.open for incident in found] == [True]
    texts = [evidence.text for evidence in found[0].evidence]
    assert "training log: rank 3: allreduce 7 timed out after 60 s" in texts


def test_a_restart_by_hyperpod_is_evidence_of_a_hang() -> None:
    job = Job(pauses=(Pause(100, 1000, SPINS),))
    readings = job.readings(240)
    payload = {"file": "train.log", "interruptions": [
        "[Auto Resume] Info: JobID: 82 StepID: 0 Job failed - replacing nodes"
    ]}  # fmt: skip
    line = Reading(job.names()[0], LOG, readings[0].time + 170, msgspec.json.encode(payload))
    found = [incident for incident in incidents([*readings, line]) if incident.kind == "hang"]
    texts = [evidence.text for evidence in found[0].evidence]
    expected = "HyperPod auto-resume of Slurm job 82: Job failed - replacing nodes"
    assert f"training log: {expected}" in texts


def test_a_short_compilation_in_the_middle() -> None:
    assert paused(Pause(100, 6, compilers=2, vcpu=COMPILING), host=True) == ()


def test_a_job_that_ends() -> None:
    assert paused(Pause(100, 1000, gone=True), seconds=300) == ()


def test_a_job_that_restarts_from_a_checkpoint() -> None:
    pauses = (
        Pause(100, 20, gone=True),
        Pause(120, 40, compilers=8, vcpu=COMPILING, resumes=20),
    )
    assert paused(*pauses, seconds=260, host=True) == ()


def test_the_same_without_a_report_of_the_exited_processes() -> None:
    pause = Pause(100, 40, compilers=8, vcpu=COMPILING, resumes=3)
    found = paused(pause, seconds=260, host=True)
    assert [incident.kind for incident in found if incident.kind == "hang"] == []


@pytest.mark.parametrize("every", [10, 50])
def test_a_log_that_reports_few_steps(every: int) -> None:
    assert paused(Pause(200, 15), seconds=400, every=every, step=1.0) == ()


@pytest.mark.parametrize("step", [0.3, 8.0, 25.0])
def test_steps_of_any_length(step: float) -> None:
    assert paused(seconds=300, step=step) == ()


def test_steps_that_become_much_longer() -> None:
    slow = tuple(Slow(node, 3.0, 100) for node in range(4))
    assert paused(seconds=260, slow=slow) == ()


def test_one_long_step() -> None:
    slow = (Slow(1, 2.5, 100, 101),)
    assert paused(seconds=200, slow=slow, step=6.0) == ()


@pytest.mark.parametrize("begin", [101.0, 110.0])
def test_a_recording_that_starts_in_a_pause(begin: float) -> None:
    job = Job(pauses=(Pause(100, 30), Pause(190, 20)))
    assert stalls(job.clusters(260, begin)) == ()


def test_nodes_without_a_job() -> None:
    job = Job(reporting=0, pauses=(Pause(0, 500),))
    assert stalls(job.clusters(300)) == ()


def test_no_telemetry_and_regular_checkpoints() -> None:
    pauses = tuple(Pause(t, 15) for t in range(60, 300, 60))
    assert paused(*pauses, seconds=300, reporting=0) == ()


def test_a_lost_report_of_executions_in_a_long_step() -> None:
    usual = tuple(Pause(t, 18, SPINS) for t in range(10, 200, 21))
    assert paused(*usual, Pause(220, 36, SPINS), seconds=300, reporting=0) == ()


def test_steps_that_execute_in_few_reports() -> None:
    usual = tuple(Pause(t, 5, SPINS) for t in range(10, 200, 7))
    assert paused(*usual, Pause(205, 9.5, SPINS), seconds=260, reporting=0) == ()


# Hangs.


def hang(**job: object) -> Incident:
    found = paused(**job)  # type: ignore[arg-type]
    assert [incident.kind for incident in found] == ["hang"], named(found)
    return found[0]


def hung(*, seconds: int = 200, of: dict[int, float] | None = None, **job: object) -> Incident:
    pause = Pause(100, 1000, SPINS, of=of or {})
    found = paused(pause, seconds=seconds, **job)
    assert [incident.kind for incident in found] == ["hang"], named(found)
    return found[0]


@pytest.mark.parametrize("step", [0.5, 2.0, 8.0])
def test_a_hang(step: float) -> None:
    incident = hung(step=step)
    assert (incident.severity, incident.job, incident.node) == (Severity.CRITICAL, "job", None)
    assert incident.opened_at == pytest.approx(100 + step, abs=step + 3)
    assert incident.detected_at is not None
    assert incident.detected_at <= 125 + 3 * step
    assert "no node stands out" in incident.summary
    assert "job stalled at step " in incident.summary
    assert incident.open


def test_the_node_that_idles_while_the_others_wait() -> None:
    incident = hung(of={2: 0.0})
    assert incident.node == "n2"
    assert incident.summary.endswith("; n2 is idle")


def test_a_long_name_of_the_job_leaves_the_node_and_the_verb() -> None:
    incident = hung(of={2: 0.0}, prefix="ip-10-0-123-14", name="llama3-405b-pretrain-" * 4)
    assert incident.summary.endswith("; ip-10-0-123-142 is idle")


def test_two_nodes_of_many_that_idle() -> None:
    incident = hung(of={2: 0.0, 5: 0.0}, nodes=8)
    assert incident.node is None
    assert "n2 and n5 are idle" in incident.summary


def test_a_lost_record_names_no_node() -> None:
    pause = Pause(100, 1000, SPINS, behind=3)
    (incident,) = paused(pause, seconds=200)
    assert (incident.kind, incident.node) == ("hang", None)
    assert "no node stands out" in incident.summary


def test_the_node_that_is_killed_first_did_not_stop_the_job() -> None:
    pauses = (Pause(100, 60, SPINS), Pause(160, 100, SPINS, of={1: 0.0}))
    (incident,) = paused(*pauses, seconds=240)
    assert (incident.kind, incident.node) == ("hang", None)


def test_the_node_that_stops_the_job_stays_named_while_the_others_are_killed() -> None:
    pauses = (
        Pause(100, 40, SPINS, of={2: 0.0}),
        Pause(140, 100, 0.0, of={0: SPINS, 3: SPINS}),
    )
    (incident,) = paused(*pauses, seconds=200)
    assert (incident.kind, incident.node) == ("hang", "n2")


def test_a_hang_where_one_rank_reports() -> None:
    incident = hung(of={2: 0.0}, reporting=1)
    assert (incident.job, incident.node) == ("job", "n2")


def test_a_hang_without_telemetry() -> None:
    incident = hung(of={2: 0.0}, reporting=0)
    assert (incident.job, incident.node) == (None, "n2")
    assert incident.summary.startswith("4 nodes stalled, no progress for ")
    assert "a usual step takes" not in incident.evidence[0].text


def test_a_hang_of_a_job_whose_log_reports_few_steps() -> None:
    incident = hung(every=5, seconds=260)
    assert incident.job == "job"


def test_a_hang_that_ends() -> None:
    (incident,) = paused(Pause(100, 60, SPINS), seconds=240)
    assert incident.kind == "hang"
    assert incident.closed_at == pytest.approx(162, abs=5)


def test_a_hang_is_closed_when_the_job_is_killed() -> None:
    pauses = (Pause(100, 60, SPINS), Pause(160, 1000, gone=True))
    (incident,) = paused(*pauses, seconds=300)
    assert incident.closed_at == pytest.approx(160, abs=15)


def test_a_job_that_restarts_after_a_hang_may_hang_again() -> None:
    pauses = (
        Pause(100, 60, SPINS),
        Pause(160, 20, gone=True, resumes=10),
        Pause(300, 1000, SPINS),
    )
    first, *more = paused(*pauses, seconds=400)
    assert (first.kind, first.open) == ("hang", True)
    assert all(not incident.open for incident in more)


def test_a_hang_as_it_is_read() -> None:
    """Through sources, decoders and all rules: one incident."""
    job = Job(pauses=(Pause(70, 500, SPINS, of={1: 0.0}),))
    (incident,) = incidents(job.readings(140))
    assert (incident.kind, incident.node, incident.job) == ("hang", "n1", "job")
    assert len(incident.summary) <= 120


def test_idle_cores_without_a_reason_for_long() -> None:
    (incident,) = paused(Pause(100, 1000), seconds=300)
    assert incident.kind == "hang"
    assert incident.detected_at is not None
    assert incident.detected_at <= 100 + 90


def test_idle_cores_of_a_job_without_telemetry() -> None:
    (incident,) = paused(Pause(100, 1000), seconds=220, reporting=0)
    assert (incident.kind, incident.node) == ("hang", None)


def test_a_job_that_idles_longer_than_its_usual_pauses() -> None:
    """Its hosts have nothing to do either: a minute is not needed."""
    pauses = (Pause(60, 8), Pause(110, 8), Pause(195, 1000))
    (incident,) = paused(*pauses, seconds=260)
    assert incident.kind == "hang"
    assert incident.detected_at is not None
    assert incident.detected_at <= 195 + 40


def test_a_job_that_never_got_under_way_has_not_stopped() -> None:
    assert paused(Pause(8, 300), seconds=250) == ()


def test_a_hang_in_one_of_two_jobs() -> None:
    healthy = Job(name="well", prefix="a", seed=5)
    faulty = Job(name="faulty", prefix="b", pauses=(Pause(100, 500, SPINS, of={1: 0.0}),))
    found = stalls(together(healthy.clusters(180), faulty.clusters(180)))
    assert [(incident.kind, incident.job, incident.node) for incident in found] == [
        ("hang", "faulty", "b1")
    ]


def test_a_long_compilation_at_first_does_not_hide_a_hang() -> None:
    """The time of a compilation does not limit how long collectives may spin."""
    pauses = (
        Pause(2, 120, compilers=8, vcpu=COMPILING),
        Pause(200, 500, SPINS),
    )
    (incident,) = paused(*pauses, seconds=280, host=True)
    assert incident.kind == "hang"


def test_long_checkpoints_do_not_hide_a_hang() -> None:
    pauses = (*(Pause(t, 40, written=3e9) for t in (60, 140, 220)), Pause(280, 500, SPINS))
    (incident,) = paused(*pauses, seconds=340, host=True)
    assert incident.kind == "hang"


# Compilations in mid-run.


@pytest.mark.parametrize(
    "pause",
    [
        Pause(100, 60, compilers=8, vcpu=COMPILING),
        Pause(100, 60, stage="compiling"),
        Pause(100, 60, vcpu=COMPILING),  # what runs in a container is not to be seen
    ],
)
def test_a_compilation_in_mid_run(pause: Pause) -> None:
    (incident,) = paused(pause, seconds=220, host=True)
    assert (incident.kind, incident.job, incident.node) == ("recompile", "job", None)
    assert incident.opened_at == pytest.approx(102, abs=5)
    assert incident.detected_at is not None
    assert incident.detected_at <= 130
    assert incident.closed_at == pytest.approx(162, abs=6)


def test_a_compilation_that_explains_apparent_idleness() -> None:
    """The compilers are detected late: the host is polled each ten seconds."""
    pause = Pause(101, 80, compilers=8)
    found = paused(pause, seconds=240, host=True)
    assert [incident.kind for incident in found] == ["recompile"]


# Checkpoints.


def checkpoints(long: float, usual: float, **how: object) -> tuple[Incident, ...]:
    pauses = [Pause(t, usual, **how) for t in (60, 120, 180, 240)]  # type: ignore[arg-type]
    return paused(
        *pauses, Pause(300, long, **how), seconds=320 + int(long), host=True  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("usual", "how"),
    [(8, {"written": 1e9}), (8, {"vcpu": SAVING}), (12, {"stage": "checkpointing"}), (12, {})],
    ids=["written", "waits", "reported", "unreported"],
)
def test_a_checkpoint_that_takes_ten_times_as_long(usual: float, how: dict[str, object]) -> None:
    (incident,) = checkpoints(10 * usual, usual, **how)
    assert (incident.kind, incident.job) == ("checkpoint_stall", "job")
    assert incident.opened_at == pytest.approx(302, abs=5)
    assert incident.detected_at is not None
    assert incident.detected_at <= 300 + max(20, 4 * usual) + 6
    assert incident.closed_at == pytest.approx(300 + 10 * usual, abs=6)
    assert "usually" in incident.summary


def test_a_checkpoint_that_takes_half_as_long_again() -> None:
    assert checkpoints(18, 12) == ()
    assert checkpoints(18, 12, written=1e9) == ()


def test_the_end_of_an_epoch_takes_longer_than_checkpoints() -> None:
    pauses = [Pause(t, 30 if t % 120 == 0 else 8) for t in range(60, 420, 60)]
    assert paused(*pauses, seconds=420, host=True) == ()


def test_the_first_checkpoint_has_nothing_to_be_measured_by() -> None:
    assert paused(Pause(100, 35, written=1e9), seconds=200, host=True) == ()
    (incident,) = paused(Pause(100, 150, written=1e9), seconds=300, host=True)
    assert incident.kind == "checkpoint_stall"


# What is missing.


def test_no_data_for_a_while() -> None:
    def torn(job: Job) -> Iterable[Cluster]:
        for cluster in job.clusters(240):
            for view in cluster.nodes.values():
                columns = view.frame.columns
                assert isinstance(columns, dict)
                if 100 <= cluster.time < 150:
                    columns.clear()
            yield cluster

    assert stalls(torn(Job())) == ()
    # A hang without data is neither over nor another one.
    (incident,) = stalls(torn(Job(pauses=(Pause(70, 500, SPINS),))))
    assert (incident.kind, incident.open, incident.returns) == ("hang", True, 0)


def test_the_telemetry_ends_and_the_job_goes_on() -> None:
    def deaf(job: Job) -> Iterable[Cluster]:
        for cluster in job.clusters(240):
            for view in cluster.nodes.values():
                columns = view.frame.columns
                assert isinstance(columns, dict)
                if cluster.time >= 100:
                    for name in [name for name in columns if name.startswith(("rank", "job"))]:
                        del columns[name]
            yield cluster

    assert stalls(deaf(Job())) == ()


def test_neuron_monitor_is_missing() -> None:
    assert paused(Pause(100, 200), monitors=False) == ()
