"""Summary of a cluster by a Prometheus backend: node count, totals, incidents.

The backend has the series of all agents; the nodes to show are streams of their own, and incidents
are those of the agents. The source `prometheus` has two JSON messages:

    ClusterSummary  the whole cluster, with each refresh
    Backfill        series from before the first tick, for the graphs
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from trntop.core import units
from trntop.core.errors import DecodeError
from trntop.core.model import (
    ClusterTotals,
    Evidence,
    Incident,
    Reading,
    Severity,
    State,
    Status,
)
from trntop.core.text import clean
from trntop.pipeline.history import History
from trntop.pipeline.source_buffer import LATE_PERIODS

VERSION = 1
"""Version of the messages."""
KEPT_CLOSED = 200
"""Closed incidents that are kept."""
MAX_INCIDENTS = 2000
"""Open incidents that are shown, the worst."""
MAX_NODES = 40_000
MAX_NOTES = 16
MAX_TIMES = 4000
"""Rows of a backfill."""
SLACK = 5.0
"""Extra seconds before a summary counts as old."""


class RemoteIncident(msgspec.Struct, frozen=True, array_like=True):
    """An open incident of an agent."""

    kind: str
    severity: Severity
    opened_at: float
    job: str | None = None
    node: str | None = None
    component: str | None = None


class ClusterSummary(msgspec.Struct, frozen=True, tag="cluster", tag_field="of"):
    """The whole cluster at one refresh."""

    v: int
    period: float
    """Seconds from one sample of a node to the next, or between refreshes if that is longer."""
    nodes: int
    roster: tuple[str, ...]
    """The nodes that are shown; others are removed."""
    chosen: bool = False
    """Whether only the worst nodes are shown."""
    down: int = 0
    newest: float | None = None
    simulated: bool = False
    values: dict[str, float] = {}
    jobs: dict[str, dict[str, float]] = {}
    incidents: tuple[RemoteIncident, ...] | None = ()
    """The open ones; None if unknown, then the previous ones stay."""
    notes: tuple[str, ...] = ()


class Backfill(msgspec.Struct, frozen=True, tag="past", tag_field="of"):
    """Series from before the first tick; `null` is no value."""

    v: int
    times: tuple[float, ...]
    """Unix seconds, rising."""
    scalars: dict[str, tuple[float | None, ...]] = {}
    """`job/quantity`, or `/quantity` of all nodes → values."""
    nodes: dict[str, dict[str, tuple[float | None, ...]]] = {}
    """Node → node quantity → values."""


_decoder = msgspec.json.Decoder(ClusterSummary | Backfill)


def encode(message: ClusterSummary | Backfill) -> bytes:
    """A message as the payload of a reading."""
    return msgspec.json.encode(message)


class SummaryTracker:
    """The newest summary of a backend, and its open and closed incidents.

    Args:
        history: receives the backfill.
        period: seconds between its rows.
    """

    def __init__(self, history: History, period: float) -> None:
        self._history = history
        self._period = period
        self._newest: ClusterSummary | None = None
        self._as_of = 0.0
        """Time of its newest sample, else of the summary."""
        self._problem = ""
        self._open: dict[str, Incident] = {}
        self._closed: dict[str, Incident] = {}

    @property
    def roster(self) -> frozenset[str] | None:
        """The nodes to show; None before the first summary."""
        return None if self._newest is None else frozenset(self._newest.roster)

    def add(self, reading: Reading) -> None:
        """Adds one message.

        Raises:
            DecodeError: it is not valid, or of another version.
        """
        try:
            message = _decoder.decode(reading.data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise DecodeError(
                f"not a message of a Prometheus backend: {clean(str(error))}"
            ) from error
        if message.v != VERSION:
            raise DecodeError(
                f"the message has version {message.v}, this trntop supports {VERSION}"
            )
        if isinstance(message, Backfill):
            self._fill(message)
            return
        if len(message.roster) > MAX_NODES:
            raise DecodeError(f"{len(message.roster):,} nodes are more than can be shown")
        self._newest, self._problem = message, ""
        self._as_of = reading.time if message.newest is None else message.newest
        if message.incidents is not None:
            self._update(sorted(message.incidents, key=_urgency), reading.time)

    def status(self, status: Status) -> None:
        """Sets the state that the collector reports."""
        self._problem = status.reason if status.state is State.DOWN else ""

    def problem(self, text: str) -> None:
        """Reports a message that is not valid; the previous summary stays."""
        self._problem = text

    def restart(self) -> None:
        """Resets the state after the clock of the stream was set back."""
        self._newest = None
        self._open.clear()
        self._closed.clear()

    def whole(self, now: float) -> ClusterTotals:
        """The totals at `now`."""
        newest = self._newest
        if newest is None:
            return ClusterTotals(problem=self._problem)
        return ClusterTotals(
            nodes=newest.nodes,
            chosen=newest.chosen,
            down=newest.down,
            newest=newest.newest,
            old=self._is_old(now),
            simulated=newest.simulated,
            judged=newest.incidents is not None,
            values={} if self._is_old(now) else newest.values,
            jobs={} if self._is_old(now) else newest.jobs,
            notes=newest.notes[:MAX_NOTES],
            problem=self._problem,
        ).cleaned()

    def incidents(self, now: float) -> tuple[Incident, ...]:
        """Open ones first, worst first; then closed ones, newest first.

        If the newest sample is old, the summaries show its age.
        """
        found = sorted(
            self._open.values(), key=lambda found: (-found.severity.rank, found.opened_at)
        )
        if self._is_old(now):
            age = units.age(now - self._as_of)
            found = [replace(item, summary=f"{item.summary} (as of {age} ago)") for item in found]
        over = sorted(self._closed.values(), key=lambda found: -(found.closed_at or 0.0))
        return (*found, *over)

    def _is_old(self, now: float) -> bool:
        if self._newest is None:
            return False
        return now - self._as_of > LATE_PERIODS * self._newest.period + SLACK

    def _update(self, reported: Sequence[RemoteIncident], now: float) -> None:
        """Opens new incidents and closes those that are no longer reported.

        Args:
            reported: all open incidents, the worst first.
            now: time of the summary.
        """
        before, self._open = self._open, {}
        seen = set()
        for remote in reported:
            incident = incident_of(remote, now)
            if incident.id in seen:
                continue
            seen.add(incident.id)
            over = self._closed.pop(incident.id, None)
            if len(self._open) >= MAX_INCIDENTS:
                continue
            known = before.get(incident.id)
            if known is None:
                returns = 0 if over is None else over.returns + 1
                known = replace(incident, returns=returns)
            elif known.severity.rank < incident.severity.rank:
                known = replace(known, severity=incident.severity)
            self._open[incident.id] = known
        for name, incident in before.items():
            if name not in seen:
                self._closed[name] = replace(incident, closed_at=now)
        for name in list(self._closed)[: max(0, len(self._closed) - KEPT_CLOSED)]:
            del self._closed[name]

    def _fill(self, past: Backfill) -> None:
        """Adds a backfill to the history.

        Raises:
            DecodeError: the numbers of values and times differ, or are too large.
        """
        lines = [
            *past.scalars.values(),
            *(values for table in past.nodes.values() for values in table.values()),
        ]
        if len(past.times) > MAX_TIMES or any(len(line) != len(past.times) for line in lines):
            raise DecodeError("a backfill with different numbers of values and times")
        self._history.fill(
            past.times,
            {clean(key): values for key, values in past.scalars.items()},
            {clean(node): table for node, table in past.nodes.items()},
            self._period,
        )


def incident_of(remote: RemoteIncident, now: float, closed: float | None = None) -> Incident:
    """The incident of an agent, of which only the labels and the start are known."""
    kind = clean(remote.kind, 64)
    job, node, component = (
        None if text is None else clean(text)
        for text in (remote.job, remote.node, remote.component)
    )
    where = " ".join(filter(None, (node, component))) or "the cluster"
    place = f"{job}, {where}" if job and (node or component) else job or where
    evidence = Evidence("reported by an agent, which has the evidence", node)
    return Incident(
        id=f"{kind}/{job or ''}/{node or ''}/{component or ''}",
        kind=kind,
        severity=remote.severity,
        summary=clean(f"{place}: {kind.replace('_', ' ')}", 120),
        opened_at=min(remote.opened_at, now),
        closed_at=closed,
        job=job,
        node=node,
        component=component,
        evidence=(evidence,),
    )


def _urgency(incident: RemoteIncident) -> tuple[int, float, str, str, str, str]:
    """Sorts by severity, then by start."""
    where = incident.job or "", incident.node or "", incident.component or ""
    return -incident.severity.rank, incident.opened_at, incident.kind, *where
