"""Simulated `/sys` trees of Trainium machines: plain files in the shape of the real ones.

Nothing here was recorded on hardware; all values are made up. Names and places follow the
sources of the Neuron driver (2.24 to 2.30) and of the EFA driver.
"""

import os
import shutil
import stat
from pathlib import Path

from trntop.catalog import (
    CORE_STATUSES,
    EFA_DEVICE_COUNTERS,
    EFA_PORT_COUNTERS,
)
from trntop.collectors.simulator.neuron_sysfs import MEMORY_NODES

SRD_COUNTERS = (
    "retrans_bytes",
    "retrans_pkts",
    "retrans_timeout_events",
    "unresponsive_remote_events",
    "impaired_remote_conn_events",
)
RATES = {100: "100 Gb/sec (4X EDR)", 200: "200 Gb/sec (4X HDR)"}
HOST_MEMORY = ("application_memory", "dma_buffers", "driver_memory", "tensors", "uncategorized")
OTHER_INFO = (
    "flop_count",
    "inference_count",
    "model_load_count",
    "nc_time_in_use",
    "reset_fail_count",
    "reset_req_count",
)
ROW_GROUPS = 4


def write(path: Path, content: object) -> None:
    """One attribute, with the newline the kernel ends it with."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True)
    path.write_text(f"{content}\n")


def bump(path: Path, by: int) -> None:
    """Adds to a counter."""
    write(path, int(path.read_text()) + by)


def fail(path: Path) -> None:
    """Makes an attribute unreadable: opening it is refused, and whoever holds it reads nothing."""
    path.write_text("")
    path.unlink()
    os.mknod(path, stat.S_IFSOCK | 0o600)


def descriptors() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


# EFA


def efa_tree(
    root: Path,
    count: int = 16,
    driver: str = "2.17.3g",
    mellanox: bool = True,
    rate: int = 200,
) -> list[str]:
    """EFA devices, their names in order; each counter of device `n` starts at 1000 * (n + 1).

    Args:
        root: where `sys` is made.
        count: how many, two to a PCI bus.
        driver: version; before 2.17.0 there are no SRD counters.
        mellanox: whether there is a device of another vendor too.
        rate: Gb/s.
    """
    write(root / "sys/module/efa/version", driver)
    names = [efa_device(root, index, driver, rate) for index in range(count)]
    if mellanox:
        folder = _pci_device(root, 0x90, 0, "ibp144s0", "0x15b3", "0x101b")
        write(folder / "ports/1/hw_counters/out_of_buffer", 0)
    return sorted(names)


def efa_device(root: Path, index: int, driver: str, rate: int = 200) -> str:
    """One EFA device, its name."""
    bus, slot = 16 * (1 + index // 2), 27 + index % 2
    name = f"rdmap{bus}s{slot}"
    folder = _pci_device(root, bus, slot, name, "0x1d0f", "0xefa2", numa_node=index // 8)
    port = folder / "ports/1"
    write(port / "rate", RATES[rate])
    write(port / "state", "4: ACTIVE")
    write(port / "phys_state", "5: LinkUp")
    write(folder / "device/p2p", "NEURON")
    srd = tuple(map(int, driver.rstrip("g").split("."))) >= (2, 17)
    for counter in EFA_PORT_COUNTERS:
        if srd or counter not in SRD_COUNTERS:
            write(port / "hw_counters" / counter, 1000 * (index + 1))
    for counter in EFA_DEVICE_COUNTERS:
        write(
            folder / "hw_counters" / counter,
            0 if counter.endswith(("_err", "completion_cmds")) else 100,
        )
    write(port / "hw_counters/lifespan", 12)
    return name


def efa_counter(root: Path, device: str, name: str) -> Path:
    """The file of a counter in either folder."""
    folder = root / "sys/class/infiniband" / device
    port = folder / "ports/1/hw_counters" / name
    return port if port.exists() else folder / "hw_counters" / name


def remove_efa_device(root: Path, device: str) -> None:
    """The EFA device vanishes."""
    link = root / "sys/class/infiniband" / device
    shutil.rmtree(link.resolve())
    link.unlink()


def reset_efa_device(root: Path, device: str) -> None:
    """All its counters restart at 0."""
    folder = root / "sys/class/infiniband" / device
    for path in (*folder.glob("ports/1/hw_counters/*"), *folder.glob("hw_counters/*")):
        write(path, 0)


def _pci_device(
    root: Path, bus: int, slot: int, name: str, vendor: str, model: str, numa_node: int = 0
) -> Path:
    """An InfiniBand device below its PCI device, linked as the kernel links it."""
    address = f"0000:{bus:02x}:{slot:02x}.0"
    pci = root / f"sys/devices/pci0000:{bus:02x}" / address
    write(pci / "vendor", vendor)
    write(pci / "device", model)
    write(pci / "numa_node", numa_node)
    write(pci / "uevent", f"DRIVER=efa\nPCI_SLOT_NAME={address}")
    folder = pci / "infiniband" / name
    folder.mkdir(parents=True)
    (folder / "device").symlink_to("../..")
    listed = root / "sys/class/infiniband"
    listed.mkdir(parents=True, exist_ok=True)
    (listed / name).symlink_to(os.path.relpath(folder, listed))
    return folder


# Neuron


def neuron_tree(
    root: Path,
    devices: int = 16,
    cores: int = 8,
    driver: str = "2.30.2.0",
    moved: bool = False,
) -> None:
    """Neuron devices with a job on them.

    Args:
        root: where `sys` is made.
        devices: how many.
        cores: physical cores of each.
        driver: version.
        moved: puts the nodes at made-up other paths, as a driver with another layout does.
    """
    write(root / "sys/module/neuron/version", driver)
    for name, value in (
        ("ultraserver_mode", "1"),
        ("node_id_4", "busy"),
        ("server_id_4", 16 * "0"),
    ):
        write(root / "sys/class/neuron_device" / name, value)
    for index in range(devices):
        neuron_device(root, index, devices, cores, moved)


def neuron_device(
    root: Path, index: int, devices: int = 16, cores: int = 8, moved: bool = False
) -> None:
    """One device: core `c` has used (c + 1) GiB of HBM and ended 1000 * (c + 1) executions."""
    folder = device_folder(root, index)
    stats, health, memory = folder / "stats", "stats/hardware/health_status", "memory_usage"
    if moved:
        stats, health, memory = folder / "telemetry/device", "health", "mem"
    write(folder / "core_count", cores)
    write(folder / "connected_devices", ", ".join(map(str, neighbours(index, devices))))
    write(folder / "uevent", "MAJOR=240")
    write(folder / "power/runtime_active_time", 0)  # the kernel's own, none of the driver's
    (folder / "subsystem").symlink_to("../../../../class/neuron_device")
    for name, value in (
        ("serial_number", f"{0xC0FFEE00 + index:016x}"),
        ("architecture/arch_type", "NDv3"),
        ("architecture/instance_type", "Trn2"),
        ("architecture/device_name", "Trainium2"),
    ):
        write(folder / "info" / name, value)
    for name in ("mem_ecc", "sram_ecc"):
        for kind in ("corrected", "uncorrected"):
            write(stats / "hardware" / f"{name}_{kind}", 0)
    write(stats / "hardware/mem_ecc_repairable_uncorrected", 0)
    if moved:
        for name in ("hbm_ecc_err_count", "repairable_hbm_ecc_err_count", "sram_ecc_err_count"):
            write(stats / "hardware/health_status" / name, 0)
        write(stats / "hardware/health_status/hw_error_event", "")
    write(folder / health / "unhealthy_components", "")
    write(folder / health / "healthcheck_heartbeat", 17)
    write(stats / "power/utilization", "POWER_STATUS_VALID,1763650000,0.86,25.00,18.86")
    for name in HOST_MEMORY:
        _counter(stats / memory / "host_mem" / name, 1 << 20, peak=True)
    for core in range(cores):
        _core(core_folder(root, index, core, moved), core, memory)


def device_folder(root: Path, index: int) -> Path:
    """Where a device's nodes are."""
    return root / f"sys/devices/virtual/neuron_device/neuron{index}"


def core_folder(root: Path, index: int, core: int, moved: bool = False) -> Path:
    """Where a core's statistics are."""
    name = f"neuron_core{core}"
    return device_folder(root, index) / (f"telemetry/cores/{name}" if moved else f"{name}/stats")


def neighbours(index: int, devices: int = 16) -> list[int]:
    """The devices that this one is wired to: those around it in a square torus."""
    side = round(devices**0.5)
    if side * side != devices or side < 2:
        return [other for other in (index - 1, index + 1) if 0 <= other < devices]
    row, column = divmod(index, side)
    around = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
    return list(dict.fromkeys(side * (r % side) + c % side for r, c in around))


def pe_cntrs(matmul: int, weights: int, idle: int) -> str:
    """A core's tensor-engine counters, the same in each row group."""
    rows = (f"{row},{matmul},{weights},{idle}" for row in range(ROW_GROUPS))
    return "\n".join(("xrow_grp,mm_active,wl_active,idle", *rows))


def remove_device(root: Path, index: int) -> None:
    """The device vanishes."""
    shutil.rmtree(device_folder(root, index))


def fail_device(root: Path, index: int) -> None:
    """Every node of the device becomes unreadable."""
    for path in list(device_folder(root, index).rglob("*")):
        if path.is_file():
            fail(path)


def _core(folder: Path, core: int, memory: str) -> None:
    for status in CORE_STATUSES:
        _counter(folder / "status" / status, 1000 * (core + 1) if status == "success" else 0)
    _counter(folder / memory / "device_mem", (core + 1) << 30, peak=True)
    for category in MEMORY_NODES:
        size = (core + 1) << 30 if category == "tensors" else 0
        _counter(folder / memory / "device_mem" / category, size, peak=True)
    _counter(folder / memory / "host_mem", 1 << 20, peak=True)
    for name in OTHER_INFO:
        _counter(folder / "other_info" / name, 1000 * (core + 1))
    write(folder / "tensor_engine/pe_cntrs", pe_cntrs(0, 0, 0))


def _counter(folder: Path, total: int, peak: bool = False) -> None:
    write(folder / "total", total)
    write(folder / "present", 7)  # the last change: never the value to show
    if peak:
        write(folder / "peak", 2 * total)


def trn2_48xlarge(root: Path) -> None:
    """16 devices of 8 physical cores each, 16 EFA devices, and a device of another vendor.

    `/proc` is this machine's own.
    """
    neuron_tree(root)
    efa_tree(root)
    for name, text in (("sys_vendor", "Amazon EC2"), ("product_name", "trn2.48xlarge")):
        write(root / "sys/class/dmi/id" / name, text)
    (root / "proc").symlink_to("/proc")


def fit_node(root: Path) -> None:
    """A trn2.48xlarge on which all that EFA needs is in place, with a `/proc` of its own."""
    neuron_tree(root)
    efa_tree(root)
    for name, text in (
        ("sys_vendor", "Amazon EC2"),
        ("product_name", "trn2.48xlarge"),
        ("board_asset_tag", "i-simulated"),
    ):
        write(root / "sys/class/dmi/id" / name, text)
    for module in ("ib_uverbs", "ib_core"):
        write(root / "sys/module" / module / "refcnt", 1)
    for index in range(16):
        write(root / f"dev/infiniband/uverbs{index}", "")
    write(root / "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 5128)
    write(root / "proc/sys/kernel/osrelease", "6.1.0-simulated")
    write(
        root / "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max locked memory         unlimited            unlimited            bytes",
    )
    write(
        root / "opt/amazon/efa_installed_packages",
        "# EFA installer version: 1.43.3\nlibfabric1-aws_2.1.0amzn5.0_amd64.deb\n"
        "libnccl-ofi_1.16.3-1_amd64.deb",
    )
    write(root / "etc/environment", "FI_PROVIDER=efa\nFI_EFA_USE_DEVICE_RDMA=1")
