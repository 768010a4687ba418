"""Hands on what the engine knows: of each node as its agent would, and of the whole cluster."""

import asyncio
from collections.abc import Mapping

from trntop.catalog import AGENT, PROMETHEUS
from trntop.core.model import STALE_PERIODS, Reading, Severity, State, Status
from trntop.core.text import clean
from trntop.pipeline.derive import ComputePlan
from trntop.remote.summary import VERSION, Backfill, ClusterSummary, RemoteIncident, encode
from trntop.session.collector import Sink

from .client import Labels
from .nodes import Draft, Drafts, Node
from .query_client import QueryClient, Rows
from .sums import Sums

CHUNK = 20
"""Nodes that are put into messages before others get their turn."""
FORGET = 3600.0
"""Seconds for which a node that is gone is still shown."""


class Publisher:
    """What the session has heard of one engine.

    Args:
        name: what the engine goes by.
        asker: tells its time, and what was left out.
        sink: the session.
    """

    def __init__(self, name: str, query_client: QueryClient, sink: Sink) -> None:
        self._name = name
        self._query_client = query_client
        self._sink = sink
        self.interval = 0.0
        """Seconds between the samples of a node."""
        self.pause = 0.0
        """Seconds between refreshes."""
        self.nodes: dict[str, Node] = {}
        """Name → what is kept of it."""
        self.targets: dict[str, str] = {}
        """Label of a node → the target that speaks for it."""
        self.whole: str | None = None
        """The node of which all is told, apart from the others."""
        self._newest: float | None = None

    @property
    def period(self) -> float:
        """Seconds that pass before a node is heard again, as a rule: a sample may wait for a
        refresh.
        """
        return (self.interval + self.pause) / 2 + 1.0

    @property
    def patience(self) -> float:
        """Seconds after which what a node told does not count any more."""
        return STALE_PERIODS * self.period

    def report(self, state: State, reason: str = "") -> None:
        """The engine's own state."""
        self._sink.status(Status(self._name, PROMETHEUS, state, reason))

    def report_node(self, node: Node, state: State, reason: str) -> None:
        """The state of one node."""
        self._sink.status(Status(node.name, AGENT, state, reason))

    async def publish(
        self, drafts: Drafts, at: float, what: ComputePlan, down: Mapping[str, str]
    ) -> None:
        """Gives what an agent of each node would say.

        Args:
            drafts: the nodes that were answered for.
            at: the time of the questions.
            what: what is computed beside what was told.
            down: nodes that the engine does not reach, and why.
        """
        self._note_duplicates(drafts)
        self._newest = None
        # In the order of their times, as a recording wants them.
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
            if node.name != self.whole:
                self.send(node, draft, stamp, what)
            if place % CHUNK == CHUNK - 1:
                await asyncio.sleep(0)
        for name, reason in down.items():
            if (node := self._known(name)) is not None:
                node.seen = at
                self.report_node(node, State.DOWN, reason)

    def _note_duplicates(self, drafts: Drafts) -> None:
        if drafts.duplicates:
            label, other = next(iter(drafts.duplicates.items()))
            more = f" and {len(drafts.duplicates) - 1} more" if len(drafts.duplicates) > 1 else ""
            self._query_client.notes.append(
                f"{clean(label)}{more}: told by two targets; {clean(other)} is left out"
            )
        for label in drafts.duplicates.keys() - drafts.nodes.keys():
            self.targets.pop(label, None)  # the first is gone: the second speaks from now on

    def _known(self, label: str) -> Node | None:
        """What is kept of a node; None where another one has its name."""
        name = clean(label)
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(name, label, self.period)
        if node.label != label:
            self._query_client.notes.append(f"two nodes would be called {name}: one is left out")
            return None
        return node

    def send(self, node: Node, draft: Draft, stamp: float, what: ComputePlan) -> None:
        """Gives what an agent of one node would say."""
        if not draft.values and not draft.facts:
            return
        moment = self._query_client.ours(stamp, self._sink)
        for message in node.messages(draft, moment, what):
            self._sink.reading(Reading(node.name, AGENT, moment, message, draft.simulated))

    def report_partial(self, node: Node, reason: str) -> None:
        """Says of the node that is looked at why no more is told of it than of others."""
        self.whole = None
        self.report_node(node, State.LATE, f"its roll-ups only: {reason}")

    def roster(self, at: float) -> list[str]:
        """The nodes that were there within the last hour; the others are forgotten."""
        self.keep({name for name, node in self.nodes.items() if at - node.seen < FORGET})
        return list(self.nodes)

    def keep(self, names: set[str]) -> None:
        """Forgets all other nodes."""
        for name in self.nodes.keys() - names:
            self.targets.pop(self.nodes.pop(name).label, None)

    def publish_summary(
        self,
        total: Sums,
        roster: list[str],
        down: int,
        incidents: Rows | None,
        *,
        chosen: bool = False,
    ) -> None:
        """Says what is true of the whole cluster.

        Args:
            total: its values.
            roster: the nodes that are shown.
            down: how many nodes the engine does not reach.
            incidents: those that are open, since when; None where nobody tells.
            chosen: whether the shown nodes are only the worst.
        """
        newest = self._newest
        summary = ClusterSummary(
            v=VERSION,
            period=self.period,
            nodes=max(total.nodes, len(roster)),
            roster=tuple(roster),
            chosen=chosen,
            down=down,
            newest=None if newest is None else self._query_client.ours(newest, self._sink),
            simulated=total.simulated,
            values={name: value for name, value in total.values.items() if value == value},
            jobs=total.jobs,
            incidents=None
            if incidents is None
            else tuple(filter(None, (self._incident(*row) for row in incidents))),
            notes=tuple(dict.fromkeys(self._query_client.notes)),
        )
        self._give(encode(summary), simulated=total.simulated)

    def publish_history(
        self,
        scalars: Mapping[str, Mapping[float, float]],
        tables: Mapping[str, Mapping[str, Mapping[float, float]]],
    ) -> None:
        """Hands on what was before.

        Args:
            scalars: key of a series → the server's time → value.
            tables: node → quantity → the same.
        """
        every = [*scalars.values(), *(one for table in tables.values() for one in table.values())]
        times = sorted({moment for series in every for moment in series})
        if not times:
            return
        past = Backfill(
            v=VERSION,
            times=tuple(self._query_client.ours(moment, self._sink) for moment in times),
            scalars={key: tuple(map(series.get, times)) for key, series in scalars.items()},
            nodes={
                node: {name: tuple(map(series.get, times)) for name, series in table.items()}
                for node, table in tables.items()
            },
        )
        self._give(encode(past))

    def _give(self, data: bytes, *, simulated: bool = False) -> None:
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
            self._query_client.ours(opened, self._sink),
            labels.get("training_job") or None,
            labels.get("node") or None,
            labels.get("component") or None,
        )


def _timeless(drafts: Drafts) -> dict[str, str]:
    """Nodes whose values might be of any time, and why they are not shown."""
    return {
        label: "the engine does not tell when its samples were taken"
        for label, draft in drafts.nodes.items()
        if draft.time is None
    }
