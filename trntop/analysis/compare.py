"""Two runs side by side: the numbers of `trntop compare`, and how they differ.

A run is a recording, a simulation, or a window of one. Everything is summed up over time from the
same views that screen, analysis and exporter see, so that a GPU run that brings nothing but steps
records can be compared with a Trainium run: what one side lacks is absent there.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from trntop.catalog import CATALOG, COLLECTIVES, Provenance
from trntop.core import units
from trntop.core.model import Cluster, Incident, View
from trntop.core.settings import Analysis
from trntop.pipeline.jobs import job_mean, newest_step

SIMILAR = 0.02
"""Share by which two numbers may differ and still count as equal."""
HOUR = 3600.0
MILLION = 1e6

Form = Callable[[float | None], str]
Reduce = Callable[[npt.NDArray[np.float64]], Any]


class Better(Enum):
    """The direction in which a number is better."""

    LESS = -1
    NEITHER = 0
    MORE = 1


@dataclass(frozen=True, slots=True)
class Subject:
    """One line of the comparison."""

    name: str
    title: str
    quantities: tuple[str, ...]
    """Catalog names, the best first; the first that a side has counts."""
    form: Form
    over: Reduce = np.mean
    """Of the values of all ticks, or steps."""
    better: Better = Better.NEITHER
    across: Reduce = np.mean
    """Of the values of all nodes at one tick."""
    floor: float = 0.0
    """Below it a number is noise: two of them have no ratio and are similar."""


def _shares(*rows: tuple[str, str, str, Better]) -> tuple[Subject, ...]:
    return tuple(
        Subject(name, title, (quantity,), units.percent, better=better)
        for name, title, quantity, better in rows
    )


def _p95(values: npt.NDArray[np.float64]) -> Any:
    return np.percentile(values, 95)


def _last(values: npt.NDArray[np.float64]) -> Any:
    return values[-1]


_STEP = ("job_step_seconds", "job_step_pace_seconds")
_LESS, _MORE, _NEITHER = Better.LESS, Better.MORE, Better.NEITHER
SUBJECTS: tuple[Subject, ...] = (
    Subject("step_seconds_median", "step time, median", _STEP, units.seconds, np.median, _LESS),
    Subject("step_seconds_p95", "step time, p95", _STEP, units.seconds, _p95, _LESS),
    Subject("tokens_per_second", "tokens/s", ("job_tokens_per_second",), units.si, better=_MORE),
    Subject(
        "tokens_per_second_per_device", "tokens/s per device",
        ("job_tokens_per_second_per_device",), units.si, better=_MORE,
    ),
    *_shares(
        ("mfu", "MFU", "job_mfu_ratio", _MORE),
        ("comm_share", "comm share of step", "job_comm_share_ratio", _LESS),
        ("exposed_share", "exposed share of step", "job_exposed_comm_share_ratio", _LESS),
        ("reduction_share", "both reductions, share of step", "job_reduction_share_ratio", _LESS),
        *(
            (f"{kind}_share", f"{title} share of step", f"job_{kind}_share_ratio", _LESS)
            for kind, title in COLLECTIVES.items()
        ),
        ("comm_share_floor", "comm share, at least", "node_comm_share_floor_ratio", _NEITHER),
        ("comm_share_ceiling", "comm share, at most", "node_comm_share_ceiling_ratio", _NEITHER),
    ),
    *(
        Subject(
            f"{kind}_busbw", f"{title} busbw per rank", (f"job_{kind}_busbw_bytes_per_second",),
            units.bytes_rate, better=_MORE,
        )
        for kind, title in COLLECTIVES.items()
    ),
    Subject("loss", "loss, last", ("job_loss",), units.loss, _last),
    *_shares(
        ("utilization", "utilization", "node_neuroncore_utilization_mean_ratio", _NEITHER),
        ("tensor_engine_busy", "tensor engine busy", "node_tensor_engine_busy_mean_ratio", _MORE),
        ("hbm_used", "HBM used, fullest device", "node_device_memory_used_max_ratio", _NEITHER),
        ("hbm_bandwidth", "HBM bandwidth, of peak", "node_hbm_bandwidth_ratio", _NEITHER),
    ),
    Subject(
        "efa_transmit", "EFA sent, all nodes", ("node_efa_tx_bytes_per_second",), units.gigabits,
        across=np.sum,
    ),
    Subject(
        "efa_receive", "EFA received, all nodes", ("node_efa_rx_bytes_per_second",),
        units.gigabits, across=np.sum,
    ),
    Subject(
        "efa_retransmits", "EFA retransmits, worst device", ("node_efa_retransmit_max_ratio",),
        units.percent, np.max, _LESS, np.max, Analysis().retransmits,
    ),
    Subject("power", "power, of the limit", ("node_device_power_mean_ratio",), units.percent),
    Subject(
        "compile_seconds", "compile time, longest node", ("node_compile_seconds_total",),
        units.seconds, _last, _LESS, np.max,
    ),
    Subject(
        "cache_hits", "compile cache hits", ("node_compile_cache_hits_total",), units.count, _last,
        across=np.sum,
    ),
    Subject(
        "cache_misses", "compile cache misses", ("node_compile_cache_misses_total",), units.count,
        _last, _LESS, np.sum,
    ),
)  # fmt: skip
WANTED = frozenset(
    ("job_step", "job_epoch", *(name for subject in SUBJECTS for name in subject.quantities))
)
"""The quantities that are read, in addition to those of the analysis."""

COST = "cost_per_million_tokens"
EPOCH_COST = "cost_per_epoch"
FIRST_STEP = "first_step_seconds"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of one side."""

    value: float
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Side:
    """One run, summed up."""

    source: str
    """The text of the user."""
    simulated: bool
    first: float
    last: float
    """Unix times between which it was seen."""
    seconds: float
    nodes: int
    types: tuple[str, ...]
    job: str
    """The job whose steps are compared: the one that was reported longest; empty for none."""
    job_nodes: int
    figures: dict[str, Figure]
    """Name of a subject → its number; missing where the run lacks it."""
    incidents: tuple[Incident, ...]
    price: float | None = None
    """US dollars for a node and hour."""

    @property
    def kinds(self) -> dict[str, int]:
        """Kind of incident → how many there were."""
        return dict(Counter(incident.kind for incident in self.incidents).most_common())


@dataclass(frozen=True, slots=True)
class Pair:
    """A number of both sides."""

    name: str
    title: str
    form: Form
    better: Better
    a: Figure | None
    b: Figure | None
    floor: float = 0.0

    @property
    def ratio(self) -> float | None:
        """B in parts of A; None where a side lacks it, or A is nothing, or both are noise."""
        if self.a is None or self.b is None or not self.a.value or self._noise:
            return None
        return self.b.value / self.a.value

    @property
    def _noise(self) -> bool:
        """Whether both are below the floor."""
        known = [abs(figure.value) for figure in (self.a, self.b) if figure is not None]
        return len(known) == 2 and max(known) < self.floor

    @property
    def verdict(self) -> str:
        """How B does: better, worse, similar; empty where it is neither, or not known."""
        if self.a is None or self.b is None or self.better is Better.NEITHER:
            return ""
        a, b = self.a.value, self.b.value
        if self._noise or abs(b - a) <= SIMILAR * max(abs(a), abs(b)):
            return "similar"
        return "better" if (b > a) is (self.better is Better.MORE) else "worse"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs and what they have in common."""

    a: Side
    b: Side
    pairs: tuple[Pair, ...]


def compare(a: Side, b: Side) -> Comparison:
    """Both sides' numbers in one order; what neither has is left out."""
    lines = [(row.name, row.title, row.form, row.better, row.floor) for row in SUBJECTS]
    lines.insert(4, (COST, "cost per M tokens", dollars, Better.LESS, 0.0))
    lines.insert(5, (EPOCH_COST, "cost per epoch", dollars, Better.LESS, 0.0))
    lines.insert(2, (FIRST_STEP, "step time, first", units.seconds, Better.LESS, 0.0))
    pairs = (
        Pair(name, title, form, better, a.figures.get(name), b.figures.get(name), floor)
        for name, title, form, better, floor in lines
    )
    return Comparison(a, b, tuple(pair for pair in pairs if pair.a or pair.b))


def dollars(amount: float | None) -> str:
    """`$0.200`."""
    return units.ABSENT if amount is None else f"${amount:,.3f}"


@dataclass(frozen=True, slots=True)
class Window:
    """Seconds from the beginning of a stream between which it counts."""

    start: float = 0.0
    end: float = float("inf")


def summary(
    views: Iterable[View], source: str, window: Window, price: float | None = None
) -> Side | None:
    """One run, or a window of it, in numbers; None where nothing falls into the window.

    Args:
        views: of the whole run, from its beginning: what rates and incidents come from may lie
            before the window.
        source: how the user named it.
        window: what counts.
        price: US dollars for a node and hour, if known.
    """
    begun: float | None = None
    sums = _Sums()
    for view in views:
        begun = view.time if begun is None else begun
        if view.time - begun > window.end:
            break
        if view.time - begun >= window.start and not (view.ended and sums.begun):
            sums.append(view)
    return sums.side(source, price)


class _Sums:
    """What has been seen of one run."""

    def __init__(self) -> None:
        self._first: View | None = None
        self._last: View | None = None
        self._seconds = 0.0
        self._nodes: dict[str, array[float]] = {}
        """Quantity of nodes → its values, one a tick."""
        self._jobs: dict[str, dict[str, array[float]]] = {}
        """Job → quantity → its values: of steps one a step."""
        self._steps: dict[str, float] = {}
        """Job → the newest step."""
        self._ticks: Counter[str] = Counter()
        self._most: dict[str, int] = {}
        """Job → on how many nodes it was at most."""
        self._incidents: dict[str, Incident] = {}
        self._epochs: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {}
        """Job → time and epoch, first and newest."""

    @property
    def begun(self) -> bool:
        return self._first is not None

    def append(self, view: View) -> None:
        """Adds a tick."""
        self._first = self._first or view
        if self._last is not None:
            self._seconds += view.time - self._last.time
        self._last = view
        for job in view.cluster.jobs:
            self._append_job(view.cluster, job)
        for subject in SUBJECTS:
            name = subject.quantities[0]
            if name.startswith("job_"):
                continue
            if (value := view.cluster.over_nodes(name, subject.across)) is not None:
                self._nodes.setdefault(name, array("d")).append(value)
        # Their numbers grow while they are open: the newest count.
        self._incidents |= {incident.id: incident for incident in view.incidents}

    def _append_job(self, cluster: Cluster, job: str) -> None:
        kept = self._jobs.setdefault(job, {})
        step = newest_step(cluster, job)
        self._append_epoch(cluster, job)
        new = step is None or step != self._steps.get(job)
        if step is not None:
            self._steps[job] = step
        reported = False
        for name in WANTED:
            if name.startswith("job_") and (value := job_mean(cluster, job, name)) is not None:
                reported = True
                # A long step must not count more often than a short one.
                if new or name not in kept:
                    kept.setdefault(name, array("d")).append(value)
        if reported:
            self._ticks[job] += 1
            self._most[job] = max(self._most.get(job, 0), len(cluster.jobs[job]))

    def _append_epoch(self, cluster: Cluster, job: str) -> None:
        epoch = job_mean(cluster, job, "job_epoch")
        if epoch is None:
            return
        now = (cluster.time, epoch)
        first, last = self._epochs.get(job, (now, now))
        if epoch < first[1]:
            first = last = now  # the run has begun again
        self._epochs[job] = (first, now if epoch > last[1] else last)

    def _seconds_per_epoch(self, job: str) -> float | None:
        """With all pauses between the first and the newest report of the epoch."""
        if job not in self._epochs:
            return None
        (began, first), (ended, last) = self._epochs[job]
        return (ended - began) / (last - first) if last > first else None

    def side(self, source: str, price: float | None) -> Side | None:
        """What it comes to."""
        if self._first is None or self._last is None:
            return None
        job = max(self._ticks, key=lambda name: (self._ticks[name], name), default="")
        cluster = self._last.cluster
        types = Counter(node.inventory.instance_type for node in cluster.nodes.values())
        simulated = self._first.cluster.simulated or cluster.simulated
        figures = self._figures(self._jobs.get(job, {}))
        nodes = self._most.get(job, 0)
        tokens = figures.get("tokens_per_second")
        if price is not None and tokens is not None and tokens.value > 0:
            cost = nodes * price / HOUR / tokens.value * MILLION
            figures[COST] = Figure(cost, Provenance.DERIVED)
        if price is not None and (seconds := self._seconds_per_epoch(job)) is not None:
            figures[EPOCH_COST] = Figure(nodes * price / HOUR * seconds, Provenance.DERIVED)
        if (first := cluster.first_steps.get(job)) is not None:
            figures[FIRST_STEP] = Figure(first, Provenance.REPORTED)
        begun = self._first.time
        return Side(
            source=source,
            simulated=simulated,
            first=begun,
            last=self._last.time,
            seconds=self._seconds,
            nodes=len(cluster.nodes),
            types=tuple(kind for kind, _ in types.most_common() if kind),
            job=job,
            job_nodes=nodes,
            figures=figures,
            incidents=tuple(
                incident
                for incident in self._incidents.values()
                if incident.closed_at is None or incident.closed_at >= begun
            ),
            price=price,
        )

    def _figures(self, of_job: dict[str, "array[float]"]) -> dict[str, Figure]:
        found = {}
        for subject in SUBJECTS:
            for name in subject.quantities:
                values = of_job.get(name) or self._nodes.get(name)
                if values:
                    value = float(subject.over(np.frombuffer(values)))
                    found[subject.name] = Figure(value, self._provenance(name))
                    break
        return found

    def _provenance(self, name: str) -> Provenance:
        return (
            CATALOG[name].provenance if self._last is None else self._last.cluster.provenance(name)
        )


def kinds(sides: Sequence[Side]) -> list[str]:
    """Kinds of incidents that any side had, the commonest first."""
    found: Counter[str] = Counter()
    for side in sides:
        found.update(side.kinds)
    return [kind for kind, _ in found.most_common()]
