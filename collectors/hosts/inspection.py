"""The inspection of a node: devices, versions, limits, and the jobs that use the devices.

One POSIX script reads files and runs programs, on this machine or over ssh; the readers of the
collectors read its output. If it hangs, in a driver for example, the parts it has printed count.

The EFA installer writes `/opt/amazon/efa_installed_packages`, whose first line has its version; the
drivers have theirs in sysfs, the package manager has all others.
"""

import re
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import msgspec

from trntop.check.model import PROBE_TOOL, EfaDevice, Inspection, UnreachableError
from trntop.core.errors import DecodeError
from trntop.core.settings import Collect
from trntop.core.text import clean
from trntop.sources import neuron_ls

from .. import efa, neuron_tree
from ..neuron_ls import FORMS, FailedError, without_arguments
from ..neuron_sysfs import NeuronSysfsReader
from ..polled import AbsentError
from ..probes.prober import FOLDERS
from ..probes.process import Ended, Process
from ..ssh import script
from ..ssh.dump import Dump
from ..sysfs import Files, line_of, number, reason, text

SECONDS = 15.0
"""For the whole inspection, less than `check.inspect_seconds`."""
MAX_BYTES = 16 << 20
"""Longest output that is read."""
PARTS = ("time", "files", "list", "efa", "devices", "end")
"""Parts of every complete output, in this order."""

MODULES = ("efa", "ib_uverbs", "ib_core", "neuron")
INSTALLER = "opt/amazon/efa_installed_packages"
HUGE_PAGES = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
PARENTS = ("slurmd", "containerd", "dockerd")
"""Programs whose limits jobs inherit."""
MAX_TEXT = 64
MAX_BUSY = 16

_PACKAGES = {
    "aws-neuronx-runtime-lib": "neuron-runtime",
    "aws-neuronx-collectives": "neuron-collectives",
    "aws-neuronx-tools": "neuron-tools",
    "libnccl-ofi": "aws-ofi",
    "aws-ofi-nccl": "aws-ofi",
}
_INSTALLER = re.compile(r"EFA installer version:\s*([\w.+-]{1,32})", re.ASCII)
_PLUGIN = re.compile(r"^(?:libnccl-ofi|aws-ofi-nccl)[-_](\d+(?:\.\d+)+)", re.ASCII | re.MULTILINE)
_LOCKED = re.compile(r"^Max locked memory\s+(\d+|unlimited)", re.MULTILINE)
_LIBFABRIC = re.compile(r"^libfabric: *(\d[\w.+-]{0,31})", re.ASCII | re.MULTILINE)

Part = dict[str, Any]
"""Some fields of an inspection."""


class Shell(NamedTuple):
    """How to run a POSIX shell on a node."""

    argv: Sequence[str]
    """It reads the script from standard input."""
    environ: Mapping[str, str]


class IncompleteError(Exception):
    """The shell ended before the script did."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.code)
        self.ended = ended

    @property
    def errors(self) -> list[str]:
        """Standard error by line."""
        return [clean(line, 300) for line in self.ended.errors.splitlines()]


async def inspect(
    node: str, shell: Shell, settings: Collect, *, simulated: bool = False
) -> Inspection:
    """Inspects a node.

    Raises:
        UnreachableError: no part is read in time, or the shell cannot be run.
        IncompleteError: the shell ended too early.
    """
    tag = f"@{secrets.token_hex(8)}"
    try:
        process = await Process.start(
            shell.argv, SECONDS, stdin=_script(tag, settings), environ=shell.environ,
            kept_bytes=MAX_BYTES,
        )  # fmt: skip
    except OSError as error:
        raise UnreachableError(f"{shell.argv[0]}: {error.strerror}") from error
    ended = await process.wait()
    parts = _parts(ended.out.encode(), tag.encode())
    if ended.code is not None and "end" not in parts:
        raise IncompleteError(ended)
    if ended.code is None:
        if len(parts) < 2:
            raise UnreachableError(f"no response within {SECONDS:g} s")
        parts.popitem()  # it may be incomplete
    return assembled(node, parts, simulated=simulated)


def _script(tag: str, settings: Collect) -> str:
    """The script with its parameters."""
    lister = shlex.quote(settings.neuron_ls)
    listed = " ||\n".join(f"limited {lister} {shlex.join(form)}" for form in FORMS)
    return "".join(
        (
            # Its functions, without the last line, which waits for requests.
            script.text(tag, settings).rstrip().removesuffix("main"),
            f"jobs={shlex.quote(settings.job_mapping)}\n",
            f"path={shlex.quote(':'.join(FOLDERS))}\n",
            f"list() {{\ncommand -v {lister} >/dev/null || return 0\n{listed}\n}}\n",
            resources.files(__package__).joinpath("inspect.sh").read_text(),
        )
    )


def _parts(out: bytes, tag: bytes) -> dict[str, bytes]:
    """The parts of an output by name; greetings of a login shell precede the first."""
    parts = {}
    for piece in out.split(b"\n" + tag + b" ")[1:]:
        name, _, body = piece.partition(b"\n")
        parts[name.decode(errors="replace")] = body
    return parts


def assembled(node: str, parts: Mapping[str, bytes], *, simulated: bool = False) -> Inspection:
    """An inspection from the parts of the script's output; missing parts are problems."""
    fields: Part = {"node": node, "time": _time(parts), "simulated": simulated, "problems": []}
    for name, read in (("files", small_files), ("efa", efa_devices), ("devices", devices)):
        if name in parts:
            dump = Dump()
            dump.load(parts[name])
            _merge(fields, read(dump))
    if "list" in parts:
        _merge(fields, versions(parts))
        _merge(fields, busy(parts))
    missing = [name for name in PARTS if name not in parts]
    if missing:
        why = f"no response within {SECONDS:g} s, a read hangs"
        fields["problems"].append(f"{', '.join(missing[:-1])}: {why}")
    return Inspection(**fields)


def _merge(fields: Part, more: Part) -> None:
    for name, value in more.items():
        before = fields.get(name)
        if isinstance(before, dict):
            value = {**before, **value}
        elif isinstance(before, list):
            value = [*before, *value]
        fields[name] = value


def _time(parts: Mapping[str, bytes]) -> float:
    """The node's clock; busybox prints `%N` as it is."""
    seconds, _, rest = parts["time"].decode(errors="replace").strip().partition(".")
    try:
        return float(f"{seconds}.{rest if rest.isdigit() else 0}")
    except ValueError:
        return time.time()


def efa_devices(files: Files) -> Part:
    """EFA devices with their counters."""
    try:
        reading = msgspec.json.decode(efa.EfaReader(files)())
    except AbsentError as error:
        try:
            files.entries(efa.FOLDER)
        except FileNotFoundError:
            pass
        except OSError:
            return {"problems": [error.found]}
        return {"efa_devices": []}
    found, unhealthy, problems = [], {}, []
    driver = reading["driver"] or ""
    for name, efa_device in reading["devices"].items():
        label = clean(name, MAX_TEXT)
        if why := efa_device.get("error"):
            unhealthy[f"efa:{label}"] = f"no counter of {label} can be read: {clean(why)}"
        problems += [f"{label}: {clean(why)}" for why in efa_device.get("errors", ())]
        found.append(
            EfaDevice(
                name=label,
                rate_gbps=efa_device.get("rate_gbps"),
                driver=driver,
                p2p=_short(efa_device.get("p2p")),
                port=efa_device["port"],
                device=efa_device["device"],
            )
        )
    return {
        "efa_devices": found,
        "unhealthy": unhealthy,
        "problems": problems,
        "versions": {"efa": driver} if driver else {},
    }


def devices(files: Files) -> Part:
    """Neuron devices: their number, and the unhealthy ones."""
    driver = line_of(files, neuron_tree.VERSION)
    known = {"versions": {"neuron-driver": driver}} if driver else {}
    try:
        reading = msgspec.json.decode(NeuronSysfsReader(files)())
    except AbsentError as error:
        return {**known, **({"devices": 0} if driver else {"problems": [error.found]})}
    unhealthy, lost = {}, 0
    for index, device in reading["devices"].items():
        lost += "lost" in device
        if faults := _faults(device):
            unhealthy[f"device:{index}"] = f"Neuron device {index}: {'; '.join(faults)}"
    return {
        **known,
        "devices": len(reading["devices"]) - lost,
        "unhealthy": unhealthy,
        "problems": [clean(error) for error in reading["errors"]],
    }


def _faults(device: Mapping[str, Any]) -> list[str]:
    found = [f"lost ({clean(device['lost'])})"] if "lost" in device else []
    names = [name.strip() for name in str(device.get("unhealthy_components") or "none").split(",")]
    if named := [clean(name, MAX_TEXT) for name in names if name not in ("", "none")]:
        found.append(f"its health check names {', '.join(named[:8])}")
    hardware = device.get("hardware", {})
    for name, memory in (("mem", "HBM"), ("sram", "SRAM")):
        if count := hardware.get(f"{name}_ecc_uncorrected", 0):
            found.append(f"{count:,} uncorrected {memory} errors since the driver was loaded")
    return found


def small_files(files: Files) -> Part:
    """Instance type, modules, limits, and versions in files."""
    part: Part = {
        "modules": {module: _exists(files, f"sys/module/{module}") for module in MODULES},
        "versions": {},
        "problems": [],
        "uverbs": any(name.startswith("uverbs") for name in _names(files, "dev/infiniband")),
        "memlock_bytes": memlock(files),
    }
    if line_of(files, "sys/class/dmi/id/sys_vendor") == "Amazon EC2":
        part["instance_type"] = _short(line_of(files, "sys/class/dmi/id/product_name"))
    if kernel := line_of(files, "proc/sys/kernel/osrelease"):
        part["versions"]["kernel"] = _short(kernel)
    installed = _content(files, INSTALLER)
    for name, pattern in (("efa-installer", _INSTALLER), ("aws-ofi", _PLUGIN)):
        if found := pattern.search(installed):
            part["versions"][name] = found[1]
    try:
        part["huge_pages"] = number(files.read(HUGE_PAGES))
    except FileNotFoundError:
        part["huge_pages"] = 0  # the kernel has none of that size
    except (OSError, ValueError) as error:
        part["problems"].append(f"huge pages: {reason(error)}")
    if part["memlock_bytes"] is None:
        part["problems"].append("memlock: no limits can be read in /proc")
    return part


def memlock(files: Files) -> float | None:
    """Bytes that a job may lock: the limit of the programs that start jobs, else our own."""
    parents = [
        pid
        for pid in _names(files, "proc")
        if pid.isdecimal() and line_of(files, f"proc/{pid}/comm") in PARENTS
    ]
    limits = [
        float("inf") if found[1] == "unlimited" else float(found[1])
        for pid in parents or ["self"]
        if (found := _LOCKED.search(_content(files, f"proc/{pid}/limits")))
    ]
    return min(limits, default=None)


def versions(parts: Mapping[str, bytes]) -> Part:
    """Versions from the output of programs, and the installed probing tools."""
    output = {name: body.decode(errors="replace") for name, body in parts.items()}
    found = {}
    for line in (output.get("output.dpkg-query", "") + output.get("output.rpm", "")).splitlines():
        package, *fields = line.split("\t")
        if package in _PACKAGES and len(fields) == 2 and fields[0] and fields[1] == "installed":
            found[_PACKAGES[package]] = _short(fields[0])
    if libfabric := _LIBFABRIC.search(output.get("output.fi_info", "")):
        found["libfabric"] = libfabric[1]
    return {"versions": found, "tools": [PROBE_TOOL] * (f"tool.{PROBE_TOOL}" in parts)}


def busy(parts: Mapping[str, bytes]) -> Part:
    """Jobs of the scheduler's mapping, and processes that neuron-ls lists."""
    jobs = parts.get("jobs", b"").decode(errors="replace").split("\n")
    found = [f"job {clean(line.strip(), MAX_TEXT)}" for line in jobs if line.strip()]
    known = "jobs" in parts
    problem = ""
    if listed := parts["list"].strip():
        try:
            sample = neuron_ls.decode(without_arguments(listed))
            holders = {process.pid: process for process in sample.facts.get("processes", ())}
            found += [f"{own.command or 'a process'} (pid {pid})" for pid, own in holders.items()]
            known = True
        except (FailedError, DecodeError) as error:
            problem = clean(str(error))
    else:
        problem = "neuron-ls is missing or prints nothing"
    return {
        "busy": list(dict.fromkeys(found))[:MAX_BUSY] if known else None,
        "problems": [f"processes on the Neuron devices: {problem}"] if problem else [],
    }


def _short(value: object) -> str:
    return "" if value is None else clean(str(value), MAX_TEXT)


def _names(files: Files, folder: str) -> list[str]:
    try:
        return [entry.name for entry in files.entries(folder)]
    except OSError:
        return []


def _exists(files: Files, path: str) -> bool:
    try:
        files.inode(path)
    except OSError:
        return False
    return True


def _content(files: Files, path: str) -> str:
    try:
        return text(files.read(path))
    except OSError:
        return ""
