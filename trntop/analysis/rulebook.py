"""The table of rules. The screen, `trntop analyze` and the exporter all go by it."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from trntop.analysis.detectors import (
    CommBound,
    Detector,
    EccUncorrected,
    ExecutionErrors,
    MemoryPressure,
    NodeSilent,
)
from trntop.errors import SettingsError
from trntop.model import Severity
from trntop.settings import Analysis as Settings


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of incident."""

    kind: str
    severity: Severity
    """The severity it opens with; a detector may raise it."""
    condition: str
    """When it holds, with settings in braces."""
    detector: Callable[[Settings, float], Detector]
    hold: float | None
    """Seconds the condition must last; None: the setting `analysis.hold`."""
    clear_hold: float
    """Seconds it must be over before the incident closes."""
    advice: str
    """What to look at first."""


RULEBOOK: tuple[Rule, ...] = (
    Rule(
        "comm_bound", Severity.WARNING,
        "comm share of step time above {comm_share:.0%}, or its exposed part above "
        "{exposed_comm_share:.0%} (then critical), mean of {window:g} s over the job's nodes",
        CommBound, hold=None, clear_hold=10.0,
        advice="The named card or node first: its retransmits, then its neighbours on the rail.",
    ),
    Rule(
        "node_silent", Severity.CRITICAL,
        "no source of the node heard for {node_silent:g} s",
        NodeSilent, hold=2.0, clear_hold=0.0,
        advice="Is the node up, does neuron-monitor run on it, is the way to it open?",
    ),
    Rule(
        "memory_pressure", Severity.WARNING,
        "a device uses more than {memory:.0%} of its HBM",
        MemoryPressure, hold=None, clear_hold=10.0,
        advice="Which category grows: tensors (activations, leaks) or scratchpad (a new graph)?",
    ),
    Rule(
        "execution_errors", Severity.CRITICAL,
        "executions fail: any count but `completed` grows",
        ExecutionErrors, hold=0.0, clear_hold=30.0,
        advice="Hardware errors: drain the node. Numerical: the loss. Others: the runtime's log.",
    ),
    Rule(
        "ecc_uncorrected", Severity.CRITICAL,
        "an uncorrected HBM or SRAM error appears",
        EccUncorrected, hold=0.0, clear_hold=600.0,
        advice="Drain the node and replace it; results since then are suspect.",
    ),
)  # fmt: skip


def rules(settings: Settings) -> tuple[Rule, ...]:
    """The rules in force.

    Raises:
        SettingsError: `analysis.disabled` names no kind of incident.
    """
    kinds = [rule.kind for rule in RULEBOOK]
    for kind in settings.disabled:
        if kind not in kinds:
            near = get_close_matches(kind, kinds, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingsError(
                f"analysis.disabled: {kind} is no kind of incident ({', '.join(kinds)}){hint}"
            )
    return tuple(rule for rule in RULEBOOK if rule.kind not in settings.disabled)


def condition(rule: Rule, settings: Settings) -> str:
    """The rule's condition with the settings' numbers in it."""
    names = ("comm_share", "exposed_comm_share", "window", "node_silent", "memory")
    return rule.condition.format(**{name: getattr(settings, name) for name in names})
