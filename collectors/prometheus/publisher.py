"""Readings for the session: of each node like those of its agent, and of the whole cluster."""

import asyncio
from collections.abc import Mapping

from trntop.catalog import AGENT, PROMETHEUS
from trntop.core.model import STALE_PERIODS, Reading, Severity, State, Status
from trntop.core.text import clean
from trntop.pipeline.derive import ComputePlan
from trntop.remote.summary import VERSION, Backfill, ClusterSummary, RemoteIncident, encode
from trntop.session.collector import Sink

from .client import Client, Labels, Rows
from .nodes import Draft, Drafts, Node
from .totals import Totals

CHUNK = 20
"""Nodes encoded before other tasks run."""
KEEP_SECONDS = 3600.0
"""Time for which a node that is gone is still shown."""


class Publisher:
    """Publishes one backend to the session.

    Args:
        name: name of the backend.
        client: for its clock and its notes.
        sink: the session.
    """

    def __init__(self, name: str, client: Client, sink: Sink) -> None:
        self._name = name
        self._client = client
        self._sink = sink
        self.interval = 0.0
        """Seconds between the samples of a node."""
        self.pause = 0.0
        """Seconds between refreshes."""
        self.nodes: dict[str, Node] = {}
        self.targets: dict[str, str] = {}
        """Label of a node → the target that exports it."""
        self.full: str | None = None
        """The node that is queried in full, apart from the others."""
        self._newest: float | None = None

    @property
    def period(self) -> float:
        """Seconds between two updates of a node: a sample may wait for a refresh."""
        return (self.interval + self.pause) / 2 + 1.0

    @property
    def stale_after(self) -> float:
        """Seconds after which a node does not count in totals."""
        return STALE_PERIODS * self.period

    def report(self, state: State, reason: str = "") -> None:
        """Reports the state of the backend."""
        self._sink.status(Status(self._name, PROMETHEUS, state, reason))

    def report_node(self, node: Node, state: State, reason: str) -> None:
        self._sink.status(Status(node.name, AGENT, state, reason))

    async def publish(
        self, drafts: Drafts, at: float, plan: ComputePlan, down: Mapping[str, str]
    ) -> None:
        """Publishes all nodes.

        Args:
            drafts: the nodes with series.
            at: time of the queries.
            plan: the quantities to derive.
            down: nodes that cannot be scraped, and why.
        """
        self._newest = None
        # Recordings are in the order of time.
        timed = sorted(
            ((draft.time, draft) for draft in drafts.nodes.values() if draft.time is not None),
            key=lambda pair: pair[0],
        )
        down = {**down, **_timeless(drafts)}
        for place, (stamp, draft) in enumerate(timed):
            self._newest = stamp
            node = self._known(draft.label)
            if node is None:
                continue
            node.seen = at
            self.targets[draft.label] = draft.instance
            if node.name != self.full:
                self.send(node, draft, stamp, plan)
            if place % CHUNK == CHUNK - 1:
                await asyncio.sleep(0)
        for name, reason in down.items():
            if (node := self._known(name)) is not None:
                node.seen = at
                self.report_node(node, State.DOWN, reason)

    def _known(self, label: str) -> Node | None:
        """The node with this label; None if another one has its name."""
        name = clean(label)
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(name, label, self.period)
        if node.label != label:
            self._client.notes.append(f"two nodes have the name {name}: one is ignored")
            return None
        return node

    def send(self, node: Node, draft: Draft, stamp: float, plan: ComputePlan) -> None:
        """Publishes one node."""
        if not draft.values and not draft.facts:
            return
        moment = self._client.to_local(stamp, self._sink)
        for message in node.messages(draft, moment, plan):
            self._sink.reading(Reading(node.name, AGENT, moment, message, draft.simulated))

    def report_partial(self, node: Node, reason: str) -> None:
        """Reports why a node is not queried in full."""
        self.full = None
        self.report_node(node, State.LATE, f"only its roll-ups: {reason}")

    def roster(self, at: float) -> list[str]:
        """The nodes of the last hour; older ones are removed."""
        self.keep({name for name, node in self.nodes.items() if at - node.seen < KEEP_SECONDS})
        return list(self.nodes)

    def keep(self, names: set[str]) -> None:
        """Removes all other nodes."""
        for name in self.nodes.keys() - names:
            self.targets.pop(self.nodes.pop(name).label, None)

    def publish_summary(
        self,
        total: Totals,
        roster: list[str],
        down: int,
        incidents: Rows | None,
        *,
        chosen: bool = False,
    ) -> None:
        """Publishes the whole cluster.

        Args:
            total: its totals.
            roster: the nodes shown.
            down: number of nodes that cannot be scraped.
            incidents: open incidents and their start; None if unknown.
            chosen: only the worst nodes are shown.
        """
        newest = self._newest
        summary = ClusterSummary(
            v=VERSION,
            period=self.period,
            nodes=max(total.nodes, len(roster)),
            roster=tuple(roster),
            chosen=chosen,
            down=down,
            newest=None if newest is None else self._client.to_local(newest, self._sink),
            simulated=total.simulated,
            values={name: value for name, value in total.values.items() if value == value},
            jobs=total.jobs,
            incidents=None
            if incidents is None
            else tuple(filter(None, (self._incident(*row) for row in incidents))),
            notes=tuple(dict.fromkeys(self._client.notes)),
        )
        self._publish(encode(summary), simulated=total.simulated)

    def publish_history(
        self,
        scalars: Mapping[str, Mapping[float, float]],
        tables: Mapping[str, Mapping[str, Mapping[float, float]]],
    ) -> None:
        """Publishes the history.

        Args:
            scalars: key of a series → the server's time → value.
            tables: node → quantity → the same.
        """
        all_series = [
            *scalars.values(),
            *(series for table in tables.values() for series in table.values()),
        ]
        times = sorted({moment for series in all_series for moment in series})
        if not times:
            return
        past = Backfill(
            v=VERSION,
            times=tuple(self._client.to_local(moment, self._sink) for moment in times),
            scalars={key: tuple(map(series.get, times)) for key, series in scalars.items()},
            nodes={
                node: {name: tuple(map(series.get, times)) for name, series in table.items()}
                for node, table in tables.items()
            },
        )
        self._publish(encode(past))

    def _publish(self, data: bytes, *, simulated: bool = False) -> None:
        self._sink.reading(Reading(self._name, PROMETHEUS, self._sink.now(), data, simulated))

    def _incident(self, labels: Labels, opened: float) -> RemoteIncident | None:
        kind = labels.get("kind", "")
        try:
            severity = Severity(labels.get("severity", ""))
        except ValueError:
            return None
        return RemoteIncident(
            kind,
            severity,
            self._client.to_local(opened, self._sink),
            labels.get("training_job") or None,
            labels.get("node") or None,
            labels.get("component") or None,
        )


def _timeless(drafts: Drafts) -> dict[str, str]:
    """Nodes whose samples may have any age."""
    return {
        label: "the server does not report the time of its samples"
        for label, draft in drafts.nodes.items()
        if draft.time is None
    }
