"""Kernel messages about faults."""

from collections.abc import Iterator
from typing import Any

from .effects import Effect
from .script import Fault
from .simulated import Simulated, World
from .template import dumps

PERIOD = 10
"""Seconds between two payloads without messages."""
LAG = 0.04
"""Seconds from the fault to its message."""

WORDS = {
    Effect.ECC: {"mem": "HBM_UNCORRECTABLE_ERROR", "sram": "SRAM_UNCORRECTABLE_ERROR"},
    Effect.EXECUTION_ERRORS: {"": "DMA_ERROR"},
}
"""By variant."""


class KernelLogs(Simulated):
    """The kernels of all nodes: payloads without messages, and the messages as they come."""

    period = PERIOD

    def __init__(self, world: World) -> None:
        self._fleet = world.fleet
        self._instances = world.fleet.instances(world.seed)
        self._script = world.script
        self._starts = world.starts

    def payload(self, node: int) -> bytes:
        """A payload without messages."""
        return _payload([])

    def lines(self, second: float) -> Iterator[tuple[float, int, bytes]]:
        """Time, node and payload of the messages of a second."""
        for effect, words in WORDS.items():
            fault = self._script.between(effect, second, second + 1.0)
            if fault is not None and second <= fault.begin < second + 1.0:
                time = fault.begin + LAG
                text = self._text(words[fault.variant], fault)
                line = {"time": round(self._starts[fault.node] + time, 6), "text": text}
                yield time, fault.node, _payload([line])

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


def _payload(lines: list[dict[str, Any]]) -> bytes:
    return dumps({"period": PERIOD, "via": "/dev/kmsg", "lines": lines}).encode()
