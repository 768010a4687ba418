"""Who is slow: nodes, ranks, devices, cores, with telemetry and without."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

import pytest

from tests.analysis.training import (
    SPINS,
    Dip,
    Job,
    Pause,
    Slow,
    analyzed,
    incidents,
    named,
    together,
)
from trntop.catalog import NEURON_MONITOR
from trntop.core.model import Cluster, Incident, Severity, SourceState, State

BEGIN = 80


def stragglers(clusters: Iterable[Cluster]) -> tuple[Incident, ...]:
    return analyzed(clusters, ("straggler",))


def only(job: Job, seconds: int = 150) -> Incident:
    found = stragglers(job.clusters(seconds))
    assert len(found) == 1, named(found)
    return found[0]


# With telemetry.


@pytest.mark.parametrize(
    ("step", "share"), [(0.4, 0.12), (0.4, 2.0), (2.0, 0.5), (5.0, 0.12), (5.0, 2.0)]
)
def test_a_slow_node(step: float, share: float) -> None:
    incident = only(Job(step=step, slow=(Slow(2, share, BEGIN),)))
    assert (incident.node, incident.component, incident.job) == ("n2", None, "job")
    assert incident.severity is Severity.WARNING
    assert incident.opened_at == pytest.approx(BEGIN, abs=2 * step * (1 + share) + 2)
    assert incident.detected_at is not None
    assert incident.detected_at - BEGIN <= 20 + 3 * step * (1 + share)
    assert incident.open


def test_a_slow_node_as_it_is_read() -> None:
    """The same through sources, decoders and all rules: one incident, and its text."""
    (incident,) = incidents(Job(slow=(Slow(2, 0.15, 60),)).readings(130))
    assert (incident.kind, incident.node) == ("straggler", "n2")
    assert "n2 is 15 % slower than its peers" in incident.summary
    assert incident.summary.endswith("per step (step telemetry)")
    assert any("n2 computes 2." in evidence.text for evidence in incident.evidence)


def test_it_closes_when_the_node_recovers() -> None:
    incident = only(Job(slow=(Slow(1, 0.2, BEGIN, 140),)), 200)
    assert incident.closed_at is not None
    assert 140 <= incident.closed_at <= 170


def test_what_follows_is_no_other_incident() -> None:
    found = analyzed(Job(slow=(Slow(1, 0.8, BEGIN),)).clusters(150))
    assert named(found) == [("straggler", "n1", None)]


def test_a_hiccup_is_none() -> None:
    slow = tuple(Slow(1, 1.0, t, t + 8) for t in (60, 130))
    assert stragglers(Job(slow=slow).clusters(200)) == ()


def test_two_long_hiccups_are_none() -> None:
    """All ranks wait for each, so that its step is as long as two usual ones."""
    slow = (Slow(1, 1.2, 78, 80), Slow(1, 1.6, 94, 96))
    assert stragglers(Job(step=5.0, noise=0.001, slow=slow).clusters(180)) == ()


def test_all_nodes_at_once_name_no_node() -> None:
    slow = tuple(Slow(node, 0.5, BEGIN) for node in range(4))
    assert stragglers(Job(slow=slow).clusters(160)) == ()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("noise", [0.002, 0.03])
def test_healthy_jobs(seed: int, noise: float) -> None:
    ratios = {0: 0.05, 1: -0.03}
    job = Job(seed=seed, noise=noise, step=1.0, ratios=ratios, pauses=(Pause(90, 12),))
    assert analyzed(job.clusters(200)) == ()


def test_a_slow_node_among_the_nodes_of_large_jobs() -> None:
    found = stragglers(Job(nodes=16, slow=(Slow(11, 0.12, 60),)).clusters(110))
    assert named(found) == [("straggler", "n11", None)]


def test_one_rank_of_many_is_a_device_where_each_has_one() -> None:
    incident = only(Job(nodes=3, ranks=4, devices=4, slow=(Slow(1, 0.2, BEGIN, rank=2),)), 130)
    assert (incident.node, incident.component) == ("n1", "device:2")
    assert "device 2 (rank 6) of n1" in incident.summary


def test_one_rank_of_more_than_ten() -> None:
    """Ranks are numbers: 10 comes after 9."""
    incident = only(Job(nodes=2, ranks=12, devices=12, slow=(Slow(1, 0.2, 60, rank=3),)), 100)
    assert (incident.node, incident.component) == ("n1", "device:3")
    assert "(rank 15)" in incident.summary


def test_one_rank_of_several_for_a_device() -> None:
    incident = only(Job(nodes=3, ranks=3, devices=4, slow=(Slow(1, 0.2, BEGIN, rank=2),)), 130)
    assert (incident.node, incident.component) == ("n1", None)
    assert "rank 5 of n1" in incident.summary


@pytest.mark.parametrize("slow", [0, 1])
def test_two_nodes_by_their_own_past(slow: int) -> None:
    job = Job(nodes=2, ratios={1: 0.3}, slow=(Slow(slow, 0.2, BEGIN),))
    assert only(job).node == f"n{slow}"


def test_two_nodes_that_are_uneven_by_design() -> None:
    assert stragglers(Job(nodes=2, ratios={1: 0.3}).clusters(150)) == ()


# Stages.


@pytest.mark.parametrize("report", [True, False])
def test_uneven_stages_are_no_stragglers(report: bool) -> None:
    ratios = {node: 0.2 * (node // 2) for node in range(8)}
    job = Job(nodes=8, ratios=ratios, report_stages=report)
    assert stragglers(job.clusters(120)) == ()
    # The fastest stage waits for the others anyhow: who is slow within it is found all the same.
    slow = replace(job, slow=(Slow(1, 0.15, BEGIN),))
    assert only(slow).node == "n1"


def test_a_lone_slow_node_from_the_start() -> None:
    job = Job(nodes=8, slow=(Slow(5, 0.4),))
    assert only(job, 100).node == "n5"


@pytest.mark.parametrize("report", [True, False])
def test_a_stage_that_slows_down_as_a_whole_is_one_incident(report: bool) -> None:
    ratios = {node: 0.2 * (node // 3) for node in range(9)}
    slow = tuple(Slow(node, 0.3, BEGIN) for node in (3, 4, 5))
    incident = only(Job(nodes=9, ratios=ratios, slow=slow, report_stages=report))
    assert incident.node is None
    assert incident.summary.startswith("3 of 9 nodes of job became slower than their peers")


def test_four_stages_on_four_nodes() -> None:
    ratios = {1: 0.2, 2: 0.4, 3: 0.1}
    assert stragglers(Job(ratios=ratios).clusters(120)) == ()


# Without telemetry of their own.


@pytest.mark.parametrize("share", [0.15, 0.6])
def test_a_slow_node_that_only_neuron_monitor_reports(share: float) -> None:
    incident = only(Job(nodes=6, reporting=0, slow=(Slow(3, share, BEGIN),)))
    assert (incident.node, incident.job) == ("n3", None)
    assert "neuron-monitor" in incident.summary
    assert incident.detected_at is not None
    assert incident.detected_at <= BEGIN + 40


def test_healthy_nodes_that_only_neuron_monitor_reports() -> None:
    job = Job(nodes=6, reporting=0, noise=0.02, pauses=(Pause(70, 15), Pause(140, 15)))
    assert stragglers(job.clusters(240)) == ()


@pytest.mark.parametrize("begin", range(100, 110, 2))
def test_a_hiccup_that_two_blocks_of_seconds_share_is_none(begin: float) -> None:
    slow = (Slow(3, 1.0, begin, begin + 8),)
    assert stragglers(Job(nodes=6, reporting=1, step=5.0, slow=slow).clusters(170)) == ()


def test_a_report_that_is_kept_for_want_of_a_newer_one_counts_once() -> None:
    def kept(clusters: Iterable[Cluster]) -> Iterator[Cluster]:
        """The report of n3 at 100 s is its newest until 120 s."""
        newest, time = None, 0.0
        for cluster in clusters:
            if newest is None or not 100 < cluster.time < 120:
                newest, time = cluster.nodes["n3"], cluster.time
            state = SourceState(NEURON_MONITOR, State.FRESH, time=time)
            view = replace(newest, frame=replace(newest.frame, sources=(state,)))
            yield Cluster(cluster.time, cluster.nodes | {"n3": view})

    odd = Job(nodes=6, reporting=0, dips=(Dip(3, (0, 1, 2, 3), 0.75, 100, 101),))
    assert stragglers(kept(odd.clusters(160))) == ()


@pytest.mark.parametrize("slow", [2, 0])
def test_steps_reported_by_one_rank_only(slow: int) -> None:
    incident = only(Job(nodes=6, reporting=1, slow=(Slow(slow, 0.25, BEGIN),)))
    assert (incident.node, incident.job) == (f"n{slow}", "job")


def test_healthy_nodes_of_which_one_reports() -> None:
    job = Job(nodes=6, reporting=1, pauses=(Pause(80, 15),))
    assert analyzed(job.clusters(200)) == ()


def test_two_nodes_that_only_execute_as_often_as_others_pause_as_another_job() -> None:
    halves = tuple(Dip(node, (0, 1, 2, 3), 0.5, 120, 145) for node in (0, 1))
    two = Job(nodes=2, reporting=0, prefix="b", seed=2, dips=halves)
    many = Job(nodes=12, reporting=0, prefix="a", seed=1)
    assert stragglers(together(many.clusters(240), two.clusters(240))) == ()


# Parts of nodes.


def test_the_cores_of_one_device_fall_back() -> None:
    incident = only(Job(devices=8, dips=(Dip(1, (6, 7), 0.8, BEGIN),)), 160)
    assert (incident.node, incident.component) == ("n1", "device:3")


def test_a_device_that_does_less_while_it_is_as_busy() -> None:
    incident = only(Job(devices=8, flops=(Dip(1, (6, 7), 0.76, BEGIN),)))
    assert (incident.node, incident.component) == ("n1", "device:3")
    assert incident.evidence[0].quantity == "neuroncore_flops_per_second"


def test_the_device_that_others_wait_for_stays_busy() -> None:
    others = tuple(core for core in range(16) if core not in (6, 7))
    incident = only(Job(devices=8, flops=(), dips=(Dip(1, others, 0.82, BEGIN),)))
    assert (incident.node, incident.component) == ("n1", "device:3")


@pytest.mark.parametrize("cores", [(), tuple(range(8)), tuple(range(16))])
def test_flops_of_no_lone_device(cores: tuple[int, ...]) -> None:
    assert stragglers(Job(devices=8, flops=(Dip(1, cores, 0.76, BEGIN),)).clusters(120)) == ()


def test_one_core_stops() -> None:
    incident = only(Job(devices=8, dips=(Dip(2, (9,), 0.0, BEGIN),)), 160)
    assert (incident.node, incident.component) == ("n2", "core:9")


def test_a_device_stops() -> None:
    incident = only(Job(devices=8, dips=(Dip(2, (8, 9), 0.0, BEGIN),)), 160)
    assert (incident.node, incident.component) == ("n2", "device:4")


def test_cores_that_were_never_used() -> None:
    dips = tuple(Dip(node, (6, 7), 0.0) for node in range(4))
    assert stragglers(Job(devices=8, dips=dips).clusters(150)) == ()


def test_half_of_the_devices_are_another_division_of_work() -> None:
    dips = (Dip(1, tuple(range(8)), 0.5, BEGIN),)
    found = stragglers(Job(devices=8, dips=dips).clusters(160))
    assert all(detection.component is None for detection in found), named(found)


def test_a_whole_node_idles_for_its_input() -> None:
    """Cores rise and fall together with the job's steps."""
    dips = tuple(Dip(node, tuple(range(16)), 0.4, t, t + 4)
                 for node in range(4) for t in range(20, 200, 8))  # fmt: skip
    assert stragglers(Job(devices=8, dips=dips).clusters(200)) == ()


# Several jobs, and the same again.


def test_two_jobs_with_different_step_times() -> None:
    fast = Job(step=1.0, name="fast", prefix="a", seed=1)
    slow = Job(step=4.0, name="slow", prefix="b", seed=2)
    assert analyzed(together(fast.clusters(150), slow.clusters(150))) == ()
    faulty = replace(slow, slow=(Slow(2, 0.2, BEGIN),))
    found = stragglers(together(fast.clusters(150), faulty.clusters(150)))
    assert [(detection.node, detection.job) for detection in found] == [("b2", "slow")]


def test_a_job_that_begins_later_than_another() -> None:
    """Who joins changes every axis: nothing of what is known may be lost or mixed up."""

    def stream() -> Iterable[Cluster]:
        first = Job(name="first", prefix="b", slow=(Slow(1, 0.2, 40),)).clusters(150)
        second = Job(name="second", prefix="a", step=3.0).clusters(150)
        for cluster, later in zip(first, second, strict=True):
            nodes = {**cluster.nodes, **(later.nodes if cluster.time >= 70 else {})}
            yield Cluster(cluster.time, dict(sorted(nodes.items())))

    (incident,) = stragglers(stream())
    assert (incident.node, incident.open, incident.returns) == ("b1", True, 0)


@pytest.mark.parametrize("resumes", [5, 1])
def test_a_job_that_restarts_with_lower_steps(resumes: int) -> None:
    gone = Pause(80, 30, gone=True, resumes=resumes)
    job = Job(ratios={0: 0.1}, pauses=(gone,))
    assert analyzed(job.clusters(190)) == ()
    assert only(replace(job, slow=(Slow(2, 0.15, 160),)), 220).node == "n2"


def test_a_straggler_outlives_a_checkpoint() -> None:
    job = Job(slow=(Slow(2, 0.2, 60),), pauses=(Pause(110, 20),))
    incident = only(job, 180)
    assert (incident.open, incident.returns) == (True, 0)


def test_a_straggler_closes_with_its_job() -> None:
    job = Job(slow=(Slow(2, 0.2, 60),), pauses=(Pause(110, 1000, gone=True),))
    incident = only(job, 260)
    assert not incident.open


# What is missing.


def test_missing_records_neither_open_nor_close() -> None:
    random = Random(5)

    def torn(job: Job, share: float) -> Iterable[Cluster]:
        for cluster in job.clusters(200):
            nodes = dict(cluster.nodes)
            for view in nodes.values():
                columns = view.frame.columns
                assert isinstance(columns, dict)
                if random.random() < share:
                    for name in [name for name in columns if name.startswith(("rank", "job"))]:
                        del columns[name]
            yield cluster

    assert stragglers(torn(Job(), 0.3)) == ()
    (incident,) = stragglers(torn(Job(slow=(Slow(2, 0.2, BEGIN),)), 0.3))
    assert (incident.node, incident.open, incident.returns) == ("n2", True, 0)


def test_a_straggler_that_stops_reporting() -> None:
    """Its telemetry ends, its node lives: that is no recovery."""
    job = Job(slow=(Slow(2, 0.3, 60),))

    def stream() -> Iterable[Cluster]:
        for cluster in job.clusters(200):
            columns = cluster.nodes["n2"].frame.columns
            assert isinstance(columns, dict)
            if cluster.time >= 110:
                columns.clear()
            yield cluster

    (incident,) = stragglers(stream())
    assert incident.open


def test_a_hang_makes_no_stragglers() -> None:
    job = Job(pauses=(Pause(90, 100, SPINS, of={1: 0.0}),))
    assert stragglers(job.clusters(190)) == ()
