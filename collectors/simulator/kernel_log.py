"""Kernel messages about faults."""

from collections.abc import Iterator
from typing import Any

from .effects import Effect
from .fleet import Fleet
from .hook import Hook, Simulated
from .script import Fault, Script
from .template import dumps

EVERY = 10
"""Seconds between two payloads without messages."""
LAG = 0.04
"""Seconds from the fault to its message."""

WORDS = {
    Effect.ECC: {"mem": "HBM_UNCORRECTABLE_ERROR", "sram": "SRAM_UNCORRECTABLE_ERROR"},
    Effect.EXECUTION_ERRORS: {"": "DMA_ERROR"},
}
"""By variant."""


class KernelLogs:
    """The kernels of all nodes."""

    def __init__(self, fleet: Fleet, script: Script, seed: int, starts: list[float]) -> None:
        self._fleet = fleet
        self._instances = fleet.instances(seed)
        self._script = script
        self._starts = starts

    def lines(self, second: float) -> Iterator[tuple[float, int, bytes]]:
        """Time, node and payload of the messages of a second."""
        for effect, words in WORDS.items():
            fault = self._script.between(effect, second, second + 1.0)
            if fault is not None and second <= fault.begin < second + 1.0:
                time = fault.begin + LAG
                text = self._text(words[fault.way], fault)
                line = {"time": round(self._starts[fault.node] + time, 6), "text": text}
                yield time, fault.node, payload([line])

    def _text(self, word: str, fault: Fault) -> str:
        """The format of AWS's runtime guide."""
        node, device = fault.node, self._device(fault)
        return (
            f"kernel: NEURON_HW_ERR={word} instance-id={self._instances[node]['instance_id']} "
            f"hostname={self._fleet.names[node]} nd-id={device} nc-id=0 "
            f"serial-num={self._fleet.serials[node][device]} action=TERMINATE_INSTANCE"
        )

    def _device(self, fault: Fault) -> int:
        if fault.effect is Effect.ECC:
            return fault.device
        return self._fleet.owned(fault.runtime).start // self._fleet.cores_per_device


def payload(lines: list[dict[str, Any]]) -> bytes:
    """The payload of some messages."""
    return dumps({"period": EVERY, "via": "/dev/kmsg", "lines": lines}).encode()


HOOK = Hook(lambda _: Simulated(lambda _: payload([])), every=EVERY, order=5)
"""Payloads without messages; `KernelLogs` has the others."""
