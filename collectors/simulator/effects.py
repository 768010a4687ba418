"""The effects of faults, and the incident kind of each.

`training.py` and the sources implement them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """One effect of a fault."""

    COMM_BOUND = "comm-bound"
    """The collectives of a job take longer, without a faulty node."""
    SLOW_NODE = "slow-node"
    """A node computes slower; the others wait for it inside the collective."""
    SLOW_DEVICE = "slow-device"
    """One device of a node computes slower; its peers wait like the other nodes."""
    HANG = "hang"
    """A node stops in the middle of a step; the others wait until the step is given up."""
    EFA_DEGRADED = "efa-degraded"
    """A degraded EFA device slows every collective of the job."""
    EFA_DOWN = "efa-down"
    """An EFA device has no traffic; its peers take it over."""
    LATENCY_REGRESSION = "latency-regression"
    """Probes from one node to one other take longer."""
    SILENT_NODE = "silent-node"
    """A node sends no data; the others hang, unless only its agent has stopped."""
    DEVICE_LOST = "device-lost"
    """A device is lost, and the job stalls."""
    ECC = "ecc"
    """A device counts an uncorrectable memory error."""
    EXECUTION_ERRORS = "execution-errors"
    """Executions of one runtime end with hardware errors."""
    MEMORY_FILLING = "memory-filling"
    """The tensors on one device grow until its memory is nearly full."""
    IDLE_ALLOCATION = "idle-allocation"
    """An idle process on a node outside the job occupies device memory."""
    VERSION_SKEW = "version-skew"
    """A node has another version than the others."""
    RECOMPILE = "recompile"
    """A step begins with a compilation: cores and network idle, the host busy."""
    CHECKPOINT_STALL = "checkpoint-stall"
    """A checkpoint does not finish."""


@dataclass(frozen=True, slots=True)
class Trait:
    """The properties of an effect."""

    kind: str
    """Kind of the incident."""
    names: str = "node"
    """What it names: `node`, or `job` without a faulty node."""
    component: str = ""
    """The component that it names: `device`, `efa`, `runtime` or `link`."""
    slows: bool = False
    """Whether it slows the job, which is then named."""
    depth: float | None = None
    """Default severity; None if it has none."""
    meaning: str = ""
    """Meaning of the depth."""
    deepest: float = 0.0
    variants: tuple[str, ...] = ("",)
    """Variants; the first is the default."""


TRAITS: Mapping[Effect, Trait] = {
    Effect.COMM_BOUND: Trait(
        "comm_bound", names="job", slows=True,
        depth=1.0, meaning="how much longer collectives take", deepest=20.0,
    ),
    Effect.SLOW_NODE: Trait(
        "straggler", slows=True, depth=0.35, meaning="how much longer it computes", deepest=10.0,
    ),
    Effect.SLOW_DEVICE: Trait(
        "straggler", component="device", slows=True,
        depth=0.35, meaning="how much longer it computes", deepest=10.0,
    ),
    Effect.HANG: Trait("hang", slows=True, variants=("spin", "host")),
    Effect.EFA_DEGRADED: Trait(
        "efa_degraded", component="efa", slows=True,
        depth=0.57, meaning="share of its throughput that is lost", deepest=0.95,
        variants=("both", "retransmits", "throughput"),
    ),
    Effect.EFA_DOWN: Trait(
        "efa_down", component="efa", slows=True, variants=("gone", "state", "still")
    ),
    Effect.LATENCY_REGRESSION: Trait(
        "latency_regression", component="link",
        depth=2.0, meaning="how much longer a message takes", deepest=1000.0,
    ),
    Effect.SILENT_NODE: Trait("node_silent", slows=True, variants=("down", "agent")),
    Effect.DEVICE_LOST: Trait("device_lost", component="device", slows=True),
    Effect.ECC: Trait("ecc_uncorrected", component="device", variants=("mem", "sram")),
    Effect.EXECUTION_ERRORS: Trait(
        "execution_errors", component="runtime",
        depth=2.0, meaning="failures per second", deepest=1000.0,
    ),
    Effect.MEMORY_FILLING: Trait(
        "memory_pressure", component="device",
        depth=0.98, meaning="share of the memory in use in the end", deepest=1.0,
    ),
    Effect.IDLE_ALLOCATION: Trait("idle_allocation", component="runtime"),
    Effect.VERSION_SKEW: Trait("version_skew", variants=("efa", "neuron", "runtime")),
    Effect.RECOMPILE: Trait("recompile", names="job", slows=True),
    Effect.CHECKPOINT_STALL: Trait("checkpoint_stall", names="job", slows=True),
}  # fmt: skip

NEED_EFA = frozenset({Effect.EFA_DEGRADED, Effect.EFA_DOWN, Effect.LATENCY_REGRESSION})
"""Effects that need EFA devices."""
