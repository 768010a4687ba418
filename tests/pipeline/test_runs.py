"""What the runs of jobs are doing."""

from collections.abc import Iterable
from itertools import groupby

import pytest

from tests.analysis.training import CALM, SPINS, Job, Pause, together
from trntop.core.model import Cluster, Stage
from trntop.pipeline.phase import Run
from trntop.pipeline.runs import Runs
from trntop.pipeline.tick import Axes, Tick


class Watch:
    """The runs of clusters, and what each was doing when."""

    def __init__(self) -> None:
        self.axes = Axes()
        self.runs = Runs()
        self.did: dict[str | None, list[tuple[float, Stage | None]]] = {}
        self.tick: Tick

    def see(self, clusters: Iterable[Cluster]) -> "Watch":
        for cluster in clusters:
            self.tick = self.axes.tick(cluster)
            self.runs.update(self.tick)
            for job, run in self.runs.by_job.items():
                self.did.setdefault(job, []).append((cluster.time, run.stage))
        return self

    def at(self, time: float, job: str | None = "job") -> Stage | None:
        return dict(self.did[job])[time]

    def course(self, job: str | None = "job") -> list[Stage | None]:
        """What it did, one after the other."""
        return [stage for stage, _ in groupby(stage for _, stage in self.did[job])]

    @property
    def run(self) -> Run:
        return self.runs.by_job["job"]


def watch(job: Job, seconds: int = 150) -> Watch:
    return Watch().see(job.clusters(seconds))


def test_a_job_warms_up_and_works() -> None:
    watched = watch(Job(), 60)
    assert watched.course() == [None, Stage.WARMING_UP, Stage.TRAINING] or (
        watched.course() == [Stage.WARMING_UP, Stage.TRAINING]
    )
    assert watched.run.usual == pytest.approx(2.1, abs=0.1)
    assert watched.run.paused == 0
    assert watched.run.indices.tolist() == [0, 1, 2, 3]
    assert not watched.tick.quiet.any()
    assert watched.tick.job_of == dict.fromkeys(("n0", "n1", "n2", "n3"), "job")


@pytest.mark.parametrize(
    ("pause", "phase"),
    [
        (Pause(80, 60), Stage.IDLE),
        (Pause(80, 60, SPINS), Stage.STALLED),
        (Pause(80, 60, SPINS, of={1: 0.0}), Stage.STALLED),
        (Pause(80, 60, 90.0, completed=5), Stage.EVALUATING),
        (Pause(80, 60, compilers=3), Stage.COMPILING),
        (Pause(80, 60, written=2e9), Stage.CHECKPOINTING),
        (Pause(80, 60, vcpu=CALM | {"io_wait": 20.0}), Stage.CHECKPOINTING),
        (Pause(80, 60, stage="checkpointing"), Stage.CHECKPOINTING),
        (Pause(80, 60, stage="compiling"), Stage.COMPILING),
        (Pause(80, 60, stage="evaluating"), Stage.EVALUATING),
    ],
)
def test_what_keeps_a_job_from_its_steps(pause: Pause, phase: Stage) -> None:
    watched = watch(Job(pauses=(pause,), host=True), 120)
    assert watched.at(75) is Stage.TRAINING
    assert watched.at(115) is phase
    assert watched.tick.quiet.all()
    assert watched.run.why


def test_a_pause_and_what_it_took() -> None:
    watched = watch(Job(pauses=(Pause(60, 20), Pause(120, 30))), 180)
    assert [seconds for _, seconds in watched.run.pauses] == [
        pytest.approx(20, abs=4), pytest.approx(30, abs=4),
    ]  # fmt: skip
    assert watched.run.longest_pause == pytest.approx(30, abs=4)
    assert watched.run.usual_pause == pytest.approx(25, abs=4)


def test_one_pause_is_no_custom() -> None:
    assert watch(Job(pauses=(Pause(60, 20),)), 100).run.usual_pause is None


def test_a_pause_at_the_usual_time_is_a_checkpoint() -> None:
    pauses = tuple(Pause(t, 12) for t in (60, 120, 180, 240))
    watched = watch(Job(pauses=pauses), 262)
    assert watched.at(70) is Stage.IDLE
    assert watched.at(250) is Stage.CHECKPOINTING


def test_a_job_whose_processes_are_gone_has_ended() -> None:
    """Its last record is still reported for a while."""
    watched, ended = Watch(), None
    for cluster in Job(pauses=(Pause(80, 1000, gone=True),)).clusters(160):
        watched.see([cluster])
        if any(run.ended for run in watched.runs.by_job.values()):
            ended = cluster.time
    assert ended is not None
    assert {stage for time, stage in watched.did["job"] if time >= ended} == {None}
    assert watched.tick.quiet.all()


def test_a_short_pause_is_shown_as_training() -> None:
    watched = watch(Job(pauses=(Pause(80, 200, SPINS),)), 100)
    assert watched.run.stage is Stage.STALLED
    phase = watched.runs.phases(watched.tick.time)["job"]
    assert phase.stage is Stage.TRAINING
    watched = watch(Job(pauses=(Pause(80, 200, SPINS),)), 130)
    phase = watched.runs.phases(watched.tick.time)["job"]
    assert (phase.stage, phase.since) == (Stage.STALLED, watched.run.moved)
    assert phase.why.startswith("no step for")


def test_a_restart_starts_over() -> None:
    watched = watch(Job(pauses=(Pause(80, 20, gone=True, resumes=5),)), 130)
    assert watched.run.began is not None
    assert watched.run.began >= 100
    assert watched.run.stage is Stage.TRAINING
    assert watched.run.step < 30


def test_no_node_reports_steps() -> None:
    watched = watch(Job(reporting=0, pauses=(Pause(60, 40, SPINS),)), 90)
    assert list(watched.runs.by_job) == [None]
    assert watched.at(50, None) is Stage.TRAINING
    assert watched.at(85, None) is Stage.STALLED
    assert watched.tick.job_of == {}


def test_one_rank_reports_for_all() -> None:
    watched = watch(Job(reporting=1), 40)
    assert [job for job, run in watched.runs.by_job.items() if len(run.indices)] == ["job"]
    assert watched.run.indices.tolist() == [0, 1, 2, 3]


def test_two_jobs() -> None:
    first = Job(name="job", prefix="a", pauses=(Pause(60, 100, SPINS),))
    second = Job(name="other", prefix="b", nodes=3, step=5.0)
    watched = Watch().see(together(first.clusters(100), second.clusters(100)))
    assert watched.run.indices.tolist() == [0, 1, 2, 3]
    assert watched.runs.by_job["other"].indices.tolist() == [4, 5, 6]
    assert watched.at(90) is Stage.STALLED
    assert watched.at(90, "other") is Stage.TRAINING
    assert watched.tick.quiet.tolist() == [True] * 4 + [False] * 3


def faster(clusters: Iterable[Cluster], share: float) -> Iterable[Cluster]:
    for cluster in clusters:
        for view in cluster.nodes.values():
            columns = view.frame.columns
            assert isinstance(columns, dict)
            columns["node_executions_completed_per_second"] *= 1.0 + share
        yield cluster


def test_nodes_that_report_nothing_are_grouped_by_their_rates() -> None:
    first, other = Job(prefix="a", reporting=0), Job(prefix="b", nodes=3, reporting=0)
    clusters = list(together(first.clusters(80), faster(other.clusters(80), 0.2)))
    assert Watch().see(clusters[:30]).runs.lockstep == {}
    expected = dict.fromkeys(("a0", "a1", "a2", "a3"), "a0")
    assert Watch().see(clusters).runs.lockstep == expected | dict.fromkeys(("b0", "b1", "b2"), "b0")


@pytest.mark.parametrize(
    ("share", "begin", "seconds"), [(0.1, 38, 4), (0.15, 35, 7), (0.2, 35, 7), (0.2, 35, 10)]
)
def test_a_job_whose_mean_rate_passes_through_that_of_another_stays_apart(
    share: float, begin: float, seconds: float
) -> None:
    steady = Job(prefix="a", nodes=2, reporting=0)
    paused = Job(prefix="b", nodes=6, reporting=0, pauses=(Pause(begin, seconds),))
    watch = Watch()
    for cluster in together(steady.clusters(120), faster(paused.clusters(120), share)):
        groups = watch.see([cluster]).runs.lockstep
        assert all(node[0] == first[0] for node, first in groups.items())
    assert len(groups) == 8


def test_nodes_that_are_found_to_be_of_a_job_leave_no_progress_to_the_others() -> None:
    job, other = Job(reporting=1), Job(prefix="b", nodes=1, reporting=0)
    watch = Watch()
    for cluster in together(job.clusters(80), faster(other.clusters(80), 0.2)):
        if len(watch.see([cluster]).tick.job_of) == 4:
            break
    (left,) = watch.runs.by_job[None].indices.tolist()
    assert watch.tick.nodes.key(left) == "b0"
    assert watch.runs.by_job[None].began in (None, watch.tick.time)


def test_the_next_job_on_the_same_nodes() -> None:
    """One rank reports of each: the other nodes go over to the second job with it."""
    first = Job(name="first", reporting=1).clusters(60)
    watched = Watch().see(first)

    def later() -> Iterable[Cluster]:
        for cluster in Job(name="job", reporting=1).clusters(120):
            yield Cluster(cluster.time + 100, cluster.nodes)

    watched.see(later())
    assert watched.run.indices.tolist() == [0, 1, 2, 3]


def test_nodes_join_and_leave() -> None:
    job = Job()
    watched = Watch()

    def stream() -> Iterable[Cluster]:
        for cluster in job.clusters(120):
            gone = "n0" if cluster.time >= 80 else "n3" if cluster.time < 40 else ""
            nodes = {name: view for name, view in cluster.nodes.items() if name != gone}
            yield Cluster(cluster.time, nodes)

    watched.see(stream())
    assert watched.run.indices.tolist() == [0, 1, 2]
    assert all(phase is Stage.TRAINING for time, phase in watched.did["job"] if time > 15)


def test_the_node_whose_cores_fell_idle() -> None:
    watched = watch(Job(pauses=(Pause(60, 100, SPINS, of={2: 0.0}),)), 100)
    busy, idle = watched.runs.nodes.idle_since[[0, 2]].tolist()
    assert busy != busy
    assert idle == pytest.approx(62, abs=2)


@pytest.mark.parametrize(
    ("pause", "during", "after"),
    [
        (Pause(80, 60, vcpu=CALM | {"io_wait": 20.0}), Stage.CHECKPOINTING, Stage.IDLE),
        (Pause(80, 60, compilers=3), Stage.COMPILING, Stage.IDLE),
        (Pause(80, 60, 90.0, completed=5), Stage.EVALUATING, Stage.IDLE),
    ],
)
def test_an_explanation_needs_evidence_that_is_renewed(
    pause: Pause, during: Stage, after: Stage
) -> None:
    begin, quiet = 80 + 60, Pause(140, 100)
    watched = watch(Job(pauses=(pause, quiet), host=True), 200)
    assert watched.at(begin - 2) is during
    assert watched.at(begin + 30) is after


def test_an_announced_evaluation_without_executions_ends() -> None:
    watched = watch(Job(pauses=(Pause(80, 1000, stage="evaluating"),)), 420)
    assert watched.at(350) is Stage.EVALUATING
    assert watched.at(415) is Stage.IDLE


def test_the_disks_of_an_idle_node_do_not_explain_that_the_others_wait() -> None:
    busy_disks = CALM | {"io_wait": 20.0}
    pause = Pause(80, 60, SPINS, of={1: 0.0}, vcpu=busy_disks)
    watched = watch(Job(pauses=(pause,), host=True), 110)
    assert watched.at(105) is Stage.STALLED


def test_clear() -> None:
    watched = watch(Job(), 40)
    watched.runs.clear()
    assert watched.runs.by_job == {}
    watched.axes = Axes()
    watched.see(Job().clusters(40))
    assert watched.run.stage is Stage.TRAINING


def test_an_empty_cluster() -> None:
    watched = Watch().see([Cluster(0.0, {}), Cluster(1.0, {})])
    assert all(len(run.indices) == 0 for run in watched.runs.by_job.values())
