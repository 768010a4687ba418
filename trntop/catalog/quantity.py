"""What a column of a frame is: its name, unit, origin, and how several values become one."""

from dataclasses import dataclass
from enum import StrEnum

METRIC_PREFIX = "trn_"


class Entity(StrEnum):
    """What a column has one value of."""

    NODE = "node"
    DEVICE = "device"
    """A Neuron device (chip), keyed by its index."""
    CORE = "core"
    """A logical NeuronCore, keyed by its flat index on the node."""
    PHYSICAL_CORE = "physical_core"
    """A physical NeuronCore (two behind a logical one with LNC=2), keyed by its flat index."""
    EFA = "efa"
    """An EFA device, keyed by its name."""
    RUNTIME = "runtime"
    """A Neuron process, keyed by its pid."""
    JOB = "job"
    """A training job as seen from one node, keyed by its name."""
    RANK = "rank"
    """A rank of a training job on its node, keyed by `job/rank`."""
    LINK = "link"
    """The way from a node to a peer, keyed by the peer's name, or `device>peer`."""


class Kind(StrEnum):
    """How a value moves."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Combine(StrEnum):
    """How several values become one: runtimes on a core, ranks in a job, parts in a roll-up."""

    LAST = "last"
    MAX = "max"
    MIN = "min"
    MEAN = "mean"
    SUM = "sum"


class Provenance(StrEnum):
    """Where a value came from."""

    MEASURED = "measured"
    """A counter or a clock gave it."""
    REPORTED = "reported"
    """Reported by the training process."""
    DERIVED = "derived"
    """Computed from measured values by a documented formula."""
    ESTIMATED = "estimated"
    """Bounded or modelled."""
    SIMULATED = "simulated"
    """From the simulator."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One column of a frame.

    A quantity with `rollup_of` is that quantity's node value by `combine`; one with `rate_of` is
    the change of that counter per second; one with `formula` is computed by
    `trntop.pipeline.derive`.
    """

    name: str
    unit: str
    entity: Entity
    help: str
    kind: Kind = Kind.GAUGE
    combine: Combine = Combine.LAST
    provenance: Provenance = Provenance.MEASURED
    source: str = ""
    """The collector's source whose payload holds it; empty for computed quantities."""
    fallback: str = ""
    """A second source, used where the first is missing."""
    rollup_of: str = ""
    rate_of: str = ""
    formula: str = ""
    needs: str = ""
    """The driver, SDK or setting without which it is absent, beyond what its source needs."""
    exported: bool = True
    """Whether it has a series on the metrics page. Values keyed by pid never have."""
    detail: bool = False
    """Whether a node's or a job's value is on `/metrics/detail` instead of `/metrics`."""

    @property
    def metric(self) -> str:
        """Name on the metrics page."""
        return METRIC_PREFIX + self.name
