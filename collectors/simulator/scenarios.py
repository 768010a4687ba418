"""The scenarios: phases in seconds since the start, each with an effect.

`script.py` draws the nodes and components that they affect.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .effects import NEED_EFA, Effect

ALWAYS = 1e9
"""Seconds; longer than any stream."""
ONSET = 120.0


@dataclass(frozen=True, slots=True)
class Phase:
    """One effect, from `begin` to `end`, in seconds."""

    effect: Effect
    begin: float
    end: float
    depth: float | None = None
    """Severity; None is the default of the effect."""
    ramp: float = 0.0
    """Seconds in which it grows to its depth."""
    way: str = ""
    """Variant; empty is the default of the effect."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Phases; with a `cycle` in seconds they repeat, with other victims."""

    summary: str
    phases: tuple[Phase, ...] = ()
    cycle: float | None = None

    @property
    def needs_efa(self) -> bool:
        """Whether it has no effect on nodes without EFA devices."""
        return bool(self.phases) and all(phase.effect in NEED_EFA for phase in self.phases)


def _one(summary: str, effect: Effect, seconds: float, ramp: float = 0.0) -> Scenario:
    return Scenario(summary, (Phase(effect, ONSET, ONSET + seconds, ramp=ramp),))


SCENARIOS: Mapping[str, Scenario] = {
    "healthy": Scenario("a steady training run"),
    "efa-degraded": _one(
        "one EFA device of one node retransmits and slows the whole job", Effect.EFA_DEGRADED, 150
    ),
    "slow-node": _one(
        "one node computes a third slower; the others wait for it", Effect.SLOW_NODE, 180
    ),
    "slow-device": _one(
        "one device computes a third slower; the others wait for it", Effect.SLOW_DEVICE, 180
    ),
    "hang": _one("a collective hangs for three minutes", Effect.HANG, 180),
    "silent-node": _one(
        "one node sends no data for two minutes and the job stalls", Effect.SILENT_NODE, 120
    ),
    "recompile": _one(
        "a changed graph is compiled in the middle of the run", Effect.RECOMPILE, 60
    ),
    "memory-filling": _one("the memory of one device fills up", Effect.MEMORY_FILLING, 240, 180),
    "ecc": _one("one device counts an uncorrectable memory error", Effect.ECC, 2),
    "execution-errors": _one(
        "the executions of one runtime fail for a minute", Effect.EXECUTION_ERRORS, 60
    ),
    "comm-bound": _one("collectives slow down without a faulty node", Effect.COMM_BOUND, 180),
    "efa-down": _one("one EFA device of one node is lost", Effect.EFA_DOWN, 120),
    "latency-regression": _one(
        "messages from one node to one other take three times as long",
        Effect.LATENCY_REGRESSION, 300,
    ),
    "device-lost": _one("one device is lost and the job stalls", Effect.DEVICE_LOST, 120),
    "idle-allocation": _one(
        "a process on a node of its own holds memory and does nothing", Effect.IDLE_ALLOCATION, 300
    ),
    "version-skew": Scenario(
        "one node has another EFA driver than the others", (Phase(Effect.VERSION_SKEW, 0, ALWAYS),)
    ),
    "checkpoint-stall": _one("a checkpoint takes three minutes", Effect.CHECKPOINT_STALL, 180),
    "demo": Scenario(
        "a training run with one fault after another, endless",
        (
            Phase(Effect.EFA_DEGRADED, 75, 225),
            Phase(Effect.MEMORY_FILLING, 285, 465, ramp=135),
            Phase(Effect.SLOW_NODE, 525, 645),
            Phase(Effect.SILENT_NODE, 705, 750),
        ),
        cycle=840,
    ),
}  # fmt: skip
