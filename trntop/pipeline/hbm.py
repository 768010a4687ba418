"""HBM bandwidth: bytes per execution, from a profile, × executions per second. No counter has it.

A profile is of one execution on one core. One whose executions would need more time than the cores
have, or more than the peak bandwidth, is of another program: absent. neuron-monitor counts the
executions of a process over all its cores and all its programs, so the figure is exact for a
process that has one program loaded. Of several, the one that neuron-monitor sees running is taken
to have run all the period, and the figure is `estimated`; where it sees none or more than one, the
executions cannot be attributed: absent.

The peak is that of the chip, decimal; a core's part of it is the peak over the chip's logical
cores. With (3.995 + 2.702) GiB in 54.82 ms on one of Trainium1's two cores this gives 31.99 %,
which is the profiler's own `mbu_estimated_percent`.
"""

from collections.abc import Mapping

import numpy as np

from trntop.catalog import HBM_QUANTITIES, Entity
from trntop.core import units
from trntop.core.instances import chip_of
from trntop.core.model import Column, Inventory, Key, NeffProfile, Runtime
from trntop.pipeline.profiles import find

Columns = Mapping[str, Column]

EXECUTIONS = "runtime_executions_completed_per_second"
PERIOD = "runtime_execution_period_seconds"
READ, WRITE = HBM_QUANTITIES[:2]
UTILIZATION = "neuroncore_utilization_ratio"
MEMORY = "neuroncore_memory_used_bytes"
WEIGHTS = ("neuroncore_memory_constants_bytes", "neuroncore_memory_tensors_bytes")
EXCESS = 1.05
"""Times what the cores or the HBM can do at most: beyond, the profile is of another program."""


def why_unknown(columns: Columns, inventory: Inventory, reasons: Mapping[str, str]) -> str:
    """Why there is no HBM bandwidth, and the command that helps; empty when it is known.

    `reasons` are those of the sources for what is absent.
    """
    if "node_hbm_bytes_per_second" in columns:
        return ""
    if "node_runtimes" not in columns:
        return "neuron-monitor reports no executions"
    if EXECUTIONS not in columns and inventory.runtimes:
        return reasons.get(EXECUTIONS, "neuron-monitor reports no executions")
    executions = _by_process(inventory, columns.get(EXECUTIONS))
    periods = _by_process(inventory, columns.get(PERIOD))
    for runtime in inventory.runtimes:
        neff = runtime.program
        if neff is not None and (profile := find(inventory.profiles, neff)) is None:
            return f"no profile of {neff.name}: trntop profile add FILE"
        if neff is not None and profile is not None:
            rate, period = (of.get(runtime.pid, np.nan) for of in (executions, periods))
            why = _misfit(inventory, runtime, profile, rate, period)
            if why:
                return f"profile of {neff.name} does not fit: {why}"
        if neff is None and runtime.neffs:
            return (
                f"process {runtime.pid} runs {len(runtime.candidates)} programs, "
                "whose executions are counted together"
            )
        if neff is None and executions.get(runtime.pid, 0.0) > 0:
            return f"process {runtime.pid} lists no loaded program"
    return "no executions counted" if inventory.runtimes else "no Neuron process"


def _by_process(inventory: Inventory, values: Column | None) -> dict[Key, float]:
    if values is None:
        return {}
    return dict(zip(inventory.of(Entity.RUNTIME), values.tolist(), strict=True))


def _misfit(
    inventory: Inventory, runtime: Runtime, profile: NeffProfile, rate: float, period: float
) -> str:
    """Why so many executions of this program per second are impossible; empty if they are not.

    Completed executions are counted: one on each core may have run before the period.
    """
    held = len(runtime.cores)
    if not held:
        return ""
    rate -= held / period if period > 0 else 0.0
    if profile.seconds is not None and rate * profile.seconds > EXCESS * held:
        return (
            f"{rate:.1f} executions/s of {units.seconds(profile.seconds)} need "
            f"{rate * profile.seconds:.1f} cores, not {held}"
        )
    moved = rate * (profile.hbm_read_bytes + profile.hbm_write_bytes) / held
    peak, owner = _peak(inventory), inventory.core_device
    if peak is not None and len(owner):
        most = peak / np.bincount(owner).max()
        if moved > EXCESS * most:
            share = units.percent(moved / most)
            return f"{rate:.1f} executions/s move {share} of the peak HBM bandwidth"
    return ""


def read_rate(columns: Columns, inventory: Inventory) -> Column | None:
    """HBM bytes read per second, `[runtime]`."""
    return _rate(columns, inventory, "hbm_read_bytes")


def write_rate(columns: Columns, inventory: Inventory) -> Column | None:
    """HBM bytes written per second, `[runtime]`."""
    return _rate(columns, inventory, "hbm_write_bytes")


def _rate(columns: Columns, inventory: Inventory, what: str) -> Column | None:
    if not inventory.profiles or EXECUTIONS not in columns:
        return None
    executions = columns[EXECUTIONS]
    periods = columns.get(PERIOD, np.full(len(executions), np.nan))
    runtimes = {runtime.pid: runtime for runtime in inventory.runtimes}
    moved = np.full(len(executions), np.nan)
    for index, pid in enumerate(inventory.of(Entity.RUNTIME)):
        runtime = runtimes.get(int(pid))
        neff = None if runtime is None else runtime.program
        if runtime is None or neff is None or (rate := executions[index]) != rate:
            continue
        profile = find(inventory.profiles, neff)
        if profile is None:
            continue
        if not _misfit(inventory, runtime, profile, float(rate), float(periods[index])):
            moved[index] = getattr(profile, what) * rate
    return moved


def of_cores(columns: Columns, inventory: Inventory) -> Column | None:
    """HBM bytes per second, `[core]`: a process's, spread evenly over its cores that execute.

    A core that no process holds moves nothing; one whose process is unknown is absent.
    """
    cores = inventory.of(Entity.CORE)
    if not cores or READ not in columns or WRITE not in columns:
        return None
    total = _by_process(inventory, columns[READ] + columns[WRITE])
    busy = columns.get(UTILIZATION, np.zeros(len(cores))) > 0
    # A core whose memory is unknown may be held by a process that could not be read.
    result = np.where(np.isnan(columns.get(MEMORY, np.zeros(len(cores)))), np.nan, 0.0)
    for runtime in inventory.runtimes:
        mine = [core for core in runtime.cores if core < len(cores)]
        if not mine and total.get(runtime.pid, np.nan) != 0:
            return None  # it may be on any core: what the others move is no longer known
        # A core may merely hold memory. Where none is known to execute, all may.
        mine = [core for core in mine if busy[core]] or mine
        if mine:
            result[mine] += total.get(runtime.pid, np.nan) / len(mine)
    return result


def floor_of_cores(columns: Columns, inventory: Inventory) -> Column | None:
    """HBM bytes read per second at least, `[core]`.

    Each execution of a program reads the weights on its core once. Which weights belong to which of
    several programs is unknown: absent.
    """
    if EXECUTIONS not in columns or any(name not in columns for name in WEIGHTS):
        return None
    constants, tensors = (columns[name] for name in WEIGHTS)
    weights = constants + tensors
    busy = columns.get(UTILIZATION, np.zeros(len(weights))) > 0
    rates = _by_process(inventory, columns[EXECUTIONS])
    moved = np.full(len(weights), np.nan)
    for runtime in inventory.runtimes:
        mine = [core for core in runtime.cores if core < len(weights) and busy[core]]
        if mine and runtime.program is not None:
            moved[mine] = weights[mine] * rates.get(runtime.pid, np.nan) / len(mine)
    moved[~busy & np.isnan(moved)] = 0.0
    return moved


def floor_of_devices(inventory: Inventory, moved: Column, peak: Column) -> Column | None:
    """Share of the peak, `[device]`; absent where weights cannot all be read so often."""
    if len(inventory.core_device) != len(moved):
        return None
    shares = inventory.sum_by_device(moved, inventory.core_device) / peak
    return np.where(shares > 1.0, np.nan, shares)


def share_of_cores(inventory: Inventory, used: Column) -> Column | None:
    """Bandwidth over the core's part of the chip's peak, `[core]`."""
    peak, owner = _peak(inventory), inventory.core_device
    if peak is None or len(owner) != len(used):
        return None
    return used * np.bincount(owner)[owner] / peak  # lost devices stay listed, but have no cores


def _peak(inventory: Inventory) -> float | None:
    """Bytes per second of one device at most."""
    facts = inventory.facts
    chip = chip_of(inventory.instance_type, facts.get("neuron_device_type", ""))
    return chip.hbm_bytes_per_second if chip else None


def peak_of_devices(inventory: Inventory, total: Column) -> Column | None:
    peak = _peak(inventory)
    return None if peak is None else np.full(len(total), peak)


def of_devices(inventory: Inventory, used: Column) -> Column | None:
    """Sum over its cores, `[device]`; absent where that of a core is."""
    if len(inventory.core_device) != len(used):
        return None
    return inventory.sum_by_device(used, inventory.core_device)


def whole_sum(inventory: Inventory, used: Column) -> Column | None:
    """Sum over all parts of the node; absent where that of a part is."""
    return np.array([float(used.sum())]) if len(used) else None
