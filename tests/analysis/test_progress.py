"""What crews are busy with."""

from collections.abc import Iterable
from itertools import groupby

import pytest

from tests.analysis.training import CALM, SPINS, Job, Pause, together
from trntop.analysis.progress import JobPhase, JobProgress, Progress
from trntop.analysis.tick import Axes, Tick
from trntop.core.model import Cluster


class Watch:
    """Progress over clusters, and what each crew did when."""

    def __init__(self) -> None:
        self.axes = Axes()
        self.progress = Progress()
        self.did: dict[str | None, list[tuple[float, JobPhase]]] = {}
        self.tick: Tick

    def see(self, clusters: Iterable[Cluster]) -> "Watch":
        for cluster in clusters:
            self.tick = self.axes.tick(cluster)
            self.progress.update(self.tick)
            for job, crew in self.progress.crews.items():
                self.did.setdefault(job, []).append((cluster.time, crew.phase))
        return self

    def at(self, time: float, job: str | None = "job") -> JobPhase:
        return dict(self.did[job])[time]

    def course(self, job: str | None = "job") -> list[JobPhase]:
        """What it did, one after the other."""
        return [phase for phase, _ in groupby(phase for _, phase in self.did[job])]

    @property
    def crew(self) -> JobProgress:
        return self.progress.crews["job"]


def watch(job: Job, seconds: int = 150) -> Watch:
    return Watch().see(job.clusters(seconds))


def test_a_job_warms_up_and_works() -> None:
    watched = watch(Job(), 60)
    assert watched.course() == [JobPhase.UNKNOWN, JobPhase.WARMING_UP, JobPhase.WORKING] or (
        watched.course() == [JobPhase.WARMING_UP, JobPhase.WORKING]
    )
    assert watched.crew.usual == pytest.approx(2.1, abs=0.1)
    assert watched.crew.paused == 0
    assert watched.crew.places.tolist() == [0, 1, 2, 3]
    assert not watched.tick.quiet.any()
    assert watched.tick.job_of == dict.fromkeys(("n0", "n1", "n2", "n3"), "job")


@pytest.mark.parametrize(
    ("pause", "phase"),
    [
        (Pause(80, 60), JobPhase.RESTING),
        (Pause(80, 60, SPINS), JobPhase.BUSY_NO_PROGRESS),
        (Pause(80, 60, SPINS, of={1: 0.0}), JobPhase.BUSY_NO_PROGRESS),
        (Pause(80, 60, 90.0, completed=5), JobPhase.EVALUATING),
        (Pause(80, 60, compilers=3), JobPhase.COMPILING),
        (Pause(80, 60, written=2e9), JobPhase.CHECKPOINTING),
        (Pause(80, 60, vcpu=CALM | {"io_wait": 20.0}), JobPhase.CHECKPOINTING),
        (Pause(80, 60, stage="checkpointing"), JobPhase.CHECKPOINTING),
        (Pause(80, 60, stage="compiling"), JobPhase.COMPILING),
        (Pause(80, 60, stage="evaluating"), JobPhase.EVALUATING),
    ],
)
def test_what_keeps_a_job_from_its_steps(pause: Pause, phase: JobPhase) -> None:
    watched = watch(Job(pauses=(pause,), host=True), 120)
    assert watched.at(75) is JobPhase.WORKING
    assert watched.at(115) is phase
    assert watched.tick.quiet.all()
    assert watched.crew.why


def test_a_pause_and_what_it_took() -> None:
    watched = watch(Job(pauses=(Pause(60, 20), Pause(120, 30))), 180)
    assert [seconds for _, seconds in watched.crew.pauses] == [
        pytest.approx(20, abs=4), pytest.approx(30, abs=4),
    ]  # fmt: skip
    assert watched.crew.longest_pause == pytest.approx(30, abs=4)
    assert watched.crew.usual_pause == pytest.approx(25, abs=4)


def test_one_pause_is_no_custom() -> None:
    assert watch(Job(pauses=(Pause(60, 20),)), 100).crew.usual_pause is None


def test_a_pause_at_the_usual_time_is_a_checkpoint() -> None:
    pauses = tuple(Pause(t, 12) for t in (60, 120, 180, 240))
    watched = watch(Job(pauses=pauses), 262)
    assert watched.at(70) is JobPhase.RESTING
    assert watched.at(250) is JobPhase.CHECKPOINTING


def test_a_job_whose_processes_are_gone_is_over_for_good() -> None:
    """What it reported last is heard for a while yet: that is no life."""
    watched = watch(Job(pauses=(Pause(80, 1000, gone=True),)), 160)
    begin = next(
        place for place, (_, phase) in enumerate(watched.did["job"]) if phase is JobPhase.OVER
    )
    after = [phase for _, phase in watched.did["job"][begin:]]
    assert set(after) <= {JobPhase.OVER, JobPhase.UNKNOWN}
    assert watched.tick.quiet.all()


def test_a_restart_begins_anew() -> None:
    watched = watch(Job(pauses=(Pause(80, 20, gone=True, resumes=5),)), 130)
    assert watched.crew.began is not None
    assert watched.crew.began >= 100
    assert watched.crew.phase is JobPhase.WORKING
    assert watched.crew.step < 30


def test_nobody_reports_steps() -> None:
    watched = watch(Job(reporting=0, pauses=(Pause(60, 40, SPINS),)), 90)
    assert list(watched.progress.crews) == [None]
    assert watched.at(50, None) is JobPhase.WORKING
    assert watched.at(85, None) is JobPhase.BUSY_NO_PROGRESS
    assert watched.tick.job_of == {}


def test_one_rank_reports_for_all() -> None:
    watched = watch(Job(reporting=1), 40)
    assert [job for job, crew in watched.progress.crews.items() if len(crew.places)] == ["job"]
    assert watched.crew.places.tolist() == [0, 1, 2, 3]


def test_two_jobs() -> None:
    first = Job(name="job", prefix="a", pauses=(Pause(60, 100, SPINS),))
    second = Job(name="other", prefix="b", nodes=3, step=5.0)
    watched = Watch().see(together(first.clusters(100), second.clusters(100)))
    assert watched.crew.places.tolist() == [0, 1, 2, 3]
    assert watched.progress.crews["other"].places.tolist() == [4, 5, 6]
    assert watched.at(90) is JobPhase.BUSY_NO_PROGRESS
    assert watched.at(90, "other") is JobPhase.WORKING
    assert watched.tick.quiet.tolist() == [True] * 4 + [False] * 3


def test_the_next_job_on_the_same_nodes() -> None:
    """One rank reports of each: the other nodes go over to the second job with it."""
    first = Job(name="first", reporting=1).clusters(60)
    watched = Watch().see(first)

    def later() -> Iterable[Cluster]:
        for cluster in Job(name="job", reporting=1).clusters(120):
            yield Cluster(cluster.time + 100, cluster.nodes)

    watched.see(later())
    assert watched.crew.places.tolist() == [0, 1, 2, 3]


def test_nodes_join_and_leave() -> None:
    job = Job()
    watched = Watch()

    def stream() -> Iterable[Cluster]:
        for cluster in job.clusters(120):
            gone = "n0" if cluster.time >= 80 else "n3" if cluster.time < 40 else ""
            nodes = {name: view for name, view in cluster.nodes.items() if name != gone}
            yield Cluster(cluster.time, nodes)

    watched.see(stream())
    assert watched.crew.places.tolist() == [0, 1, 2]
    assert all(phase is JobPhase.WORKING for time, phase in watched.did["job"] if time > 15)
    assert watched.progress.steps.tolist() == [watched.crew.step] * 3


def test_the_newest_step_of_each_node() -> None:
    watched = watch(Job(pauses=(Pause(60, 100, SPINS, behind=2),)), 100)
    steps = watched.progress.steps.tolist()
    assert steps[2] == steps[0] - 1
    assert steps[0] == steps[1] == steps[3]


def test_clear() -> None:
    watched = watch(Job(), 40)
    watched.progress.clear()
    assert watched.progress.crews == {}
    watched.axes = Axes()
    watched.see(Job().clusters(40))
    assert watched.crew.phase is JobPhase.WORKING


def test_an_empty_cluster() -> None:
    watched = Watch().see([Cluster(0.0, {}), Cluster(1.0, {})])
    assert all(len(crew.places) == 0 for crew in watched.progress.crews.values())
