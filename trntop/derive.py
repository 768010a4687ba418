"""Computed columns: rates, shares and roll-ups, by the formulas the catalog states."""

import warnings
from collections.abc import Callable, Mapping, MutableMapping

import numpy as np

from trntop.catalog import CATALOG, EXECUTION_ERRORS, FAILED_STATUSES, Combine, Entity
from trntop.model import Column, Inventory

Columns = Mapping[str, Column]

UNCORRECTED = ("device_mem_ecc_uncorrected_events", "device_sram_ecc_uncorrected_events")
MIN_TRAFFIC = 10.0
"""Packets per second below which a retransmit ratio says nothing."""


def rate(before: Column, after: Column, seconds: float, limit: float = np.inf) -> Column:
    """Change of a cumulative counter per second, `[n]`.

    A counter that went back was reset and one that jumps beyond `limit` per second is damaged:
    absent for this interval, never negative, never a spike.
    """
    if seconds <= 0:
        return np.full(len(after), np.nan)
    change = (after - before) / seconds
    change[~((change >= 0) & (change <= limit))] = np.nan
    return change


def ratio(part: Column, whole: Column) -> Column:
    """`part ÷ whole`, absent where the whole is 0 or unknown."""
    safe = np.where(whole > 0, whole, np.nan)
    result: Column = part / safe
    return result


def _device_memory_used(columns: Columns, inventory: Inventory) -> Column | None:
    used = columns.get("neuroncore_memory_used_bytes")
    devices = inventory.of(Entity.DEVICE)
    if used is None or not devices:
        return None
    place = inventory.core_device
    total = np.bincount(place, weights=used, minlength=len(devices))[: len(devices)]
    return total.astype(np.float64, copy=False)


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


_FAILURES = (
    *(f"node_executions_{status}_total" for status in FAILED_STATUSES),
    *(f"node_execution_errors_{error}_total" for error in EXECUTION_ERRORS),
)


def _executions_failed(columns: Columns, inventory: Inventory) -> Column | None:
    known = [columns[name].item() for name in _FAILURES if name in columns]
    return np.array([sum(known)]) if known else None


def _ecc_uncorrected(columns: Columns, inventory: Inventory) -> Column | None:
    # A device that is missing makes the sum unknown: a smaller one would look like a reset.
    counts = [columns[name] for name in UNCORRECTED if name in columns]
    return np.array([sum(float(count.sum()) for count in counts)]) if counts else None


def _over(part: str, whole: str) -> Callable[[Columns, Inventory], Column | None]:
    def derive(columns: Columns, inventory: Inventory) -> Column | None:
        if part in columns and whole in columns:
            return ratio(columns[part], columns[whole])
        return None

    return derive


FORMULAS: dict[str, Callable[[Columns, Inventory], Column | None]] = {
    "device_memory_used_bytes": _device_memory_used,
    "device_memory_used_ratio": _over("device_memory_used_bytes", "device_memory_total_bytes"),
    "efa_retransmit_ratio": _retransmit_ratio,
    "job_comm_share_ratio": _over("job_comm_seconds", "job_step_seconds"),
    "job_exposed_comm_share_ratio": _over("job_exposed_comm_seconds", "job_step_seconds"),
    "job_comm_compute_ratio": _over("job_comm_seconds", "job_compute_seconds"),
    "node_neuroncores_busy": _cores_busy,
    "node_executions_failed_total": _executions_failed,
    "node_ecc_uncorrected_events": _ecc_uncorrected,
}
"""The catalog's formulas over parts, in an order in which inputs come first."""

LATE_FORMULAS: dict[str, Callable[[Columns, Inventory], Column | None]] = {
    "node_efa_tx_share_ratio": _over(
        "node_efa_tx_bytes_per_second", "node_efa_link_bytes_per_second"
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

# The ufuncs' own reductions: np.max and np.mean cost twice as much on short columns.
_REDUCE: dict[Combine, Callable[[Column], float]] = {
    Combine.MAX: np.maximum.reduce,
    Combine.MIN: np.minimum.reduce,
    Combine.MEAN: lambda values: np.add.reduce(values) / len(values),
    Combine.SUM: np.add.reduce,
}


def rollup(values: Column, combine: Combine) -> float:
    """One value for many; absent ones are left out, none at all is absent."""
    known = values[~np.isnan(values)] if np.isnan(values).any() else values
    return float(_REDUCE[combine](known)) if len(known) else float("nan")


def combine_rows(rows: Column, combine: Combine) -> Column:
    """`[part, n]` to `[n]`, absent values left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all-absent columns stay absent
        if combine is Combine.MAX:
            merged = np.nanmax(rows, axis=0)
        elif combine is Combine.MIN:
            merged = np.nanmin(rows, axis=0)
        elif combine is Combine.SUM:
            merged = np.nansum(rows, axis=0)
            merged[np.isnan(rows).all(axis=0)] = np.nan
        elif combine is Combine.MEAN:
            merged = np.nanmean(rows, axis=0)
        else:
            merged = rows[-1]
    return np.asarray(merged, dtype=np.float64)


def derive(columns: MutableMapping[str, Column], inventory: Inventory) -> None:
    """Adds every computed column whose inputs are there."""
    _apply(FORMULAS, columns, inventory)
    for name, of, combine in ROLLUPS:
        values = columns.get(of)
        if values is not None and len(values):
            value = rollup(values, combine)
            if value == value:
                columns[name] = np.array([value])
    _apply(LATE_FORMULAS, columns, inventory)


def _apply(
    formulas: Mapping[str, Callable[[Columns, Inventory], Column | None]],
    columns: MutableMapping[str, Column],
    inventory: Inventory,
) -> None:
    for name, formula in formulas.items():
        values = formula(columns, inventory)
        if values is not None and not np.isnan(values).all():
            columns[name] = values
