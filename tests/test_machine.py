"""A simulated trn2.48xlarge in `/sys`: from its files to the values a user gets."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import sysfs_tree
from trntop.catalog import EFA_SOURCE, HOST, NEURON_SYSFS, TENSOR_ENGINE, Entity, of_entity
from trntop.collectors.efa import EfaReader
from trntop.collectors.host import HostReader
from trntop.collectors.neuron_sysfs import NeuronSysfsReader
from trntop.collectors.tensor_engine import TensorEngineReader
from trntop.core.model import Reading
from trntop.core.settings import Settings
from trntop.exporters.document import snapshot
from trntop.session.monitor import Monitor

GIB = 1 << 30
START = 1_763_640_000.0
GBPS_200 = 25e9


class Machine:
    """The sources of a tree, read once a second of made-up time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = START
        self._monitor = Monitor(Settings())
        self._readers = {
            NEURON_SYSFS: NeuronSysfsReader(root, period=1.0),
            TENSOR_ENGINE: TensorEngineReader(root),
            EFA_SOURCE: EfaReader(root),
            HOST: HostReader(root, period=1.0),
        }

    def read(self) -> None:
        """All sources, one second later."""
        self.now += 1.0
        for source, reader in self._readers.items():
            self._monitor.feed(Reading("trn-000", source, self.now, reader()))

    def node(self) -> dict[str, Any]:
        """What `trntop snapshot --json` prints of it."""
        (node,) = snapshot(self._monitor.tick(self.now))["nodes"]
        return dict(node)

    def counter(self, efa_device: str, name: str) -> Path:
        return sysfs_tree.efa_counter(self.root, efa_device, name)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: it has some 20,000 files."""
    root = tmp_path_factory.mktemp("trn2")
    sysfs_tree.trn2_48xlarge(root)
    return root


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Two devices of two cores and four EFA devices, to be damaged."""
    sysfs_tree.neuron_tree(tmp_path, devices=2, cores=2)
    sysfs_tree.efa_tree(tmp_path, count=4)
    sysfs_tree.write(tmp_path / "sys/class/dmi/id/sys_vendor", "Amazon EC2")
    sysfs_tree.write(tmp_path / "sys/class/dmi/id/product_name", "trn2.48xlarge")
    (tmp_path / "proc").symlink_to("/proc")
    return Machine(tmp_path)


def test_every_quantity_of_a_whole_machine(tree: Path) -> None:
    machine = Machine(tree)
    machine.read()
    for index in range(16):
        name = f"rdmap{16 * (1 + index // 2)}s{27 + index % 2}"
        for counter, by in (("tx_bytes", 5 * 10**9), ("tx_pkts", 10**6), ("retrans_pkts", 10**4)):
            sysfs_tree.bump(machine.counter(name, counter), by)
    for device in range(16):
        for core in range(8):
            engine = sysfs_tree.core_folder(tree, device, core) / "tensor_engine/pe_cntrs"
            sysfs_tree.write(engine, sysfs_tree.pe_cntrs(300, 100, 600))
    machine.read()
    node = machine.node()

    assert node["instance_type"] == "trn2.48xlarge"
    assert node["facts"]["neuron_driver"] == "2.30.2.0"
    shown = {
        name
        for part in ("devices", "physical_cores", "efa")
        for entry in node[part]
        for name in entry
    } | node["values"].keys()
    of_these = {NEURON_SYSFS, TENSOR_ENGINE, EFA_SOURCE}
    for entity in (Entity.DEVICE, Entity.PHYSICAL_CORE, Entity.EFA):
        for quantity in of_entity(entity):
            if quantity.source in of_these or quantity.rate_of:
                assert quantity.name in shown, quantity.name

    cores = node["physical_cores"]
    assert len(cores) == 128
    last = cores[-1]
    assert (last["device"], last["core"], last["physical_core"]) == (15, 7, 127)
    assert last["physical_core_memory_used_bytes"] == 8 * GIB
    assert last["physical_core_success_total"] == 8000
    assert last["physical_core_failures_total"] == 0
    assert last["physical_core_tensor_engine_busy_ratio"] == pytest.approx(0.4)
    assert node["values"]["node_tensor_engine_busy_mean_ratio"] == pytest.approx(0.4)

    device = node["devices"][3]
    assert len(node["devices"]) == 16
    assert device["device_power_mean_ratio"] == pytest.approx(0.1886)
    assert device["device_power_max_ratio"] == pytest.approx(0.25)
    assert device["device_mem_ecc_uncorrected_total"] == 0
    assert device["device_unhealthy_components"] == 0
    assert device["link"]["connected_to"] == "15, 7, 2, 0"
    assert device["device_tensor_engine_busy_ratio"] == pytest.approx(0.4)
    assert device["device_memory_used_bytes"] == 36 * GIB
    assert device["device_memory_used_ratio"] == pytest.approx(36 / 96)

    efa_devices = node["efa"]
    assert len(efa_devices) == 16
    assert not any("ibp" in device["device"] for device in efa_devices)
    assert all(device["efa_tx_bytes_per_second"] == 5e9 for device in efa_devices)
    assert all(device["efa_retransmit_ratio"] == pytest.approx(0.01) for device in efa_devices)
    assert all(device["efa_link_bytes_per_second"] == GBPS_200 for device in efa_devices)
    links = {device["device"]: device["link"]["pci"] for device in efa_devices}
    assert links["rdmap16s27"] == "0000:10:1b.0"
    # Nothing is summed twice: sent and received, not RDMA on top.
    assert node["values"]["node_efa_tx_bytes_per_second"] == 16 * 5e9
    assert node["values"]["node_efa_rx_bytes_per_second"] == 0
    assert node["values"]["node_efa_cards"] == node["values"]["node_efa_cards_expected"] == 16
    assert node["values"]["node_efa_tx_imbalance_ratio"] == 0
    assert node["provenance"]["device_power_mean_ratio"] == "measured"
    assert node["provenance"]["node_tensor_engine_busy_mean_ratio"] == "derived"


def test_an_old_efa_driver(tmp_path: Path, machine: Machine) -> None:
    shutil.rmtree(tmp_path / "sys/class/infiniband")
    shutil.rmtree(tmp_path / "sys/devices/pci0000:10")
    shutil.rmtree(tmp_path / "sys/devices/pci0000:20")
    shutil.rmtree(tmp_path / "sys/devices/pci0000:90")
    sysfs_tree.efa_tree(tmp_path, count=2, driver="2.12.1", rate=100)
    machine.read()
    device = machine.node()["efa"][0]
    assert device["efa_tx_bytes_total"] == 1000
    assert device["efa_submitted_cmds_total"] == 100
    assert "efa_retrans_pkts_total" not in device
    # What the driver states is not reliable; the type's EFA devices have 200 Gb/s.
    assert "efa_stated_link_bytes_per_second" not in device
    assert device["efa_link_bytes_per_second"] == GBPS_200


def test_another_layout_of_the_neuron_driver(tmp_path: Path, machine: Machine) -> None:
    before = [{**core} for core in _read_once(machine)["physical_cores"]]
    shutil.rmtree(tmp_path / "sys/devices/virtual")
    sysfs_tree.neuron_tree(tmp_path, devices=2, cores=2, driver="2.31.0.0", moved=True)
    moved = _read_once(Machine(tmp_path))
    assert moved["physical_cores"] == before
    assert moved["devices"][0]["device_power_mean_ratio"] == pytest.approx(0.1886)


def _read_once(machine: Machine) -> dict[str, Any]:
    machine.read()
    return machine.node()


def test_an_efa_device_that_is_gone(machine: Machine) -> None:
    machine.read()
    sysfs_tree.remove_efa_device(machine.root, "rdmap16s28")
    machine.read()
    node = machine.node()
    lost = next(device for device in node["efa"] if device["device"] == "rdmap16s28")
    assert len(node["efa"]) == 4
    assert lost["efa_tx_bytes_total"] is None
    assert lost["efa_tx_bytes_per_second"] is None
    assert node["values"]["node_efa_cards"] == 3
    assert node["values"]["node_efa_cards_expected"] == 16


def test_an_efa_device_whose_reads_fail(machine: Machine) -> None:
    machine.read()
    sysfs_tree.fail(machine.counter("rdmap16s27", "tx_bytes"))
    machine.read()
    node = machine.node()
    device = next(device for device in node["efa"] if device["device"] == "rdmap16s27")
    assert device["efa_tx_bytes_total"] is None
    assert device["efa_rx_bytes_total"] == 1000
    (source,) = [source for source in node["sources"] if source["source"] == "efa"]
    assert "rdmap16s27: ports/1/hw_counters/tx_bytes" in source["reason"]


def test_counters_that_were_reset(machine: Machine) -> None:
    machine.read()
    sysfs_tree.reset_efa_device(machine.root, "rdmap16s27")
    sysfs_tree.bump(machine.counter("rdmap16s28", "tx_bytes"), 10**9)
    machine.read()
    node = machine.node()
    rates = {device["device"]: device["efa_tx_bytes_per_second"] for device in node["efa"]}
    assert rates["rdmap16s27"] is None
    assert rates["rdmap16s28"] == 1e9
    sysfs_tree.bump(machine.counter("rdmap16s27", "tx_bytes"), 10**9)
    machine.read()
    assert machine.node()["efa"][0]["efa_tx_bytes_per_second"] == 1e9


def test_fault_14_a_device_that_is_lost(machine: Machine) -> None:
    machine.read()
    sysfs_tree.fail_device(machine.root, 1)
    machine.read()
    node = machine.node()
    assert [device["device"] for device in node["devices"]] == [0, 1]
    assert node["devices"][1]["device_power_mean_ratio"] is None
    assert node["devices"][1]["link"]["lost"]
    assert [core["physical_core_memory_used_bytes"] for core in node["physical_cores"]] == [
        GIB, 2 * GIB, None, None,
    ]  # fmt: skip


def test_the_command_line_reads_it(tree: Path, tmp_path: Path) -> None:
    settings = {
        "root": tree,
        "neuron_monitor": tmp_path / "none",
        "neuron_ls": tmp_path / "none",
        "steps_socket": tmp_path / "steps.sock",
        "profiles": tmp_path / "profiles.json",
    }
    options = [
        item for key, value in settings.items() for item in ("--set", f"collect.{key}={value}")
    ]
    run = subprocess.run(
        [sys.executable, "-m", "trntop", "snapshot", "--json", *options],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ},
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    (node,) = json.loads(run.stdout)["nodes"]
    assert (len(node["physical_cores"]), len(node["efa"])) == (128, 16)
    assert node["values"]["node_cpu_busy_ratio"] is not None
    states = {source["source"]: source["state"] for source in node["sources"]}
    assert states["efa"] == states["neuron-sysfs"] == states["tensor-engine"] == "fresh"
    assert states["neuron-monitor"] == "down"
