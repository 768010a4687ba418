"""neuron-monitor reports.

Format: AWS's neuron-monitor user guide, public captures of its output, and the spellings that
older and newer SDKs use (`device`/`neuron_device`, `flops`/`effective_flops`,
`logical_neuroncore_size`/`logical_neuroncore_config`).

What a naive reader gets wrong, and what is done here:

- every runtime reports every core, 0 for those it does not own: utilization is merged by the
  larger, FLOP/s and memory by the sum;
- the first report's period is a fraction of a millisecond: groups with such a period have no
  rates and no utilization;
- a group with a non-empty `error` has no values, whatever its numbers;
- execution counts are changes of the period, not totals;
- a core that no healthy runtime mentions is idle: 0. Where some runtime could not be read, it
  is unknown: absent.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import compress, islice
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trntop.catalog import (
    CPU_MODES,
    ECC_EVENTS,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    FAILED_STATUSES,
    LATENCY_PERCENTILES,
    MEMORY_CATEGORIES,
    NEURON_MONITOR,
    Entity,
)
from trntop.core import units
from trntop.core.errors import DecodeError
from trntop.core.instances import chip_of, find_instance_type
from trntop.core.model import Column, Key, Neff, Runtime, Sample
from trntop.core.text import clean
from trntop.sources import core_memory, tolerant
from trntop.sources.columns import (
    INDICES,
    PERCENT,
    RATE,
    SECONDS,
    SIZE,
    UINT32_SENTINEL,
    Index,
    Layout,
    Number,
    add,
    any_known,
    merge,
)
from trntop.sources.neuron_report import (
    Counters,
    Execution,
    Group,
    HardwareInfo,
    Memory,
    Model,
    Report,
    RuntimeProcess,
    RuntimeReport,
    RuntimeVcpu,
    System,
    UsedBytes,
)
from trntop.sources.source import Role, Source

MIN_PERIOD = 0.05
"""Seconds; a shorter period is the first report's and makes every rate nonsense."""
MAX_CORES = 4096
MAX_DEVICES = 64
"""Beyond, a device's number is damaged."""
MAX_FACT = 256
"""Characters up to which a fact is remembered for the next report."""
MAX_RUNTIMES = 1024
MAX_MODELS = 4096
"""Loaded NEFFs read of one runtime."""

_COMPILER_FOLDER = re.compile(r"neuronxcc-[\w.+-]*(?<!\.neff)")
"""What is left of a path that neuron-monitor has cut before the file name, the same for several
programs: a public trn1n report has `2.2.0.73+0af5a171c-/neuronxcc-y_d15g2g`."""

_FACTS = {
    "instance_name": "instance_name",
    "instance_id": "instance_id",
    "instance_type": "instance_type",
    "instance_availability_zone": "availability_zone",
    "instance_availability_zone_id": "availability_zone_id",
    "instance_region": "region",
    "ami_id": "ami_id",
    "subnet_id": "subnet_id",
    "ultraserver_id": "ultraserver_id",
}
_IDENTITY = (
    *_FACTS.values(), "neuron_device_type", "neuron_device_version", "neuroncore_version",
)  # fmt: skip
_HOST_MEMORY = ("memory_total", "memory_used", "swap_total", "swap_used")
_HOST_FIELDS = tuple(f"{name}_bytes" for name in _HOST_MEMORY)

# One row a core of one runtime.
_LOADS = Layout(
    (("neuroncore_utilization_ratio",), PERCENT), (("neuroncore_flops_per_second",), RATE)
)
_CORE = Layout((("neuroncore_utilization",), PERCENT), (("flops", "effective_flops"), RATE))
_OF_CORE = attrgetter(*_CORE.names)
# One row a runtime, group by group.
_MEMORY = Layout(
    (
        (
            "runtime_host_memory_used_bytes",
            "runtime_device_memory_used_bytes",
            "runtime_loaded_models",
        ),
        SIZE,
    )
)
_EXECUTION = Layout(
    (
        (
            *(f"runtime_executions_{status}_per_second" for status in EXECUTION_STATUSES),
            *(f"runtime_errors_{error}_per_second" for error in EXECUTION_ERRORS),
        ),
        SIZE,
    ),
    (
        (
            *(
                f"runtime_{scope}_latency_{percentile}_seconds"
                for scope in ("total", "device")
                for percentile in LATENCY_PERCENTILES
            ),
            "runtime_execution_period_seconds",
        ),
        SECONDS,
    ),
)
_RUNTIME_VCPU = Layout((("runtime_vcpu_user_ratio", "runtime_vcpu_system_ratio"), PERCENT))
OUTCOMES = (*EXECUTION_STATUSES, *EXECUTION_ERRORS)
_NODE_COUNTS = {
    **{status: f"node_executions_{status}_total" for status in EXECUTION_STATUSES},
    **{error: f"node_execution_errors_{error}_total" for error in EXECUTION_ERRORS},
    "failed": "node_executions_failed_total",
}
# One row a device, one row a node.
_ECC = Layout((tuple(f"device_{event}_events" for event in ECC_EVENTS), SIZE))
_VCPU = Layout(
    (tuple(f"node_vcpu_{mode}_ratio" for mode in CPU_MODES), PERCENT),
    (("node_context_switches", "node_vcpus"), SIZE),
)
_HOST = Layout((tuple(f"node_{name}_bytes" for name in _HOST_MEMORY), SIZE))


_decoder = msgspec.json.Decoder(Report)


def decode(data: bytes) -> Sample:
    """One report as columns.

    Raises:
        DecodeError: the payload is not a JSON object of this kind.
    """
    report, problems = tolerant.decode(data, _decoder)
    groups = (report.neuron_runtime_data, report.system_data, report.neuron_hardware_info)
    if all(group is None for group in groups):
        raise DecodeError("not a neuron-monitor report")
    return sample_of(report, problems)


def sample_of(report: Report, problems: Iterable[str]) -> Sample:
    return _Builder(report, list(problems)).sample()


class _Builder:
    """One report on its way to a sample."""

    def __init__(self, report: Report, problems: list[str]) -> None:
        self._report = report
        self._problems = problems
        self._period: float | None = None
        self._unusable = ""
        self._columns: dict[str, Column] = {}
        self._keys: dict[Entity, tuple[Key, ...]] = {}
        self._deltas: dict[str, float] = {}
        self._absent: dict[str, str] = {}
        self._facts: dict[str, Any] = {}
        self._cores = 0
        self._devices = 0
        self._topology()
        if report.neuron_runtime_data is not None:
            self._runtimes(report.neuron_runtime_data)
        if report.system_data is not None:
            self._system(report.system_data)

    def sample(self) -> Sample:
        return Sample(
            keys=self._keys,
            columns=self._columns,
            deltas=self._deltas,
            facts=self._facts,
            period=self._period,
            problems=tuple(self._problems),
            # What one runtime lacks another may have.
            absent={name: why for name, why in self._absent.items() if name not in self._columns},
            unusable=self._unusable,
            simulated=self._report.simulated,
        )

    def _usable(self, group: Group | None, label: str, layout: Layout, *, rates: bool) -> bool:
        """Whether the group has usable numbers; notes its period or its error."""
        if group is None:
            return False
        if group.error:
            error = clean(group.error)
            self._problems.append(f"{label}: {error}")
            self._absent.update(dict.fromkeys(layout.names, error))
            return False
        period = group.period
        if period is not None and period > MIN_PERIOD:
            self._period = max(period, self._period or 0.0)
        elif rates and period is not None:
            reason = f"the report covers only {units.seconds(period)}"
            self._absent.update(dict.fromkeys(layout.names, reason))
            return False
        return True

    def _node(self, name: str, value: float) -> None:
        self._columns[name] = np.array([value], dtype=np.float64)

    def _topology(self) -> None:
        """Devices, cores and their numbering; the instance type supplies what is missing."""
        info = self._report.neuron_hardware_info or HardwareInfo()
        if info.error:
            self._unusable = f"no Neuron devices: {clean(info.error)}"
            self._problems.append(self._unusable)
        instance = self._report.instance_info or {}
        facts = _identity(
            *map(instance.get, _FACTS),
            info.neuron_device_type,
            info.neuron_device_version,
            info.neuroncore_version,
        )
        instance_type = facts.get("instance_type", "")
        chip = chip_of(instance_type, facts.get("neuron_device_type", ""))
        lnc = info.logical_neuroncore_config or info.logical_neuroncore_size
        doubled = facts.get("neuroncore_version", "").endswith("d")
        if lnc in (1, 2) or doubled:
            self._facts["lnc"] = lnc if lnc in (1, 2) else 2
        lnc = self._facts.get("lnc", 1)
        per_device = info.neuroncore_per_device_count
        devices = info.neuron_device_count
        if not info.error:
            if per_device is None and chip is not None:
                per_device = chip.cores // lnc
            if devices is None and (row := find_instance_type(instance_type)) is not None:
                devices = row.devices
        per_device = min(max(per_device or 0, 0), MAX_CORES)
        count = min(max(devices or 0, 0), MAX_CORES)
        self._devices = self._places(count, per_device)
        self._cores = self._devices * per_device
        if not 0 < self._cores <= MAX_CORES:
            # Old reports have no counts.
            self._cores = max(self._mentioned_cores(), default=-1) + 1
            per_device = per_device or self._cores
            self._devices = count = self._devices or -(-self._cores // max(per_device, 1))
        self._keys[Entity.CORE] = tuple(range(self._cores))
        self._keys[Entity.DEVICE] = tuple(range(self._devices))
        self._facts["facts"] = facts
        self._facts["core_device"] = _owners(self._cores, max(per_device, 1))
        if self._devices and not info.error:
            self._node("node_devices", count)
            self._node("node_neuroncores", self._cores - (self._devices - count) * per_device)
            hbm = info.neuron_device_memory_size or (chip.hbm_bytes if chip else None)
            if hbm is not None and 0 < hbm <= SIZE.limit:
                self._columns["device_memory_total_bytes"] = np.full(self._devices, float(hbm))

    def _places(self, count: int, per_device: int) -> int:
        """Places of so many devices: one that is lost leaves a gap in the numbers of the rest."""
        system = self._report.system_data
        hardware = system.neuron_hw_counters if system else None
        if hardware is not None and not hardware.error:
            listed = {each.neuron_device_index for each in hardware.neuron_devices}
        elif per_device:
            listed = {core // per_device for core in self._mentioned_cores()}
        else:
            return count
        places = 1 + max(listed, default=0)
        return places if len(listed) == count < places <= MAX_DEVICES else count

    def _mentioned_cores(self) -> set[int]:
        """The core indices that any runtime mentions."""
        return {
            INDICES[key]
            for runtime in self._report.neuron_runtime_data or ()
            if runtime.report is not None and runtime.report.neuroncore_counters is not None
            for key in runtime.report.neuroncore_counters.neuroncores_in_use or ()
            if key in INDICES
        }

    def _indices(self, names: Collection[str]) -> tuple[list[int], list[int]]:
        """Core indices and their places among `names`; a problem for what names no core here."""
        found = list(map(INDICES.get, names))
        if found == (usual := _range(self._cores)):
            return usual, usual
        indices, places = [], []
        for place, (name, index) in enumerate(zip(names, found, strict=True)):
            if index is not None and index < self._cores:
                indices.append(index)
                places.append(place)
            else:
                self._problems.append(
                    f"core {clean(name, 16)} is not one of this node's {self._cores}"
                )
        return indices, places

    def _index(self, indices: list[int]) -> Index:
        """Places of the cores in a column."""
        return slice(None) if indices == _range(self._cores) else np.array(indices, np.int64)

    def _runtimes(self, runtimes: list[RuntimeProcess]) -> None:
        if len(runtimes) > MAX_RUNTIMES:
            self._problems.append(f"{len(runtimes)} runtimes; only {MAX_RUNTIMES} are read")
            del runtimes[MAX_RUNTIMES:]
        self._node("node_runtimes", len(runtimes))
        pids = tuple(
            runtime.pid if runtime.pid is not None else -1 - place
            for place, runtime in enumerate(runtimes)
        )
        self._keys[Entity.RUNTIME] = pids
        for pid, runtime in zip(pids, runtimes, strict=True):
            if error := clean(runtime.error or ""):
                self._problems.append(f"runtime {pid}: {error}")
        reports = [
            RuntimeReport() if runtime.error else runtime.report or RuntimeReport()
            for runtime in runtimes
        ]
        self._utilization([report.neuroncore_counters for report in reports])
        cores = self._memory([report.memory_used for report in reports])
        self._execution([report.execution_stats for report in reports])
        self._vcpu([report.neuron_runtime_vcpu_usage for report in reports])
        self._facts["runtimes"] = tuple(
            Runtime(
                pid,
                clean(runtime.neuron_runtime_tag or ""),
                clean(runtime.error or ""),
                neffs=_neffs(report.memory_used.loaded_models if report.memory_used else ()),
                cores=held,
            )
            for pid, runtime, report, held in zip(pids, runtimes, reports, cores, strict=True)
        )

    def _utilization(self, groups: list[Counters | None]) -> None:
        loads = np.full((2, self._cores), np.nan)
        mentioned = np.zeros(self._cores, bool)
        read = 0
        larger = added = None  # as long as there is nothing to merge with
        for group in groups:
            if not self._usable(group, "neuroncore_counters", _LOADS, rates=True):
                continue
            assert group is not None
            if group.neuroncores_in_use is msgspec.UNSET:
                continue
            read += 1
            in_use = group.neuroncores_in_use or {}
            indices, cores = self._indices(in_use)
            if not indices:
                continue
            listed = list(in_use.values())
            known = listed if len(cores) == len(listed) else [listed[place] for place in cores]
            places = self._index(indices)
            mentioned[places] = True
            utilization, flops, effective = _CORE.read(map(_OF_CORE, known)).T
            merge(loads[0], places, utilization, larger)
            merge(loads[1], places, np.where(np.isnan(flops), effective, flops), added)
            larger, added = np.fmax, add
        if groups and not read:
            return
        if read < len(groups):
            # Every runtime reports every core, with 0 for those of others: that means nothing for
            # a core that the unread one may hold.
            loads[:, loads[0] == 0] = np.nan
        elif not mentioned.all():
            # All were read: a core that none mentions is idle.
            idle = ~mentioned
            loads[0, idle] = 0.0
            if not groups or any_known(loads[1]):
                loads[1, idle] = 0.0
        for name, load in zip(_LOADS.names, loads, strict=True):
            if any_known(load) or not self._cores:
                self._columns[name] = load

    def _memory(self, groups: list[Memory | None]) -> list[tuple[int, ...]]:
        """Memory of runtimes and cores; the cores on which each runtime holds some."""
        rows: list[Sequence[Number]] = []
        usages: list[tuple[core_memory.Usage, list[int], list[int]]] = []
        held: list[tuple[int, ...]] = [()] * len(groups)
        for runtime, group in enumerate(groups):
            if not self._usable(group, "memory_used", core_memory.LAYOUT, rates=False):
                rows.append((None,) * len(_MEMORY.names))
                continue
            assert group is not None
            used = group.neuron_runtime_used_bytes or UsedBytes()
            usage = core_memory.read(bytes(used.usage_breakdown))
            device = used.device if used.neuron_device is None else used.neuron_device
            rows.append((used.host, device, len(group.loaded_models)))
            if usage is not None:
                self._problems += usage.problems
            if usage is not None and not usage.damaged:
                indices, places = self._indices(usage.cores)
                holds = [usage.holds[place] for place in places]
                held[runtime] = tuple(sorted(compress(indices, holds)))
                usages.append((usage, indices, places))
        self._columns |= _MEMORY.columns(rows)
        if usages or not groups:
            self._columns |= self._core_memory(usages, whole=len(usages) == len(groups))
        return held

    def _core_memory(
        self, usages: list[tuple[core_memory.Usage, list[int], list[int]]], *, whole: bool
    ) -> dict[str, Column]:
        """What all runtimes use on the cores of some indices; `whole`: none is unread."""
        if whole and len(usages) == 1 and usages[0][1] is _range(self._cores):
            return usages[0][0].columns
        by_core = np.full((self._cores, len(MEMORY_CATEGORIES)), np.nan)
        added = None
        for usage, indices, places in usages:
            if indices:
                merge(by_core, np.array(indices, np.int64), usage.values[places], added)
                added = add
        # A core on which the read ones hold nothing may belong to an unread one.
        unused = ~np.logical_or.reduce(by_core > 0, axis=1)
        if not whole:
            by_core[unused] = np.nan
            return core_memory.columns(by_core, unused)
        by_core[np.logical_and.reduce(np.isnan(by_core), axis=1)] = 0.0
        return core_memory.columns(by_core)

    def _execution(self, groups: list[Execution | None]) -> None:
        rows: list[Sequence[Number]] = []
        for group in groups:
            if not self._usable(group, "execution_stats", _EXECUTION, rates=True):
                rows.append((None,) * len(_EXECUTION.names))
                continue
            assert group is not None
            counts = (
                *map(group.execution_summary.get, EXECUTION_STATUSES),
                *map(group.error_summary.get, EXECUTION_ERRORS),
            )
            period = group.period
            known = {
                name: count
                for name, count in zip(OUTCOMES, counts, strict=True)
                if count is not None and 0 <= count < UINT32_SENTINEL
            }
            if (failed := failed_executions(known)) is not None:
                known["failed"] = failed
            for outcome, count in known.items():
                name = _NODE_COUNTS[outcome]
                self._deltas[name] = self._deltas.get(name, 0.0) + count
            stats = group.latency_stats
            total = (stats and stats.total_latency) or {}
            device = (stats and stats.device_latency) or {}
            rates = [None if not period or count is None else count / period for count in counts]
            latencies = (
                *map(total.get, LATENCY_PERCENTILES),
                *map(device.get, LATENCY_PERCENTILES),
                period,
            )
            rows.append((*rates, *latencies))
        self._columns |= _EXECUTION.columns(rows)

    def _vcpu(self, groups: list[RuntimeVcpu | None]) -> None:
        rows: list[Sequence[Number]] = []
        for group in groups:
            usable = self._usable(group, "neuron_runtime_vcpu_usage", _RUNTIME_VCPU, rates=True)
            usage = group.vcpu_usage if group is not None and usable else {}
            rows.append((usage.get("user"), usage.get("system")))
        self._columns |= _RUNTIME_VCPU.columns(rows)

    def _system(self, system: System) -> None:
        hardware = system.neuron_hw_counters
        if hardware and self._usable(hardware, "neuron_hw_counters", _ECC, rates=False):
            counts: list[Sequence[Number]] = [(None,) * len(ECC_EVENTS)] * self._devices
            absent = set(range(self._devices))
            for place, *events in map(msgspec.structs.astuple, hardware.neuron_devices):
                if 0 <= place < self._devices:
                    counts[place] = events
                    absent.discard(place)
                else:
                    self._problems.append(
                        f"device {place} is not one of this node's {self._devices}"
                    )
            self._columns |= _ECC.columns(counts)
            if 0 < len(absent) < self._devices:
                self._lose(sorted(absent))
        vcpu = system.vcpu_usage
        if vcpu and self._usable(vcpu, "vcpu_usage", _VCPU, rates=True):
            modes = map(vcpu.average_usage.get, CPU_MODES)
            # To count the objects inside is many times quicker than to make them.
            vcpus = bytes(vcpu.usage_data).count(b"{") - 1
            row = (*modes, vcpu.context_switch_count, vcpus if vcpus > 0 else None)
            self._columns |= _VCPU.columns([row])
        memory = system.memory_info
        if memory and self._usable(memory, "memory_info", _HOST, rates=False):
            self._columns |= _HOST.columns([[getattr(memory, name) for name in _HOST_FIELDS]])

    def _lose(self, devices: list[int]) -> None:
        """Cores whose device is gone have no values, whatever their runtime still reports."""
        gone = np.isin(self._facts["core_device"], devices)
        for name in (*_LOADS.names, *core_memory.LAYOUT.names, core_memory.TOTAL):
            column = self._columns.get(name)
            if column is not None:
                self._columns[name] = np.where(gone, np.nan, column)


def failed_executions(counts: Mapping[str, float]) -> float | None:
    """Executions that failed, from counts of statuses and errors; None without such a count.

    A failure may show as a status and as an error: it is one. Generic errors that outnumber the
    executions are not failures: a runtime of 2022 reports thousands a second while all complete.
    """
    failed = [counts[status] for status in FAILED_STATUSES if status in counts]
    errors = [counts[error] for error in EXECUTION_ERRORS if error in counts]
    if not failed and not errors:
        return None
    generic, completed = counts.get("generic", 0.0), counts.get("completed")
    if completed is not None and generic > completed + sum(failed):
        errors.append(-generic)
    return max(sum(failed), sum(errors))


def _identity(*values: str | None) -> dict[str, str]:
    """Facts in the order of `_IDENTITY`; reports of one machine share one mapping."""
    short = all(len(value) <= MAX_FACT for value in values if value)
    return (_known_identity if short else _known_identity.__wrapped__)(*values)


@lru_cache(maxsize=1024)
def _known_identity(*values: str | None) -> dict[str, str]:
    return {name: clean(value) for name, value in zip(_IDENTITY, values, strict=True) if value}


@lru_cache(maxsize=64)
def _owners(cores: int, per_device: int) -> npt.NDArray[np.int64]:
    """The device of each core; the same array for all nodes of a kind."""
    return np.arange(cores) // per_device


@cache
def _range(cores: int) -> list[int]:
    return list(range(cores))


def _neffs(models: Iterable[Model]) -> tuple[Neff, ...]:
    """Loaded programs; one that is loaded on several cores is listed once."""
    neffs: dict[tuple[str, str], Neff] = {}
    for model in islice(models, MAX_MODELS):
        uuid = clean(model.uuid or "", 64)
        name = clean((model.name or "").rpartition("/")[2])
        if not name or (uuid and _COMPILER_FOLDER.fullmatch(name)):
            name = uuid
        known = neffs.get((name, uuid))
        running = bool(model.is_running) or (known is not None and known.running)
        neffs[name, uuid] = Neff(name, uuid, running)
    return tuple(neffs.values())


SOURCE = Source(
    name=NEURON_MONITOR,
    decode=decode,
    role=Role.DEVICE,
    gives="utilization, FLOP/s and HBM use per NeuronCore, executions, latency, errors, ECC",
    origin="the program `neuron-monitor`, started by trntop, or its output on standard input",
    needs="aws-neuronx-tools and the Neuron driver (aws-neuronx-dkms)",
    without="no logical cores, runtimes or executions, and so no HBM bandwidth; devices, memory "
    "and tensor engines are still read from sysfs where the driver is loaded",
)
