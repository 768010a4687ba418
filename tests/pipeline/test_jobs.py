import dataclasses

import pytest

from tests.builders import NOON, make_incident, make_node, make_view, view_of
from trntop.catalog import Provenance
from trntop.core.model import Allocation, Compilation, NodeView, Phase, Stage
from trntop.pipeline.jobs import (
    JOB_HISTORY,
    STAGES,
    holders,
    job_mean,
    job_means,
    job_phase,
    means_of,
    with_stalled,
)

POD = Allocation(namespace="ml", pod="train-0", container="main")


@pytest.mark.parametrize(
    ("allocated", "shown"),
    [
        (None, ""),
        ((), "nobody"),
        ((Allocation("4711", whole=True),), "job 4711"),
        ((Allocation("4711", devices=(0, 1)),), "job 4711"),
        ((Allocation("4711", devices=(1,)),), "job 4711 (devices 1)"),
        ((dataclasses.replace(POD, devices=(0,)),), "ml/train-0/main (devices 0)"),
        ((dataclasses.replace(POD, cores=(1,)),), "ml/train-0/main (cores 1)"),
        ((dataclasses.replace(POD, cores=(0, 1, 2)),), "ml/train-0/main"),
        (
            tuple(Allocation(str(job), devices=(0,)) for job in range(5)),
            "job 0 (devices 0), job 1 (devices 0), job 2 (devices 0), 2 more",
        ),
    ],
)
def test_the_allocation_of_the_node(allocated: tuple[Allocation, ...] | None, shown: str) -> None:
    inventory = dataclasses.replace(make_node(0, 2, 2).inventory, allocations=allocated)
    assert holders(inventory) == shown


def test_devices_that_are_not_known() -> None:
    whole = (Allocation("4711", whole=True),)
    inventory = dataclasses.replace(make_node(0, 0, 0).inventory, allocations=whole)
    assert holders(inventory) == "job 4711"


def test_means_are_of_the_nodes_that_report() -> None:
    nodes = [
        make_node(0, columns={"job_loss": [2.0]}),
        make_node(1, columns={"job_loss": [3.0]}),
        make_node(2, columns={"job_loss": None}),
        make_node(3, jobs=("other",), columns={"job_loss": [9.0]}),
    ]
    cluster = view_of(*nodes).cluster
    job = "pretrain-13b"
    assert job_mean(cluster, job, "job_loss") == 2.5
    assert job_mean(cluster, "nobody", "job_loss") is None
    assert means_of(cluster, job, ("job_loss", "job_unknown")) == {"job_loss": 2.5}


def test_the_history_keeps_means_and_stages() -> None:
    kept = job_means(make_view().cluster)
    training = STAGES.index(Stage.TRAINING)
    job = "pretrain-13b"
    assert set(kept) == {*(f"{job}/{name}" for name in JOB_HISTORY), f"{job}/stage", "/stage"}
    assert kept[f"{job}/stage"] == kept["/stage"] == training
    assert not job_means(make_view(nodes=0).cluster)


def test_the_phase_of_a_job() -> None:
    compiling = make_node(1, jobs=("other",), compilation=Compilation(NOON, 1))
    cluster = view_of(make_node(0), compiling, make_node(2)).cluster

    def stage(job: str) -> Stage | None:
        phase = job_phase(cluster, job)
        return phase and phase.stage

    assert [stage(job) for job in ("", "pretrain-13b", "other", "gone")] == [
        Stage.TRAINING, Stage.TRAINING, Stage.COMPILING, None,
    ]  # fmt: skip
    reported = Phase(Stage.CHECKPOINTING, NOON, "it says so", Provenance.REPORTED)
    node = make_node(3)
    announcing = NodeView(node.inventory, dataclasses.replace(node.frame, phase=reported))
    cluster = view_of(make_node(0), make_node(2), announcing).cluster
    assert stage("pretrain-13b") is Stage.CHECKPOINTING
    phase = Phase(Stage.EVALUATING, NOON, "executions continue without steps")
    cluster = dataclasses.replace(cluster, phases={"pretrain-13b": phase})
    assert job_phase(cluster, "pretrain-13b") is phase, "the rules see the whole job"


def test_a_job_with_an_open_hang_is_stalled_and_has_no_rates() -> None:
    cluster = make_view(nodes=2).cluster
    node, other = cluster.names
    hang = make_incident("hang", job="pretrain-13b", node=None, opened_at=cluster.time - 12.0)
    found = with_stalled(cluster, [hang], {node: "pretrain-13b", "gone": "pretrain-13b"})
    frame = found.nodes[node].frame
    assert frame.phase == Phase(Stage.STALLED, cluster.time - 12.0, "no progress")
    assert frame.value("job_mfu_ratio") is None
    assert frame.why_absent("job_mfu_ratio") == "no progress"
    assert frame.value("job_step") is not None
    assert found.nodes[other] is cluster.nodes[other]
    assert found.phases["pretrain-13b"].stage is Stage.STALLED


def test_a_closed_hang_changes_nothing() -> None:
    cluster = make_view(nodes=2).cluster
    hang = make_incident("hang", job="pretrain-13b", closed_at=cluster.time)
    assert with_stalled(cluster, [hang], {"trn-000": "pretrain-13b"}) is cluster
