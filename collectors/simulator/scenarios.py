"""What goes wrong, when, and whom it hits.

A scenario is a row of `SCENARIOS`: phases in seconds since the start of the stream, each with
an effect. What an effect does is the business of the loop (`training.py`) and of the payloads
(`machines.py`, `efa.py`, `kernel_log.py`); what an analysis should say of it is a row of `CLAIMS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from .fleet import Fleet


class Effect(StrEnum):
    """One way to go wrong."""

    EFA_DEGRADED = "efa-degraded"
    """A card retransmits, and every collective of the job is as slow as that card."""
    SLOW_NODE = "slow-node"
    """A node computes slower; the others wait for it inside the collective."""
    HANG = "hang"
    """A node stops in the middle of a step; the others wait until the step is given up."""
    SILENT_NODE = "silent-node"
    """As a hang, and the node says nothing any more."""
    RECOMPILE = "recompile"
    """A step begins with a compilation: cores and network idle, the host busy."""
    MEMORY_FILLING = "memory-filling"
    """The tensors on one device grow until its memory is nearly full."""
    ECC = "ecc"
    """A device counts an uncorrectable memory error."""
    EXECUTION_ERRORS = "execution-errors"
    """Executions of one runtime end with hardware errors."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One effect, from `begin` to `end`, in seconds."""

    effect: Effect
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """A play in phases; with a `cycle` in seconds it begins again, with other victims."""

    summary: str
    phases: tuple[Phase, ...] = ()
    cycle: float | None = None

    @property
    def needs_cards(self) -> bool:
        """Whether nothing is left of it on nodes without EFA cards."""
        return {phase.effect for phase in self.phases} == {Effect.EFA_DEGRADED}


SCENARIOS: Mapping[str, Scenario] = {
    "healthy": Scenario("a steady training run"),
    "efa-degraded": Scenario(
        "one EFA card of one node retransmits and slows the whole job",
        (Phase(Effect.EFA_DEGRADED, 120, 270),),
    ),
    "slow-node": Scenario(
        "one node computes a third slower; all others wait for it",
        (Phase(Effect.SLOW_NODE, 120, 300),),
    ),
    "hang": Scenario("a collective hangs for three minutes", (Phase(Effect.HANG, 120, 300),)),
    "silent-node": Scenario(
        "one node is not heard for two minutes and the job stands still",
        (Phase(Effect.SILENT_NODE, 120, 240),),
    ),
    "recompile": Scenario(
        "a changed graph is compiled in the middle of the run",
        (Phase(Effect.RECOMPILE, 120, 180),),
    ),
    "memory-filling": Scenario(
        "the memory of one device fills up", (Phase(Effect.MEMORY_FILLING, 120, 360),)
    ),
    "ecc": Scenario(
        "one device counts an uncorrectable memory error", (Phase(Effect.ECC, 120, 122),)
    ),
    "execution-errors": Scenario(
        "the executions of one runtime fail for a minute",
        (Phase(Effect.EXECUTION_ERRORS, 120, 180),),
    ),
    "demo": Scenario(
        "a training run in which one thing after another goes wrong, for ever",
        (
            Phase(Effect.EFA_DEGRADED, 75, 225),
            Phase(Effect.MEMORY_FILLING, 285, 465),
            Phase(Effect.SLOW_NODE, 525, 645),
            Phase(Effect.SILENT_NODE, 705, 750),
        ),
        cycle=840,
    ),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A phase that has found its victim. Times in seconds since the start of the stream."""

    effect: Effect
    begin: float
    end: float
    node: int
    device: int
    card: int
    runtime: int

    def progress(self, time: float) -> float:
        """How much of it has passed, from 0 to 1."""
        return min(max((time - self.begin) / (self.end - self.begin), 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Truth:
    """An incident that an analysis of the stream should find. Times are unix seconds."""

    kind: str
    node: str | None
    component: str | None
    job: str | None
    onset: float
    """When the cause sets in; its symptoms may take a step or more to show."""
    end: float
    """When the cause is gone."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """How one effect is to be called: the kind of incident, and what it names."""

    kind: str
    job: bool = False
    node: bool = True
    component: str = ""


CLAIMS: Mapping[Effect, tuple[_Claim, ...]] = {
    Effect.EFA_DEGRADED: (
        _Claim("comm_bound", job=True),
        _Claim("efa_degraded", component="efa"),
    ),
    Effect.SLOW_NODE: (_Claim("straggler", job=True),),
    Effect.HANG: (_Claim("hang", job=True),),
    Effect.SILENT_NODE: (_Claim("node_silent"),),
    Effect.RECOMPILE: (_Claim("recompile", job=True, node=False),),
    Effect.MEMORY_FILLING: (_Claim("memory_pressure", component="device"),),
    Effect.ECC: (_Claim("ecc_uncorrected", component="device"),),
    Effect.EXECUTION_ERRORS: (_Claim("execution_errors", component="runtime"),),
}


class Script:
    """A scenario with its victims, drawn by the seed: never node 0 while there is another."""

    def __init__(self, scenario: Scenario, seed: int, fleet: Fleet) -> None:
        self._scenario = scenario
        self._seed = seed
        self._fleet = fleet
        self._drawn: dict[int, tuple[Fault, ...]] = {}

    def at(self, effect: Effect, time: float) -> Fault | None:
        """The fault with this effect at `time`."""
        return self.between(effect, time, time)

    def between(self, effect: Effect, begin: float, end: float) -> Fault | None:
        """The first fault with this effect at any time from `begin` to `end`."""
        for cycle in range(self._cycle(begin), self._cycle(end) + 1):
            for fault in self._faults(cycle):
                if fault.effect is effect and fault.begin <= end and begin < fault.end:
                    return fault
        return None

    def truth(self, job: str, start: float) -> tuple[Truth, ...]:
        """What the first cycle's faults are to be called."""
        return tuple(
            Truth(
                kind=claim.kind,
                node=self._fleet.names[fault.node] if claim.node else None,
                component=self._component(claim.component, fault),
                job=job if claim.job else None,
                onset=start + fault.begin,
                end=start + fault.end,
            )
            for fault in self._faults(0)
            for claim in CLAIMS[fault.effect]
        )

    def _cycle(self, time: float) -> int:
        return 0 if self._scenario.cycle is None else int(time // self._scenario.cycle)

    def _faults(self, cycle: int) -> tuple[Fault, ...]:
        if cycle not in self._drawn:
            if len(self._drawn) > 2:
                self._drawn.clear()
            self._drawn[cycle] = self._draw(cycle)
        return self._drawn[cycle]

    def _draw(self, cycle: int) -> tuple[Fault, ...]:
        fleet = self._fleet
        shift = cycle * (self._scenario.cycle or 0.0)
        rng = np.random.default_rng([self._seed, 2, max(cycle, 0)])
        faults = []
        for phase in self._scenario.phases:
            draws = rng.random(4)
            if phase.effect is Effect.EFA_DEGRADED and not fleet.cards:
                continue
            faults.append(
                Fault(
                    effect=phase.effect,
                    begin=phase.begin + shift,
                    end=phase.end + shift,
                    node=1 + int(draws[0] * (fleet.nodes - 1)) if fleet.nodes > 1 else 0,
                    device=int(draws[1] * fleet.devices),
                    card=int(draws[2] * len(fleet.cards)),
                    runtime=int(draws[3] * fleet.runtimes),
                )
            )
        return tuple(faults)

    def _component(self, what: str, fault: Fault) -> str | None:
        match what:
            case "efa":
                return f"efa:{self._fleet.cards[fault.card].name}"
            case "device":
                return f"device:{fault.device}"
            case "runtime":
                return f"runtime:{self._fleet.pids[fault.node][fault.runtime]}"
        return None
