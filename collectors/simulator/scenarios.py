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
    variant: str = ""
    """Variant; empty is the default of the effect."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Phases; with a `cycle` in seconds they repeat, with other victims."""

    summary: str
    phases: tuple[Phase, ...] = ()
    cycle: float | None = None
    probes: bool = False
    """Whether the latency between nodes is probed."""

    @property
    def needs_efa(self) -> bool:
        """Whether it has no effect on nodes without EFA devices."""
        return bool(self.phases) and all(phase.effect in NEED_EFA for phase in self.phases)


def _single(summary: str, effect: Effect, seconds: float, ramp: float = 0.0) -> Scenario:
    return Scenario(summary, (Phase(effect, ONSET, ONSET + seconds, ramp=ramp),))


SCENARIOS: Mapping[str, Scenario] = {
    "healthy": Scenario("a steady training run"),
    "efa-degraded": _single(
        "one EFA device of one node retransmits and slows the whole job", Effect.EFA_DEGRADED, 150
    ),
    "slow-node": _single(
        "one node computes a third slower; the others wait for it", Effect.SLOW_NODE, 180
    ),
    "slow-device": _single(
        "one device computes a third slower; the others wait for it", Effect.SLOW_DEVICE, 180
    ),
    "hang": _single("a collective hangs for three minutes", Effect.HANG, 180),
    "silent-node": _single(
        "one node sends no data for two minutes and the job stalls", Effect.SILENT_NODE, 120
    ),
    "recompile": _single(
        "a changed graph is compiled in the middle of the run", Effect.RECOMPILE, 60
    ),
    "memory-filling": _single("the memory of one device fills up", Effect.MEMORY_FILLING, 240, 180),
    "ecc": _single("one device counts an uncorrectable memory error", Effect.ECC, 2),
    "execution-errors": _single(
        "the executions of one runtime fail for a minute", Effect.EXECUTION_ERRORS, 60
    ),
    "comm-bound": _single("collectives slow down without a faulty node", Effect.COMM_BOUND, 180),
    "efa-down": _single("one EFA device of one node is lost", Effect.EFA_DOWN, 120),
    "latency-regression": _single(
        "messages from one node to one other take three times as long",
        Effect.LATENCY_REGRESSION, 300,
    ),
    "device-lost": _single("one device is lost and the job stalls", Effect.DEVICE_LOST, 120),
    "idle-allocation": _single(
        "a process on a node of its own holds memory and does nothing", Effect.IDLE_ALLOCATION, 300
    ),
    "version-skew": Scenario(
        "one node has another EFA driver than the others", (Phase(Effect.VERSION_SKEW, 0, ALWAYS),)
    ),
    "checkpoint-stall": _single("a checkpoint takes three minutes", Effect.CHECKPOINT_STALL, 180),
    "demo": Scenario(
        "a training run with one fault after another, endless",
        (
            Phase(Effect.EFA_DEGRADED, 75, 225),
            Phase(Effect.MEMORY_FILLING, 285, 465, ramp=135),
            Phase(Effect.SLOW_NODE, 525, 645),
            Phase(Effect.SILENT_NODE, 705, 750),
        ),
        cycle=840,
        probes=True,
    ),
}  # fmt: skip
