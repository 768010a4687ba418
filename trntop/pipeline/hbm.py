"""HBM bandwidth: bytes per execution, from a profile, × executions per second. No counter has it.

A profile is of one execution on one core. neuron-monitor counts the executions of a process over
all its cores and all its programs, so the figure is exact for a process that has one program
loaded. Of several, the one that neuron-monitor sees running is taken to have run all the period;
where it sees none or more than one, the executions cannot be attributed: absent.

The peak is that of the chip, decimal; a core's part of it is the peak over the chip's logical
cores. With (3.995 + 2.702) GiB in 54.82 ms on one of Trainium1's two cores this gives 31.99 %,
which is the profiler's own `mbu_estimated_percent`.
"""

from collections.abc import Mapping

import numpy as np

from trntop.catalog import Entity
from trntop.core.instances import chip_of
from trntop.core.model import Column, Inventory, Neff, NeffProfile, Runtime
from trntop.pipeline.profiles import find

Columns = Mapping[str, Column]

EXECUTIONS = "runtime_executions_completed_per_second"
QUANTITIES = (
    "runtime_hbm_read_bytes_per_second",
    "runtime_hbm_write_bytes_per_second",
    "neuroncore_hbm_bytes_per_second",
    "neuroncore_hbm_bandwidth_ratio",
    "device_hbm_bytes_per_second",
    "device_hbm_bandwidth_ratio",
    "node_hbm_bytes_per_second",
    "node_hbm_bandwidth_ratio",
)
"""What is absent while bytes per execution are."""


def program(runtime: Runtime) -> Neff | None:
    """The one program a process executes; None when it has none or several."""
    candidates = _candidates(runtime)
    return candidates[0] if len(candidates) == 1 else None


def _candidates(runtime: Runtime) -> tuple[Neff, ...]:
    """The programs that may have been executed: those seen running, else all that are loaded."""
    return tuple(neff for neff in runtime.neffs if neff.running) or runtime.neffs


def why_unknown(columns: Columns, inventory: Inventory) -> str:
    """Why there is no HBM bandwidth, and the command that helps; empty when it is known."""
    if "node_hbm_bytes_per_second" in columns:
        return ""
    if "node_runtimes" not in columns:
        return "neuron-monitor reports no executions"
    for runtime in inventory.runtimes:
        neff = program(runtime)
        if neff is not None and find(inventory.profiles, neff) is None:
            return f"no profile of {neff.name}: trntop profile add FILE"
        if neff is None and runtime.neffs:
            return (
                f"process {runtime.pid} runs {len(_candidates(runtime))} programs, "
                "whose executions are counted together"
            )
    return "no executions counted" if inventory.runtimes else "no Neuron process"


def read_rate(inventory: Inventory, executions: Column) -> Column | None:
    """HBM bytes read per second, `[runtime]`."""
    return _rate(inventory, executions, "hbm_read_bytes")


def write_rate(inventory: Inventory, executions: Column) -> Column | None:
    """HBM bytes written per second, `[runtime]`."""
    return _rate(inventory, executions, "hbm_write_bytes")


def _rate(inventory: Inventory, executions: Column, what: str) -> Column | None:
    if not inventory.profiles:
        return None
    runtimes = {runtime.pid: runtime for runtime in inventory.runtimes}
    each = np.full(len(executions), np.nan)
    for place, pid in enumerate(inventory.of(Entity.RUNTIME)):
        profile = _profile(inventory, runtimes.get(int(pid)))
        if profile is not None:
            each[place] = getattr(profile, what)
    return each * executions


def _profile(inventory: Inventory, runtime: Runtime | None) -> NeffProfile | None:
    neff = program(runtime) if runtime is not None else None
    return find(inventory.profiles, neff) if neff is not None else None


def of_cores(inventory: Inventory, read: Column, write: Column) -> Column | None:
    """HBM bytes per second, `[core]`: a process's, spread evenly over the cores it holds.

    A core that no process holds moves nothing; one whose process is unknown is absent.
    """
    cores = inventory.of(Entity.CORE)
    if not cores:
        return None
    total = dict(zip(inventory.of(Entity.RUNTIME), (read + write).tolist(), strict=True))
    result = np.zeros(len(cores))
    for runtime in inventory.runtimes:
        mine = [core for core in runtime.cores if core < len(cores)]
        if not mine and total.get(runtime.pid, np.nan) != 0:
            return None  # it may be on any core: what the others move is no longer known
        if mine:
            result[mine] += total.get(runtime.pid, np.nan) / len(mine)
    return result


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


def of_node(inventory: Inventory, used: Column) -> Column | None:
    """Sum over the cores; absent where that of a core is."""
    return np.array([float(used.sum())]) if len(used) else None
