import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes.sysfs_tree import (
    core_folder,
    descriptors,
    device_folder,
    fail,
    neuron_device,
    neuron_tree,
    pe_cntrs,
    remove_device,
    write,
)
from trntop.catalog import Entity
from trntop.collectors.neuron_sysfs import NeuronSysfsReader
from trntop.collectors.polled import AbsentError
from trntop.collectors.tensor_engine import TensorEngineReader, examine
from trntop.sources import neuron_sysfs
from trntop.sources.tensor_engine import decode

IDLE = "physical_core_tensor_engine_idle_cycles_total"


def read(reader: TensorEngineReader) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(reader())
    return payload


@pytest.mark.parametrize("moved", [False, True])
def test_the_text_of_each_core(tmp_path: Path, moved: bool) -> None:
    neuron_tree(tmp_path, devices=2, cores=2, moved=moved)
    reader = TensorEngineReader(tmp_path)
    for cycles in (10, 20):
        write(core_folder(tmp_path, 1, 0, moved) / "tensor_engine/pe_cntrs", pe_cntrs(1, 2, cycles))
        payload = read(reader)
        assert payload["devices"]["1"]["0"] == pe_cntrs(1, 2, cycles)
        assert payload["errors"] == []
        assert list(payload["devices"]["0"]) == ["0", "1"]


def test_cores_are_numbered_as_by_the_other_source(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=4)
    engines = decode(TensorEngineReader(tmp_path)())
    devices = neuron_sysfs.decode(NeuronSysfsReader(tmp_path)())
    assert engines.keys[Entity.PHYSICAL_CORE] == devices.keys[Entity.PHYSICAL_CORE]
    np.testing.assert_array_equal(
        engines.facts["physical_device"], devices.facts["physical_device"]
    )
    assert engines.columns[IDLE].tolist() == [0.0] * 32


def test_an_unreadable_core_is_null_and_named(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=2)
    fail(core_folder(tmp_path, 0, 1) / "tensor_engine/pe_cntrs")
    payload = read(TensorEngineReader(tmp_path))
    assert payload["devices"]["0"]["1"] is None
    assert payload["devices"]["0"]["0"]
    assert payload["errors"] == ["neuron0/neuron_core1: No such device or address"]


def test_a_core_without_these_counters_is_listed(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=2)
    shutil.rmtree(core_folder(tmp_path, 0, 1) / "tensor_engine")
    assert read(TensorEngineReader(tmp_path))["devices"]["0"]["1"] is None


def test_a_device_vanishes_and_comes_back(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=2, cores=2)
    reader = TensorEngineReader(tmp_path)
    reader()
    before = descriptors()
    remove_device(tmp_path, 1)
    payload = read(reader)
    assert payload["devices"]["1"] == {"0": None, "1": None}
    assert payload["errors"] == ["neuron1: gone from sysfs"]
    assert descriptors() == before - 2
    neuron_device(tmp_path, 1, 2, 2)
    assert read(reader)["devices"]["1"]["0"]


def test_a_driver_without_these_counters(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=1, driver="2.22.2.0")
    shutil.rmtree(core_folder(tmp_path, 0, 0) / "tensor_engine")
    with pytest.raises(AbsentError, match=r"driver 2\.22\.2\.0 has no tensor-engine counters"):
        TensorEngineReader(tmp_path)()
    finding = examine(tmp_path)
    assert not finding.ok
    assert "2.24.7" in finding.remedy


def test_doctor(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=2, cores=2)
    finding = examine(tmp_path)
    assert (finding.source, finding.ok, finding.remedy) == ("tensor-engine", True, "")
    assert finding.found == "tensor-engine counters of 4 physical cores"
    fail(core_folder(tmp_path, 0, 1) / "tensor_engine/pe_cntrs")
    assert "neuron_core1: No such device or address" in examine(tmp_path).found
    shutil.rmtree(device_folder(tmp_path, 1))
    fail(core_folder(tmp_path, 0, 0) / "tensor_engine/pe_cntrs")
    assert not examine(tmp_path).ok


def test_doctor_without_a_driver(tmp_path: Path) -> None:
    finding = examine(tmp_path)
    assert not finding.ok
    assert "modprobe neuron" in finding.remedy
