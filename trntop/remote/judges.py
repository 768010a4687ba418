"""Incidents as an aggregator judges them, for programs that show its nodes.

Each stream has messages of the type `incidents`: all incidents of the day at first, then what
changes. Agents send them too, without incidents, for the rest of what they report. An aggregator
that sends only some of its nodes adds the totals of all, in messages of the type `totals`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import msgspec

from trntop.catalog import CATALOG
from trntop.core import units
from trntop.core.errors import DecodeError
from trntop.core.model import (
    ClusterTotals,
    Coverage,
    Incident,
    Judge,
    Reading,
    RuleCoverage,
    Time,
)
from trntop.core.text import clean
from trntop.pipeline.totals import lost
from trntop.remote import wire

TAG = "incidents"
TOTALS = "totals"
ROLE = "role=aggregator"
"""How an aggregator asks for a stream, so that the agent knows that it need not alert."""
PART = 200
"""Incidents of one message."""
MAX_INCIDENTS = 4000
"""Of one aggregator."""
MAX_RULES = 200
CLOCK_SLACK = 2.0
"""Seconds by which its clock must be off to count: messages take time."""

SILENCE = 15.0
"""Seconds without a frame after which incidents may be out of date."""


class Judgment(msgspec.Struct, tag=TAG, frozen=True, omit_defaults=True):
    """What has changed since the message before."""

    v: int
    node: str
    """Empty: it is about all nodes."""
    judge: str
    """Identifies a run of the sender, as in the schemas of the nodes that it judges."""
    time: Time
    """By the sender's clock, like all times in it."""
    since: Time | None = None
    """From when on it has judged."""
    behind: float = 0.0
    """Seconds by which its ticks are late; 0 if they are not."""
    aggregated: bool = False
    """Whether an aggregator reads this agent."""
    first: bool = False
    """Whether all earlier messages are void."""
    changed: tuple[Incident, ...] = ()
    gone: tuple[str, ...] = ()
    """Ids of incidents that are no more: they are part of another, or too old."""
    coverage: Coverage = Coverage()
    """From when on each rule had enough data."""


class Totals(msgspec.Struct, tag=TOTALS, frozen=True):
    """The totals of all nodes of an aggregator that sends only some of them."""

    v: int
    node: str
    """Empty, as in `Judgment`."""
    judge: str
    totals: ClusterTotals


_decoder = msgspec.msgpack.Decoder(Judgment | Totals)
_encoder = msgspec.msgpack.Encoder()


def encoded(incident: Incident) -> bytes:
    """An incident as part of a message, without what only its program needs."""
    return _encoder.encode(replace(incident, subjects=()))


def messages(
    judge: str,
    time: float,
    since: float | None,
    behind: float,
    *,
    aggregated: bool,
    first: bool,
    changed: Collection[bytes],
    gone: Collection[str],
    coverage: Coverage = Coverage(),  # noqa: B008 — frozen
) -> Iterator[bytes]:
    """The messages with some changes; the arguments are those of `Judgment`."""
    parts = [msgspec.Raw(part) for part in changed]
    for start in range(0, max(1, len(parts)), PART):
        begins = first and start == 0
        some = cast("tuple[Incident, ...]", tuple(parts[start : start + PART]))
        lost = () if start else tuple(gone)
        yield _encoder.encode(
            Judgment(
                wire.VERSION, "", judge, time, since, behind, aggregated, begins, some, lost,
                coverage,
            )
        )  # fmt: skip


def totals_message(judge: str, totals: ClusterTotals) -> bytes:
    return _encoder.encode(Totals(wire.VERSION, "", judge, totals))


@dataclass(slots=True)
class _Sender:
    judge: str = ""
    since: float | None = None
    behind: float = 0.0
    aggregated: bool = False
    coverage: Coverage = Coverage()  # noqa: RUF009 — frozen
    incidents: dict[str, Incident] = field(default_factory=dict)
    totals: ClusterTotals | None = None


class Judges:
    """The newest judgments of all streams."""

    def __init__(self) -> None:
        self._senders: dict[str, _Sender] = {}
        """By address."""

    def update(self, reading: Reading) -> None:
        """Adds one message.

        Raises:
            DecodeError: it is not valid, or of another version.
        """
        wire.head(reading.data)  # its version
        try:
            message = _decoder.decode(reading.data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise DecodeError(f"not a message of an aggregator: {clean(str(error))}") from error
        sender = self._senders.setdefault(reading.node, _Sender())
        if isinstance(message, Totals):
            sender.totals = message.totals.cleaned()
            return
        ahead = message.time - reading.time
        ahead = ahead if abs(ahead) > CLOCK_SLACK else 0.0
        if message.first:
            sender.incidents.clear()
            sender.totals = None
        sender.judge, sender.behind = message.judge, max(0.0, message.behind)
        sender.since = None if message.since is None else message.since - ahead
        sender.aggregated = message.aggregated
        sender.coverage = _local_coverage(message.coverage, ahead)
        for name in message.gone:
            sender.incidents.pop(name, None)
        for incident in message.changed:
            if len(sender.incidents) < MAX_INCIDENTS or incident.id in sender.incidents:
                sender.incidents[incident.id] = _local(incident, ahead)

    def restart(self) -> None:
        """Resets the state after the clock of the stream was set back."""
        self._senders.clear()

    def of(self, nodes: Mapping[str, int], ages: Mapping[str, float]) -> tuple[Judge, ...]:
        """The judges of some nodes.

        Args:
            nodes: judge → number of its nodes that are shown.
            ages: judge → seconds since its newest frame.
        """
        return tuple(
            Judge(
                address,
                nodes[sender.judge] if sender.totals is None else sender.totals.nodes,
                sender.since,
                max(sender.behind, age if (age := ages[sender.judge]) > SILENCE else 0.0),
            )
            for address, sender in self._senders.items()
            if sender.judge in nodes
        )

    def incidents(self, ages: Mapping[str, float], now: float) -> list[list[Incident]]:
        """The incidents of each of some judges as of `now`, which may be long ago; summaries show
        the age of open ones that may be over.

        Args:
            ages: judge → seconds since its newest frame.
            now: the time.
        """
        then = now + CLOCK_SLACK
        parts = []
        for sender in self._senders.values():
            if (age := ages.get(sender.judge)) is None:
                continue
            part = []
            for incident in sender.incidents.values():
                if incident.opened_at > then:
                    continue
                if incident.closed_at is not None and incident.closed_at > then:
                    incident = replace(incident, closed_at=None)
                if incident.open and age > SILENCE:
                    text = f"{incident.summary} (as of {units.age(age)} ago)"
                    incident = replace(incident, summary=text)
                part.append(incident)
            parts.append(part)
        return parts

    def totals(self, ages: Mapping[str, float]) -> dict[str, ClusterTotals]:
        """Judge → the totals of its nodes, of those judges that send only some of them."""
        return {
            sender.judge: sender.totals if ages[sender.judge] <= SILENCE else lost(sender.totals)
            for sender in self._senders.values()
            if sender.judge in ages and sender.totals is not None
        }

    def coverages(self, judges: Collection[str]) -> list[Coverage]:
        """What some judges had data for."""
        return [sender.coverage for sender in self._senders.values() if sender.judge in judges]

    @property
    def aggregated(self) -> bool | None:
        """Whether aggregators read any of the agents; None if no agent reports that."""
        agents = [sender.aggregated for sender in self._senders.values()]
        return any(agents) if agents else None


def _local_coverage(coverage: Coverage, ahead: float) -> Coverage:
    """With times of this machine's clock, without rules and quantities that are unknown here."""

    def local(time: float | None) -> float | None:
        return None if time is None else time - ahead

    rules = [
        RuleCoverage(
            clean(rule.kind, 64), local(rule.since), max(0, rule.steps), max(0, rule.results),
            tuple(name for name in rule.missing if name in CATALOG),
        )
        for rule in coverage.rules[:MAX_RULES]
    ]  # fmt: skip
    return Coverage(local(coverage.watching), local(coverage.since), tuple(rules))


def _local(incident: Incident, ahead: float) -> Incident:
    """With times of this machine's clock, and text that is fit for a screen."""
    closed, detected = incident.closed_at, incident.detected_at
    return replace(
        incident.cleaned(),
        opened_at=incident.opened_at - ahead,
        closed_at=None if closed is None else closed - ahead,
        detected_at=None if detected is None else detected - ahead,
        subjects=(),
    )
