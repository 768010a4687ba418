"""What the sources of each node report of a run, as readings in the order of arrival."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import merge
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.hardening.physics import Fault, Job, Track
from trntop.analysis.rule_inputs import rule_inputs
from trntop.catalog import (
    EFA_DEVICE_COUNTERS,
    EFA_PORT_COUNTERS,
    EFA_SOURCE,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    HOST,
    LOG,
    NEURON_MONITOR,
    PROBE,
    STEPS,
)
from trntop.core.instances import INSTANCE_TYPES
from trntop.core.model import Column, Reading, Sample
from trntop.core.settings import Settings
from trntop.pipeline.derive import compute_plan
from trntop.session.monitor import Monitor
from trntop.sources import DECODERS

START = 1.76e9
"""Unix seconds of the start of every run."""
MFU = 0.45
"""Of the peak, while a core computes."""
HELD = 0.7
"""Of the HBM, while a process lives."""
SERVED = 0.03
"""Seconds of an execution of an inference service."""
FIRST_PID = 4000
PACKET = 8000.0
RETRANSMITS = 2e-6
"""Of all packets, on a healthy device."""
HOST_BYTES = 512 << 30
HOST_EVERY = 10.0
PROBE_EVERY = 60.0
_PLAN = compute_plan(rule_inputs())


@dataclass(frozen=True, slots=True)
class Decoded(Reading):
    """A reading that is decoded already."""

    sample: Sample = field(default_factory=Sample)


class DirectMonitor(Monitor):
    """A monitor that takes decoded readings as well, and computes only what the rules read."""

    def __init__(self, period: float = 1.0) -> None:
        super().__init__(Settings(), period, wanted=rule_inputs())

    def feed(self, reading: Reading) -> None:
        if not isinstance(reading, Decoded):
            super().feed(reading)
        elif (node := self._node(reading.node)) is not None:
            node.feed(reading, reading.sample)


@dataclass(slots=True)
class World:
    """All nodes of a run and what they did."""

    names: tuple[str, ...]
    kind: str
    """Instance type."""
    length: float
    period: float
    """Seconds between the reports of neuron-monitor and EFA of a node."""
    tracks: list[Track]
    faults: Sequence[Fault]
    rng: np.random.Generator
    served: dict[int, Column] = field(default_factory=dict)
    """Node of an inference service → its load, one value a second."""
    probes: bool = False

    def fault(self, what: str, node: int) -> Fault | None:
        """The fault that a node has at any time."""
        return next((f for f in self.faults if f.what == what and node in f.nodes), None)


def readings(world: World) -> Iterator[Reading]:
    """Everything that the nodes report, without what silent nodes would have."""
    streams: list[Iterator[Reading]] = []
    for node in range(len(world.names)):
        seed = world.rng.integers(1 << 62)
        streams += _Node(world, node, np.random.default_rng(seed)).streams()
    for track in world.tracks:
        streams.append(iter(_training(world, track)))
    silent = {world.names[n]: f for f in world.faults if f.what == "silent" for n in f.nodes}
    for reading in merge(*streams, key=attrgetter("time")):
        if reading.time - START > world.length:
            return  # the last step ends later
        fault = silent.get(reading.node)
        if fault is None or not fault.begin <= reading.time - START < fault.end:
            yield reading


@dataclass(frozen=True, slots=True)
class _Loads:
    """What the cores and the host of a node do, `[report]`."""

    busy: Column
    work: Column
    count: Column
    """Executions of all cores."""
    latency: Column
    vcpu: Column
    io_wait: Column


class _Node:
    """The sources of one machine."""

    def __init__(self, world: World, node: int, rng: np.random.Generator) -> None:
        self._world, self._node, self._rng = world, node, rng
        self._name = world.names[node]
        self._row = INSTANCE_TYPES[world.kind]
        chip = self._row.chip
        self._cores = self._row.devices * chip.cores // chip.default_lnc
        self._core_flops = chip.bf16_flops_per_second / chip.cores * chip.default_lnc * MFU
        self._mine = [
            (track, track.job.nodes.index(node))
            for track in world.tracks
            if node in track.job.nodes
        ]
        self._offset = rng.uniform(0.0, world.period)

    def streams(self) -> list[Iterator[Reading]]:
        made = [self._monitor(), self._host()]
        if self._row.efa_devices:
            made.append(self._efa())
        if self._world.probes:
            made.append(self._probes())
        return made

    def _times(self, period: float) -> Column:
        at = np.arange(self._offset, self._world.length, period)
        return at + np.abs(self._rng.normal(0.0, 0.01, len(at)))

    def _curve(self, at: Column) -> Column:
        """The sums of all channels, `[time, channel]`."""
        known = [track.curve(index, at) for track, index in self._mine]
        return np.sum(known, axis=0) if known else np.zeros((len(at), 10))

    def _reading(self, source: str, time: float, payload: Any) -> Reading:
        return Reading(self._name, source, START + time, json.dumps(payload).encode(), True)

    def _pid(self, time: float) -> int | None:
        """Of the process on the node; None while there is none."""
        if self._node in self._world.served:
            return FIRST_PID + self._node
        alive = (
            FIRST_PID + self._node + 1000 * life
            for life, (track, index) in enumerate(self._mine)
            if track.job.begin <= time < track.died[index]
        )
        return next(alive, None)

    def _latency(self, at: Column) -> Column:
        """Seconds of an execution on the node."""
        found = np.full(len(at), np.nan)
        for track, index in self._mine:
            if not track.latencies:
                continue
            begins = np.array([begin for begin, _ in track.latencies])
            values = np.array([seconds[index] for _, seconds in track.latencies])
            newest = np.searchsorted(begins, at) - 1
            found = np.where(newest >= 0, values[np.maximum(newest, 0)], found)
        return np.asarray(found * (1.0 + 0.002 * self._rng.normal(0.0, 1.0, len(at))))

    def _monitor(self) -> Iterator[Reading]:
        at = self._times(self._world.period)
        loads = self._served(at) if self._node in self._world.served else self._trained(at)
        share = 1.0 + 0.004 * self._rng.normal(0.0, 1.0, (2, len(at) - 1, self._cores))
        utilization = np.clip(loads.busy[:, None] * share[0], 0.0, 1.0)
        flops = loads.work[:, None] * share[1] * self._core_flops
        for fault in (f for f in self._world.faults if self._node in f.nodes):
            now = np.flatnonzero([fault.active(time) for time in at[1:].tolist()])[:, None]
            if fault.what == "throttled":
                flops[now, self._of(fault.part)] *= 1.0 - fault.depth
                loads.count[now] *= 1.0 - fault.depth / self._row.devices
            elif fault.what == "device-lost":
                utilization[now, self._of(fault.part)] = np.nan
                flops[now, self._of(fault.part)] = np.nan
        for k, (time, period) in enumerate(zip(at[1:].tolist(), np.diff(at).tolist(), strict=True)):
            pid, lost = self._pid(time), self._world.fault("device-lost", self._node)
            gone = lost.part if lost is not None and lost.active(time) else None
            base = _report(self._world.kind, self._node, pid, gone)
            columns = base.columns | {
                "neuroncore_utilization_ratio": utilization[k],
                "neuroncore_flops_per_second": flops[k],
                "node_vcpu_user_ratio": 0.08 + loads.vcpu[k : k + 1],
                "node_vcpu_io_wait_ratio": loads.io_wait[k : k + 1],
            }
            deltas = base.deltas
            if pid:
                columns["runtime_device_latency_p50_seconds"] = loads.latency[k : k + 1]
                deltas = deltas | self._execute(time, period, float(loads.count[k]), columns)
                self._break(time, columns)
            sample = Sample(dict(base.keys), columns, deltas, base.facts, period)
            yield Decoded(self._name, NEURON_MONITOR, START + time, b"", True, sample)

    def _of(self, device: int) -> npt.NDArray[np.int64]:
        """The cores of a device."""
        each = self._cores // self._row.devices
        return np.arange(device * each, (device + 1) * each)

    def _execute(
        self, time: float, period: float, done: float, columns: dict[str, Column]
    ) -> dict[str, float]:
        """The counts of a period, and their rates as columns."""
        failing, bad = self._world.fault("errors", self._node), 0.0
        if failing is not None and failing.active(time):
            bad = float(min(self._rng.poisson(failing.depth * period), done))
        if not done:
            del columns["runtime_device_latency_p50_seconds"]
        for name, value in (("completed", done - bad), ("completed_with_err", bad)):
            columns[f"runtime_executions_{name}_per_second"] = np.array([value / period])
        columns["runtime_errors_hardware_per_second"] = np.array([bad / period])
        deltas = {"node_executions_completed_total": done - bad}
        if bad:
            for name in ("executions_completed_with_err", "execution_errors_hardware"):
                deltas[f"node_{name}_total"] = bad
            deltas["node_executions_failed_total"] = bad
        return deltas

    def _break(self, time: float, columns: dict[str, Column]) -> None:
        """Memory errors, and memory that fills."""
        if (ecc := self._world.fault("ecc", self._node)) and time >= ecc.begin:
            name = f"device_{ecc.way}_ecc_uncorrected_events"
            columns[name] = columns[name] + (np.arange(self._row.devices) == ecc.part)
        if (filling := self._world.fault("filling", self._node)) and time >= filling.begin:
            grown = min((time - filling.begin) / (filling.end - filling.begin), 1.0)
            used = columns["neuroncore_memory_used_bytes"].copy()
            used[self._of(filling.part)] *= 1.0 + (filling.depth / HELD - 1.0) * grown
            columns["neuroncore_memory_used_bytes"] = used

    def _trained(self, at: Column) -> "_Loads":
        curve = self._curve(at)
        growth = np.diff(curve, axis=0) / np.diff(at)[:, None]
        count = np.diff(np.floor(curve[:, 2])) * self._cores
        return _Loads(
            growth[:, 0], growth[:, 1], count, self._latency(at[1:]), growth[:, 4], growth[:, 5]
        )

    def _served(self, at: Column) -> "_Loads":
        """Of an inference service."""
        total = np.concatenate(([0.0], np.cumsum(self._world.served[self._node])))
        load = np.diff(np.interp(at, np.arange(len(total)), total)) / np.diff(at)
        count = np.floor(load * np.diff(at) / SERVED) * self._cores
        latency = np.full(len(load), SERVED)
        return _Loads(load, 0.4 * load, count, latency, 0.1 * load, np.zeros(len(load)))

    def _efa(self) -> Iterator[Reading]:
        world, rng = self._world, self._rng
        names = efa_names(world.kind)
        size = len(names)
        at = self._times(world.period)
        sent = np.diff(self._curve(at)[:, 3], prepend=0.0)
        weights = rng.normal(1.0, 0.008, size)
        totals = {name: rng.integers(10**6, 10**9, size).astype(float) for name in _MOVING}
        down, bad = world.fault("efa-down", self._node), world.fault("efa", self._node)
        for time, volume in zip(at.tolist(), sent.tolist(), strict=True):
            share, again = weights.copy(), np.full(size, RETRANSMITS)
            timeouts = rng.poisson(1e-4 * world.period, size).astype(float)
            if bad is not None and bad.active(time):
                if bad.way == "share":
                    share[bad.part] *= 1.0 - bad.depth
                else:
                    again[bad.part] += 0.04 * bad.depth
                    timeouts[bad.part] += (
                        rng.poisson(4.0 * bad.depth * world.period) if volume else 0
                    )
            is_down = down is not None and down.active(time)
            if down is not None and is_down:
                share[down.part] = 0.0
            share *= 1.0 + 0.004 * rng.normal(0.0, 1.0, size)
            moved = volume * share / max(share.sum(), 1e-9)
            packets = moved / PACKET
            for name, values in (
                ("efa_tx_bytes_total", moved), ("efa_tx_pkts_total", packets),
                ("efa_rx_bytes_total", moved * (1 + 0.003 * rng.normal(0, 1, size))),
                ("efa_retrans_pkts_total", rng.poisson(again * packets)),
                ("efa_retrans_timeout_events_total", timeouts),
            ):  # fmt: skip
                totals[name] += np.floor(values)
            way = f"{down.way}/{names[down.part]}" if down is not None and is_down else ""
            base = _links(world.kind, way)
            left = [n for n in range(size) if names[n] in base.keys_of]
            moving = {name: values[left] for name, values in totals.items()}
            sample = Sample(
                dict(base.sample.keys), base.sample.columns | moving, {}, base.sample.facts
            )
            yield Decoded(self._name, EFA_SOURCE, START + time, b"", True, sample)

    def _host(self) -> Iterator[Reading]:
        at = self._times(HOST_EVERY)
        sums = self._curve(at)
        growth = np.diff(sums, axis=0, prepend=0.0)
        compiles = [span for track, _ in self._mine for span in track.compiles]
        for k, time in enumerate(at.tolist()):
            since = next((b for b, e in compiles if b <= time < e), None)
            disk, lustre, reads, net = sums[k, 6:10].tolist()
            compiler = {
                "pid": 901,
                "since": START + (since or 0.0),
                "command": "neuronx-cc compile",
            }
            payload = {
                "period": HOST_EVERY,
                "cpu": {"busy": min(0.1 + growth[k, 4] / HOST_EVERY, 1.0), "load1": 12.0},
                "memory": {"total": HOST_BYTES, "available": 0.6 * HOST_BYTES},
                "network": {"eth0": {"rx_bytes": 2e6 * time, "tx_bytes": 1e6 * time + net}},
                "disk": {"read_bytes": 1e4 * time, "written_bytes": 1e6 * time + disk},
                "lustre": {"fsx": {"read_bytes": reads, "written_bytes": 3e4 * time + lustre}},
                "processes": {"count": 600, "partial": False},
                "compilers": [] if since is None else [compiler],
            }
            yield self._reading(HOST, time, payload)

    def _probes(self) -> Iterator[Reading]:
        """A probe of two other nodes each minute."""
        world, names = self._world, self._world.names
        slow = world.fault("slow-link", self._node)
        for turn in np.arange(self._offset, world.length, PROBE_EVERY).tolist():
            for step in (1, 2):
                peer = (self._node + step) % len(names)
                seconds = 17e-6 * float(np.exp(0.05 * self._rng.normal()))
                time = turn + 10.0 * step
                if slow is not None and slow.active(time) and step == 1:
                    seconds *= 1.0 + slow.depth
                result = {
                    "tool": "fi_pingpong", "peer": names[peer], "provider": "efa",
                    "size_bytes": 64, "statistic": "mean", "seconds": seconds, "load": "training",
                }  # fmt: skip
                yield self._reading(PROBE, time, result)


def _training(world: World, track: Track) -> list[Reading]:
    """What the training process of a job reports."""
    job, rng, made = track.job, world.rng, []

    def add(index: int, time: float, source: str, payload: dict[str, Any]) -> None:
        name, data = world.names[job.nodes[index]], json.dumps(payload).encode()
        made.append(Reading(name, source, START + time, data, True))

    if job.telemetry == "none":
        return []
    indices = range(len(job.nodes)) if job.telemetry == "ranks" else range(1)
    slow = next((f for f in world.faults if f.what == "slow-device"), None)
    for step in track.steps:
        seconds = step.end - step.begin
        if job.telemetry == "log":
            if step.number % job.log_every == 0:
                text = f"step: {step.number:2}  loss: 2.1000  grad_norm: 0.3000  tps: "
                text += f"{round(4096 / seconds):,}  mfu: {100 * MFU / seconds:.2f}%"
                lines = {"file": "train.log", "job": job.name, "lines": [{"text": text}]}
                add(0, step.end + rng.uniform(0.0, 1.0), LOG, lines)
            continue
        for index in indices:
            if (step.number, index) in track.lost or rng.random() < job.lossy:
                continue
            late = rng.uniform(0.005, 0.15)
            for rank in range(job.ranks):
                add(index, step.end + late, STEPS, _record(job, step, index, rank, slow, rng))
    if job.telemetry in ("ranks", "rank0"):
        for time, stage in track.notes:
            note = {"job": job.name, "rank": 0, "stage": stage, "since": START + time}
            add(0, time + 0.05, STEPS, note)
    return sorted(made, key=attrgetter("time"))


def _record(
    job: Job, step: Any, index: int, rank: int, slow: Fault | None, rng: np.random.Generator
) -> dict[str, Any]:
    """The record of one rank. On a node with a slow device, the other ranks wait for it."""
    compute, exposed = float(step.compute[index]), float(step.exposed[index])
    if slow and slow.active(step.begin) and job.nodes[index] in slow.nodes and rank != slow.part:
        faster = compute / (1.0 + slow.depth)
        compute, exposed = faster, exposed + compute - faster
    shift = float(np.clip(0.001 * rng.normal() * compute, None, exposed))
    compute, exposed = compute + shift, exposed - shift
    record = {
        "job": job.name, "rank": index * job.ranks + rank, "step": step.number,
        "step_seconds": step.end - step.begin, "compute_seconds": compute,
        "comm_seconds": step.hidden + exposed, "overlap_seconds": step.hidden,
        "exposed_comm_seconds": exposed, "tokens": 4_000_000, "loss": 2.1,
    }  # fmt: skip
    return record | ({"pipeline_stage": int(job.stage[index])} if job.declared else {})


_MOVING = tuple(
    f"efa_{name}_total"
    for name in ("tx_bytes", "tx_pkts", "rx_bytes", "retrans_pkts", "retrans_timeout_events")
)


@cache
def efa_names(kind: str) -> list[str]:
    """The EFA devices of an instance type, in the order of their names."""
    count = INSTANCE_TYPES[kind].efa_devices or 0
    return sorted(f"rdmap{16 * (n // 2 + 1)}s{27 + n % 2}" for n in range(count))


@dataclass(frozen=True, slots=True)
class _Links:
    """A decoded reading of EFA devices, and which devices it has."""

    sample: Sample
    keys_of: frozenset[str]


@cache
def _links(kind: str, way: str) -> _Links:
    """Decoded once for each state of the devices: `gone/NAME` or `state/NAME` is down."""
    how, _, which = way.partition("/")
    row = INSTANCE_TYPES[kind]
    devices = {
        name: {
            "pci": f"0000:{16 * (n // 2 + 1):02x}:1b.{n % 2}", "numa_node": n % 2,
            "rate_gbps": row.efa_gbps, "p2p": "NEURON",
            "state": "1: DOWN" if (how, which) == ("state", name) else "4: ACTIVE",
            "port": dict.fromkeys(EFA_PORT_COUNTERS, 0),
            "device": dict.fromkeys(EFA_DEVICE_COUNTERS, 7),
        }
        for n, name in enumerate(efa_names(kind))
        if (how, which) != ("gone", name)
    }  # fmt: skip
    sample = DECODERS[EFA_SOURCE](json.dumps({"driver": "2.17.3g", "devices": devices}).encode())
    sample.columns = _PLAN.prune(sample.columns)
    return _Links(sample, frozenset(devices))


@cache
def _report(kind: str, node: int, pid: int | None, lost: int | None) -> Sample:
    """A report of neuron-monitor, decoded once for each state of a node."""
    row = INSTANCE_TYPES[kind]
    chip, lnc = row.chip, row.chip.default_lnc
    each = chip.cores // lnc
    cores = [core for core in range(row.devices * each) if core // each != lost]
    period = {"period": 1.0, "error": ""}
    held = {"tensors": int(HELD * chip.hbm_bytes / each)}
    runtime = {
        "pid": pid, "neuron_runtime_tag": str(pid), "error": "",
        "report": {
            "execution_stats": period | {
                "error_summary": dict.fromkeys(EXECUTION_ERRORS, 0),
                "execution_summary": dict.fromkeys(EXECUTION_STATUSES, 0),
                "latency_stats": {"total_latency": {"p50": 0.1}, "device_latency": {"p50": 0.1}},
            },
            "memory_used": period | {
                "neuron_runtime_used_bytes": {
                    "host": 5 << 30, "neuron_device": held["tensors"] * len(cores),
                    "usage_breakdown": {
                        "host": {}, "neuroncore_memory_usage": {str(core): held for core in cores},
                    },
                },
                "loaded_models": [],
            },
            "neuroncore_counters": period | {
                "neuroncores_in_use": {
                    str(core): {"neuroncore_utilization": 50.0, "flops": 1} for core in cores
                },
            },
        },
    }  # fmt: skip
    errors = dict.fromkeys(("mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_corrected",
                            "sram_ecc_uncorrected"), 0)  # fmt: skip
    devices = [device for device in range(row.devices) if device != lost]
    modes = {"user": 8.0, "nice": 0, "system": 1.5, "idle": 90.0, "io_wait": 0.0, "irq": 0,
             "soft_irq": 0}  # fmt: skip
    report = {
        "neuron_runtime_data": [runtime] if pid else [],
        "system_data": {
            "neuron_hw_counters": period | {
                "neuron_devices": [{"neuron_device_index": n} | errors for n in devices],
            },
            "vcpu_usage": period | {"average_usage": modes, "usage_data": {}},
            "memory_info": period | {
                "memory_total_bytes": HOST_BYTES, "memory_used_bytes": HOST_BYTES // 3,
            },
        },
        "instance_info": {"instance_type": kind, "instance_id": f"i-{node:017x}"},
        "neuron_hardware_info": {
            "neuron_device_type": {1: "trainium", 2: "trainium2"}[lnc],
            "neuron_device_count": len(devices), "neuron_device_memory_size": chip.hbm_bytes,
            "neuroncore_per_device_count": each, "logical_neuroncore_config": lnc, "error": "",
        },
    }  # fmt: skip
    sample = DECODERS[NEURON_MONITOR](json.dumps(report).encode())
    sample.columns = _PLAN.prune(sample.columns)
    return sample
