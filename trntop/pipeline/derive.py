"""Computed columns: rates, shares and roll-ups, by the formulas in the catalog."""

import statistics
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass

import numpy as np

from trntop.catalog import (
    CATALOG,
    COLLECTIVES,
    CORE_FAILURES,
    TENSOR_ENGINE,
    UNCORRECTED_ECC,
    Combine,
    Entity,
    inputs,
)
from trntop.core.instances import chip_of, find_instance_type
from trntop.core.model import Column, Inventory
from trntop.pipeline import hbm
from trntop.pipeline.smooth import BUSY_AND_WORKS, CEILING, FLOOR, WIRE
from trntop.sources.columns import any_known

Columns = Mapping[str, Column]
Formula = Callable[[Columns, Inventory], Column | None]

MIN_TRAFFIC = 10.0
"""Packets per second below which a retransmit ratio is not meaningful."""
MIN_PEER_TRAFFIC = 1e6
"""Bytes per second that the median device must send before devices are compared."""

FORMULAS: dict[str, Formula] = {}
"""The catalog's formulas over parts, in an order in which inputs come first."""
ROLLUP_FORMULAS: dict[str, Formula] = {}
"""Formulas over roll-ups."""
_INPUTS: dict[str, tuple[str, ...]] = {}


def formula(
    name: str, *needs: str, table: dict[str, Formula] = FORMULAS
) -> Callable[[Callable[..., Column | None]], Callable[..., Column | None]]:
    """Registers how a quantity follows from the inventory and the columns that it needs."""

    def register(function: Callable[..., Column | None]) -> Callable[..., Column | None]:
        def compute(columns: Columns, inventory: Inventory) -> Column | None:
            inputs = [columns[need] for need in needs if need in columns]
            return function(inventory, *inputs) if len(inputs) == len(needs) else None

        table[name], _INPUTS[name] = compute, needs
        return function

    return register


def optional_input_formula(name: str, *inputs: str) -> Callable[[Formula], Formula]:
    """Registers a formula that needs only some of its inputs; it gets those that are present."""

    def register(function: Formula) -> Formula:
        def compute(columns: Columns, inventory: Inventory) -> Column | None:
            known = {name: columns[name] for name in inputs if name in columns}
            return function(known, inventory) if known else None

        FORMULAS[name], _INPUTS[name] = compute, inputs
        return function

    return register


def rate(before: Column, after: Column, seconds: float, limit: float | Column = np.inf) -> Column:
    """Change of cumulative counters per second, in their shape.

    The rate is absent for an interval in which a counter decreased (a reset) or grew faster than
    `limit` (a damaged value).
    """
    if seconds <= 0:
        return np.full(after.shape, np.nan)
    change = (after - before) / seconds
    change[~((change >= 0) & (change <= limit))] = np.nan
    return change


def ratio(part: Column, whole: Column) -> Column:
    """`part ÷ whole`; absent where `whole` is 0 or unknown."""
    result: Column = part / _positive(whole)
    return result


def _ratio_formula(name: str, part: str, whole: str, table: dict[str, Formula] = FORMULAS) -> None:
    formula(name, part, whole, table=table)(
        lambda _, part_values, whole_values: ratio(part_values, whole_values)
    )


@optional_input_formula(
    "physical_core_failures_total", *(f"physical_core_{status}_total" for status in CORE_FAILURES)
)
def _core_failures(known: Columns, inventory: Inventory) -> Column | None:
    return combine_rows(np.array(list(known.values())), Combine.SUM)


_ENGINE_BUSY = "physical_core_tensor_engine_busy_ratio"


@formula(
    _ENGINE_BUSY,
    *(f"physical_core_tensor_engine_{state}_cycles_per_second"
      for state in ("matmul", "weight_load", "idle")),
)  # fmt: skip
def _engine_busy(inventory: Inventory, matmul: Column, weights: Column, idle: Column) -> Column:
    return ratio(matmul + weights, matmul + weights + idle)


@formula("neuroncore_tensor_engine_busy_ratio", _ENGINE_BUSY)
def _engine_busy_of_cores(inventory: Inventory, busy: Column) -> Column | None:
    device_of, owner, lnc = inventory.core_device, inventory.physical_device, inventory.lnc
    if len(busy) != len(owner):
        return None
    # Logical core i of a device is its physical cores i·lnc to i·lnc + lnc - 1.
    if np.array_equal(np.repeat(device_of, lnc), owner):
        whole: Column = np.add.reduce(busy.reshape(-1, lnc), axis=1) / lnc
        return whole
    # By device, so that a missing one does not shift the others.
    result = np.full(len(device_of), np.nan)
    for device in set(device_of.tolist()):
        logical, physical = device_of == device, busy[owner == device]
        if len(physical) == logical.sum() * lnc:
            result[logical] = physical.reshape(-1, lnc).mean(axis=1)
    return result


@formula("device_tensor_engine_busy_ratio", _ENGINE_BUSY)
def _engine_busy_of_devices(inventory: Inventory, busy: Column) -> Column | None:
    owner = inventory.physical_device
    if not inventory.of(Entity.DEVICE) or len(owner) != len(busy):
        return None
    cores = inventory.sum_by_device(np.ones(len(owner)), owner)
    return ratio(inventory.sum_by_device(busy, owner), cores)


_HBM = "neuroncore_hbm_bytes_per_second"
optional_input_formula(hbm.READ, hbm.EXECUTIONS, hbm.PERIOD)(hbm.read_rate)
optional_input_formula(hbm.WRITE, hbm.EXECUTIONS, hbm.PERIOD)(hbm.write_rate)
optional_input_formula(_HBM, hbm.READ, hbm.WRITE, hbm.UTILIZATION, hbm.MEMORY)(hbm.of_cores)
formula("neuroncore_hbm_bandwidth_ratio", _HBM)(hbm.share_of_cores)
_FLOOR = "neuroncore_hbm_floor_bytes_per_second"
optional_input_formula(_FLOOR, hbm.EXECUTIONS, hbm.UTILIZATION, *hbm.WEIGHTS)(hbm.floor_of_cores)
formula("device_hbm_peak_bytes_per_second", "device_memory_total_bytes")(hbm.peak_of_devices)
formula("device_hbm_bytes_per_second", _HBM)(hbm.of_devices)
_ratio_formula(
    "device_hbm_bandwidth_ratio", "device_hbm_bytes_per_second", "device_hbm_peak_bytes_per_second"
)
formula("device_hbm_bandwidth_floor_ratio", _FLOOR, "device_hbm_peak_bytes_per_second")(
    hbm.floor_of_devices
)
formula("node_hbm_bandwidth_floor_ratio", "device_hbm_bandwidth_floor_ratio")(
    lambda _, shares: np.array([float(shares.mean())]) if len(shares) else None
)
formula("node_hbm_bytes_per_second", _HBM)(hbm.whole_sum)

LINE_RATE = "efa_stated_link_bytes_per_second"
"""The line rate, which limits how fast an EFA device's byte counters can move."""


@optional_input_formula("efa_link_bytes_per_second", LINE_RATE, "efa_tx_bytes_total")
def _link(known: Columns, inventory: Inventory) -> Column | None:
    """As the driver reports it, else of the instance type: old drivers always report 100 Gb/s."""
    sent = known.get("efa_tx_bytes_total")
    rates = known.get(LINE_RATE, np.full(len(inventory.of(Entity.EFA)), np.nan))
    row = find_instance_type(inventory.instance_type)
    if sent is None:
        return rates
    if row is not None and row.efa_gbps:
        rates = np.where(np.isnan(rates), row.efa_gbps * 1e9 / 8, rates)
    # A device that cannot be read does not count as capacity.
    return np.where(np.isnan(sent), np.nan, rates)


@formula("efa_tx_sibling_ratio", "efa_tx_bytes_per_second")
def _peer_ratio(inventory: Inventory, sent: Column) -> Column | None:
    # Python's own median: NumPy's costs fifty times as much on a few devices.
    known = [rate for rate in sent.tolist() if rate == rate]
    median = statistics.median(known) if len(known) > 1 else 0.0
    return sent / median if median >= MIN_PEER_TRAFFIC else None


@formula("node_efa_cards_expected", "node_efa_cards")
def _devices_expected(inventory: Inventory, _: Column) -> Column | None:
    row = find_instance_type(inventory.instance_type)
    return None if row is None or row.efa_devices is None else np.array([float(row.efa_devices)])


@formula("node_efa_tx_imbalance_ratio", "efa_tx_sibling_ratio")
def _imbalance(inventory: Inventory, ratios: Column) -> Column:
    return np.array([max(0.0, 1.0 - float(np.nanmin(ratios)))])


@optional_input_formula(
    "device_memory_used_bytes", "neuroncore_memory_used_bytes", "physical_core_memory_used_bytes"
)
def _device_memory_used(known: Columns, inventory: Inventory) -> Column | None:
    owners = (inventory.core_device, inventory.physical_device)
    names = ("neuroncore_memory_used_bytes", "physical_core_memory_used_bytes")
    for name, owner in zip(names, owners, strict=True):
        if name in known and len(known[name]) == len(owner):
            return inventory.sum_by_device(known[name], owner)
    return None


formula("node_device_memory_used_bytes", "device_memory_used_bytes")(hbm.whole_sum)
_ratio_formula("device_memory_used_ratio", "device_memory_used_bytes", "device_memory_total_bytes")


@formula("efa_retransmit_ratio", "efa_retrans_pkts_per_second", "efa_tx_pkts_per_second")
def _retransmit_ratio(inventory: Inventory, retransmitted: Column, sent: Column) -> Column:
    return np.minimum(ratio(retransmitted, np.where(sent >= MIN_TRAFFIC, sent, np.nan)), 1.0)


@formula("job_step_pace_seconds", "job_logged_steps_per_second")
def _step_interval(inventory: Inventory, steps_per_second: Column) -> Column:
    return 1.0 / _positive(steps_per_second)


_ratio_formula("job_comm_share_ratio", "job_comm_seconds", "job_step_seconds")
_ratio_formula("job_exposed_comm_share_ratio", "job_exposed_comm_seconds", "job_step_seconds")
_ratio_formula("job_comm_compute_ratio", "job_comm_seconds", "job_compute_seconds")
_ratio_formula("job_reduction_share_ratio", "job_reduction_seconds", "job_step_seconds")
for _kind in COLLECTIVES:
    _ratio_formula(f"job_{_kind}_share_ratio", f"job_{_kind}_seconds", "job_step_seconds")
    for _bandwidth, _size in (("algbw", "bytes"), ("busbw", "bus_bytes")):
        _ratio_formula(
            f"job_{_kind}_{_bandwidth}_bytes_per_second",
            f"job_{_kind}_{_size}",
            f"job_{_kind}_seconds",
        )


@formula("node_neuroncores_busy", "neuroncore_utilization_ratio")
def _cores_busy(inventory: Inventory, utilization: Column) -> Column | None:
    return np.array([float((utilization > 0).sum())]) if any_known(utilization) else None


@optional_input_formula("node_ecc_uncorrected_events", *UNCORRECTED_ECC[1])
def _ecc_uncorrected(known: Columns, inventory: Inventory) -> Column:
    # A device that is missing makes the sum unknown: a smaller one would look like a reset.
    return np.array([sum(float(count.sum()) for count in known.values())])


_ratio_formula(
    "node_efa_tx_share_ratio", "node_efa_tx_bytes_per_second", "node_efa_link_bytes_per_second",
    ROLLUP_FORMULAS,
)  # fmt: skip
_ratio_formula(
    "node_hbm_bandwidth_ratio", "node_hbm_bytes_per_second", "node_hbm_peak_bytes_per_second",
    ROLLUP_FORMULAS,
)  # fmt: skip

ROLLUPS = tuple(
    (quantity.name, quantity.rollup_of, quantity.combine)
    for quantity in CATALOG.values()
    if quantity.rollup_of
)
RATES = {quantity.rate_of: quantity.name for quantity in CATALOG.values() if quantity.rate_of}
"""Counter → its rate."""
LINE_LIMITED = frozenset(
    name for name in RATES if CATALOG[name].entity is Entity.EFA and name.endswith("_bytes_total")
)

_INPUTS |= {
    "device_memory_total_bytes": ("physical_core_memory_used_bytes",),
    "job_step_seconds": ("job_logged_step_seconds",),
    FLOOR: ("job_comm_share_ratio", *WIRE),
    CEILING: ("job_comm_share_ratio", *BUSY_AND_WORKS),
} | {RATES[name]: (LINE_RATE,) for name in LINE_LIMITED}
_COUNTERS_ONLY = (TENSOR_ENGINE,)
"""Sources that report counters and no facts."""


@dataclass(frozen=True, slots=True)
class ComputePlan:
    """The quantities that are computed, and their inputs."""

    wanted: frozenset[str] | None
    """The quantities that are read; None for all."""
    needed: frozenset[str]
    """These, and everything that they are computed from."""
    formulas: Mapping[str, Formula]
    rollups: tuple[tuple[str, str, Combine], ...]
    rollup_formulas: Mapping[str, Formula]
    skippable: frozenset[str]
    """Sources that are not needed."""

    def wants(self, names: Iterable[str]) -> bool:
        """Whether any of these is wanted."""
        return self.wanted is None or not self.wanted.isdisjoint(names)

    def prune(self, columns: dict[str, Column]) -> dict[str, Column]:
        """The needed columns of a payload."""
        if self.wanted is None:
            return columns
        needed = self.needed
        return {name: values for name, values in columns.items() if name in needed}

    def pick(self, columns: dict[str, Column]) -> dict[str, Column]:
        """The wanted columns."""
        wanted = self.wanted
        if wanted is None:
            return columns
        return {name: values for name, values in columns.items() if name in wanted}


def compute_plan(wanted: Iterable[str] | None = None) -> ComputePlan:
    """How to compute these quantities, or all."""
    needed: set[str] = set()
    pending = list(CATALOG if wanted is None else wanted)
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += [*inputs(name), *_INPUTS.get(name, ())]
    return ComputePlan(
        wanted=None if wanted is None else frozenset(wanted),
        needed=frozenset(needed),
        formulas={name: formula for name, formula in FORMULAS.items() if name in needed},
        rollups=tuple(row for row in ROLLUPS if row[0] in needed),
        rollup_formulas={
            name: formula for name, formula in ROLLUP_FORMULAS.items() if name in needed
        },
        skippable=frozenset(_COUNTERS_ONLY) - {CATALOG[name].source for name in needed},
    )


FULL_PLAN = compute_plan()
"""Computes all quantities."""

# The ufuncs' own reductions: np.max and np.mean cost twice as much on short columns.
_REDUCE: dict[Combine, Callable[[Column], float]] = {
    Combine.MAX: np.maximum.reduce,
    Combine.MIN: np.minimum.reduce,
    Combine.MEAN: lambda values: np.add.reduce(values) / len(values),
    Combine.SUM: np.add.reduce,
}


def rollup(values: Column, combine: Combine) -> float:
    """One value from many; absent ones are ignored, and without any the result is absent."""
    reduce = _REDUCE[combine]
    value = float(reduce(values)) if len(values) else float("nan")
    if value == value:
        return value
    known = values[~np.isnan(values)]
    return float(reduce(known)) if len(known) else value


def combine_rows(rows: Column, combine: Combine) -> Column:
    """`[part, n]` to `[n]`; absent values are ignored."""
    if combine is Combine.MAX:
        merged = np.fmax.reduce(rows, axis=0)
    elif combine is Combine.MIN:
        merged = np.fmin.reduce(rows, axis=0)
    elif combine in (Combine.SUM, Combine.MEAN):
        known = ~np.isnan(rows)
        count = np.add.reduce(known, axis=0)
        merged = np.add.reduce(np.where(known, rows, 0.0), axis=0)
        if combine is Combine.MEAN:
            merged /= np.maximum(count, 1)
        merged[count == 0] = np.nan
    else:
        merged = rows[0].copy()
        for row in rows[1:]:
            np.copyto(merged, row, where=~np.isnan(row))
    return np.asarray(merged, dtype=np.float64)


def _step_time_of_log(columns: MutableMapping[str, Column]) -> None:
    """The step time from the log, where no rank reports it."""
    logged = columns.get("job_logged_step_seconds")
    if logged is not None:
        step = columns.get("job_step_seconds", np.full(len(logged), np.nan))
        columns["job_step_seconds"] = np.where(np.isnan(step), logged, step)


def _hbm_size(columns: MutableMapping[str, Column], inventory: Inventory) -> None:
    """The size of the chip's HBM, where neuron-monitor does not report it."""
    chip = chip_of(inventory.instance_type, inventory.facts.get("neuron_device_type", ""))
    if chip is not None and "physical_core_memory_used_bytes" in columns:
        sizes = np.full(len(inventory.of(Entity.DEVICE)), float(chip.hbm_bytes))
        columns.setdefault("device_memory_total_bytes", sizes)


def _positive(values: Column) -> Column:
    return np.where(values > 0, values, np.nan)


def derive(
    columns: MutableMapping[str, Column], inventory: Inventory, plan: ComputePlan = FULL_PLAN
) -> None:
    """Adds every column of the plan whose inputs are present."""
    _step_time_of_log(columns)
    _hbm_size(columns, inventory)
    _apply(plan.formulas, columns, inventory)
    for name, part, combine in plan.rollups:
        values = columns.get(part)
        if values is not None and len(values) and not _interrupted(part, values, columns):
            value = rollup(values, combine)
            if value == value:
                columns[name] = np.array([value])
    _apply(plan.rollup_formulas, columns, inventory)


def _interrupted(name: str, values: Column, columns: Columns) -> bool:
    """Whether a sum of these rates would dip for one tick because a counter was reset."""
    counter = columns.get(CATALOG[name].rate_of)
    if counter is None or len(counter) != len(values):
        return False
    return bool((np.isnan(values) & np.isfinite(counter)).any())


def _apply(
    formulas: Mapping[str, Formula],
    columns: MutableMapping[str, Column],
    inventory: Inventory,
) -> None:
    for name, formula in formulas.items():
        values = formula(columns, inventory)
        if values is not None and any_known(values):
            columns[name] = values
