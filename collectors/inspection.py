"""A look at a node for a check: what it has, which versions, which limits, and who works on it.

Each part may fail by itself: what could not be looked at is told among the problems. Files are
read below a root, so that an agent in a container sees its host, and a node that is reached over
ssh is looked at in the same way, by a dump of its files and what its commands print.

The EFA installer writes `/opt/amazon/efa_installed_packages`, whose first line has its version;
the drivers tell theirs in sysfs, everything else is asked of the package manager.
"""

import asyncio
import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trntop.check.model import Card, Inspection
from trntop.core.errors import DecodeError
from trntop.core.settings import Settings
from trntop.core.text import clean
from trntop.sources import neuron_ls

from . import efa, neuron_tree
from .executable import NotRunnableError
from .job_mapping import JobMappingReader
from .neuron_ls import FailedError, Lister
from .neuron_sysfs import NeuronSysfsReader
from .polled import AbsentError
from .probes.process import Ended, run
from .sysfs import Files, Root, files_of, line_of, number, reason, text
from .worker import StuckError, Worker

PART_SECONDS = 5.0
"""For the files of a part, and for each command."""
MODULES = ("efa", "ib_uverbs", "ib_core", "neuron")
INSTALLER = "opt/amazon/efa_installed_packages"
HUGE_PAGES = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
KERNEL = "proc/sys/kernel/osrelease"
UVERBS = "dev/infiniband"
PROFILES = "etc/profile.d"
ENVIRONMENT = "etc/environment"
DMI = "sys/class/dmi/id"
EC2 = "Amazon EC2"
PARENTS = ("slurmd", "containerd", "dockerd")
"""Programs whose limits jobs inherit."""
TOOLS = ("fi_pingpong", "ib_send_lat", "ib_write_bw")
PATTERNS = ("aws-neuronx-*", "libnccl-ofi*", "aws-ofi-*")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "fi_info": ("fi_info", "--version"),
    "perftest": ("ib_send_lat", "--version"),
    "dpkg": (
        "dpkg-query", "--show", "--showformat",
        "${Package}\\t${Version}\\t${db:Status-Status}\\n", *PATTERNS,
    ),
    "rpm": (
        "rpm", "--query", "--all", "--queryformat",
        "%{NAME}\\t%{VERSION}-%{RELEASE}\\tinstalled\\n", *PATTERNS,
    ),
}  # fmt: skip
"""What is run to learn versions, where it is installed."""
MAX_TEXT = 64
MAX_BUSY = 16
MAX_PROCESSES = 65_536

Part = dict[str, Any]
"""Some fields of an inspection."""

_PACKAGES = {
    "aws-neuronx-runtime-lib": "neuron-runtime",
    "aws-neuronx-collectives": "neuron-collectives",
    "aws-neuronx-tools": "neuron-tools",
    "libnccl-ofi": "aws-ofi",
    "aws-ofi-nccl": "aws-ofi",
}
_INSTALLER = re.compile(r"EFA installer version:\s*([\w.+-]{1,32})", re.ASCII)
_PLUGIN = re.compile(r"^(?:libnccl-ofi|aws-ofi-nccl)[-_](\d+(?:\.\d+)+)", re.ASCII | re.MULTILINE)
_VARIABLE = re.compile(
    r"^[ \t]*(?:export[ \t]+)?((?:FI|RDMAV|NEURON_RT|OFI_NCCL|NCCL|CCOM)_\w{1,64})="
    r"[\"']?([^\"'\s;#$`]{1,200})",
    re.ASCII | re.MULTILINE,
)
_LOCKED = re.compile(r"^Max locked memory\s+(\d+|unlimited)", re.MULTILINE)
_VERSION = re.compile(r"\bversion: *(\d[\w.+-]{0,31})", re.ASCII | re.IGNORECASE)
_LIBFABRIC = re.compile(r"^libfabric: *(\d[\w.+-]{0,31})", re.ASCII | re.MULTILINE)


class Inspector:
    """Looks at this machine, as often as it is asked; no part takes longer than it may.

    Args:
        settings: where its files and programs are.
        name: what the node is called.
        path: folders in which programs are looked for.
        simulated: whether what stands below the root is made up.
    """

    def __init__(
        self, settings: Settings, name: str, path: str, *, simulated: bool = False
    ) -> None:
        collect = settings.collect
        self._name = name
        self._path = path
        self._simulated = simulated
        self._root = Path(collect.root)
        self._lister = Lister(collect.neuron_ls, PART_SECONDS)
        self._jobs = JobMappingReader(Path(collect.job_mapping))
        self._workers = {name: Worker(f"trntop {name}") for name in ("cards", "devices", "files")}

    async def inspect(self) -> Inspection:
        """What it has and is now."""
        files = files_of(self._root)
        parts = await asyncio.gather(
            self._part("cards", lambda: cards(files)),
            self._part("devices", lambda: devices(files)),
            self._part("files", lambda: small_files(files)),
            self._part("files", lambda: environment(files, os.environ)),
            self._programs(),
            self._busy(),
        )
        return assembled(self._name, time.time(), parts, simulated=self._simulated)

    def close(self) -> None:
        """Lets its threads end."""
        for worker in self._workers.values():
            worker.close()

    async def _part(self, name: str, look: Callable[[], Part]) -> Part:
        try:
            return await self._workers[name].call(look, PART_SECONDS)
        except StuckError:
            return {"problems": [f"{name}: no answer for {PART_SECONDS:g} s, a read hangs"]}

    async def _programs(self) -> Part:
        """What programs say of versions; a host's own only where this is the host."""
        wanted = {name: argv for name, argv in COMMANDS.items() if self._found(argv[0])}
        if self._root != Path("/"):
            wanted.pop("rpm", None)
            if "dpkg" in wanted:
                program, *rest = wanted["dpkg"]
                wanted["dpkg"] = (program, f"--admindir={self._root / 'var/lib/dpkg'}", *rest)
        ended = await asyncio.gather(*(self._run(argv) for argv in wanted.values()))
        said = {name: one.out for name, one in zip(wanted, ended, strict=True)}
        late = [name for name, one in zip(wanted, ended, strict=True) if one.code is None]
        problems = [f"{wanted[name][0]} did not answer within {PART_SECONDS:g} s" for name in late]
        return {**versions(said, filter(self._found, TOOLS)), "problems": problems}

    def _found(self, program: str) -> bool:
        return shutil.which(program, path=self._path) is not None

    async def _run(self, argv: Sequence[str]) -> Ended:
        try:
            return await run(["env", "LC_ALL=C", f"PATH={self._path}", *argv], PART_SECONDS)
        except OSError:
            return Ended(127, "", "", 0.0)

    async def _busy(self) -> Part:
        """Who works on the devices: by the scheduler's word, and by neuron-ls."""
        found: list[str] = []
        known = False
        problems = []
        with contextlib.suppress(AbsentError, OSError):
            given = msgspec.json.decode(await asyncio.to_thread(self._jobs))
            jobs = {job for names in given["files"].values() for job in names}
            found += [f"job {job}" for job in sorted(jobs)]
            known = True
        try:
            sample = neuron_ls.decode(await self._lister.ask())
            holders = {process.pid: process for process in sample.facts.get("processes", ())}
            found += [f"{one.command or 'a process'} (pid {pid})" for pid, one in holders.items()]
            known = True
        except NotRunnableError as error:
            problems.append(f"processes on the Neuron devices: {error.found}")
        except (FailedError, DecodeError, OSError) as error:
            problems.append(f"processes on the Neuron devices: {clean(str(error))}")
        return {"busy": found[:MAX_BUSY] if known else None, "problems": problems}


def assembled(
    name: str, time: float, parts: Iterable[Part], *, simulated: bool = False
) -> Inspection:
    """One inspection of several parts; of a field in several of them, the contents of all."""
    fields: Part = {"node": name, "time": time, "simulated": simulated}
    for part in parts:
        for field, value in part.items():
            before = fields.get(field)
            if isinstance(before, dict):
                value = {**before, **value}
            elif isinstance(before, list) and value is not None:
                value = before + value
            fields[field] = value
    return Inspection(**fields)


def cards(files: Root) -> Part:
    """EFA cards with their counters."""
    try:
        reading = msgspec.json.decode(efa.EfaReader(files)())
    except AbsentError as error:
        try:
            files_of(files).entries(efa.FOLDER)
        except FileNotFoundError:
            pass
        except OSError:
            return {"problems": [error.found]}
        return {"cards": []}  # that there is none is known, and no problem of the look
    found, unhealthy, problems = [], {}, []
    driver = reading["driver"] or ""
    for name, card in reading["devices"].items():
        label = clean(name, MAX_TEXT)
        if why := card.get("error"):
            unhealthy[f"efa:{label}"] = f"no counter of EFA card {label} can be read: {clean(why)}"
        problems += [f"{label}: {clean(why)}" for why in card.get("errors", ())]
        found.append(
            Card(
                name=label,
                rate_gbps=card.get("rate_gbps"),
                driver=driver,
                p2p=_short(card.get("p2p")),
                state=_short(card.get("state")),
                pci=_short(card.get("pci")),
                numa_node=_short(card.get("numa_node")),
                port=card["port"],
                device=card["device"],
            )
        )
    return {
        "cards": found,
        "unhealthy": unhealthy,
        "problems": problems,
        "versions": {"efa": driver} if driver else {},
    }


def devices(files: Root) -> Part:
    """Neuron devices: how many, and which of them are unwell."""
    driver = line_of(files_of(files), neuron_tree.VERSION)
    known = {"versions": {"neuron-driver": driver}} if driver else {}
    try:
        reading = msgspec.json.decode(NeuronSysfsReader(files)())
    except AbsentError as error:
        return {**known, **({"devices": 0} if driver else {"problems": [error.found]})}
    unhealthy, problems = {}, [clean(error) for error in reading["errors"]]
    gone = 0
    for index, device in reading["devices"].items():
        said = _unwell(device)
        gone += "lost" in device
        if said:
            unhealthy[f"device:{index}"] = f"Neuron device {index}: {'; '.join(said)}"
    return {
        **known,
        "devices": len(reading["devices"]) - gone,
        "unhealthy": unhealthy,
        "problems": problems,
    }


def _unwell(device: Mapping[str, Any]) -> list[str]:
    """What is wrong with a device."""
    said = [f"lost ({clean(device['lost'])})"] if "lost" in device else []
    names = str(device.get("unhealthy_components") or "").split(",")
    if named := [
        clean(name.strip(), MAX_TEXT) for name in names if name.strip() not in ("", "none")
    ]:
        said.append(f"its health check names {', '.join(named[:8])}")
    hardware = device.get("hardware", {})
    for name, what in (("mem", "HBM"), ("sram", "SRAM")):
        if count := hardware.get(f"{name}_ecc_uncorrected", 0):
            said.append(f"{count:,} uncorrected {what} errors since the driver was loaded")
    return said


def small_files(root: Root) -> Part:
    """Instance, modules, limits and the like."""
    files = files_of(root)
    part: Part = {
        "modules": {module: _exists(files, f"sys/module/{module}") for module in MODULES},
        "versions": {},
        "problems": [],
        "uverbs": any(name.startswith("uverbs") for name in _names(files, UVERBS)),
    }
    if line_of(files, f"{DMI}/sys_vendor") == EC2:
        part["instance_type"] = _short(line_of(files, f"{DMI}/product_name"))
        part["instance_id"] = _short(line_of(files, f"{DMI}/board_asset_tag"))
    if kernel := line_of(files, KERNEL):
        part["versions"]["kernel"] = _short(kernel)
    installed = _content(files, INSTALLER)
    if found := _INSTALLER.search(installed):
        part["versions"]["efa-installer"] = found[1]
    if found := _PLUGIN.search(installed):
        part["versions"]["aws-ofi"] = found[1]
    try:
        part["huge_pages"] = number(files.read(HUGE_PAGES))
    except FileNotFoundError:
        part["huge_pages"] = 0  # a kernel that has none of that size
    except (OSError, ValueError) as error:
        part["problems"].append(f"huge pages: {reason(error)}")
    part["memlock_bytes"] = memlock(files)
    if part["memlock_bytes"] is None:
        part["problems"].append("memlock: no limits can be read in /proc")
    return part


def memlock(files: Files) -> float | None:
    """Bytes that a job may lock: what those may that start jobs, else what this process may."""
    parents = [name for name in _names(files, "proc")[:MAX_PROCESSES] if name.isdecimal()]
    parents = [pid for pid in parents if line_of(files, f"proc/{pid}/comm") in PARENTS]
    limits = [
        float("inf") if found[1] == "unlimited" else float(found[1])
        for pid in parents or ["self"]
        if (found := _LOCKED.search(_content(files, f"proc/{pid}/limits")))
    ]
    return min(limits, default=None)


def environment(root: Root, own: Mapping[str, str]) -> Part:
    """Variables that matter, as a login shell has them, then as in `own`."""
    files = files_of(root)
    scripts = sorted(name for name in _names(files, PROFILES) if name.endswith(".sh"))
    texts = [_content(files, path) for path in (ENVIRONMENT, *(f"{PROFILES}/{s}" for s in scripts))]
    texts.append("\n".join(f"{name}={value}" for name, value in own.items() if "\n" not in value))
    found = (match for one in texts for match in _VARIABLE.finditer(one))
    return {"environment": {match[1]: clean(match[2]) for match in found}}


def versions(said: Mapping[str, str], tools: Iterable[str]) -> Part:
    """Versions, by what the commands of `COMMANDS` print, and the tools that are installed."""
    packages = dict(_packages("\n".join((said.get("dpkg", ""), said.get("rpm", "")))))
    found = {_PACKAGES[name]: version for name, version in packages.items() if name in _PACKAGES}
    libfabric = _LIBFABRIC.search(said.get("fi_info", ""))
    perftest = _VERSION.search(said.get("perftest", ""))
    if libfabric:
        found["libfabric"] = libfabric[1]
    of_libfabric = libfabric[1] if libfabric else ""
    of_perftest = perftest[1] if perftest else ""
    return {
        "versions": found,
        "tools": {tool: of_libfabric if tool == "fi_pingpong" else of_perftest for tool in tools},
    }


def _packages(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and fields[1] and fields[2] == "installed":
            yield fields[0], _short(fields[1])


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
