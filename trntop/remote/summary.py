"""What an engine tells of a cluster as a whole: how many nodes, their sums, what is wrong.

An engine is a server that keeps what agents exported. It knows all nodes and hands over those that
are to be shown; what is wrong with them the agents have judged, who saw all of it. One message of
source `engine`, JSON, comes with each refresh, and one with the past:

    Bulletin  the whole cluster now
    Past      series from before the first tick, for the graphs
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from trntop.catalog import CATALOG
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
"""The version of the messages that is spoken."""
KEPT_CLOSED = 200
"""Incidents that are over and are remembered."""
MAX_INCIDENTS = 2000
"""Open ones that are shown, the worst."""
MAX_NODES = 40_000
MAX_NOTES = 16
MAX_TIMES = 4000
"""Rows of the past."""
SLACK = 5.0
"""Seconds forgiven before what an engine tells is called old."""


class RemoteIncident(msgspec.Struct, frozen=True, array_like=True):
    """An incident that some agent has open."""

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
    """The nodes that are shown; who is not among them is forgotten."""
    chosen: bool = False
    """Whether these are only the worst."""
    down: int = 0
    newest: float | None = None
    simulated: bool = False
    values: dict[str, float] = {}
    jobs: dict[str, dict[str, float]] = {}
    incidents: tuple[RemoteIncident, ...] | None = ()
    """Those that are open; None where nobody tells, and what was known stands."""
    notes: tuple[str, ...] = ()


class Backfill(msgspec.Struct, frozen=True, tag="past", tag_field="of"):
    """What was before the first tick; `null` where there was no value."""

    v: int
    times: tuple[float, ...]
    """Unix seconds, rising."""
    scalars: dict[str, tuple[float | None, ...]] = {}
    """`job/quantity`, or `/quantity` of all nodes → a value for each time."""
    nodes: dict[str, dict[str, tuple[float | None, ...]]] = {}
    """Node → node quantity → a value for each time."""


_decoder = msgspec.json.Decoder(ClusterSummary | Backfill)


def encode(message: ClusterSummary | Backfill) -> bytes:
    """A message as the payload of a reading."""
    return msgspec.json.encode(message)


class SummaryTracker:
    """The newest word of an engine, and the incidents that have been and gone.

    Args:
        history: where the past goes.
        period: seconds between its rows.
    """

    def __init__(self, history: History, period: float) -> None:
        self._history = history
        self._period = period
        self._newest: ClusterSummary | None = None
        self._as_of = 0.0
        """When its newest sample was taken; where it knows of none, when it told so."""
        self._problem = ""
        self._open: dict[str, Incident] = {}
        self._closed: dict[str, Incident] = {}

    @property
    def roster(self) -> frozenset[str] | None:
        """The nodes that are to be shown; None before the engine has told."""
        return None if self._newest is None else frozenset(self._newest.roster)

    def take(self, reading: Reading) -> None:
        """Takes one message.

        Raises:
            DecodeError: it is none, or of another version.
        """
        try:
            message = _decoder.decode(reading.data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise DecodeError(f"no message of an engine: {clean(str(error))}") from error
        if message.v != VERSION:
            raise DecodeError(f"the message has version {message.v}, this trntop knows {VERSION}")
        if isinstance(message, Backfill):
            self._fill(message)
            return
        if len(message.roster) > MAX_NODES:
            raise DecodeError(f"{len(message.roster):,} nodes are more than can be shown")
        self._newest, self._problem = message, ""
        self._as_of = reading.time if message.newest is None else message.newest
        if message.incidents is not None:
            self._settle(sorted(message.incidents, key=_urgency), reading.time)

    def status(self, status: Status) -> None:
        """Takes the collector's word on the engine."""
        self._problem = status.reason if status.state is State.DOWN else ""

    def complain(self, text: str) -> None:
        """Says what was wrong with a message; the one before stands."""
        self._problem = text

    def restart(self) -> None:
        """The stream's clock was set back: what was known belongs to another time."""
        self._newest = None
        self._open.clear()
        self._closed.clear()

    def whole(self, now: float) -> ClusterTotals:
        """The cluster at `now`."""
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
            values={} if self._is_old(now) else _known(newest.values),
            jobs={} if self._is_old(now) else _cleaned(newest.jobs),
            notes=tuple(map(clean, newest.notes[:MAX_NOTES])),
            problem=self._problem,
        )

    def incidents(self, now: float) -> tuple[Incident, ...]:
        """Open ones first, worst first; then those that are over, newest first.

        Those of an engine whose newest sample is old say so: they may be over by now.
        """
        found = sorted(self._open.values(), key=lambda one: (-one.severity.rank, one.opened_at))
        if self._is_old(now):
            age = units.age(now - self._as_of)
            found = [replace(one, summary=f"{one.summary} (as of {age} ago)") for one in found]
        over = sorted(self._closed.values(), key=lambda one: -(one.closed_at or 0.0))
        return (*found, *over)

    def _is_old(self, now: float) -> bool:
        if self._newest is None:
            return False
        return now - self._as_of > LATE_PERIODS * self._newest.period + SLACK

    def _settle(self, told: Sequence[RemoteIncident], now: float) -> None:
        """Opens what is new, and closes what is told of no more.

        Those for which there is no room are neither open here nor over.

        Args:
            told: all that are open, the worst first.
            now: when that was told.
        """
        before, self._open = self._open, {}
        seen = set()
        for one in told:
            incident = self._incident(one, now)
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

    def _incident(self, told: RemoteIncident, now: float) -> Incident:
        kind = clean(told.kind, 64)
        job, node, component = (
            None if text is None else clean(text) for text in (told.job, told.node, told.component)
        )
        where = " ".join(filter(None, (node, component))) or "the cluster"
        place = f"{job}, {where}" if job and (node or component) else job or where
        evidence = Evidence(
            "judged by the agents, as the engine tells; they keep the evidence", node
        )
        return Incident(
            id=f"{kind}/{job or ''}/{node or ''}/{component or ''}",
            kind=kind,
            severity=told.severity,
            summary=clean(f"{place}: {kind.replace('_', ' ')}", 120),
            opened_at=min(told.opened_at, now),
            job=job,
            node=node,
            component=component,
            evidence=(evidence,),
        )

    def _fill(self, past: Backfill) -> None:
        """Hands the past to the history.

        Raises:
            DecodeError: there are not as many values as times, or too many.
        """
        lines = [
            *past.scalars.values(),
            *(values for table in past.nodes.values() for values in table.values()),
        ]
        if len(past.times) > MAX_TIMES or any(len(one) != len(past.times) for one in lines):
            raise DecodeError("a past whose values and times do not agree")
        self._history.fill(
            past.times,
            {clean(key): values for key, values in past.scalars.items()},
            {clean(node): table for node, table in past.nodes.items()},
            self._period,
        )


def _urgency(one: RemoteIncident) -> tuple[int, float, str, str, str, str]:
    """Sorts the worst before the others, then those that were open first."""
    where = one.job or "", one.node or "", one.component or ""
    return -one.severity.rank, one.opened_at, one.kind, *where


def _known(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if name in CATALOG}


def _cleaned(jobs: Mapping[str, Mapping[str, float]]) -> dict[str, Mapping[str, float]]:
    return {clean(job): values for job, values in jobs.items()}
