"""EFA counters: what the collectives leave on the cards.

Cumulative since boot, with the driver's identities: `rx_bytes` holds what was received by send,
by RDMA read and by remote RDMA writes, `tx_bytes` the same the other way round.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS

from .fleet import Fleet
from .scenarios import Effect, Script
from .template import Template, slot
from .training import Activity

DRIVER = "2.17.3g"

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

CARD_IMBALANCE = 0.01
CARD_NOISE = 0.01
BAD_CARD_SHARE = 0.45
"""Of its usual bytes; the node's other cards take the rest."""

RETRANSMITS = 2e-6
"""Of all packets; a healthy network sends some twice."""
BAD_RETRANSMITS = 0.02
TIMEOUTS = 2e-4
"""Events per second."""
BAD_TIMEOUTS = 3.0
BAD_IMPAIRED = 0.6

COMMANDS_PER_READ = 5
"""Admin commands that reading the port counters costs."""
STEPS_BEFORE = 250_000

_NAMES = (*EFA_PORT_COUNTERS, *EFA_DEVICE_COUNTERS)
_PLACE = {name: place for place, name in enumerate(_NAMES)}

Counts = npt.NDArray[np.int64]


class EfaCards:
    """All cards of all nodes. `observe` takes one second of all, `payload` writes one node."""

    def __init__(self, fleet: Fleet, script: Script, seed: int) -> None:
        self._fleet = fleet
        self._script = script
        self._rng = np.random.default_rng([seed, 7])
        shape = (fleet.nodes, len(fleet.cards))
        self._weights = self._rng.normal(1.0, CARD_IMBALANCE, shape)
        # A lone node stands for one of a pair: it would have nobody to talk to.
        peers = max(fleet.nodes, 2)
        parameters = PARAMETERS * fleet.flops_ratio
        self._step_bytes = BYTES_PER_PARAMETER * parameters * (peers - 1) / peers
        self._template = Template(_cards(fleet))
        self._counts = self._since_boot(shape)

    def observe(self, time: float, activity: Activity) -> None:
        """Takes what all nodes did up to about `time`."""
        weights = self._weights
        retransmits = np.full(weights.shape, RETRANSMITS)
        timeouts = np.full(weights.shape, TIMEOUTS)
        impaired = np.zeros(weights.shape)
        fault = self._script.at(Effect.EFA_DEGRADED, time)
        if fault is not None:
            card = fault.node, fault.card
            weights = weights.copy()
            weights[card] *= BAD_CARD_SHARE
            retransmits[card] = BAD_RETRANSMITS
            moving = float(activity.traffic[fault.node] > 0)
            timeouts[card], impaired[card] = BAD_TIMEOUTS * moving, BAD_IMPAIRED * moving
        share = weights / weights.sum(axis=1, keepdims=True)
        volume = self._step_bytes * activity.traffic[:, None] * share
        counts = self._account(volume, retransmits)
        seconds = activity.elapsed[:, None]
        counts[:, :, _PLACE["retrans_timeout_events"]] = self._rng.poisson(timeouts * seconds)
        counts[:, :, _PLACE["impaired_remote_conn_events"]] = self._rng.poisson(impaired * seconds)
        for name in ("submitted_cmds", "completed_cmds"):
            counts[:, :, _PLACE[name]] = COMMANDS_PER_READ
        counts[:, :, _PLACE["keep_alive_rcvd"]] = 1
        self._counts += counts

    def payload(self, node: int) -> bytes:
        """The counters of one node's cards."""
        return self._template.fill(self._counts[node].ravel().tolist()).encode()

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
        """The traffic counters after `volume` bytes in each direction, `[node, card, counter]`."""
        counts = np.zeros((*volume.shape, len(_NAMES)), np.int64)
        noise = np.clip(self._rng.normal(1.0, CARD_NOISE, (2, *volume.shape)), 0.9, 1.1)
        for way, total in zip(("tx", "rx"), volume * noise, strict=True):
            sent = way == "tx"
            send = (total * SEND_SHARE).astype(np.int64)
            read = (total * READ_SHARE).astype(np.int64)
            write = (total * (1.0 - SEND_SHARE - READ_SHARE)).astype(np.int64)
            every = send + read + write
            values = {
                f"{way}_bytes": every,
                f"{way}_pkts": every // PACKET,
                "send_bytes" if sent else "recv_bytes": send,
                "send_wrs" if sent else "recv_wrs": send // WORK_REQUEST["send"],
                "rdma_read_resp_bytes" if sent else "rdma_read_bytes": read,
                "rdma_write_bytes" if sent else "rdma_write_recv_bytes": write,
            }
            if sent:
                again = self._rng.poisson(retransmits * (every // PACKET))
                values["rdma_write_wrs"] = write // WORK_REQUEST["write"]
                values["retrans_pkts"] = again
                values["retrans_bytes"] = again * PACKET
            else:
                values["rdma_read_wrs"] = read // WORK_REQUEST["read"]
            for name, value in values.items():
                counts[:, :, _PLACE[name]] = value
        return counts


def _cards(fleet: Fleet) -> Any:
    return {
        "driver": DRIVER,
        "devices": {
            card.name: {
                "pci": card.pci,
                "numa_node": card.numa_node,
                "rate_gbps": fleet.card_gbps,
                "state": "4: ACTIVE",
                "p2p": "NEURON",
                "port": dict.fromkeys(EFA_PORT_COUNTERS, slot()),
                "device": dict.fromkeys(EFA_DEVICE_COUNTERS, slot()),
            }
            for card in fleet.cards
        },
    }
