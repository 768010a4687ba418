"""The single pipeline: readings in, views out. No I/O, no thread, no clock."""

import heapq
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Protocol, TypeVar

from trntop.analysis import Analyzer
from trntop.analysis.across import AcrossJudges
from trntop.analysis.analyzer import JobPhases
from trntop.analysis.coverage import joined
from trntop.analysis.rulebook import rules
from trntop.catalog import AGENT, INCIDENTS, PROMETHEUS
from trntop.core.errors import DecodeError
from trntop.core.model import (
    Cluster,
    Coverage,
    Incident,
    NeffProfile,
    NodeView,
    Reading,
    Sample,
    Status,
    View,
)
from trntop.core.settings import Settings
from trntop.pipeline import totals
from trntop.pipeline.derive import compute_plan
from trntop.pipeline.history import History
from trntop.pipeline.jobs import job_means, with_stalled
from trntop.pipeline.node import NodeState
from trntop.pipeline.skew import Skew
from trntop.remote import backfill
from trntop.remote.judges import Judges
from trntop.remote.node import RemoteNode
from trntop.remote.summary import SummaryTracker
from trntop.sources import DECODERS

MAX_NODES = 40_000
MAX_UNKNOWN = 64
"""Unknown sources that are counted by name."""
MAX_CATCH_UP = 120.0
"""Seconds; a longer gap in the stream is skipped, without ticks."""


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SparseStart:
    """The beginning of a stream, in which the sources are polled less often than once a second."""

    until: int
    """Seconds after the stream's start; a multiple of `every`."""
    every: int
    """Seconds between two polls, and two ticks."""

    def polled(self, second: int) -> int:
        """The interval, in seconds, of the readings at a second; 0 if the sources are not polled
        then.
        """
        if second > self.until:
            return 1
        return 0 if second % self.every else self.every


Result = TypeVar("Result", covariant=True)


class Player(Protocol[Result]):
    """Receives a stream and makes a result of each tick."""

    period: float
    sparse: SparseStart | None
    """The beginning of the stream, if its sources are polled less often there."""

    def feed(self, reading: Reading) -> None:
        """Adds one reading."""
        ...

    def restart(self) -> None:
        """Resets after the stream's clock was set back."""
        ...

    def end(self, now: float) -> None:
        """Ends the stream at `now`."""
        ...

    def tick(self, now: float) -> Result:
        """The result at `now`, one period after the last tick."""
        ...


class Monitor:
    """All nodes, their history and incidents.

    Args:
        settings: the settings in force.
        period: seconds between ticks.
        profiles: NEFF profiles known on this machine; a node's own source adds to them.
        wanted: the quantities that are needed; None for all. The others are neither decoded nor
            computed, and there is no history.
        sparse: the beginning of the stream, if its sources are polled less often there.
        observer: whether nodes of aggregators are judged by those alone, whose incidents are shown
            and joined.
    """

    def __init__(
        self,
        settings: Settings,
        period: float = 1.0,
        profiles: tuple[NeffProfile, ...] = (),
        wanted: frozenset[str] | None = None,
        sparse: SparseStart | None = None,
        *,
        observer: bool = False,
    ) -> None:
        self.period = period
        self.sparse = sparse
        self._recorded: tuple[Cluster, dict[str, float]] | None = None
        """The previous entry of the history, in a sparse start."""
        self._profiles = profiles
        self._plan = compute_plan(wanted)
        self.history = History(
            settings.history.seconds, settings.history.coarse, settings.history.step
        )
        self.settings = settings
        self._nodes: dict[str, NodeState] = {}
        self._remotes: dict[str, RemoteNode] = {}
        """Nodes reported by an agent."""
        self._summary: SummaryTracker | None = None
        """Summary from a Prometheus backend; if there is one, the agents evaluate the rules."""
        self._judges = Judges() if observer else None
        """The aggregators that evaluate the rules for their nodes."""
        self._across = AcrossJudges(rules(settings.analysis, settings.rules))
        self._own: frozenset[str] = frozenset()
        """The nodes that have no aggregator."""
        self._phases = JobPhases()
        self._incidents: tuple[Incident, ...] = ()
        self._coverage = Coverage()
        self._order: list[str] = []
        self._analyzer = Analyzer(settings.analysis, period, settings.rules)
        self._generation = 0
        self.unknown_sources: dict[str, int] = {}
        """Readings without a decoder, by source."""
        self.ended = False

    def blank_copy(self) -> "Monitor":
        """A monitor with the same settings and no data, for another time of the same stream."""
        other = Monitor(
            self.settings, self.period, self._profiles, self._plan.wanted,
            observer=self._judges is not None,
        )  # fmt: skip
        other._generation = self._generation
        return other

    def recover(self, incidents: Sequence[Incident], time: float) -> None:
        """Continues an earlier run that ended at `time`, see `Analyzer.recover`."""
        self._analyzer.recover(incidents, time)

    def feed(self, reading: Reading) -> None:
        """Adds one reading; a payload that cannot be decoded is counted and shown."""
        if reading.source == AGENT:
            self._feed_remote(reading)
            return
        if reading.source == PROMETHEUS:
            self._feed_summary(reading)
            return
        if reading.source == INCIDENTS:
            self._feed_judgment(reading)
            return
        decoder = DECODERS.get(reading.source)
        if decoder is None:
            known = self.unknown_sources
            if reading.source in known or len(known) < MAX_UNKNOWN:
                known[reading.source] = known.get(reading.source, 0) + 1
            return
        node = self._node(reading.node)
        if node is None:
            return
        if reading.source in self._plan.skippable and node.is_up(reading.source):
            node.feed(reading, Sample())  # the node is up
            return
        with _guarded(reading, partial(node.problem, reading.source)):
            node.feed(reading, decoder(reading.data))

    def _feed_remote(self, reading: Reading) -> None:
        if (node := self._remote(reading.node)) is None:
            return
        with _guarded(reading, node.problem):
            node.feed(reading)

    def _feed_judgment(self, reading: Reading) -> None:
        """Adds incidents of an aggregator; ignored unless this is an observer."""
        if self._judges is not None:
            with _guarded(reading, partial(log.warning, "%s: %s", reading.node)):
                self._judges.update(reading)

    def _feed_summary(self, reading: Reading) -> None:
        """Adds the response of a Prometheus backend; nodes that it no longer lists are removed."""
        summary = self._summary_tracker()
        with _guarded(reading, summary.problem):
            summary.add(reading)
        roster = summary.roster
        if roster is not None and (gone := self._remotes.keys() - roster):
            for name in gone:
                del self._remotes[name]
            self._update_order()

    def _summary_tracker(self) -> SummaryTracker:
        if self._summary is None:
            self._summary = SummaryTracker(self.history, self.period)
        return self._summary

    def status(self, status: Status) -> None:
        """Sets the state that a collector reports for its source."""
        if status.source == PROMETHEUS:
            self._summary_tracker().status(status)
            return
        find = self._remote if status.source == AGENT else self._node
        if (node := find(status.node)) is not None:
            node.status(status)

    def remove(self, name: str, sources: Set[str] | None = None) -> None:
        """Removes a node, or some of its sources; its incidents end."""
        if sources is None or AGENT in sources:
            self._remotes.pop(name, None)
        node = self._nodes.get(name)
        if node is not None and (sources is None or not node.drop_sources(sources)):
            del self._nodes[name]
        self._update_order()

    def end(self, now: float) -> None:
        """Ends the stream at `now`: values that are not stale remain, marked *ended*."""
        self.ended = True
        for node in self._all():
            node.end(now)

    def restart(self) -> None:
        """Resets all nodes after the stream's clock was set back."""
        for node in self._all():
            node.restart()
        if self._summary is not None:
            self._summary.restart()
        if self._judges is not None:
            self._judges.restart()

    def resume(self) -> None:
        """Restarts a looped stream."""
        self.ended = False
        for node in self._all():
            node.resume()

    def tick(self, now: float, lag: float = 0.0) -> View:
        """The view at `now`; call `restart` before `now` goes back."""
        return self.evaluate(self.cluster(now), lag)

    def cluster(self, now: float) -> Cluster:
        """The nodes at `now`, without incidents."""
        nodes = {name: self._view(name, now) for name in self._order}
        return Cluster(now, nodes, None if self._summary is None else self._summary.whole(now))

    def _view(self, name: str, now: float) -> NodeView:
        node, remote = self._nodes.get(name), self._remotes.get(name)
        if remote is None:
            assert node is not None
            return node.view(now)
        return remote.view(now, None if node is None else node.view(now))

    def _all(self) -> Iterator[NodeState | RemoteNode]:
        return chain(self._nodes.values(), self._remotes.values())

    def evaluate(self, cluster: Cluster, lag: float = 0.0) -> View:
        """Evaluates the rules on the nodes of a tick."""
        if self._summary is None:
            cluster = self._judge(cluster)
        else:
            self._incidents = self._summary.incidents(cluster.time)
        if self._plan.wanted is None:
            self._record(cluster, dict(job_means(cluster)))
        return self._make_view(cluster, lag)

    def _judge(self, cluster: Cluster) -> Cluster:
        """Evaluates the rules on the nodes that no aggregator judges; returns the cluster with
        phases.
        """
        judge_of = {}
        if self._judges is not None:
            judge_of = {name: node.judge for name, node in self._remotes.items() if node.judge}
        if judge_of.keys() & self._own:
            # The end of incidents found on these nodes before they had a judge is not detected.
            self._analyzer = Analyzer(self.settings.analysis, self.period, self.settings.rules)
        self._own = frozenset(cluster.nodes.keys() - judge_of.keys())
        if self._judges is None or not judge_of:
            self._incidents = self._analyzer.tick(cluster)
            self._coverage = self._analyzer.coverage
            aggregated = None if self._judges is None else self._judges.aggregated
            cluster = replace(
                cluster,
                phases=self._analyzer.phases,
                first_steps=self._analyzer.first_steps,
                aggregated=aggregated,
            )
            return with_stalled(cluster, self._incidents, self._analyzer.job_of)
        newest: dict[str, float] = {}
        for name, judge in judge_of.items():
            newest[judge] = max(newest.get(judge, 0.0), self._remotes[name].received)
        ages = {judge: cluster.time - time for judge, time in newest.items()}
        own = self._analyzer.tick(_part(cluster, self._own))
        judged = self._judges.incidents(ages, cluster.time)
        found = self._across.joined([own, *judged], cluster.time)
        self._incidents = tuple(sorted(found, key=_urgency))
        coverages = self._judges.coverages(ages)
        self._coverage = joined([*coverages, *([self._analyzer.coverage] if self._own else [])])
        if parts := self._judges.totals(ages):
            shown = [name for name in cluster.nodes if judge_of.get(name) not in parts]
            rest = totals.totals_of(_part(cluster, shown))
            whole = totals.joined([*parts.values(), rest])
            cluster = replace(
                cluster, whole=replace(whole, chosen=whole.nodes > len(cluster.nodes))
            )
        cluster = replace(
            cluster,
            phases=self._phases.tick(cluster),
            first_steps=self._phases.first_steps,
            judges=self._judges.of(Counter(judge_of.values()), ages),
        )
        return with_stalled(cluster, self._incidents, self._phases.job_of)

    def _record(self, cluster: Cluster, means: dict[str, float]) -> None:
        """Adds a tick to the history; sparse ticks are repeated until the next."""
        if self.sparse is not None:
            if self._recorded is not None:
                before, means_before = self._recorded
                steps = round((cluster.time - before.time) / self.period)
                for step in range(1, steps if steps <= self.sparse.every else 1):
                    time = before.time + step * self.period
                    self.history.append(replace(before, time=time), means_before)
            self._recorded = cluster, means
        self.history.append(cluster, means)

    def view_between_ticks(self, now: float) -> View:
        """The nodes at `now`, between two ticks, with the incidents of the last tick."""
        return self._make_view(self.cluster(now))

    def _make_view(self, cluster: Cluster, lag: float = 0.0) -> View:
        self._generation += 1
        return View(
            self._generation, cluster.time, cluster, self._incidents, self.ended, lag,
            self._coverage,
        )  # fmt: skip

    def _node(self, name: str) -> NodeState | None:
        node = self._nodes.get(name)
        if node is None and self._has_room(name):
            node = self._nodes[name] = NodeState(name, self._profiles, self._plan)
            self._update_order()
        return node

    def _remote(self, name: str) -> RemoteNode | None:
        node = self._remotes.get(name)
        if node is None and self._has_room(name):
            node = self._remotes[name] = RemoteNode(name)
            self._update_order()
        return node

    def _has_room(self, name: str) -> bool:
        known = name in self._nodes or name in self._remotes
        return known or len(self._order) < MAX_NODES

    def _update_order(self) -> None:
        self._order = sorted(self._nodes.keys() | self._remotes.keys())


def _part(cluster: Cluster, names: Iterable[str]) -> Cluster:
    """Some nodes of a cluster, in its order."""
    chosen = set(names)
    nodes = {name: view for name, view in cluster.nodes.items() if name in chosen}
    return Cluster(cluster.time, nodes)


def _urgency(incident: Incident) -> tuple[float, float, float]:
    """Sort key: open incidents first, the worst first; then closed ones, the newest first."""
    closed = math.inf if incident.closed_at is None else incident.closed_at
    rank = incident.severity.rank if incident.open else 0
    return -closed, -rank, incident.opened_at


@contextmanager
def _guarded(reading: Reading, report: Callable[[str], object]) -> Iterator[None]:
    """Reports errors in a payload; a bug in a decoder affects only this payload."""
    try:
        yield
    except DecodeError as error:
        report(str(error))
    except Exception as error:
        log.exception("decoding %s of %s", reading.source, reading.node)
        report(f"internal error: {type(error).__name__}")


def play(
    readings: Iterable[Reading],
    monitor: Player[Result],
    skew: Skew | None = None,
    tick_at: float | None = None,
    *,
    ends: bool = True,
) -> Iterator[Result]:
    """Runs a recorded or simulated stream through `monitor`, one view per period of its time.

    The times of nodes whose clocks are wrong are aligned with the others. If the stream itself
    jumps (all clocks were set, files were joined, nothing was recorded for a long time), there is
    one tick, and time continues from there. The last view, with the stream ended, is at the time of
    the last reading. An empty stream gives no view.

    Args:
        readings: the stream, in the order of arrival.
        monitor: receives the readings and makes the views.
        skew: aligns the clocks; a new one by default.
        tick_at: the time of one of the ticks; by default, one period after the first reading.
        ends: whether to end the stream after its last reading, with a last view.
    """
    skew = Skew() if skew is None else skew
    due = now = None
    dense, sparse = -math.inf, monitor.sparse
    for reading in skew.aligned(readings):
        time = skew.time
        if now is None or due is None:
            step = monitor.period
            if sparse is not None:
                dense = time + sparse.until
                step = sparse.every if sparse.until and tick_at is not None else step
            now, due = time, time + step
            if tick_at is not None:
                due -= (time - tick_at) % step
        if abs(time - now) > MAX_CATCH_UP:
            yield monitor.tick(now)
            if time < now:
                monitor.restart()
            now, due = time, time + monitor.period
        now = max(now, time)
        while due <= now:
            yield monitor.tick(due)
            due += sparse.every if sparse is not None and due < dense else monitor.period
        monitor.feed(reading)
    if now is not None and ends:
        monitor.end(now)
        yield monitor.tick(now)


def play_backfill(
    backfills: Iterable[Iterable[Reading]],
    monitor: Monitor,
    now: float,
    arrived: Iterable[Reading] = (),
) -> Iterator[View]:
    """Plays the backfill of nodes, then later readings; ticks are sparse in the older part.

    Args:
        backfills: the readings of each node, ordered by time.
        monitor: receives the readings and makes the views.
        now: the current time.
        arrived: readings that have arrived meanwhile; read last.
    """
    rests = [iter(readings) for readings in backfills]
    heads = [reading for rest in rests if (reading := next(rest, None)) is not None]
    merged = heapq.merge(heads, *rests, key=attrgetter("time"))
    if heads:
        dense = backfill.DENSE_SECONDS if len(rests) <= backfill.DENSE_NODES else backfill.STEP
        until = now - dense - min(reading.time for reading in heads)
        monitor.sparse = SparseStart(
            max(0, int(until // backfill.STEP) * backfill.STEP), backfill.STEP
        )
    # Ticks are one period after the frames of a step.
    yield from play(chain(merged, arrived), monitor, tick_at=monitor.period, ends=False)
    monitor.sparse = None
