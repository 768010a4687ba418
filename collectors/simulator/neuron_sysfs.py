"""The Neuron driver's sysfs tree: memory, statuses, errors, power and health.

Its cores are physical. Those of a logical core share its memory and flops in equal parts; each has
all of its executions.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from trntop.catalog import (
    CORE_STATUSES,
    ECC_EVENTS,
    MEMORY_CATEGORIES,
    SYSFS_ECC,
)
from trntop.core.instances import TRAINIUM2, TRAINIUM3

from . import report
from .activity import MICROBATCHES, Activity, Stall
from .fleet import ULTRASERVER_NODES, Fleet
from .memory import HOST_BYTES
from .simulated import Simulated, World
from .template import Template, inset, slot
from .training import FIRST_STEP

PERIOD = 10
"""Seconds between two readings of a node."""
DRIVER, OLDER_DRIVER = "2.30.2.0", "2.29.16.0"
GONE = "No such device"

POWER_COMPUTE, POWER_EXPOSED, POWER_IDLE = 66.0, 31.0, 12.0
"""Percent of the power limit, by activity."""
COMPUTE_BEFORE = 12
"""Seconds of compute per second of waiting."""
POWER_NOISE = 0.03
MINUTE = 60
MEMORY_NODES = (
    "model_code",
    "tensors",
    "constants",
    "model_shared_scratchpad",
    "nonshared_scratchpad",
    "runtime_memory",
    "driver_memory",
    "collectives",
    "notifications",
    "dma_rings",
    "uncategorized",
)

_NAMES = {
    "Inferentia2": ("Inferentia2", "Inf2", "NDv3"),
    "Trainium1": ("Trainium1", "Trn1", "NDv2"),
    "Trainium2": ("Trainium2", "Trn2", "NDv3"),
    "Trainium3": ("Trainium3", "Trn3", "NDv4"),
}
"""device_name, instance_type and arch_type by chip."""


class NeuronSysfs(Simulated):
    """All devices of all nodes."""

    period = PERIOD

    def __init__(self, world: World) -> None:
        fleet = world.fleet
        self._fleet = fleet
        self._machines = world.machines
        self._starts = list(map(int, world.starts))
        self._rng = np.random.default_rng([world.seed, 13])
        self._templates: dict[int | None, Template] = {}
        """By lost device."""
        before = FIRST_STEP * MICROBATCHES
        cores = fleet.devices * fleet.chip.cores
        self._counts = np.zeros((fleet.nodes, cores, 5))
        self._counts[:, :, [0, 2]] = before
        self._seconds = 0
        # The minute before the start was a steady one.
        steady = COMPUTE_BEFORE * [POWER_COMPUTE] + [POWER_EXPOSED]
        self._levels = [np.full((fleet.nodes, fleet.devices), level) for level in steady]
        self._power = self._minute()

    def observe(self, time: float) -> None:
        """Advances by one second."""
        machines, lnc = self._machines, self._fleet.lnc
        activity = machines.activity
        elapsed = activity.elapsed[:, None]
        ended = machines.executions
        logical = (ended - machines.failed, machines.failed, ended, machines.flops * elapsed / lnc)
        self._counts[:, :, :4] += np.repeat(np.stack(logical, axis=2), lnc, axis=1)
        used = machines.utilization.reshape(self._counts.shape[:2])
        self._counts[:, :, 4] += used / 100.0 * elapsed * 1e6
        self._seconds += 1
        self._levels.append(_power(activity))
        if self._seconds % MINUTE == 0:
            self._power = self._minute()

    def payload(self, node: int) -> bytes:
        """The payload of one node."""
        fleet, machines = self._fleet, self._machines
        loads = np.full((self._counts.shape[1], 1), 1 + machines.program[node])
        table = np.concatenate((self._memory(node), self._counts[node], loads), axis=1)
        cores = table.reshape(fleet.devices, -1).tolist()
        now = self._starts[node] + self._seconds
        minute = self._starts[node] + self._seconds // MINUTE * MINUTE
        lost = machines.lost(node)
        values: list[Any] = [OLDER_DRIVER if node == machines.older("neuron") else DRIVER]
        values += [node % ULTRASERVER_NODES] if fleet.in_ultraservers else []
        ecc = machines.ecc[node]
        bad = ecc[:, ECC_EVENTS.index("mem_ecc_uncorrected")].tolist()
        bad_sram = ecc[:, ECC_EVENTS.index("sram_ecc_uncorrected")].tolist()
        for device, (power, events) in enumerate(
            zip(self._power[node].tolist(), ecc.tolist(), strict=True)
        ):
            if device == lost:
                continue
            values += (fleet.serials[node][device], minute, *power)
            values += ("hbm" if bad[device] else "sram" if bad_sram[device] else "",)
            values += (now,) if fleet.chip in (TRAINIUM2, TRAINIUM3) else ()
            values += (*events, *cores[device])
        template = self._templates.get(lost)
        if template is None:
            template = self._templates[lost] = Template(_tree(fleet, lost))
        return template.fill(values).encode()

    def _memory(self, node: int) -> npt.NDArray[np.int64]:
        """Bytes in use: the total and each category, `[physical core, value]`."""
        lnc, used = self._fleet.lnc, self._machines.memory.used[node]
        if node == self._machines.empty:
            used = np.zeros_like(used)
        parts = np.repeat(used // lnc, lnc, axis=0)
        parts[::lnc] += used % lnc
        return np.concatenate((parts.sum(axis=1, keepdims=True), parts), axis=1)

    def _minute(self) -> npt.NDArray[np.float64]:
        """Least, most and mean power of the past minute, `[node, device, value]`."""
        levels = np.array(self._levels)
        self._levels.clear()
        parts = np.stack((levels.min(axis=0), levels.max(axis=0), levels.mean(axis=0)), axis=2)
        shape = (self._fleet.nodes, self._fleet.devices, 1)
        noise = np.clip(self._rng.normal(1.0, POWER_NOISE, shape), 0.9, 1.1)
        return parts * noise


def _power(activity: Activity) -> npt.NDArray[np.float64]:
    """Percent, `[node, device]`; a hang in a collective spins like a wait."""
    waits = activity.exposed + activity.stalled[Stall.HANG] + activity.stalled[Stall.EVALUATION]
    above = (POWER_COMPUTE - POWER_IDLE) * activity.work + (POWER_EXPOSED - POWER_IDLE) * waits
    return POWER_IDLE + above / activity.elapsed[:, None]


def _tree(fleet: Fleet, lost: int | None) -> Any:
    tree: dict[str, Any] = {"driver": inset(), "period": PERIOD, "class": {}}
    if fleet.in_ultraservers:
        tree["class"] = {"ultraserver_mode": str(ULTRASERVER_NODES), "node_id_4": inset("%d")}
    blank: dict[str, Any] = {str(core): {} for core in range(fleet.chip.cores)}
    devices = {
        str(device): {"cores": blank, "lost": GONE} if device == lost else _device(fleet, device)
        for device in fleet.links
    }
    return tree | {"devices": devices}


def _device(fleet: Fleet, device: int) -> Any:
    name, instance_type, arch_type = _NAMES[fleet.chip.name]
    ecc = dict.fromkeys(SYSFS_ECC, 0) | dict.fromkeys(ECC_EVENTS, slot())
    # The driver has the device check itself on Trainium2 and later only.
    heartbeat = (
        {"healthcheck_heartbeat": inset("%d")} if fleet.chip in (TRAINIUM2, TRAINIUM3) else {}
    )
    percent = inset("%.2f")
    parts = dict(zip(report.HOST_PARTS, HOST_BYTES, strict=True))
    host = {part: size * fleet.cores_per_device for part, size in parts.items()}
    return {
        "info": {
            "device_name": name,
            "instance_type": instance_type,
            "arch_type": arch_type,
            "serial_number": inset(),
            "connected_devices": ", ".join(map(str, fleet.links[device])),
            "core_count": str(fleet.chip.cores),
        },
        "power": f"POWER_STATUS_VALID,{inset('%d')},{percent},{percent},{percent}",
        "unhealthy_components": inset(),
        **heartbeat,
        "hardware": ecc,
        "host_mem": host,
        "cores": {
            str(core): _core(sum(HOST_BYTES) // fleet.lnc) for core in range(fleet.chip.cores)
        },
    }


def _core(host_bytes: int) -> Any:
    memory = dict.fromkeys((*MEMORY_CATEGORIES, *MEMORY_NODES), 0)
    status = dict.fromkeys(CORE_STATUSES, 0)
    counted = ("success", "execute_completed_with_error")
    return {
        "device_mem": {"total": slot(), **memory, **dict.fromkeys(MEMORY_CATEGORIES, slot())},
        "host_mem": {"total": host_bytes},
        "status": status | dict.fromkeys(counted, slot()),
        "other_info": {
            "inference_count": slot(),
            "flop_count": slot(),
            "nc_time_in_use": slot(),
            "model_load_count": slot(),
            "reset_req_count": 1,
            "reset_fail_count": 0,
        },
    }
