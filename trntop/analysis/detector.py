"""The shape of a detector: one value per subject and tick, and a verdict on a subject."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol

from trntop.core.model import Column, Evidence, Severity
from trntop.pipeline.axis import Axis, PartAxis
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class Signal:
    """One tick of a detector: `values[i]` belongs to the i-th member of the axis."""

    axis: Axis | PartAxis
    values: Column
    """NaN where unknown: that neither opens nor closes anything."""
    limit: float
    """Above this the condition holds."""
    clear: float
    """At or below this it has passed."""
    at_once: float = math.inf
    """From this on the condition need not last."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The description of a subject now."""

    fields: Mapping[str, str]
    """Fills the braces of the rule's summary; `since` is the analyzer's."""
    job: str | None = None
    node: str | None = None
    component: str | None = None
    """`efa:rdmap16s27`, `device:3`, `core:17`, `runtime:4711`, or None."""
    severity: Severity | None = None
    """Where it differs from the rule's."""
    evidence: tuple[Evidence, ...] = ()
    since: float | None = None
    """When the condition set in, where the detector knows it better than the analyzer, which
    takes the tick in which the signal first passed its limit.
    """

    @classmethod
    def at(
        cls,
        tick: Tick,
        node: str,
        fields: Mapping[str, str],
        *evidence: Evidence,
        component: str | None = None,
        severity: Severity | None = None,
        since: float | None = None,
    ) -> "Verdict":
        """Of one node and the job on it."""
        fields, job = {"node": node, **fields}, tick.job_of.get(node)
        return cls(fields, job, node, component, severity, evidence, since)


class Detector(Protocol):
    """Turns ticks into signals and subjects into verdicts."""

    inputs: frozenset[str]
    """The quantities it reads."""

    def signal(self, tick: Tick) -> Signal:
        """Takes one tick."""
        ...

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Describes a subject whose condition holds, by the newest ticks."""
        ...

    def reset(self) -> None:
        """Drops the history: the stream's clock was set back."""
        ...
