import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.sysfs_tree import (
    bump,
    core_folder,
    device_folder,
    fail,
    fail_device,
    neuron_device,
    neuron_tree,
    remove_device,
    trn2_48xlarge,
    write,
)
from trntop.catalog import CORE_STATUSES, HEALTH_STATUS, SYSFS_ECC, Entity
from trntop.collectors import neuron_sysfs, sysfs
from trntop.collectors import neuron_tree as tree_module
from trntop.collectors.neuron_sysfs import NeuronSysfsReader, examine
from trntop.collectors.polled import AbsentError
from trntop.sources.neuron_sysfs import decode


@pytest.fixture(scope="module")
def trn2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole machine, not to be changed."""
    root = tmp_path_factory.mktemp("trn2")
    trn2_48xlarge(root)
    return root


def read(reader: NeuronSysfsReader) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(reader())
    return payload


@pytest.mark.parametrize("moved", [False, True])
def test_nodes_are_found_at_any_depth(tmp_path: Path, moved: bool) -> None:
    neuron_tree(tmp_path, devices=2, cores=2, moved=moved)
    payload = read(NeuronSysfsReader(tmp_path))
    assert payload["driver"] == "2.30.2.0"
    assert payload["period"] == 10
    assert payload["class"]["ultraserver_mode"]
    assert payload["errors"] == []
    device = payload["devices"]["1"]
    assert device["info"] == {
        "arch_type": "NDv3",
        "device_name": "Trainium2",
        "serial_number": "00000000c0ffee01",
        "connected_devices": "0",
    }
    assert device["power"].startswith("POWER_STATUS_VALID,")
    assert device["unhealthy_components"] == ""
    assert device["hardware"] == dict.fromkeys(SYSFS_ECC, 0)
    assert "errors" not in device
    core = device["cores"]["1"]
    assert core["device_mem"] == {"total": 2 << 30}
    assert core["status"].keys() == set(CORE_STATUSES)
    assert core["status"]["success"] == 2000
    assert core.keys() == {"device_mem", "status"}


def test_events_of_the_driver_are_watched_and_not_read(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=2, cores=1, moved=True)
    reader = NeuronSysfsReader(tmp_path)
    assert reader.events == []
    payload = read(reader)
    first, second = reader.events
    assert "/neuron0/" in first
    assert first.endswith("/health_status/hw_error_event")
    assert Path(second).exists()
    assert payload["devices"]["0"]["health_status"].keys() == set(HEALTH_STATUS)
    remove_device(tmp_path, 0)
    reader()
    assert reader.events == [second]


def test_what_the_decoder_makes_of_a_trn2(trn2: Path) -> None:
    sample = decode(NeuronSysfsReader(trn2)())
    assert sample.keys[Entity.DEVICE] == tuple(range(16))
    assert sample.keys[Entity.PHYSICAL_CORE] == tuple(range(128))
    assert sample.columns["physical_core_memory_used_bytes"][7] == 8 << 30
    assert sample.problems == ()
    assert sample.absent == {}


def test_current_values_are_read_each_time(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=1)
    reader = NeuronSysfsReader(tmp_path)
    reader()
    bump(core_folder(tmp_path, 0, 0) / "status/success/total", 5)
    write(core_folder(tmp_path, 0, 0) / "memory_usage/device_mem/total", 3)
    core = read(reader)["devices"]["0"]["cores"]["0"]
    assert core["status"]["success"] == 1005
    assert core["device_mem"]["total"] == 3


def test_nothing_is_written_and_nothing_else_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    neuron_tree(tmp_path, devices=1, cores=1)
    write(device_folder(tmp_path, 0) / "reset", "")
    flags: list[int] = []
    paths: list[str] = []
    real = os.open

    def noted(path: Any, how: int, *args: Any, **kwargs: Any) -> int:
        flags.append(how)
        paths.append(str(path))
        return real(path, how, *args, **kwargs)

    monkeypatch.setattr(os, "open", noted)
    NeuronSysfsReader(tmp_path)()
    assert paths
    assert not any(how & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) for how in flags)
    assert not any(path.endswith(("reset", "present", "peak", "pe_cntrs")) for path in paths)


def test_older_names_and_folders(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=1, driver="2.20.1.0")
    core, device = core_folder(tmp_path, 0, 0), device_folder(tmp_path, 0)
    new, old = "execute_failed_to_queue", "infer_failed_to_queue"
    (core / "status" / new).rename(core / "status" / old)
    ecc = device / "stats/hardware/mem_ecc_uncorrected"
    ecc.unlink()
    write(ecc / "total", 4)
    (device / "info/architecture/device_name").rename(device / "info/architecture/device_type")
    payload = read(NeuronSysfsReader(tmp_path))["devices"]["0"]
    assert payload["cores"]["0"]["status"][old] == 0
    assert payload["hardware"]["mem_ecc_uncorrected"] == 4
    assert payload["info"]["device_name"] == "Trainium2"


def test_of_two_nodes_of_a_name_the_nearer_is_read(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=1)
    folder = device_folder(tmp_path, 0) / "stats/hardware"
    write(folder / "health_status/mem_ecc_uncorrected", 9)
    write(folder / "mem_ecc_uncorrected", 2)
    payload = read(NeuronSysfsReader(tmp_path))["devices"]["0"]
    assert payload["hardware"]["mem_ecc_uncorrected"] == 2


def test_links_are_not_followed(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=1)
    folder = device_folder(tmp_path, 0)
    (folder / "stats/loop").symlink_to(folder)
    (folder / "neuron_core1").symlink_to(folder / "neuron_core0")
    assert list(read(NeuronSysfsReader(tmp_path))["devices"]["0"]["cores"]) == ["0"]


def test_an_unreadable_node_is_absent_and_named(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=2, cores=1)
    fail(core_folder(tmp_path, 0, 0) / "status/timeout/total")
    write(core_folder(tmp_path, 0, 0) / "status/success/total", "what")
    payload = read(NeuronSysfsReader(tmp_path))["devices"]
    path = "neuron_core0/stats/status"
    assert sorted(payload["0"]["errors"]) == [
        f"{path}/success/total: not a number",
        f"{path}/timeout/total: No such device or address",
    ]
    assert payload["0"]["cores"]["0"]["status"].keys().isdisjoint({"success", "timeout"})
    assert "errors" not in payload["1"]


def test_errors_are_few(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=1)
    for status in CORE_STATUSES:
        fail(core_folder(tmp_path, 0, 0) / "status" / status / "total")
    errors = read(NeuronSysfsReader(tmp_path))["devices"]["0"]["errors"]
    assert len(errors) == 5
    assert errors[-1] == f"and {len(CORE_STATUSES) - 4} more attributes"


def test_a_device_that_cannot_be_read_is_lost_and_the_others_are_not(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=3, cores=2)
    reader = NeuronSysfsReader(tmp_path)
    reader()
    fail_device(tmp_path, 1)
    payload = read(reader)["devices"]
    assert payload["1"]["lost"].endswith("No such device or address")
    assert payload["1"]["cores"] == {"0": {}, "1": {}}
    assert "lost" not in payload["2"]


def test_no_such_device_means_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    neuron_tree(tmp_path, devices=1, cores=1)
    real = sysfs.read

    def read_file(path: str, folder: int | None = None) -> bytes:
        if path.endswith("mem_ecc_uncorrected"):
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return real(path, folder)

    monkeypatch.setattr(sysfs, "read", read_file)
    payload = read(NeuronSysfsReader(tmp_path))["devices"]["0"]
    assert payload == {"cores": {"0": {}}, "lost": "No such device"}


def test_fault_14_a_device_vanishes_and_comes_back(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=2, cores=2)
    reader = NeuronSysfsReader(tmp_path)
    reader()
    remove_device(tmp_path, 1)
    payload = read(reader)["devices"]
    assert payload["1"] == {"cores": {"0": {}, "1": {}}, "lost": "gone from sysfs"}
    assert payload["0"]["info"]
    neuron_device(tmp_path, 1, 2, 2)
    assert "lost" not in read(reader)["devices"]["1"]


def test_a_device_still_being_set_up_is_read_again(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=1)
    core = device_folder(tmp_path, 0) / "neuron_core0"
    core.rename(tmp_path / "core")
    reader = NeuronSysfsReader(tmp_path)
    assert read(reader)["devices"]["0"]["cores"] == {}
    (tmp_path / "core").rename(core)
    assert read(reader)["devices"]["0"]["cores"]["0"]["status"]["success"] == 1000


def test_another_driver_is_scanned_again(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=2, cores=1)
    reader = NeuronSysfsReader(tmp_path)
    reader()
    shutil.rmtree(tmp_path / "sys/devices")
    with pytest.raises(AbsentError):
        reader()
    neuron_tree(tmp_path, devices=1, cores=1, driver="2.31.1.0", moved=True)
    payload = read(reader)
    assert payload["driver"] == "2.31.1.0"
    assert list(payload["devices"]) == ["0"]
    assert payload["devices"]["0"]["cores"]["0"]["status"]["success"] == 1000


def test_fault_19_what_may_not_be_read_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    neuron_tree(tmp_path, devices=3, cores=1, driver="2.25.4.0")
    real = sysfs.read

    def read_file(path: str, folder: int | None = None) -> bytes:
        if path.endswith(("connected_devices", "serial_number")):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, folder)

    monkeypatch.setattr(sysfs, "read", read_file)
    payload = read(NeuronSysfsReader(tmp_path))
    assert payload["errors"] == [
        "no permission to read connected_devices, serial_number; run trntop as root"
    ]
    assert "errors" not in payload["devices"]["0"]


def test_a_tree_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_module, "MAX_ENTRIES", 100)
    neuron_tree(tmp_path, devices=1, cores=8)
    payload = read(NeuronSysfsReader(tmp_path))["devices"]["0"]
    assert payload["errors"] == ["more than 100 entries; the rest is skipped"]
    assert payload["info"]["device_name"] == "Trainium2"


def test_absurd_core_numbers_are_left_out(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=1)
    write(device_folder(tmp_path, 0) / "neuron_core999/stats/status/success/total", 1)
    assert list(read(NeuronSysfsReader(tmp_path))["devices"]["0"]["cores"]) == ["0"]


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(AbsentError, match="driver is not loaded; install aws-neuronx-dkms"):
        NeuronSysfsReader(tmp_path)()
    write(tmp_path / "sys/module/neuron/version", "2.30.2.0")
    with pytest.raises(AbsentError, match=r"2\.30\.2\.0 is loaded, but there is no device"):
        NeuronSysfsReader(tmp_path)()


def test_doctor(trn2: Path) -> None:
    finding = examine(trn2)
    assert (finding.source, finding.ok, finding.remedy) == ("neuron-sysfs", True, "")
    assert finding.found == "16 Neuron devices, 128 physical cores, driver 2.30.2.0"


def test_doctor_names_what_an_old_driver_lacks(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=2, driver="2.25.4.0")
    shutil.rmtree(device_folder(tmp_path, 0) / "stats/hardware/health_status")
    finding = examine(tmp_path)
    assert finding.ok
    assert "1 Neuron device, 2 physical cores, driver 2.25.4.0" in finding.found
    assert "missing: health" in finding.found
    assert "before driver 2.30.2" in finding.found
    assert finding.remedy == "update aws-neuronx-dkms"


def test_fault_19_doctor_without_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    neuron_tree(tmp_path, devices=1, cores=1)

    def read_file(path: str, folder: int | None = None) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(sysfs, "read", read_file)
    finding = examine(tmp_path)
    assert not finding.ok
    assert "no permission to read" in finding.found
    assert "user who can read" in finding.remedy


def test_doctor_with_a_lost_device(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=2, cores=1)
    fail_device(tmp_path, 0)
    finding = examine(tmp_path)
    assert not finding.ok
    assert "neuron0: lost" in finding.found


def test_doctor_without_a_driver(tmp_path: Path) -> None:
    finding = examine(tmp_path)
    assert not finding.ok
    assert "modprobe neuron" in finding.remedy


def test_the_payload_states_its_period(tmp_path: Path) -> None:
    neuron_tree(tmp_path, devices=1, cores=1)
    assert read(neuron_sysfs.NeuronSysfsReader(tmp_path, period=30))["period"] == 30
