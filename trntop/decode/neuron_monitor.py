"""neuron-monitor reports.

Format: AWS's neuron-monitor user guide, public captures of its output, and the spellings that
older and newer SDKs use (`device`/`neuron_device`, `flops`/`effective_flops`,
`logical_neuroncore_size`/`logical_neuroncore_config`).

What a naive reader gets wrong, and what is done here:

- every runtime reports every core, 0 for those it does not own: utilization is merged by the
  larger, FLOP/s and memory by the sum;
- the first report's period is a fraction of a millisecond: groups with such a period have no
  rates and no utilization;
- a group with a non-empty `error` has no values, whatever its numbers say;
- execution counts are changes of the period, not totals;
- a core that no healthy runtime mentions is idle: 0. Where some runtime could not be read, it
  is unknown: absent.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trntop.catalog import (
    CPU_MODES,
    ECC_EVENTS,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    LATENCY_PERCENTILES,
    MEMORY_CATEGORIES,
    Entity,
)
from trntop.decode import tolerant
from trntop.decode.columns import (
    PERCENT,
    RATE,
    SECONDS,
    SIZE,
    UINT32_SENTINEL,
    Layout,
    Number,
    combine_max,
    combine_min,
    combine_sum,
)
from trntop.decode.neuron_report import (
    Breakdown,
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
    UsedBytes,
    Utilization,
)
from trntop.errors import DecodeError
from trntop.instances import INSTANCE_TYPES, chip_of
from trntop.model import Column, Key, Neff, Runtime, Sample
from trntop.text import clean

MIN_PERIOD = 0.05
"""Seconds; a shorter period is the first report's and makes every rate nonsense."""
MAX_CORES = 4096
MAX_RUNTIMES = 1024
MAX_MODELS = 4096
"""Loaded NEFFs read of one runtime."""

_decoder = msgspec.json.Decoder(Report)
_INDEX = {str(index): index for index in range(MAX_CORES)}

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
_HOST_PARTS = ("application_memory", "constants", "dma_buffers", "tensors")
_HOST_MEMORY = ("memory_total", "memory_used", "swap_total", "swap_used")

# One row a core of one runtime.
_LOADS = Layout(
    (("neuroncore_utilization_ratio",), PERCENT),
    (("neuroncore_flops_per_second",), RATE),
)
_PHYSICAL = Layout((("neuroncore_physical_utilization_min_ratio",), PERCENT))
_CORE_MEMORY = Layout(
    (tuple(f"neuroncore_memory_{name}_bytes" for name in MEMORY_CATEGORIES), SIZE)
)
# One row a runtime, group by group.
_MEMORY = Layout(
    (
        (
            "runtime_host_memory_used_bytes",
            "runtime_device_memory_used_bytes",
            *(f"runtime_host_memory_{part}_bytes" for part in _HOST_PARTS),
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
        tuple(
            f"runtime_{scope}_latency_{percentile}_seconds"
            for scope in ("total", "device")
            for percentile in LATENCY_PERCENTILES
        ),
        SECONDS,
    ),
)
_RUNTIME_VCPU = Layout((("runtime_vcpu_user_ratio", "runtime_vcpu_system_ratio"), PERCENT))
_NODE_COUNTS = (
    *(f"node_executions_{status}_total" for status in EXECUTION_STATUSES),
    *(f"node_execution_errors_{error}_total" for error in EXECUTION_ERRORS),
)
# One row a device, one row a node.
_ECC = Layout((tuple(f"device_{event}_events" for event in ECC_EVENTS), SIZE))
_VCPU = Layout(
    (tuple(f"node_vcpu_{mode}_ratio" for mode in CPU_MODES), PERCENT),
    (("node_context_switches", "node_vcpus"), SIZE),
)
_HOST = Layout((tuple(f"node_{name}_bytes" for name in _HOST_MEMORY), SIZE))
_NOTHING = Layout()


def decode(data: bytes) -> Sample:
    """One report as columns.

    Raises:
        DecodeError: the payload is no JSON object of this kind.
    """
    report, problems = tolerant.decode(data, _decoder)
    groups = (report.neuron_runtime_data, report.system_data, report.neuron_hardware_info)
    if all(group is None for group in groups):
        raise DecodeError("not a neuron-monitor report")
    builder = _Builder(report, list(problems))
    builder.topology()
    builder.runtimes()
    builder.system()
    builder.kubernetes()
    return builder.sample()


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
        """Whether the group's numbers mean something; notes its period or its complaint."""
        if group is None:
            return False
        if group.error:
            complaint = clean(group.error)
            self._problems.append(f"{label}: {complaint}")
            self._absent.update(dict.fromkeys(layout.names, complaint))
            return False
        period = group.period
        if period is not None and period > MIN_PERIOD:
            self._period = max(period, self._period or 0.0)
        elif rates and period is not None:
            reason = "the first report covers no period yet"
            self._absent.update(dict.fromkeys(layout.names, reason))
            return False
        return True

    def _node(self, name: str, value: float) -> None:
        self._columns[name] = np.array([value], dtype=np.float64)

    def topology(self) -> None:
        """Devices, cores and their numbering; what hardware info lacks, the type's table tells."""
        info = self._report.neuron_hardware_info or HardwareInfo()
        if info.error:
            self._unusable = f"no Neuron devices: {clean(info.error)}"
            self._problems.append(self._unusable)
        instance = self._report.instance_info or {}
        facts = {
            ours: clean(value) for theirs, ours in _FACTS.items() if (value := instance.get(theirs))
        }
        for name in ("neuron_device_type", "neuron_device_version", "neuroncore_version"):
            if value := getattr(info, name):
                facts[name] = clean(value)
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
            if devices is None and instance_type in INSTANCE_TYPES:
                devices = INSTANCE_TYPES[instance_type].devices
        per_device = min(max(per_device or 0, 0), MAX_CORES)
        self._devices = min(max(devices or 0, 0), MAX_CORES)
        self._cores = self._devices * per_device
        if not 0 < self._cores <= MAX_CORES:
            self._cores = self._highest_core() + 1
            per_device = per_device or self._cores
            self._devices = self._devices or -(-self._cores // max(per_device, 1))
        self._keys[Entity.CORE] = tuple(range(self._cores))
        self._keys[Entity.DEVICE] = tuple(range(self._devices))
        self._facts["facts"] = facts
        self._facts["core_device"] = np.arange(self._cores) // max(per_device, 1)
        if self._devices and not info.error:
            self._node("node_devices", self._devices)
            self._node("node_neuroncores", self._cores)
            hbm = info.neuron_device_memory_size or (chip.hbm_bytes if chip else None)
            if hbm is not None and 0 < hbm <= SIZE.limit:
                self._columns["device_memory_total_bytes"] = np.full(self._devices, float(hbm))

    def _highest_core(self) -> int:
        """The largest core index any runtime mentions, -1 for none: old reports say no counts."""
        highest = -1
        for runtime in self._report.neuron_runtime_data or ():
            counters = runtime.report and runtime.report.neuroncore_counters
            for key in counters.neuroncores_in_use if counters else ():
                highest = max(highest, _INDEX.get(key, -1))
        return highest

    def _indices(self, by_core: dict[str, Any]) -> list[int]:
        """Core indices of a mapping; entries that name no core of this node are removed."""
        indices = [_INDEX.get(key, MAX_CORES) for key in by_core]
        if not indices or max(indices) < self._cores:
            return indices
        for key in list(by_core):
            if _INDEX.get(key, MAX_CORES) >= self._cores:
                del by_core[key]
                self._problems.append(
                    f"core {clean(key, 16)} is not one of this node's {self._cores}"
                )
        return [_INDEX[key] for key in by_core]

    def runtimes(self) -> None:
        runtimes = self._report.neuron_runtime_data
        if runtimes is None:
            return
        if len(runtimes) > MAX_RUNTIMES:
            self._problems.append(f"{len(runtimes)} runtimes; only {MAX_RUNTIMES} are read")
            del runtimes[MAX_RUNTIMES:]
        self._node("node_runtimes", len(runtimes))
        pids = tuple(
            runtime.pid if runtime.pid is not None else -1 - place
            for place, runtime in enumerate(runtimes)
        )
        self._keys[Entity.RUNTIME] = pids
        self._facts["runtimes"] = tuple(map(self._runtime, pids, runtimes))
        reports = [
            RuntimeReport() if runtime.error else runtime.report or RuntimeReport()
            for runtime in runtimes
        ]
        self._utilization([report.neuroncore_counters for report in reports])
        self._memory([report.memory_used for report in reports])
        self._execution([report.execution_stats for report in reports])
        self._vcpu([report.neuron_runtime_vcpu_usage for report in reports])

    def _runtime(self, pid: int, runtime: RuntimeProcess) -> Runtime:
        error = clean(runtime.error or "")
        if error:
            self._problems.append(f"runtime {pid}: {error}")
        memory = runtime.report and runtime.report.memory_used
        used = memory and memory.neuron_runtime_used_bytes
        breakdown = used and used.usage_breakdown
        usage = (breakdown or Breakdown()).neuroncore_memory_usage
        cores = (
            _INDEX.get(key, -1) for key, by in usage.items() if any(msgspec.structs.astuple(by))
        )
        return Runtime(
            pid,
            clean(runtime.neuron_runtime_tag or ""),
            error,
            neffs=_neffs(memory.loaded_models if memory else ()),
            cores=tuple(sorted(core for core in cores if core >= 0)),
        )

    def _utilization(self, groups: list[Counters | None]) -> None:
        loads = np.full((self._cores, 2), np.nan)
        physical = np.full((2, self._cores), np.nan)
        mentioned = np.zeros(self._cores, bool)
        read = 0
        for group in groups:
            if not self._usable(group, "neuroncore_counters", _LOADS, rates=True):
                continue
            assert group is not None
            read += 1
            index = self._indices(group.neuroncores_in_use)
            if not index:
                continue
            cores = group.neuroncores_in_use.values()
            values = _LOADS.read(
                [
                    (
                        core.neuroncore_utilization,
                        core.effective_flops if core.flops is None else core.flops,
                    )
                    for core in cores
                ]
            )
            mentioned[index] = True
            combine_max(loads[:, 0], index, values[:, 0])
            combine_sum(loads[:, 1], index, values[:, 1])
            self._physical(physical, index, [core.v3d for core in cores])
        if groups and not read:
            return
        if read == len(groups):
            # Everybody was heard: a core that nobody mentions is idle.
            loads[~mentioned, 0] = 0.0
            if not groups or not np.isnan(loads[:, 1]).all():
                loads[~mentioned, 1] = 0.0
        else:
            # Every runtime reports every core, 0 for those of others: that is no word on a core
            # that the unread one may hold.
            loads[loads[:, 0] == 0] = np.nan
        self._columns |= _LOADS.split(loads)
        for bound, values in zip(("min", "max"), physical, strict=True):
            if not np.isnan(values).all():
                self._columns[f"neuroncore_physical_utilization_{bound}_ratio"] = values

    def _physical(
        self,
        bounds: npt.NDArray[np.float64],
        index: list[int],
        parts: list[dict[str, Utilization] | None],
    ) -> None:
        """Merges the least and most busy physical core of each logical one into `bounds`."""
        split = [core for core in parts if core]
        if not split:
            return
        if len(split) < len(parts):
            index = [place for place, core in zip(index, parts, strict=True) if core]
        width = max(map(len, split))
        if min(map(len, split)) < width:
            nothing = {str(place): Utilization() for place in range(width)}
            split = [dict(islice((core | nothing).items(), width)) for core in split]
        loads = [part.neuroncore_utilization for core in split for part in core.values()]
        values = _PHYSICAL.read_flat(loads).reshape(len(split), width)
        combine_min(bounds[0], index, np.fmin.reduce(values, axis=1))
        combine_max(bounds[1], index, np.fmax.reduce(values, axis=1))

    def _memory(self, groups: list[Memory | None]) -> None:
        by_core = np.full((self._cores, len(MEMORY_CATEGORIES)), np.nan)
        detailed = 0
        rows: list[Sequence[Number]] = []
        for group in groups:
            if not self._usable(group, "memory_used", _CORE_MEMORY, rates=False):
                rows.append((None,) * len(_MEMORY.names))
                continue
            assert group is not None
            used = group.neuron_runtime_used_bytes or UsedBytes()
            breakdown = used.usage_breakdown
            host = breakdown.host if breakdown else {}
            device = used.device if used.neuron_device is None else used.neuron_device
            rows.append((used.host, device, *map(host.get, _HOST_PARTS), len(group.loaded_models)))
            if breakdown is None:
                continue
            detailed += 1
            index = self._indices(breakdown.neuroncore_memory_usage)
            if index:
                cores = map(msgspec.structs.astuple, breakdown.neuroncore_memory_usage.values())
                combine_sum(by_core, index, _CORE_MEMORY.read(list(cores)))
        self._columns |= _MEMORY.columns(rows)
        unknown = np.isnan(by_core).all(axis=1)
        if detailed == len(groups):
            by_core[unknown] = 0.0
        elif not detailed:
            return
        self._columns |= _CORE_MEMORY.split(by_core)
        # A category an SDK does not know adds nothing; a core with none is unknown.
        total = np.where(np.isnan(by_core), 0.0, by_core).sum(axis=1)
        if detailed < len(groups):
            total[unknown] = np.nan
        self._columns["neuroncore_memory_used_bytes"] = total

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
            for name, count in zip(_NODE_COUNTS, counts, strict=True):
                if count is not None and 0 <= count < UINT32_SENTINEL:
                    self._deltas[name] = self._deltas.get(name, 0.0) + count
            stats = group.latency_stats
            total = (stats and stats.total_latency) or {}
            device = (stats and stats.device_latency) or {}
            rows.append(
                (
                    *(None if not period or count is None else count / period for count in counts),
                    *map(total.get, LATENCY_PERCENTILES),
                    *map(device.get, LATENCY_PERCENTILES),
                )
            )
        self._columns |= _EXECUTION.columns(rows)

    def _vcpu(self, groups: list[RuntimeVcpu | None]) -> None:
        rows: list[tuple[Number, ...]] = []
        for group in groups:
            usable = self._usable(group, "neuron_runtime_vcpu_usage", _RUNTIME_VCPU, rates=True)
            usage = group.vcpu_usage if group is not None and usable else {}
            rows.append((usage.get("user"), usage.get("system")))
        self._columns |= _RUNTIME_VCPU.columns(rows)

    def system(self) -> None:
        system = self._report.system_data
        if system is None:
            return
        hardware = system.neuron_hw_counters
        if hardware and self._usable(hardware, "neuron_hw_counters", _ECC, rates=False):
            counts: list[Sequence[Number]] = [(None,) * len(ECC_EVENTS)] * self._devices
            for device in hardware.neuron_devices:
                place, *events = msgspec.structs.astuple(device)
                if 0 <= place < self._devices:
                    counts[place] = events
                else:
                    self._problems.append(
                        f"device {place} is not one of this node's {self._devices}"
                    )
            self._columns |= _ECC.columns(counts)
        vcpu = system.vcpu_usage
        if vcpu and self._usable(vcpu, "vcpu_usage", _VCPU, rates=True):
            modes = map(vcpu.average_usage.get, CPU_MODES)
            row = (*modes, vcpu.context_switch_count, len(vcpu.usage_data) or None)
            self._columns |= _VCPU.columns([row])
        memory = system.memory_info
        if memory and self._usable(memory, "memory_info", _HOST, rates=False):
            row = tuple(getattr(memory, f"{name}_bytes") for name in _HOST_MEMORY)
            self._columns |= _HOST.columns([row])

    def kubernetes(self) -> None:
        info = self._report.neuron_k8s_info
        if info is None or not self._usable(info, "neuron_k8s_info", _NOTHING, rates=False):
            return
        pods = {}
        for core, pod in zip(
            self._indices(info.neuroncores_k8s_info),
            info.neuroncores_k8s_info.values(),
            strict=True,
        ):
            names = pod.container_name
            container = names if isinstance(names, str) else ",".join(names or ())
            pods[core] = clean(f"{pod.namespace or ''}/{pod.pod_name or ''}/{container}")
        self._facts["pods"] = pods


def _neffs(models: Iterable[Model]) -> tuple[Neff, ...]:
    """Loaded programs; one that is loaded on several cores stands once."""
    neffs: dict[tuple[str, str], Neff] = {}
    for model in islice(models, MAX_MODELS):
        uuid = clean(model.uuid or "", 64)
        name = clean((model.name or "").rpartition("/")[2]) or uuid
        known = neffs.get((name, uuid))
        running = bool(model.is_running) or (known is not None and known.running)
        neffs[name, uuid] = Neff(name, uuid, running)
    return tuple(neffs.values())
