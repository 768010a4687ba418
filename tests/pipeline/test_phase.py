import dataclasses

import numpy as np
import pytest

from trntop.catalog import Entity, Provenance
from trntop.core.model import Column, Compilation, Inventory, Phase, Runtime, Stage
from trntop.pipeline.phase import NodePhase

NODE = Inventory(
    "n", runtimes=(Runtime(1, "1"),), keys={Entity.RUNTIME: (1,), Entity.JOB: ("job",)}
)
Values = dict[str, float]


def columns(values: Values) -> dict[str, Column]:
    names = {
        "util": "node_neuroncore_utilization_mean_ratio",
        "executed": "node_executions_completed_per_second",
        "sent": "node_efa_tx_bytes_per_second",
        "written": "node_lustre_written_bytes_per_second",
        "nfs": "node_nfs_written_bytes_per_second",
        "step": "job_step",
        "seconds": "job_step_seconds",
        "modules": "node_compile_cache_modules",
    }
    result = {names[name]: np.array([float(value)]) for name, value in values.items()}
    return {**result, "node_runtimes": np.array([1.0])} if values else {}


def run(*ticks: tuple[float, Values], inventory: Inventory = NODE) -> Phase | None:
    tracker = NodePhase()
    phase = None
    for now, values in ticks:
        phase = tracker.update(now, columns(values), inventory)
    return phase


def test_steps_are_training() -> None:
    ticks = [(t, {"util": 0.9, "step": 1200 + t // 4, "seconds": 4.0}) for t in range(20)]
    phase = run(*ticks)
    assert phase == Phase(Stage.TRAINING, None, "step 1,204", Provenance.DERIVED)


def test_the_first_steps_warm_up_and_the_change_has_its_time() -> None:
    ticks = [(100.0 + t, {"util": 0.9, "step": 1 + t // 10, "seconds": 1.0}) for t in range(60)]
    assert run(*ticks[:30]).stage is Stage.WARMING_UP  # type: ignore[union-attr]
    phase = run(*ticks)
    assert phase is not None
    assert (phase.stage, phase.since) == (Stage.TRAINING, 130.0)


def test_a_run_that_saves_in_between_trains_since_it_began() -> None:
    tracker = NodePhase()
    tracker.update(0.0, columns({"util": 0.0}), NODE)
    since = []
    for now in range(1, 60):
        saves = 20 <= now < 25 or 40 <= now < 45
        stage, entered = (Stage.CHECKPOINTING, now // 20 * 20.0) if saves else (Stage.TRAINING, 0.0)
        inventory = dataclasses.replace(NODE, stages={"job": (stage, entered)})
        phase = tracker.update(float(now), columns({"util": 0.9, "step": 50 + now}), inventory)
        assert phase is not None
        since.append((phase.stage, phase.since))
    assert since[-1] == (Stage.TRAINING, 1.0), "not since the newest checkpoint"
    assert (Stage.CHECKPOINTING, 40.0) in since


def test_no_step_for_long_is_a_stall_since_the_last_step() -> None:
    ticks = [(10.0, {"util": 0.9, "step": 100, "seconds": 4.0})]
    ticks += [(10.0 + t, {"util": 1.0, "step": 100, "seconds": 4.0}) for t in range(1, 50)]
    assert run(*ticks[:30]).stage is Stage.TRAINING  # type: ignore[union-attr]
    phase = run(*ticks)
    assert phase is not None
    assert (phase.stage, phase.since, phase.why) == (Stage.STALLED, 10.0, "no step for 49 s")


def test_busy_cores_without_executions_are_a_stall() -> None:
    ticks = [(float(t), {"util": 0.99, "executed": 4.0 if t < 20 else 0.0}) for t in range(60)]
    assert run(*ticks[:45]).stage is Stage.TRAINING  # type: ignore[union-attr]
    phase = run(*ticks)
    assert phase is not None
    assert (phase.stage, phase.since, phase.why) == (Stage.STALLED, 19.0, "all cores are busy")


@pytest.mark.parametrize("util", [0.0, 0.02])
def test_a_compiler_and_idle_cores_are_a_compilation(util: float) -> None:
    node = dataclasses.replace(NODE, compilation=Compilation(50.0, 2))
    phase = run((100.0, {"util": util, "modules": 12}), inventory=node)
    assert phase == Phase(
        Stage.COMPILING, 50.0, "2 compilers, 12 modules in the cache", Provenance.DERIVED
    )


def test_a_compiler_next_to_a_training_run_is_ignored() -> None:
    node = dataclasses.replace(NODE, compilation=Compilation(50.0, 1))
    phase = run((100.0, {"util": 0.9, "step": 100, "seconds": 4.0}), inventory=node)
    assert phase is not None
    assert phase.stage is Stage.TRAINING


def test_the_process_itself_is_believed_until_its_next_step() -> None:
    tracker = NodePhase()
    stepping = {"util": 0.9, "step": 100.0, "seconds": 4.0}
    tracker.update(100.0, columns(stepping), NODE)
    saving = dataclasses.replace(NODE, stages={"job": (Stage.CHECKPOINTING, 101.0)})
    phase = tracker.update(150.0, columns(stepping | {"util": 0.0}), saving)
    assert phase == Phase(Stage.CHECKPOINTING, 101.0, "reported by job", Provenance.REPORTED)
    phase = tracker.update(151.0, columns(stepping | {"step": 101.0}), saving)
    assert phase is not None
    assert (phase.stage, phase.since) == (Stage.TRAINING, None), "it trained at the first tick"


@pytest.mark.parametrize("where", ["written", "nfs"])
def test_writes_in_a_pause_are_a_checkpoint(where: str) -> None:
    ticks = [(float(t), {"util": 0.9, "step": 50.0 + t, "seconds": 1.0}) for t in range(20)]
    ticks += [(20.0 + t, {"util": 0.0, "step": 69.0, where: 2.1e9}) for t in range(10)]
    phase = run(*ticks)
    assert phase is not None
    assert (phase.stage, phase.why) == (Stage.CHECKPOINTING, "heavy writes to disk")


def test_a_compilation_names_a_cache_that_cannot_be_counted() -> None:
    inventory = dataclasses.replace(
        NODE, compilation=Compilation(0.0, 2), facts={"compile_cache": "s3://bucket/cache"}
    )
    phase = run((1.0, {"util": 0.0}), inventory=inventory)
    assert phase is not None
    assert phase.why == "2 compilers, cache at s3://bucket/cache"


def test_processes_without_work_are_idle() -> None:
    phase = run((1.0, {"util": 0.0}))
    assert phase == Phase(Stage.IDLE, None, "1 Neuron process, no core busy", Provenance.DERIVED)


@pytest.mark.parametrize(
    ("sent", "stage"),
    [({}, Stage.EXECUTING), ({"sent": 2e9}, Stage.TRAINING)],
    ids=["alone", "EFA"],
)
@pytest.mark.parametrize("work", [{"executed": 37.0}, {}], ids=["executions", "utilization"])
def test_a_node_that_works_alone_without_steps_executes(
    sent: dict[str, float], work: dict[str, float], stage: Stage
) -> None:
    ticks = [(float(t), {"util": 0.02, **work, **sent}) for t in range(30)]
    phase = run(*ticks, inventory=dataclasses.replace(NODE, keys={Entity.RUNTIME: (1,)}))
    assert phase is not None
    assert phase.stage is stage


def test_without_reports_there_is_no_phase() -> None:
    assert run((1.0, {})) is None


def test_steps_without_a_duration_last_until_the_next() -> None:
    ticks = [
        (float(t), {"util": 0.9, "executed": 4.0, "step": 1200.0 + t // 20}) for t in range(200)
    ]
    phase = run(*ticks)
    assert phase is not None
    assert phase.stage is Stage.TRAINING
