"""The page of AWS's neuron-monitor-prometheus.py, default `http://HOST:8000/metrics`.

Source: `/opt/aws/neuron/bin/neuron-monitor-prometheus.py` of aws-neuronx-tools. Every series has
the labels of the EC2 instance, those of a process also `runtime_tag`. What is special of it:

- every runtime reports every core: utilization is merged by the larger, memory by the sum
- without a runtime there are no series of cores, only `neuron_hardware_info`: such cores are idle.
  Where a runtime is, but a group of its values is not, that group could not be read: absent
- executions and errors are counted since the script started, per runtime, and forgotten with it
- user time includes nice, system time includes waiting and interrupts
- not on the page: FLOP/s, physical cores, device latency, loaded models
- the CloudWatch agent and others publish the same names with shares in percent
"""

from collections.abc import Iterable

import numpy as np

from trntop.catalog import (
    ECC_EVENTS,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    LATENCY_PERCENTILES,
    MEMORY_CATEGORIES,
    NEURON_EXPORTER,
    Entity,
)
from trntop.core.errors import DecodeError
from trntop.core.instances import INSTANCE_TYPES, chip_of
from trntop.core.model import Runtime, Sample
from trntop.core.text import clean
from trntop.sources import core_memory
from trntop.sources.columns import COUNTER, SECONDS, SIZE, Range, Values
from trntop.sources.exporter_page import RATIO, Page, Series, index_of, indexed, read, within
from trntop.sources.source import Role, Source

PERIOD = 5.0
"""Seconds from one look at the page to the next."""
MAX_CORES = 4096
MAX_DEVICES = 64
MAX_RUNTIMES = 1024

UTILIZATION = "neuroncore_utilization_ratio"
HARDWARE = "neuron_hardware_info"
_MEMORY = {f"neuroncore_memory_usage_{name}": name for name in MEMORY_CATEGORIES}
_RUNTIME_MEMORY = "neuron_runtime_memory_used_bytes"
_RUNTIME_VCPU = "neuron_runtime_vcpu_usage_ratio"
_LATENCY = "execution_latency_seconds"
_STATUS = "execution_status_total"
_ERRORS = "execution_errors_total"
_ECC = "hardware_ecc_events_total"
_VCPU = "system_vcpu_usage_ratio"
_HOST = {
    "system_vcpu_count": "node_vcpus",
    "system_memory_total_bytes": "node_memory_total_bytes",
    "system_memory_used_bytes": "node_memory_used_bytes",
    "system_swap_total_bytes": "node_swap_total_bytes",
    "system_swap_used_bytes": "node_swap_used_bytes",
}
_PLACES = {"host": "host", "neuron_device": "device"}
"""`memory_location` → place, as our quantities call it."""
_INSTANCE = (
    "instance_name",
    "instance_id",
    "instance_type",
    "availability_zone",
    "region",
    "subnet_id",
    "ultraserver_id",
)
FAMILIES = frozenset(
    (UTILIZATION, HARDWARE, *_MEMORY, _RUNTIME_MEMORY, _RUNTIME_VCPU, _LATENCY, _STATUS, _ERRORS,
     _ECC, _VCPU, *_HOST)
)  # fmt: skip
"""What of the page is read."""


def decode(data: bytes) -> Sample:
    """One page.

    Raises:
        DecodeError: nothing of neuron-monitor is on it.
    """
    page = read(data, FAMILIES)
    if not page.families:
        raise DecodeError("no page of neuron-monitor-prometheus.py")
    return _Builder(page).sample


class _Builder:
    """One page on its way to a sample."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.sample = Sample(period=PERIOD, problems=page.problems)
        self._of_cores = {
            name: list(indexed(page.of(name), "neuroncore", MAX_CORES))
            for name in (UTILIZATION, *_MEMORY)
        }
        """Family → the core and the series of each line."""
        self._topology()
        self._runtimes()
        self._loads()
        self._executions()
        self._devices_errors()
        self._host()

    def _put(self, name: str, values: Values, bounds: Range) -> None:
        """Takes over a column, unless nothing of it is known."""
        column = within(values, bounds)
        if not np.isnan(column).all():
            self.sample.columns[name] = column

    def _topology(self) -> None:
        page, sample = self._page, self.sample
        first = next(iter(page.families.values()))[0].labels
        sample.simulated = first.get("provenance") == "simulated"  # as trntop's own pages say
        facts = {name: clean(first[name]) for name in _INSTANCE if first.get(name)}
        instance_type = facts.get("instance_type", "")
        chip, row = chip_of(instance_type, ""), INSTANCE_TYPES.get(instance_type)
        info = page.of(HARDWARE)[0].labels if page.of(HARDWARE) else {}
        self._told = bool(info)
        """Whether the page says which devices there are."""
        devices = index_of(info, "neuron_device_count", MAX_DEVICES + 1)
        per_device = index_of(info, "neuroncore_per_device_count", MAX_CORES + 1)
        mentioned = [core for rows in self._of_cores.values() for core, _ in rows]
        highest = max(mentioned, default=-1) + 1
        if devices is None:
            devices = row.devices if row else 0
        cores = devices * (per_device or 0)
        if not 0 < cores <= MAX_CORES:
            cores = highest
            even = devices and cores % devices == 0
            per_device = cores // devices if even else max(cores, 1)
            devices = -(-cores // max(per_device, 1))
        self._cores, self._devices = cores, devices
        if highest > cores:
            sample.problems += (f"core {highest - 1} is not one of this node's {cores}",)
            for name, rows in self._of_cores.items():
                self._of_cores[name] = [row for row in rows if row[0] < cores]
        per_device = max(per_device or 0, 1)
        if chip is not None and cores and chip.cores % per_device == 0:
            sample.facts["lnc"] = min(chip.cores // per_device, 2)
        sample.facts["facts"] = facts
        sample.facts["core_device"] = np.arange(cores) // per_device
        sample.keys[Entity.CORE] = tuple(range(cores))
        sample.keys[Entity.DEVICE] = tuple(range(devices))
        if self._told:
            sample.columns["node_devices"] = np.array([float(devices)])
            sample.columns["node_neuroncores"] = np.array([float(cores)])
        hbm = _size(info.get("neuron_device_memory_size", ""))
        if hbm is None and chip is not None:
            hbm = float(chip.hbm_bytes)
        if hbm is not None and devices:
            sample.columns["device_memory_total_bytes"] = np.full(devices, hbm)

    def _runtimes(self) -> None:
        """Its processes, in the order of the page."""
        page, sample = self._page, self.sample
        names = (_RUNTIME_MEMORY, _RUNTIME_VCPU, _LATENCY, UTILIZATION)
        found = dict.fromkeys(
            tag for name in names for one in page.of(name) if (tag := one.labels.get("runtime_tag"))
        )
        tags = list(found)[:MAX_RUNTIMES]
        place = {tag: index for index, tag in enumerate(tags)}
        self._busy = bool(tags)
        pids = tuple(
            int(tag) if tag.isascii() and tag.isdigit() and len(tag) < 10 else -1 - index
            for tag, index in place.items()
        )
        if len(set(pids)) < len(pids):  # 7 and 007
            pids = tuple(-1 - index for index in place.values())
        sample.keys[Entity.RUNTIME] = pids
        if tags or self._told:
            sample.columns["node_runtimes"] = np.array([float(len(tags))])
        held: dict[str, set[int]] = {}
        for name in _MEMORY:
            for core, one in self._of_cores[name]:
                if one.value > 0:
                    held.setdefault(one.labels.get("runtime_tag", ""), set()).add(core)
        sample.facts["runtimes"] = tuple(
            Runtime(pid, clean(tag, 64), cores=tuple(sorted(held.get(tag, ()))))
            for pid, tag in zip(pids, tags, strict=True)
        )

        def put(quantity: str, series: Iterable[Series], bounds: Range, scale: float = 1) -> None:
            column = np.full(len(tags), np.nan)
            for one in series:
                index = place.get(one.labels.get("runtime_tag", ""))
                if index is not None:
                    column[index] = one.value * scale
            if len(tags):
                self._put(quantity, column, bounds)

        used = _by(page.of(_RUNTIME_MEMORY), "memory_location")
        for location, where in _PLACES.items():
            put(f"runtime_{where}_memory_used_bytes", used.get(location, ()), SIZE)
        vcpu, scale = _by(page.of(_RUNTIME_VCPU), "usage_type"), page.ratio(_RUNTIME_VCPU)
        for mode in ("user", "system"):
            put(f"runtime_vcpu_{mode}_ratio", vcpu.get(mode, ()), RATIO, scale)
        latency = _by(page.of(_LATENCY), "percentile")
        for percentile in LATENCY_PERCENTILES:
            quantity = f"runtime_total_latency_{percentile}_seconds"
            put(quantity, latency.get(percentile, ()), SECONDS)

    def _loads(self) -> None:
        """Utilization and memory of the cores."""
        page, cores = self._page, self._cores
        idle = self._told and not self._busy
        if idle or page.of(UTILIZATION):
            column = np.full(cores, 0.0 if idle else np.nan)
            if rows := self._of_cores[UTILIZATION]:
                values = np.array([one.value for _, one in rows]) * page.ratio(UTILIZATION)
                np.fmax.at(column, [core for core, _ in rows], within(values, RATIO))
            self._put(UTILIZATION, column, RATIO)
        if not (idle or any(page.of(name) for name in _MEMORY)):
            return
        memory = np.full((cores, len(_MEMORY)), 0.0 if idle else np.nan)
        for place, name in enumerate(_MEMORY):
            if not (rows := self._of_cores[name]):
                continue
            values = within(np.array([one.value for _, one in rows]), SIZE)
            where, known = np.array([core for core, _ in rows]), np.isfinite(values)
            sums = np.zeros(cores)
            np.add.at(sums, where[known], values[known])
            there = np.isin(np.arange(cores), where[known])
            memory[:, place] = np.where(there, sums, np.nan)
        unread = np.isnan(memory).all(axis=1)
        found = core_memory.columns(memory, unread if unread.any() else None)
        if not unread.all():
            self.sample.columns |= found

    def _executions(self) -> None:
        failed = []
        for family, label, outcomes, quantity in (
            (_STATUS, "status_type", EXECUTION_STATUSES, "node_executions"),
            (_ERRORS, "error_type", EXECUTION_ERRORS, "node_execution_errors"),
        ):
            by = _by(self._page.of(family), label)
            counts = {name: sum(one.value for one in by[name]) for name in outcomes if name in by}
            for name, count in counts.items():
                self._put(f"{quantity}_{name}_total", np.array([count]), COUNTER)
            if counts:
                failed.append(sum(n for name, n in counts.items() if name != "completed"))
        # A failure may show as a status and as an error: it is one.
        if failed:
            self._put("node_executions_failed_total", np.array([max(failed)]), COUNTER)

    def _devices_errors(self) -> None:
        for event, series in _by(self._page.of(_ECC), "event_type").items():
            if event not in ECC_EVENTS or not self._devices:
                continue
            column = np.full(self._devices, np.nan)
            for device, one in indexed(series, "neuron_device_index", self._devices):
                column[device] = one.value
            self._put(f"device_{event}_events", column, SIZE)

    def _host(self) -> None:
        page = self._page
        for family, quantity in _HOST.items():
            for one in page.of(family)[:1]:
                self._put(quantity, np.array([one.value]), SIZE)
        for mode, series in _by(page.of(_VCPU), "usage_type").items():
            if mode in ("user", "system"):
                share = np.array([series[0].value * page.ratio(_VCPU)])
                self._put(f"node_vcpu_{mode}_ratio", share, RATIO)


def _by(series: Iterable[Series], label: str) -> dict[str, list[Series]]:
    """Series by the value of a label."""
    groups: dict[str, list[Series]] = {}
    for one in series:
        groups.setdefault(one.labels.get(label, ""), []).append(one)
    return groups


def _size(text: str) -> float | None:
    """Bytes, if the text is a plausible number of them."""
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        return None
    size = float(text)
    return size if (1 << 30) <= size <= SIZE.limit else None


SOURCE = Source(
    name=NEURON_EXPORTER,
    decode=decode,
    role=Role.PAGE,
    gives="the metrics of a node that AWS's neuron-monitor-prometheus.py publishes: utilization "
    "and HBM use per NeuronCore, executions, latency, errors, ECC",
    origin="its page, `http://HOST:8000/metrics`, polled each 5 s (docs/nodes.md)",
    needs="the script, or its DaemonSet, on a node without an agent of trntop",
    without="these values, unless an agent, ssh or CloudWatch reports them; FLOP/s, tensor engines "
    "and HBM bandwidth are not on the page",
)
