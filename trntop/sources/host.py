"""The host: `{"period", "cpu", "memory", "network", "disk", "lustre", "nfs", "processes", …}`.

Bytes are cumulative: since boot, or since a file system was mounted. A count that the
reader could not complete is absent, with the reason.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from trntop.catalog import HOST
from trntop.core.model import Compilation, Sample
from trntop.core.text import clean
from trntop.sources import tolerant
from trntop.sources.columns import COUNTER, SIZE, Layout, Range
from trntop.sources.source import Source

PERIOD = 10.0
"""Seconds, if the payload does not have it."""
MAX_ERRORS = 16
EC2 = "Amazon EC2"
"""System vendor in the firmware of Nitro instances."""

_VOLUMES = ("disk", "lustre", "nfs")
_BYTES = (
    *("network_rx", "network_tx"),
    *(f"{name}_{way}" for name in _VOLUMES for way in ("read", "written")),
)
REMOTE = "://"
"""Part of the location of a compile cache that is not a directory."""
_LAYOUT = Layout(
    (("node_cpu_busy_ratio",), Range(limit=1.0)),
    (("node_load1",), Range(limit=1e6)),
    (("node_memory_available_bytes", "node_processes"), SIZE),
    (("node_compilers", "node_compile_cache_modules"), SIZE),
    (tuple(f"node_{name}_bytes_total" for name in _BYTES), COUNTER),
)


class _Dmi(msgspec.Struct, gc=False):
    sys_vendor: str = ""
    product_name: str = ""
    board_asset_tag: str = ""


class _Cpu(msgspec.Struct, gc=False):
    busy: float | None = None
    load1: float | None = None


class _Memory(msgspec.Struct, gc=False):
    available: float | None = None


class _Interface(msgspec.Struct, gc=False):
    rx_bytes: float | None = None
    tx_bytes: float | None = None


class _Volume(msgspec.Struct, gc=False):
    read_bytes: float | None = None
    written_bytes: float | None = None


class _Processes(msgspec.Struct, gc=False):
    count: float | None = None
    partial: bool = False


class _Compiler(msgspec.Struct, gc=False):
    since: float | None = None


class _Cache(msgspec.Struct, gc=False):
    path: str = ""
    modules: float | None = None
    partial: bool = False


class _Host(msgspec.Struct, gc=False):
    period: float = PERIOD
    dmi: _Dmi = msgspec.field(default_factory=_Dmi)
    cpu: _Cpu = msgspec.field(default_factory=_Cpu)
    memory: _Memory = msgspec.field(default_factory=_Memory)
    network: dict[str, _Interface] = {}
    disk: _Volume = msgspec.field(default_factory=_Volume)
    lustre: dict[str, _Volume] = {}
    nfs: dict[str, _Volume] = {}
    processes: _Processes = msgspec.field(default_factory=_Processes)
    compilers: list[_Compiler] | None = None
    compile_cache: _Cache = msgspec.field(default_factory=_Cache)
    errors: list[str] = []


_decoder = msgspec.json.Decoder(_Host)


def decode(data: bytes) -> Sample:
    """The sample of one reading.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    host, problems = tolerant.decode(data, _decoder)
    compilers = host.compilers
    absent: dict[str, str] = {}
    facts: dict[str, Any] = {"facts": _instance(host.dmi)}
    if compilers or (compilers is not None and not host.processes.partial):
        facts["compilation"] = _compilation(compilers)
    if host.processes.partial:
        absent["node_compilers"] = "not all processes could be read"
    if host.compile_cache.partial:
        absent["node_compile_cache_modules"] = "not all modules could be read"
    if REMOTE in (cache := clean(host.compile_cache.path, 128)):
        facts["facts"]["compile_cache"] = cache
        absent["node_compile_cache_modules"] = f"modules at {cache} are not counted"
    row = (
        host.cpu.busy,
        host.cpu.load1,
        host.memory.available,
        host.processes.count,
        None if compilers is None or host.processes.partial else float(len(compilers)),
        None if host.compile_cache.partial else host.compile_cache.modules,
        _total(interface.rx_bytes for interface in host.network.values()),
        _total(interface.tx_bytes for interface in host.network.values()),
        host.disk.read_bytes,
        host.disk.written_bytes,
        _total(volume.read_bytes for volume in host.lustre.values()),
        _total(volume.written_bytes for volume in host.lustre.values()),
        _total(volume.read_bytes for volume in host.nfs.values()),
        _total(volume.written_bytes for volume in host.nfs.values()),
    )
    return Sample(
        columns=_LAYOUT.columns([row]),
        facts=facts,
        period=host.period if 0 < host.period < float("inf") else PERIOD,
        problems=(*problems, *map(clean, host.errors[:MAX_ERRORS])),
        absent=absent,
    )


def _instance(dmi: _Dmi) -> dict[str, str]:
    """Type and id of an EC2 instance, from its firmware; empty on other machines."""
    if dmi.sys_vendor != EC2:
        return {}
    facts = {"instance_type": dmi.product_name, "instance_id": dmi.board_asset_tag}
    return {name: clean(value, 64) for name, value in facts.items() if value}


def _total(values: Iterable[float | None]) -> float | None:
    """The sum of the valid values; None without any."""
    known = [value for value in values if value is not None and 0 <= value < COUNTER.limit]
    return sum(known) if known else None


def _compilation(compilers: list[_Compiler]) -> Compilation | None:
    """The compilers whose start is known."""
    starts = [
        compiler.since
        for compiler in compilers
        if compiler.since is not None and compiler.since > 0
    ]
    return Compilation(min(starts), len(starts)) if starts else None


SOURCE = Source(
    name=HOST,
    decode=decode,
    gives="CPU, memory, network, disks, Lustre, NFS (EFS), compilers and compile cache",
    origin="psutil, `/proc`, and the directory of the compile cache",
    needs="nothing on the host; in a container its `/proc` (setting `collect.root`)",
    without="no host panel, and a compilation looks like idle cores",
)
