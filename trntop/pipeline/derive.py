"""Computed columns: rates, shares and roll-ups, by the formulas the catalog states."""

import statistics
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass

import numpy as np

from trntop.catalog import (
    CATALOG,
    CORE_FAILURES,
    TENSOR_ENGINE,
    UNCORRECTED_ECC,
    Combine,
    Entity,
    inputs,
)
from trntop.core.instances import INSTANCE_TYPES, chip_of
from trntop.core.model import Column, Inventory
from trntop.pipeline import hbm
from trntop.pipeline.smooth import BUSY_AND_WORKS, CEILING, FLOOR, WIRE
from trntop.sources.columns import any_known

Columns = Mapping[str, Column]
Formula = Callable[[Columns, Inventory], Column | None]

MIN_TRAFFIC = 10.0
"""Packets per second below which a retransmit ratio says nothing."""
MIN_SIBLINGS = 1e6
"""Bytes per second that the median card must send before cards are compared."""


def rate(before: Column, after: Column, seconds: float, limit: float | Column = np.inf) -> Column:
    """Change of cumulative counters per second, in their shape.

    A counter that went back was reset and one that jumps beyond `limit` per second is damaged:
    absent for this interval, never negative, never a spike.
    """
    if seconds <= 0:
        return np.full(after.shape, np.nan)
    change = (after - before) / seconds
    change[~((change >= 0) & (change <= limit))] = np.nan
    return change


def ratio(part: Column, whole: Column) -> Column:
    """`part ÷ whole`, absent where the whole is 0 or unknown."""
    result: Column = part / _positive(whole)
    return result


def _device_memory_used(columns: Columns, inventory: Inventory) -> Column | None:
    for name, owner in (
        ("neuroncore_memory_used_bytes", inventory.core_device),
        ("physical_core_memory_used_bytes", inventory.physical_device),
    ):
        used = columns.get(name)
        if used is not None and len(used) == len(owner):
            return inventory.sum_by_device(used, owner)
    return None


def _cores_busy(columns: Columns, inventory: Inventory) -> Column | None:
    utilization = columns.get("neuroncore_utilization_ratio")
    if utilization is None or not len(utilization) or np.isnan(utilization).all():
        return None
    return np.array([float((utilization > 0).sum())])


def _retransmit_ratio(columns: Columns, inventory: Inventory) -> Column | None:
    resent = columns.get("efa_retrans_pkts_per_second")
    sent = columns.get("efa_tx_pkts_per_second")
    if resent is None or sent is None:
        return None
    return np.minimum(ratio(resent, np.where(sent >= MIN_TRAFFIC, sent, np.nan)), 1.0)


def _ecc_uncorrected(columns: Columns, inventory: Inventory) -> Column | None:
    # A device that is missing makes the sum unknown: a smaller one would look like a reset.
    counts = [columns[name] for name in UNCORRECTED_ECC[1] if name in columns]
    return np.array([sum(float(count.sum()) for count in counts)]) if counts else None


def _core_failures(columns: Columns, inventory: Inventory) -> Column | None:
    known = [columns[name] for status in CORE_FAILURES
             if (name := f"physical_core_{status}_total") in columns]  # fmt: skip
    return combine_rows(np.array(known), Combine.SUM) if known else None


_ENGINE = tuple(
    f"physical_core_tensor_engine_{state}_cycles_per_second"
    for state in ("matmul", "weight_load", "idle")
)


def _engine_busy(columns: Columns, inventory: Inventory) -> Column | None:
    if any(name not in columns for name in _ENGINE):
        return None
    matmul, weights, idle = (columns[name] for name in _ENGINE)
    return ratio(matmul + weights, matmul + weights + idle)


_ENGINE_BUSY = "physical_core_tensor_engine_busy_ratio"


def _engine_busy_of_cores(columns: Columns, inventory: Inventory) -> Column | None:
    busy = columns.get(_ENGINE_BUSY)
    device_of, owner, lnc = inventory.core_device, inventory.physical_device, inventory.lnc
    if busy is None or len(busy) != len(owner):
        return None
    # Logical core i of a device is its physical cores i·lnc to i·lnc + lnc - 1.
    if np.array_equal(np.repeat(device_of, lnc), owner):
        whole: Column = np.add.reduce(busy.reshape(-1, lnc), axis=1) / lnc
        return whole
    # By device: one that is missing moves no other.
    result = np.full(len(device_of), np.nan)
    for device in np.unique(device_of):
        logical, physical = device_of == device, busy[owner == device]
        if len(physical) == logical.sum() * lnc:
            result[logical] = physical.reshape(-1, lnc).mean(axis=1)
    return result


def _engine_busy_of_devices(columns: Columns, inventory: Inventory) -> Column | None:
    busy, owner = columns.get(_ENGINE_BUSY), inventory.physical_device
    if busy is None or not inventory.of(Entity.DEVICE) or len(owner) != len(busy):
        return None
    cores = inventory.sum_by_device(np.ones(len(owner)), owner)
    return ratio(inventory.sum_by_device(busy, owner), cores)


def _link(columns: Columns, inventory: Inventory) -> Column | None:
    """The driver's word, else the instance type's: drivers before 2.13.0 always say 100 Gb/s."""
    rates = columns.get(
        "efa_stated_link_bytes_per_second", np.full(len(inventory.of(Entity.EFA)), np.nan)
    )
    sent = columns.get("efa_tx_bytes_total")
    if sent is None:
        return rates
    row = INSTANCE_TYPES.get(inventory.instance_type)
    if row is not None and row.efa_gbps:
        rates = np.where(np.isnan(rates), row.efa_gbps * 1e9 / 8, rates)
    # A card that cannot be read sends nothing that is known: neither may it count as capacity.
    return np.where(np.isnan(sent), np.nan, rates)


def _sibling_ratio(columns: Columns, inventory: Inventory) -> Column | None:
    sent = columns.get("efa_tx_bytes_per_second")
    if sent is None:
        return None
    # Python's own median: NumPy's costs fifty times as much on a handful of cards.
    known = [rate for rate in sent.tolist() if rate == rate]
    median = statistics.median(known) if len(known) > 1 else 0.0
    return sent / median if median >= MIN_SIBLINGS else None


def _cards_expected(columns: Columns, inventory: Inventory) -> Column | None:
    row = INSTANCE_TYPES.get(inventory.instance_type)
    # Unless cards were looked for, what there should be is no matter.
    if row is None or row.efa_cards is None or "node_efa_cards" not in columns:
        return None
    return np.array([float(row.efa_cards)])


def _imbalance(columns: Columns, inventory: Inventory) -> Column | None:
    ratios = columns.get("efa_tx_sibling_ratio")
    return None if ratios is None else np.array([max(0.0, 1.0 - float(np.nanmin(ratios)))])


def _step_pace(columns: Columns, inventory: Inventory) -> Column | None:
    pace = columns.get("job_logged_steps_per_second")
    return None if pace is None else 1.0 / _positive(pace)


def _over(part: str, whole: str) -> Formula:
    def derive(columns: Columns, inventory: Inventory) -> Column | None:
        if part in columns and whole in columns:
            return ratio(columns[part], columns[whole])
        return None

    return derive


FORMULAS: dict[str, Formula] = {
    "physical_core_failures_total": _core_failures,
    "physical_core_tensor_engine_busy_ratio": _engine_busy,
    "neuroncore_tensor_engine_busy_ratio": _engine_busy_of_cores,
    "device_tensor_engine_busy_ratio": _engine_busy_of_devices,
    "runtime_hbm_read_bytes_per_second": hbm.read_rate,
    "runtime_hbm_write_bytes_per_second": hbm.write_rate,
    "neuroncore_hbm_bytes_per_second": hbm.of_cores,
    "neuroncore_hbm_bandwidth_ratio": hbm.share_of_cores,
    "device_hbm_peak_bytes_per_second": hbm.peak_of_devices,
    "device_hbm_bytes_per_second": hbm.of_devices,
    "device_hbm_bandwidth_ratio": _over(
        "device_hbm_bytes_per_second", "device_hbm_peak_bytes_per_second"
    ),
    "node_hbm_bytes_per_second": hbm.of_node,
    "efa_link_bytes_per_second": _link,
    "efa_tx_sibling_ratio": _sibling_ratio,
    "node_efa_cards_expected": _cards_expected,
    "node_efa_tx_imbalance_ratio": _imbalance,
    "device_memory_used_bytes": _device_memory_used,
    "device_memory_used_ratio": _over("device_memory_used_bytes", "device_memory_total_bytes"),
    "efa_retransmit_ratio": _retransmit_ratio,
    "job_step_pace_seconds": _step_pace,
    "job_comm_share_ratio": _over("job_comm_seconds", "job_step_seconds"),
    "job_exposed_comm_share_ratio": _over("job_exposed_comm_seconds", "job_step_seconds"),
    "job_comm_compute_ratio": _over("job_comm_seconds", "job_compute_seconds"),
    "node_neuroncores_busy": _cores_busy,
    "node_ecc_uncorrected_events": _ecc_uncorrected,
}
"""The catalog's formulas over parts, in an order in which inputs come first."""

LATE_FORMULAS: dict[str, Formula] = {
    "node_efa_tx_share_ratio": _over(
        "node_efa_tx_bytes_per_second", "node_efa_link_bytes_per_second"
    ),
    "node_hbm_bandwidth_ratio": _over(
        "node_hbm_bytes_per_second", "node_hbm_peak_bytes_per_second"
    ),
}
"""Formulas over roll-ups."""

ROLLUPS = tuple(
    (quantity.name, quantity.rollup_of, quantity.combine)
    for quantity in CATALOG.values()
    if quantity.rollup_of
)
RATES = {quantity.rate_of: quantity.name for quantity in CATALOG.values() if quantity.rate_of}
"""Counter → its rate."""
LINE_RATE = "efa_stated_link_bytes_per_second"
"""What tells how fast a card's byte counters can move."""
LINE_LIMITED = frozenset(
    name for name in RATES if CATALOG[name].entity is Entity.EFA and name.endswith("_bytes_total")
)

_UNNAMED: dict[str, tuple[str, ...]] = {
    "physical_core_failures_total": tuple(f"physical_core_{one}_total" for one in CORE_FAILURES),
    "physical_core_tensor_engine_busy_ratio": _ENGINE,
    "runtime_hbm_read_bytes_per_second": (hbm.EXECUTIONS,),
    "runtime_hbm_write_bytes_per_second": (hbm.EXECUTIONS,),
    "neuroncore_hbm_bytes_per_second": (
        "runtime_hbm_read_bytes_per_second", "runtime_hbm_write_bytes_per_second"
    ),
    "neuroncore_hbm_bandwidth_ratio": ("neuroncore_hbm_bytes_per_second",),
    "device_hbm_peak_bytes_per_second": ("device_memory_total_bytes",),
    "device_hbm_bytes_per_second": ("neuroncore_hbm_bytes_per_second",),
    "node_hbm_bytes_per_second": ("neuroncore_hbm_bytes_per_second",),
    "device_memory_used_bytes": ("physical_core_memory_used_bytes",),
    "device_memory_total_bytes": ("physical_core_memory_used_bytes",),
    "efa_link_bytes_per_second": ("efa_tx_bytes_total",),
    "node_efa_cards_expected": ("node_efa_cards",),
    "job_step_seconds": ("job_logged_step_seconds",),
    FLOOR: ("job_comm_share_ratio", *WIRE),
    CEILING: ("job_comm_share_ratio", *BUSY_AND_WORKS),
} | {RATES[name]: (LINE_RATE,) for name in LINE_LIMITED}  # fmt: skip
"""Inputs that a quantity's row in the catalog does not name."""
_COUNTERS_ONLY = (TENSOR_ENGINE,)
"""Sources that tell no facts."""


@dataclass(frozen=True, slots=True)
class ComputePlan:
    """What is computed, and of what."""

    wanted: frozenset[str] | None
    """The quantities that somebody reads; None for all there are."""
    needed: frozenset[str]
    """These, and all that they are computed from."""
    formulas: Mapping[str, Formula]
    rollups: tuple[tuple[str, str, Combine], ...]
    late: Mapping[str, Formula]
    skippable: frozenset[str]
    """Sources that tell nothing else than what is not needed."""

    def tells(self, names: Iterable[str]) -> bool:
        """Whether any of these is read by somebody."""
        return self.wanted is None or not self.wanted.isdisjoint(names)

    def spare(self, columns: dict[str, Column]) -> dict[str, Column]:
        """What is needed of a payload's columns."""
        if self.wanted is None:
            return columns
        needed = self.needed
        return {name: values for name, values in columns.items() if name in needed}

    def pick(self, columns: dict[str, Column]) -> dict[str, Column]:
        """What is wanted of all columns."""
        wanted = self.wanted
        if wanted is None:
            return columns
        return {name: values for name, values in columns.items() if name in wanted}


def compute_plan(wanted: Iterable[str] | None = None) -> ComputePlan:
    """How to compute these quantities, or all."""
    needed: set[str] = set()
    ahead = list(CATALOG if wanted is None else wanted)
    while ahead:
        name = ahead.pop()
        if name not in needed:
            needed.add(name)
            ahead += [*inputs(name), *_UNNAMED.get(name, ())]
    return ComputePlan(
        wanted=None if wanted is None else frozenset(wanted),
        needed=frozenset(needed),
        formulas={name: formula for name, formula in FORMULAS.items() if name in needed},
        rollups=tuple(row for row in ROLLUPS if row[0] in needed),
        late={name: formula for name, formula in LATE_FORMULAS.items() if name in needed},
        skippable=frozenset(_COUNTERS_ONLY) - {CATALOG[name].source for name in needed},
    )


WHOLE = compute_plan()
"""Computes all that can be."""

# The ufuncs' own reductions: np.max and np.mean cost twice as much on short columns.
_REDUCE: dict[Combine, Callable[[Column], float]] = {
    Combine.MAX: np.maximum.reduce,
    Combine.MIN: np.minimum.reduce,
    Combine.MEAN: lambda values: np.add.reduce(values) / len(values),
    Combine.SUM: np.add.reduce,
}


def rollup(values: Column, combine: Combine) -> float:
    """One value for many; absent ones are left out, none at all is absent."""
    reduce = _REDUCE[combine]
    value = float(reduce(values)) if len(values) else float("nan")
    if value == value:
        return value
    known = values[~np.isnan(values)]
    return float(reduce(known)) if len(known) else value


def combine_rows(rows: Column, combine: Combine) -> Column:
    """`[part, n]` to `[n]`, absent values left out."""
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
    """Where no rank reports its step time, what the log states."""
    stated = columns.get("job_logged_step_seconds")
    if stated is not None:
        step = columns.get("job_step_seconds", np.full(len(stated), np.nan))
        columns["job_step_seconds"] = np.where(np.isnan(step), stated, step)


def _hbm_size(columns: MutableMapping[str, Column], inventory: Inventory) -> None:
    """Where neuron-monitor is not heard, the size of the chip's HBM."""
    chip = chip_of(inventory.instance_type, inventory.facts.get("neuron_device_type", ""))
    if chip is not None and "physical_core_memory_used_bytes" in columns:
        sizes = np.full(len(inventory.of(Entity.DEVICE)), float(chip.hbm_bytes))
        columns.setdefault("device_memory_total_bytes", sizes)


def _positive(values: Column) -> Column:
    return np.where(values > 0, values, np.nan)


def derive(
    columns: MutableMapping[str, Column], inventory: Inventory, what: ComputePlan = WHOLE
) -> None:
    """Adds every computed column that is asked for and whose inputs are there."""
    _step_time_of_log(columns)
    _hbm_size(columns, inventory)
    _apply(what.formulas, columns, inventory)
    for name, of, combine in what.rollups:
        values = columns.get(of)
        if values is not None and len(values) and not _interrupted(of, values, columns):
            value = rollup(values, combine)
            if value == value:
                columns[name] = np.array([value])
    _apply(what.late, columns, inventory)


def _interrupted(name: str, values: Column, columns: Columns) -> bool:
    """Whether a sum of these rates would dip for one tick only: a counter was reset."""
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
