"""All EFA devices of a cluster, and their peers: what each moved, and what its peers moved."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from trntop.catalog import EFA_SOURCE, Entity
from trntop.catalog.efa import ERROR_KINDS, is_up
from trntop.core.model import NO_VALUE, Column, Inventory, Key, NodeView, Stage
from trntop.pipeline.axis import Axis, Indices, PartAxis, realigned
from trntop.pipeline.statistics import Mask, Members, Table, node_largest
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class DeviceTuning:
    """How EFA devices are polled, and when their peers carry traffic."""

    interval: float = 3.0
    """Seconds between two polls: faults last longer, and counters are cumulative."""
    tolerance: float = 0.5
    """Seconds by which a poll may come early: ticks jitter."""
    max_gap: float = 30.0
    """Seconds; growth over a longer time belongs to another reading."""
    max_growth: float = 1e12
    """Growth per second of a damaged counter: no device moves so many bytes."""
    idle: float = 0.01
    """Share of the traffic of the node's busiest device up to which a device takes no part."""
    busy: float = 0.3
    """Share of their usual traffic above which peers carry the job's traffic: in a reading of the
    edge of a transfer, devices differ by when they were read.
    """
    level_half_life: float = 60.0
    """Seconds after which a value counts half for the usual traffic."""
    recently: float = 120.0
    """Seconds for which peers of a lost node may still report errors."""
    few: int = 2
    """A node with no more devices is too small to show which of them differs."""


TUNING = DeviceTuning()
RETRANSMITTED, SENT = "retrans_pkts", "tx_pkts"
COUNTERS = ("tx_bytes", "rx_bytes", RETRANSMITTED, SENT, *ERROR_KINDS)
_NAMES = tuple(f"efa_{name}_total" for name in COUNTERS)


class Groups:
    """Devices in groups, by the number of each device's group, `[device]`."""

    def __init__(self, group: Indices) -> None:
        self.of = group
        self.sizes = np.bincount(group) if len(group) else np.zeros(0, np.int64)
        order = np.argsort(group, kind="stable")
        begins = np.cumsum(self.sizes) - self.sizes
        row = np.empty(len(group), np.int64)
        row[order] = np.arange(len(group)) - begins[group[order]]
        self._shape = len(self.sizes), int(self.sizes.max(initial=0))
        self._cell = group * self._shape[1] + row
        """Of each device in a table of that shape."""

    def median(self, values: Column) -> Column:
        """The median of the other members of each device's group, `[device]`."""
        cells = np.full(self._shape[0] * self._shape[1], NO_VALUE)
        cells[self._cell] = values
        table = cells.reshape(self._shape)
        ordered = np.sort(table, axis=1)  # NaN comes last
        known = self._shape[1] - np.isnan(ordered).sum(axis=1)
        rows, last = np.arange(self._shape[0]), max(self._shape[1] - 1, 0)

        def at(index: Indices, count: Indices) -> Table:
            """The value at this index of each group, in order, `[group, 1]`; NaN without any."""
            found: Table = np.where(count > 0, ordered[rows, np.clip(index, 0, last)], NO_VALUE)
            return found[:, None]

        def other(index: Indices) -> Table:
            """The value at this index of the others, in order, `[group, member]`."""
            here = at(index, known - 1)
            # Without the device itself, the values after it move down by one.
            return np.where(here < table, here, at(index + 1, known - 1))

        medians: Table = 0.5 * (other((known - 2) // 2) + other((known - 1) // 2))
        absent = np.isnan(table)
        if absent.any():
            middle = 0.5 * (at((known - 1) // 2, known) + at(known // 2, known))
            medians = np.where(absent, middle, medians)
        result: Column = medians.ravel()[self._cell]
        return result

    def count(self, chosen: Mask) -> Indices:
        """How many of each device's group are chosen, `[device]`."""
        return np.bincount(self.of[chosen], minlength=self._shape[0])[self.of]


class EfaPeers(Groups):
    """The devices of all nodes in groups that share the work evenly.

    The peers of a device are the others of its node; on a node with one or two, the devices of the
    same name on the other nodes of its job.
    """

    def __init__(self, axis: PartAxis, job_of: Mapping[str, str]) -> None:
        self.axis = axis
        self._job_of = dict(job_of) if (axis.sizes <= TUNING.few).any() else None
        group = axis.owner.copy()
        names: dict[tuple[str, str | None], list[int]] = {}
        for node in np.flatnonzero(axis.sizes <= TUNING.few).tolist():
            job = job_of.get(str(axis.nodes.keys[node]))
            for index, name in enumerate(axis.parts[node], start=int(axis.starts[node])):
                names.setdefault((str(name), job), []).append(index)
        for number, indices in enumerate(names.values(), start=len(axis.nodes)):
            if len(indices) > 1:
                group[indices] = number
        super().__init__(group)

    def is_valid(self, axis: PartAxis, job_of: Mapping[str, str]) -> bool:
        return axis is self.axis and (self._job_of is None or self._job_of == job_of)

    @cached_property
    def rails(self) -> Groups:
        """Devices of the same name on all nodes: in a collective they talk to one another."""
        numbers: dict[Key, int] = {}
        names = (name for parts in self.axis.parts for name in parts)
        return Groups(np.array([numbers.setdefault(key, len(numbers)) for key in names], np.int64))


class EfaDevices(Members):
    """The newest poll of all devices; columns are `[device]`.

    Both detectors share one (`Tick.shared`).
    """

    inputs = frozenset(("node_efa_cards", *_NAMES))
    BLANK: ClassVar = dict.fromkeys(("traffic", "interval", "_totals", "_level"), NO_VALUE) | {
        "inactive": False, "_seen": False, "_carried": False,
    }  # fmt: skip
    axis: PartAxis
    traffic: Column
    """Bytes per second, both ways, since the poll before."""
    interval: Column
    """Seconds between its two newest readings."""
    inactive: Mask
    """Whether its port is not up."""
    _totals: Column
    """`[counter, device]`, of each device's newest reading."""
    _level: Column
    """The usual traffic of its peers."""
    _seen: Mask
    """Whether it was ever read."""
    _carried: Mask
    """Whether it ever took part."""

    def clear(self) -> None:
        super().clear()
        self._totals = np.full((len(COUNTERS), 0), NO_VALUE)
        self.follow(PartAxis(Axis(), ()))
        self.peers = EfaPeers(self.axis, {})
        self.time = -np.inf
        """When the newest poll was."""
        self.middle = -np.inf
        """The middle between it and the one before: the likely begin of what it finds first."""
        self.growth: dict[str, Column] = {}
        """Counter → its growth per second since the poll before; NaN where it was not read again,
        set back, or damaged.
        """
        self.fresh: Mask = np.zeros(0, bool)
        """Whether the device's node was read since the poll before."""
        self.elapsed: Column = np.zeros(0)
        """Seconds between the newest readings of two polls; 0 without a new one."""
        self.busy: Mask = np.zeros(0, bool)
        """Whether its peers move about as much as usual, for their job's steps."""
        self.idle: Mask = np.zeros(0, bool)
        """Whether it moves nothing compared with its node's busiest device, which is busy."""
        self.fallen: Mask = np.zeros(0, bool)
        """Whether it is idle, but was not always."""
        self.lost: Mask = np.zeros(0, bool)
        """Whether it cannot be read, though its node's other devices are read, or it was."""
        self.gone: Mask = np.zeros(0, bool)
        """Nodes whose devices were read until recently, `[node]`."""
        self.usual: Column = np.zeros(0)
        """The median traffic of those of its peers that take part."""
        self._elapsed: Column = np.zeros(0)
        """The same, `[node]`."""
        self._read_times: Column = np.zeros(0)
        """When the devices were last read, `[node]`."""
        self._inventories: list[Inventory | None] = []
        self._version = -1
        """Of the tick whose inventories were read."""
        self.job_of: Mapping[str, str] = {}
        """Node → its job, where known."""
        self._tick = -1
        self._polled = False

    def poll(self, tick: Tick) -> bool:
        """Updates the devices if a poll is due; returns whether it was."""
        if tick.number != self._tick:
            self._tick = tick.number
            due = self.time + TUNING.interval - TUNING.tolerance
            self._polled = not self.time <= tick.time < due
            if self._polled:
                apart = tick.time - self.time
                self.middle = tick.time - (0.5 * apart if 0 < apart <= TUNING.max_gap else 0.0)
                self.time = tick.time
                self._poll(tick)
        return self._polled

    def _poll(self, tick: Tick) -> None:
        axis, nodes = tick.parts(Entity.EFA), self.axis.nodes
        self.job_of = tick.job_of
        if self.follow(axis):
            self._read_times = realigned(self._read_times, nodes, axis.nodes)
            self.inactive = np.zeros(len(axis), bool)
            self._inventories, self._version = [None] * len(axis.nodes), -1
        if not self.peers.is_valid(axis, tick.job_of):
            self.peers = EfaPeers(axis, tick.job_of)
        self._read(tick)
        counted = ~np.isnan(tick.column("efa_tx_bytes_total"))
        traffic = self.growth["tx_bytes"] + self.growth["rx_bytes"]
        # Devices that are read less often than polled keep their traffic.
        kept = np.where(counted, self.traffic, NO_VALUE)
        self.traffic = np.where(self.fresh, traffic, kept)
        threshold = TUNING.idle * node_largest(axis, self.traffic)[axis.owner]
        takes_part = self.traffic > threshold
        self.usual = self.peers.median(np.where(takes_part, self.traffic, NO_VALUE))
        moving = self.fresh & (self.usual > 0)
        weight = 1.0 - self.decay(TUNING.level_half_life)
        known = np.where(np.isnan(self._level), self.usual, self._level)
        self._level = np.where(moving, known + weight * (self.usual - known), self._level)
        self.busy = moving & (self.usual >= TUNING.busy * self._level) & ~_saving(tick)[axis.owner]
        self.idle = self.busy & (self.traffic <= threshold)
        self._carried |= self.busy & takes_part
        self.fallen = self.idle & self._carried
        listed = ~np.isnan(tick.column("node_efa_cards"))
        self.gone = ~listed & (tick.time - self._read_times < TUNING.recently)
        self._seen |= counted
        self.lost = ~counted & listed[axis.owner]
        if self.lost.any():
            self.lost &= self._seen | (node_largest(axis, counted * 1.0) > 0)[axis.owner]
        if tick.version != self._version:
            self._version = tick.version
            self._check_ports(tick.views)

    def decay(self, half_life: float) -> Column:
        """What is left of a weight after `elapsed`, `[device]`."""
        left: Column = np.exp2(self._elapsed / -half_life)[self.axis.owner]
        return left

    def _read(self, tick: Tick) -> None:
        """The growth of the counters since the poll before."""
        owner, times = self.axis.owner, tick.read_times(EFA_SOURCE)
        apart = times - self._read_times
        again = apart > 0
        self.fresh = (again | (np.isnan(self._read_times) & ~np.isnan(times)))[owner]
        self._read_times = times
        self._elapsed = np.where(again, np.minimum(apart, TUNING.max_gap), 0.0)
        self.elapsed = self._elapsed[owner]
        self.interval = np.where(self.elapsed > 0, self.elapsed, self.interval)
        per_second = (1.0 / np.where(again, apart, NO_VALUE))[owner]
        now = np.stack(tick.columns(_NAMES))
        growth = now - self._totals
        growth *= per_second
        growth[~((growth >= 0) & (growth <= TUNING.max_growth))] = NO_VALUE
        self.growth = dict(zip(COUNTERS, growth, strict=True))
        self._totals = now if self.fresh.all() else np.where(self.fresh, now, self._totals)

    def _check_ports(self, views: list[NodeView]) -> None:
        """Reads the port states of nodes whose inventory has changed."""
        for index, (view, before) in enumerate(zip(views, self._inventories, strict=True)):
            if view.inventory is not before:
                inventory = self._inventories[index] = view.inventory
                first = int(self.axis.starts[index])
                for device, name in enumerate(self.axis.parts[index], start=first):
                    state = inventory.efa_links.get(str(name), {}).get("state")
                    self.inactive[device] = not is_up(state)


def _saving(tick: Tick) -> Mask:
    """Nodes that may use a device or two for their checkpoint, `[node]`."""
    saving = np.zeros(len(tick.nodes), bool)
    for run in tick.runs.by_job.values():
        if run.stage is Stage.CHECKPOINTING:
            saving[run.indices] = True
    return saving
