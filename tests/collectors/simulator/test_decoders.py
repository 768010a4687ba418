"""What the simulator writes is what the decoders read, without a complaint."""

from collections import Counter

import numpy as np
import pytest

from trntop.catalog import CATALOG, KERNEL_LOG
from trntop.collectors.simulator import parse, simulate
from trntop.core.instances import INSTANCE_TYPES
from trntop.core.model import Compilation, Sample, Stage
from trntop.sources import DECODERS


def samples(spec: str) -> list[tuple[str, float, Sample]]:
    """Source, second and what the source's decoder makes of each reading."""
    return [
        (reading.source, reading.time, DECODERS[reading.source](reading.data))
        for reading in simulate(parse(spec), 0.0)
    ]


@pytest.mark.parametrize("instance_type", INSTANCE_TYPES)
def test_decoders_have_no_complaint(instance_type: str) -> None:
    for source, _, sample in samples(f"sim:healthy?nodes=1&type={instance_type}&minutes=0.3"):
        assert not sample.problems, source
        assert not sample.unusable, source
        for name, column in sample.columns.items():
            assert CATALOG[name].entity in sample.keys or len(column) == 1, (source, name)


def test_cores_and_devices_of_the_sources_agree() -> None:
    found = {source: sample for source, _, sample in samples("sim:healthy?nodes=1&minutes=0.05")}
    tree, engines, monitor = (
        found[name] for name in ("neuron-sysfs", "tensor-engine", "neuron-monitor")
    )
    assert tree.keys.items() >= engines.keys.items()
    owners = [sample.facts["physical_device"] for sample in (tree, engines)]
    assert np.array_equal(*owners)
    assert len(owners[0]) == 128
    used = tree.columns["physical_core_memory_used_bytes"].reshape(-1, 2).sum(axis=1)
    assert np.array_equal(used, monitor.columns["neuroncore_memory_used_bytes"])
    assert (tree.columns["device_unhealthy_components"] == 0).all()
    assert tree.absent == {}
    (process,) = found["neuron-ls"].facts["processes"]
    assert (process.command, len(process.devices)) == ("python3 train.py", 16)
    (profile,) = found["profiles"].facts["profiles"]
    assert profile.name == "train_step_0.neff"


def test_a_recompilation_decodes_as_one() -> None:
    decoded = samples("sim:recompile?nodes=1&type=trn1.2xlarge&minutes=4")
    compilations = {
        sample.facts["compilation"]: time for source, time, sample in decoded if source == "host"
    }
    (compilation,) = compilations.keys() - {None}
    assert isinstance(compilation, Compilation)
    assert compilation.processes == 4
    stages = [
        sample.facts["stages"]["pretrain-13b"]
        for source, _, sample in decoded
        if source == "steps" and "stages" in sample.facts
    ]
    assert [stage for stage, _ in stages[:2]] == [Stage.COMPILING, Stage.TRAINING]
    assert stages[0][1] == pytest.approx(compilation.since, abs=0.01)


@pytest.mark.parametrize("scenario", ["ecc", "execution-errors"])
def test_the_kernels_lines_count_once(scenario: str) -> None:
    errors: Counter[str] = Counter()
    for source, _, sample in samples(f"sim:{scenario}?nodes=1&type=trn1.2xlarge&minutes=3"):
        if source == KERNEL_LOG:
            errors.update({name: int(count) for name, count in sample.deltas.items()})
            assert len(sample.problems) == sample.deltas["node_kernel_neuron_errors_total"]
    assert errors == {"node_kernel_neuron_errors_total": 1, "node_kernel_efa_errors_total": 0}


def test_the_log_agrees_with_the_steps() -> None:
    found = {source: sample for source, _, sample in samples("sim:healthy?nodes=1&minutes=0.1")}
    log, steps = found["log"], found["steps"]
    for name, tolerance in (("job_step", 0.0), ("job_loss", 1e-6), ("job_mfu_ratio", 1e-3)):
        assert log.columns[name] == pytest.approx(steps.columns[name], abs=tolerance)
