"""A made-up fleet: hosts that answer as nodes with given faults would."""

import asyncio
from collections.abc import Callable

from msgspec import structs

from trntop.check.model import (
    EfaDevice,
    Inspection,
    ProbeError,
    ProbeResult,
    ProbeServer,
    ProbeSpec,
    RefusedError,
)
from trntop.check.plan import Plan
from trntop.check.result import Check
from trntop.check.runner import run_check
from trntop.core.settings import Settings

NOW = 1_763_650_000.0
LATENCY = 20e-6
COUNTERS = {
    "tx_pkts": 5_000_000,
    "rx_pkts": 5_000_000,
    "retrans_pkts": 60_000,
    "retrans_timeout_events": 900,
    "rx_drops": 4_000,
}
"""Large totals since boot: they do not concern the check."""
DEVICE = {"cmds_err": 40, "no_completion_cmds": 0, "keep_alive_rcvd": 80_000}


def efa_device(index: int, **changes: object) -> EfaDevice:
    made = EfaDevice(
        name=f"rdmap{16 * (index + 1)}s27",
        rate_gbps=100.0,
        driver="2.17.3g",
        p2p="NEURON",
        port=dict(COUNTERS),
        device=dict(DEVICE),
    )
    return structs.replace(made, **changes)


def inspection(node: str, **changes: object) -> Inspection:
    made = Inspection(
        node=node,
        time=NOW,
        instance_type="trn1.32xlarge",
        efa_devices=[efa_device(index) for index in range(8)],
        devices=16,
        versions={"efa": "2.17.3g", "libfabric": "2.1.0", "kernel": "6.1.0"},
        modules={"efa": True, "ib_uverbs": True, "ib_core": True, "neuron": True},
        memlock_bytes=float("inf"),
        huge_pages=5128,
        uverbs=True,
        busy=[],
    )
    return structs.replace(made, **changes)


Answer = float | ProbeError | ProbeResult
"""One-way seconds; or what goes wrong."""


class Fleet:
    """Nodes, and what probes between them give."""

    def __init__(self, count: int, answer: Callable[[str, str, str], Answer] | None = None) -> None:
        self.names = [f"trn-{index:03}" for index in range(1, count + 1)]
        self.answer = answer or (lambda client, server, efa_device: LATENCY)
        self.inspections: dict[str, Callable[[int], Inspection]] = {}
        """Node → its inspection by the number of the inspection, if it differs from all others."""
        self.broken: dict[str, ProbeError] = {}
        """Nodes that cannot even be inspected."""
        self.loads: dict[str, str] = {}
        """Node → the load next to its probes."""
        self.hanging: set[str] = set()
        """Nodes that never answer."""
        self.probes: list[tuple[str, str, str]] = []
        self.running: set[str] = set()
        """Nodes on which a side of a probe runs."""
        self.closed: list[str] = []
        self.when_waiting: Callable[[], object] = lambda: None
        """Called at the beginning of a wait for a node that never answers."""
        self.most = 0
        """Most sides that ran at a time."""

    def hosts(self) -> list["FakeHost"]:
        return [FakeHost(name, self) for name in self.names]

    async def check(self, plan: Plan | None = None, **options: object) -> Check:
        settings = options.pop("settings", Settings())
        assert isinstance(settings, Settings)
        return await run_check(
            self.hosts(),
            plan or Plan(),
            settings.check,
            clock=lambda: NOW,
            **options,  # type: ignore[arg-type]
        )

    def run(self, plan: Plan | None = None, **options: object) -> Check:
        return asyncio.run(self.check(plan, **options))


class FakeHost:
    """One node of a fleet."""

    def __init__(self, name: str, fleet: Fleet) -> None:
        self.name = name
        self._fleet = fleet
        self._inspected = 0

    async def inspect(self) -> Inspection:
        await self._answer()
        self._inspected += 1
        inspect = self._fleet.inspections.get(self.name)
        return inspect(self._inspected) if inspect else inspection(self.name)

    async def serve(self, spec: ProbeSpec) -> ProbeServer:
        await self._answer()
        self._begin()
        return ProbeServer(id="1", port=47592, load=self._fleet.loads.get(self.name, ""))

    async def probe(self, spec: ProbeSpec, peer: str, server: ProbeServer) -> list[ProbeResult]:
        await self._answer()
        if peer != self.name:
            self._begin()
        self._fleet.probes.append((self.name, peer, spec.efa_device))
        await asyncio.sleep(0)
        if peer != self.name:
            self._fleet.running.remove(self.name)
        answer = self._fleet.answer(self.name, peer, spec.efa_device)
        if isinstance(answer, ProbeError):
            raise answer
        if isinstance(answer, ProbeResult):
            return [answer]
        return [
            ProbeResult(
                tool=spec.tool,
                peer="10.0.0.1",
                provider=spec.provider,
                efa_device=spec.efa_device,
                size_bytes=spec.size_bytes,
                seconds=seconds,
                statistic=statistic,
                iterations=spec.iterations,
                load=self._fleet.loads.get(self.name, ""),
            )
            for statistic, seconds in (("mean", answer), ("max", 3 * answer))
        ]

    async def end(self, server: ProbeServer) -> str:
        self._fleet.running.discard(self.name)
        return ""

    async def close(self) -> None:
        self._fleet.running.discard(self.name)
        self._fleet.closed.append(self.name)

    def _begin(self) -> None:
        assert self.name not in self._fleet.running, f"two probes at a time on {self.name}"
        self._fleet.running.add(self.name)
        self._fleet.most = max(self._fleet.most, len(self._fleet.running))

    async def _answer(self) -> None:
        if self.name in self._fleet.hanging:
            self._fleet.when_waiting()
            await asyncio.Event().wait()
        if error := self._fleet.broken.get(self.name):
            raise error


def refusal() -> RefusedError:
    return RefusedError("its agent was started without --allow-probes")


def failed(error: str, faulty_side: str = "") -> ProbeResult:
    return ProbeResult(tool="fi_pingpong", peer="?", error=error, faulty_side=faulty_side)  # type: ignore[arg-type]
