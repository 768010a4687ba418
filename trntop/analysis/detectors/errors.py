"""Executions that fail: by the runtimes' reports, else by the driver's counts of its cores."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from trntop.analysis.detector import Signal, Verdict
from trntop.catalog import (
    CORE_FAILURES,
    EXECUTION_ERRORS,
    FAILED_STATUSES,
    NEURON_MONITOR,
    NEURON_SYSFS,
    Entity,
)
from trntop.core.model import Column, Evidence, Key, NodeView, Severity
from trntop.core.settings import Analysis as Settings
from trntop.pipeline.axis import Axis
from trntop.pipeline.statistics import Growth, increase
from trntop.pipeline.tick import Tick


@dataclass(frozen=True, slots=True)
class ErrorTuning:
    """How failures are polled and listed."""

    interval: float = 5.0
    """Seconds between two polls of the driver's counts, which are read less often."""
    remembered: float = 600.0
    """Seconds after its last failure for which a subject is remembered."""
    named: int = 2
    """Kinds of failure that a summary names."""


TUNING = ErrorTuning()
MILD = frozenset(
    ("incorrect_input", "generic", "transient", "reported",
     "exec_bad_input", "generic_error", "failure", "invalid_error", "unsupported_neff_version")
)  # fmt: skip
"""Failures that may be the program's own; any other one means that something is broken."""

_TOTALS = {status: f"node_executions_{status}_total" for status in FAILED_STATUSES} | {
    error: f"node_execution_errors_{error}_total" for error in EXECUTION_ERRORS
}
_RATES = {status: f"runtime_executions_{status}_per_second" for status in FAILED_STATUSES} | {
    error: f"runtime_errors_{error}_per_second" for error in EXECUTION_ERRORS
}
_CORES = {status: f"physical_core_{status}_total" for status in CORE_FAILURES}

_FAILED = "node_executions_failed_total"
_GENERIC = _TOTALS["generic"]
_NO_FAILURES = "reported"
"""A kind: generic errors that outnumber the failed executions."""

HARMLESS = 0.5
"""The value of a subject that only reports such errors: less than that of one failure."""

_Subject = tuple[str, Key | None]
"""A node and the process that fails, None where that is unknown."""


@dataclass(slots=True)
class _Failures:
    """What failed on one subject since it began to."""

    since: float
    last: float
    source: str
    kinds: dict[str, float] = field(default_factory=dict)
    devices: set[int] = field(default_factory=set)
    """Those whose cores failed, as the driver counts."""

    @property
    def count(self) -> float:
        """Failed executions; one that shows as a status and as an error is one."""
        if self.source == NEURON_SYSFS:
            return sum(self.kinds.values())
        return _at_once(self.kinds)


@dataclass(slots=True)
class _Cores:
    """The driver's counts of one node when they were read last."""

    keys: tuple[Key, ...]
    counts: dict[str, Column]


class ExecutionErrors:
    """Executions that failed since the tick before, per process where it is known."""

    inputs = frozenset((_FAILED, "physical_core_failures_total")).union(
        _TOTALS.values(), _RATES.values(), _CORES.values()
    )

    def __init__(self, settings: Settings, period: float) -> None:
        self._growth = Growth()
        self._totals: dict[str, dict[str, float]] = {}
        """Node → its counts by kind when they grew last; none before is 0 of each."""
        self._cores: dict[str, _Cores] = {}
        self._known: dict[_Subject, _Failures] = {}
        self._axis = Axis()
        self._due = -np.inf

    def signal(self, tick: Tick) -> Signal:
        """Only those that failed within the last minutes are subjects."""
        failed: dict[_Subject, float] = {}
        totals = tick.column(_FAILED)
        unread = np.isnan(totals)  # no runtime reports
        totals = totals + np.nan_to_num(tick.column(_GENERIC))
        for index in np.flatnonzero(self._growth.push(tick.nodes, totals) > 0).tolist():
            failed |= self._of_runtimes(tick.views[index], tick.time)
        if tick.time >= self._due:
            self._due = tick.time + TUNING.interval
            for index in np.flatnonzero(unread).tolist():
                failed |= self._of_cores(tick.views[index], tick.time)
        for subject, known in list(self._known.items()):
            if tick.time - known.last > TUNING.remembered:
                del self._known[subject]
        if tuple(self._known) != self._axis.keys:
            self._axis = Axis(tuple(self._known))
        values = [
            failed.get(subject, 0.0 if self._is_reported(subject, known, tick) else np.nan)
            for subject, known in self._known.items()
        ]
        return Signal(self._axis, np.array(values, np.float64), 0.0, 0.0)

    def _is_reported(self, subject: _Subject, known: _Failures, tick: Tick) -> bool:
        """Whether a subject without failures is still reported."""
        view = tick.cluster.nodes.get(subject[0])
        if view is None:
            return False
        if known.source == NEURON_SYSFS:
            return "physical_core_failures_total" in view.frame.columns
        return _FAILED in view.frame.columns

    def _of_runtimes(self, view: NodeView, now: float) -> dict[_Subject, float]:
        """The failures of a node whose counts have grown, by process."""
        before = self._totals.get(view.name, {})
        totals = {
            kind: count
            for kind, name in _TOTALS.items()
            if (count := view.frame.value(name)) is not None
        }
        totals[_FAILED] = view.frame.value(_FAILED) or 0.0
        self._totals[view.name] = totals
        new = {kind: count - before.get(kind, 0.0) for kind, count in totals.items()}
        new = {kind: count for kind, count in new.items() if count > 0}
        failed = new.pop(_FAILED, 0.0)
        shares = {kind: _shares(view, name) for kind, name in _RATES.items() if kind in new}
        parts: dict[Key | None, dict[str, float]] = {}
        for kind, count in new.items():
            shown = _NO_FAILURES if kind == "generic" and count > failed else kind
            for pid, share in (shares[kind] or {None: 1.0}).items():
                parts.setdefault(pid, {})[shown] = count * share
        return {
            (view.name, pid): self._note((view.name, pid), now, NEURON_MONITOR, kinds)
            for pid, kinds in parts.items()
        }

    def _of_cores(self, view: NodeView, now: float) -> dict[_Subject, float]:
        """The failures that the driver has counted on a node without reports of runtimes."""
        counts = {
            status: column
            for status, name in _CORES.items()
            if (column := view.frame.columns.get(name)) is not None
        }
        if not counts:
            return {}
        keys = view.inventory.of(Entity.PHYSICAL_CORE)
        known = self._cores.get(view.name)
        if known is None or known.keys != keys:
            self._cores[view.name] = _Cores(keys, counts)
            return {}
        kinds: dict[str, float] = {}
        devices: set[int] = set()
        for status, now_counted in counts.items():
            before = known.counts.get(status, now_counted)
            if before is now_counted:
                continue
            new = np.nan_to_num(increase(before, now_counted))
            if (total := float(new.sum())) > 0:
                kinds[status] = total
                devices.update(view.inventory.physical_device[new > 0].tolist())
            # An absent count changes nothing.
            counts[status] = np.where(np.isnan(now_counted), before, now_counted)
        known.counts |= counts
        if not kinds:
            return {}
        subject = (view.name, None)
        return {subject: self._note(subject, now, NEURON_SYSFS, kinds, devices)}

    def _note(
        self,
        subject: _Subject,
        now: float,
        source: str,
        kinds: Mapping[str, float],
        devices: Iterable[int] = (),
    ) -> float:
        """Adds failures to a subject's; how many executions failed, `HARMLESS` for none."""
        known = self._known.get(subject)
        if known is None or known.source != source:
            known = self._known[subject] = _Failures(now, now, source)
        known.last = now
        known.devices.update(devices)
        for kind, count in kinds.items():
            known.kinds[kind] = known.kinds.get(kind, 0.0) + count
        failed = sum(kinds.values()) if source == NEURON_SYSFS else _at_once(kinds)
        return failed or HARMLESS

    def verdict(self, key: Hashable, tick: Tick) -> Verdict:
        """Names the process or the device, and the kinds of failure."""
        assert isinstance(key, tuple)
        node, pid = key
        known = self._known[node, pid]
        component = None if pid is None else f"runtime:{pid}"
        if len(known.devices) == 1:
            component = f"device:{min(known.devices)}"
        where = (
            ""
            if component is None
            else f" in {component.replace(':', ' ').replace('runtime', 'process')}"
        )
        count = max(1, round(known.count))
        what = f"{count} execution{'s' * (count != 1)} failed{where}"
        kinds = sorted(known.kinds, key=lambda kind: -known.kinds[kind])
        # Where an error has a kind, the status adds nothing.
        named = [kind for kind in kinds if kind != "completed_with_err"] or kinds
        names = _CORES if known.source == NEURON_SYSFS else {**_TOTALS, _NO_FAILURES: _GENERIC}
        evidence = [
            Evidence(f"{_said(kind)}{where}: {count:.0f}", node, names.get(kind), count, 0.0)
            for kind, count in sorted(known.kinds.items(), key=lambda item: -item[1])
        ]
        fields = {
            "count": what if known.count else f"no execution failed{where}",
            "kinds": ", ".join(map(_said, named[: TUNING.named])),
            "basis": known.source,
        }
        if not known.count:
            severity = Severity.INFO
        else:
            severity = Severity.WARNING if MILD.issuperset(kinds) else Severity.CRITICAL
        return Verdict.at(
            tick, node, fields, *evidence, component=component, severity=severity, since=known.since
        )

    def reset(self) -> None:
        """Drops known failures; the counts of nodes continue when a clock is set back."""
        self._growth.clear()
        self._cores.clear()
        self._known.clear()
        self._due = -np.inf


def _at_once(kinds: Mapping[str, float]) -> float:
    """Executions behind counts of statuses and of errors: the larger of both sums."""
    return max(
        sum(count for kind, count in kinds.items() if kind in FAILED_STATUSES),
        sum(count for kind, count in kinds.items() if kind in EXECUTION_ERRORS),
    )


def _shares(view: NodeView, name: str) -> dict[Key | None, float]:
    """Each process's share of a kind of failures in the newest report; those that have a pid."""
    rates = view.frame.columns.get(name)
    pids = view.inventory.of(Entity.RUNTIME)
    if rates is None or len(rates) != len(pids):
        return {}
    own = {pid: rate for pid, rate in zip(pids, rates.tolist(), strict=True) if rate > 0}
    whole = sum(own.values())
    # A negative one is a position in the report, not a pid.
    return {pid if int(pid) > 0 else None: rate / whole for pid, rate in own.items()}


def _said(kind: str) -> str:
    """`hardware` to `hardware errors`, `timed_out` to `timed out`."""
    if kind in EXECUTION_ERRORS:
        return f"{kind} errors"
    return {
        _NO_FAILURES: "more generic errors than executions",
        "completed_with_err": "completed with errors",
        "completed_with_num_err": "completed with numerical errors",
    }.get(kind, kind.replace("_", " "))
