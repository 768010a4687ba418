"""EFA counters of the collectives.

Cumulative since boot, with the driver's identities: `rx_bytes` holds what was received by send,
by RDMA read and by remote RDMA writes, `tx_bytes` the same the other way round.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS

from .effects import Effect
from .fleet import EfaDevice, Fleet
from .script import Fault
from .simulated import Simulated, World
from .template import Template, inset, slot

DRIVER, OLDER_DRIVER = "2.17.3g", "2.17.2g"

PARAMETERS = 3.7e9
"""Parameters of the model on Trainium1; it grows with the chip (13e9 on Trainium2)."""
BYTES_PER_PARAMETER = 8
"""Between nodes, in each direction of a ring: the reduce-scatter of gradients in float32 and
two all-gathers of parameters in bfloat16 (forward, backward), each (N-1)/N of the whole."""

PACKET = 8160
"""Payload bytes of a full packet on the wire."""
WORK_REQUEST = {"send": 16 << 10, "read": 256 << 10, "write": 1 << 20}
SEND_SHARE = 0.04
READ_SHARE = 0.02

DEVICE_IMBALANCE = 0.01
DEVICE_NOISE = 0.01

RETRANSMITS = 2e-6
"""Of all packets; a healthy network sends some twice."""
TIMEOUTS = 2e-4
"""Events per second."""
BAD_RETRANSMITS, BAD_TIMEOUTS, BAD_IMPAIRED = 0.035, 5.3, 1.05
"""Of a degraded device, per lost share of its throughput."""
RESENT_COSTS = 0.4
"""Slowdown of retransmits alone, relative to that of lost throughput."""
ALONE = 10.0
"""Slowdown of collectives if the only device of a node is down."""

COMMANDS_PER_READ = 5
"""Admin commands that reading the port counters costs."""
STEPS_BEFORE = 250_000
RELOADS_WITHIN = 3600.0
"""Seconds, in an endless stream."""
TINY = 1e-12

_NAMES = (*EFA_PORT_COUNTERS, *EFA_DEVICE_COUNTERS)
_PLACE = {name: place for place, name in enumerate(_NAMES)}

Counts = npt.NDArray[np.int64]


class EfaDevices(Simulated):
    """All EFA devices of all nodes."""

    def __init__(self, world: World) -> None:
        fleet, script, simulation = world.fleet, world.script, world.simulation
        self._fleet = fleet
        self._machines = world.machines
        self._script = script
        self._noise = simulation.noise
        self._rng = np.random.default_rng([simulation.seed, 7])
        shape = (fleet.nodes, len(fleet.efa))
        self._weights = self._rng.normal(1.0, DEVICE_IMBALANCE * self._noise, shape)
        self._step_bytes = np.zeros((fleet.nodes, 1))
        """Of each node in a step of its job, in each direction."""
        for job in script.jobs:
            # A single node has the traffic of one of a pair.
            peers = max(len(job.nodes), 2)
            parameters = PARAMETERS * fleet.flops_ratio * job.step_ratio
            self._step_bytes[job.nodes] = BYTES_PER_PARAMETER * parameters * (peers - 1) / peers
        self._templates: dict[tuple[int, str] | None, Template] = {}
        chance = np.random.default_rng([simulation.seed, 21])
        span = min(simulation.length, RELOADS_WITHIN)
        self._reloads = sorted(
            (float(chance.uniform(0.1, 0.95) * span), int(chance.integers(fleet.nodes)))
            for _ in range(simulation.resets)
        )
        self._down: Fault | None = None
        self._skewed: Fault | None = None
        self._counts = self._since_boot(shape)

    def observe(self, time: float) -> None:
        """Advances to about `time`."""
        while self._reloads and self._reloads[0][0] <= time:
            self._counts[self._reloads.pop(0)[1]] = 0
        self._skewed = self._script.at(Effect.VERSION_SKEW, time)
        activity = self._machines.activity
        weights = self._weights.copy()
        retransmits = np.full(weights.shape, RETRANSMITS)
        timeouts = np.full(weights.shape, TIMEOUTS)
        impaired = np.zeros(weights.shape)
        degraded = self._script.at(Effect.EFA_DEGRADED, time)
        if degraded is not None:
            device, depth = (degraded.node, degraded.efa), degraded.depth_at(time)
            if degraded.variant != "retransmits":
                weights[device] *= 1.0 - depth
            if degraded.variant != "throughput":
                retransmits[device] += BAD_RETRANSMITS * depth
                moving = depth * float(activity.traffic[degraded.node] > 0)
                timeouts[device], impaired[device] = BAD_TIMEOUTS * moving, BAD_IMPAIRED * moving
        self._down = down = self._script.at(Effect.EFA_DOWN, time)
        if down is not None:
            weights[down.node, down.efa] = 0.0
        share = weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY)
        volume = self._step_bytes * activity.traffic[:, None] * share
        counts = self._account(volume, retransmits)
        seconds = activity.elapsed[:, None]
        counts[:, :, _PLACE["retrans_timeout_events"]] = self._rng.poisson(timeouts * seconds)
        counts[:, :, _PLACE["impaired_remote_conn_events"]] = self._rng.poisson(impaired * seconds)
        for name in ("submitted_cmds", "completed_cmds"):
            counts[:, :, _PLACE[name]] = COMMANDS_PER_READ
        counts[:, :, _PLACE["keep_alive_rcvd"]] = 1
        if down is not None:
            counts[down.node, down.efa] = 0
        self._counts += counts

    def payload(self, node: int) -> bytes:
        """The payload of one node."""
        down = self._down if self._down is not None and self._down.node == node else None
        key = None if down is None else (down.efa, down.variant)
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = Template(_devices(self._fleet, key))
        counts = self._counts[node]
        if down is not None and down.variant == "gone":
            counts = np.delete(counts, down.efa, axis=0)
        return template.fill((self._driver(node), *counts.ravel().tolist())).encode()

    def _driver(self, node: int) -> str:
        skewed = self._skewed
        older = skewed is not None and (skewed.node, skewed.variant) == (node, "efa")
        return OLDER_DRIVER if older else DRIVER

    def _since_boot(self, shape: tuple[int, ...]) -> Counts:
        rng = self._rng
        steps = STEPS_BEFORE * rng.uniform(0.5, 1.5, (shape[0], 1))
        volume = self._step_bytes * steps * self._weights / max(shape[1], 1)
        counts = self._account(volume, np.full(shape, RETRANSMITS))
        counts[:, :, _PLACE["retrans_timeout_events"]] = rng.integers(0, 400, shape)
        counts[:, :, _PLACE["impaired_remote_conn_events"]] = rng.integers(0, 12, shape)
        for name, high in (("keep_alive_rcvd", 2_000_000), ("submitted_cmds", 9_000_000)):
            counts[:, :, _PLACE[name]] = rng.integers(high // 2, high, (shape[0], 1))
        counts[:, :, _PLACE["completed_cmds"]] = counts[:, :, _PLACE["submitted_cmds"]]
        return counts

    def _account(
        self, volume: npt.NDArray[np.float64], retransmits: npt.NDArray[np.float64]
    ) -> Counts:
        """The traffic counters of `volume` bytes in each direction, `[node, device, counter]`."""
        counts = np.zeros((*volume.shape, len(_NAMES)), np.int64)
        spread, within = DEVICE_NOISE * self._noise, 0.1 * max(self._noise, 1.0)
        noise = np.clip(
            self._rng.normal(1.0, spread, (2, *volume.shape)), max(1.0 - within, 0.0), 1.0 + within
        )
        for direction, total in zip(("tx", "rx"), volume * noise, strict=True):
            sent = direction == "tx"
            send = (total * SEND_SHARE).astype(np.int64)
            read = (total * READ_SHARE).astype(np.int64)
            write = (total * (1.0 - SEND_SHARE - READ_SHARE)).astype(np.int64)
            total_bytes = send + read + write
            values = {
                f"{direction}_bytes": total_bytes,
                f"{direction}_pkts": total_bytes // PACKET,
                "send_bytes" if sent else "recv_bytes": send,
                "send_wrs" if sent else "recv_wrs": send // WORK_REQUEST["send"],
                "rdma_read_resp_bytes" if sent else "rdma_read_bytes": read,
                "rdma_write_bytes" if sent else "rdma_write_recv_bytes": write,
            }
            if sent:
                retransmitted = self._rng.poisson(retransmits * (total_bytes // PACKET))
                values["rdma_write_wrs"] = write // WORK_REQUEST["write"]
                values["retrans_pkts"] = retransmitted
                values["retrans_bytes"] = retransmitted * PACKET
            else:
                values["rdma_read_wrs"] = read // WORK_REQUEST["read"]
            for name, value in values.items():
                counts[:, :, _PLACE[name]] = value
        return counts


def slowdown(fault: Fault, time: float, devices: int) -> float:
    """Slowdown of collectives by a degraded device."""
    if fault.effect is Effect.EFA_DOWN:
        return devices / (devices - 1) if devices > 1 else ALONE
    lost = fault.depth_at(time)
    costs = RESENT_COSTS if fault.variant == "retransmits" else 1.0
    return 1.0 + costs * lost / (1.0 - lost)


def _devices(fleet: Fleet, down: tuple[int, str] | None) -> Any:
    """The payload of a node; `down` is a failed device and its variant."""
    return {
        "driver": inset(),
        "devices": {
            device.name: _device(
                device, fleet, "1: DOWN" if down == (place, "state") else "4: ACTIVE"
            )
            for place, device in enumerate(fleet.efa)
            if down != (place, "gone")
        },
    }


def _device(device: EfaDevice, fleet: Fleet, state: str) -> Any:
    return {
        "pci": device.pci,
        "numa_node": device.numa_node,
        "rate_gbps": fleet.efa_gbps,
        "state": state,
        "p2p": "NEURON",
        "port": dict.fromkeys(EFA_PORT_COUNTERS, slot()),
        "device": dict.fromkeys(EFA_DEVICE_COUNTERS, slot()),
    }
