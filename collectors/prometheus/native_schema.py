"""An engine that has trntop's own series: the refresh, and all of one node."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain, pairwise, zip_longest

from trntop.catalog import METRIC_PREFIX
from trntop.core.model import Severity
from trntop.core.text import clean
from trntop.pipeline.derive import RATES
from trntop.pipeline.history import KEPT

from .capabilities import Capabilities
from .client import BackendError, Labels, Row, number
from .nodes import OF_CARDS, OF_PARTS, Drafts, Node
from .publisher import Publisher
from .queries import (
    COMPLETED,
    ENDS,
    MAX_CARDS,
    MAX_SHOWN,
    MAX_WHOLE,
    MOST,
    RETRANSMIT,
    SOME_CARDS,
    Questions,
)
from .query_client import SECONDS, Answers, QueryClient, Rows
from .selectors import Scope
from .sums import Sums, past

NODE_SECONDS = 5.0
"""For each question on one node."""
PAST = 900.0
"""Seconds of the past that graphs begin with."""
PAST_STEP = 5.0
"""Seconds between its values, at least."""
PAST_NODES = 64
"""Nodes whose past is asked for at the start; that of others when they are looked at."""
MAX_DOWN = 50
"""Nodes out of reach among the worst that are shown."""
RULES = "load those of trntop rules prometheus"
_RANK = {one.value: -one.rank for one in Severity}


class NativeSchema:
    """Asks for nodes by trntop's names.

    Args:
        asker: asks.
        teller: hands on.
        scope: the series that the user chose.
        found: what the engine has.
    """

    def __init__(
        self, query_client: QueryClient, publisher: Publisher, scope: Scope, found: Capabilities
    ) -> None:
        self._query_client = query_client
        self._publisher = publisher
        self._queries = Questions(scope, found.names, found.interval, found.jobs)
        self._large: bool | None = None
        """Whether there are too many nodes to show all; None before they are counted."""
        self._cards: list[str] | None = []
        """The nodes whose cards are asked for; None is all."""
        self._with_past: set[str] = set()

    def set_interval(self, interval: float) -> None:
        """Takes how often nodes are scraped now."""
        self._queries = replace(self._queries, interval=interval)

    async def refresh(self, at: float, focus: str | None) -> None:
        """One look at everything.

        Raises:
            BackendError: it cannot be had.
        """
        first = self._large is None
        if first:
            found = await self._query_client.refresh(
                {"count": self._queries.count()}, at, ("count",)
            )
            count = sum(value for _, value in found.rows("count"))
            self._large = count > MAX_WHOLE
            self._cards = None if count <= MAX_CARDS else []
        if self._large:
            await self._worst(at, focus)
        else:
            await self._all(at, focus)
        if first:
            await self._past(at)

    async def _all(self, at: float, focus: str | None) -> None:
        asked = self._queries.whole(self._cards)
        found = await self._query_client.refresh(asked, at, ("nodes", "times"))
        drafts = Drafts(self._publisher.targets)
        for key in ("about", "nodes", "jobs", "silent", "resent"):
            drafts.add(found.rows(key))
        drafts.add_instances(found.rows("times"))
        drafts.add_as(COMPLETED, found.rows("completed"))
        drafts.add_as("efa_tx_bytes_per_second", found.rows("tx"))
        total = Sums()
        total.take_nodes(drafts.nodes.values(), at - self._publisher.patience)
        self._large = len(drafts) > MAX_WHOLE
        self._cards = _with_cards(drafts, focus)
        down = self._down(drafts, list(found.rows("down")))
        await self._publisher.publish(drafts, at, OF_CARDS, down)
        roster = self._publisher.roster(at)
        self._publisher.publish_summary(total, roster, len(down), found.answered("incidents"))

    async def _worst(self, at: float, focus: str | None) -> None:
        worst = self._queries.worst()
        found = await self._query_client.refresh(self._queries.cluster() | worst, at)
        total = Sums()
        total.take_recorded(found.rows("recorded"))
        total.take_counted(found.rows("count"))
        total.take_combined(chain(found.rows("means"), found.rows("traffic")), found.rows("sizes"))
        if total.shared:
            self._query_client.notes.append(
                f"{', '.join(total.shared[:3])}: in several clusters, as one"
            )
        if not self._queries.recorded:
            self._query_client.notes.append(
                f"no recorded values of these nodes, which are quicker: {RULES}"
            )
        elif not self._queries.ends_recorded:
            self._query_client.notes.append(
                f"the worst nodes are not recorded, which is quicker: {RULES}"
            )
        unreached = list(found.rows("down"))
        total.nodes += len(unreached)
        self._large = not 0 < total.nodes <= MAX_WHOLE
        chosen = self._choose(found, worst, focus)
        detail = await self._query_client.refresh(
            {f"{key} of the worst": text for key, text in self._queries.some(chosen).items()},
            at,
            ("nodes of the worst", "times of the worst"),
        )
        drafts = Drafts(self._publisher.targets)
        drafts.add(detail.rows("nodes of the worst"))
        drafts.add_instances(detail.rows("times of the worst"))
        drafts.add_as("efa_tx_bytes_per_second", detail.rows("tx of the worst"))
        down = self._down(drafts, unreached[:MAX_DOWN])
        await self._publisher.publish(drafts, at, OF_CARDS, down)
        roster = [*map(clean, drafts.nodes), *down]
        self._publisher.keep(set(roster))
        self._publisher.publish_summary(
            total, roster, len(unreached), found.answered("incidents"), chosen=True
        )

    def _choose(self, found: Answers, worst: Iterable[str], focus: str | None) -> list[str]:
        """The labels of the worst nodes: of incidents first, then the ends of each measure."""
        blamed = sorted(
            found.rows("incidents"),
            key=lambda one: (_RANK.get(one[0].get("severity", ""), 1), one[1]),
        )
        chosen: dict[str, None] = {}
        if focus is not None and (node := self._publisher.nodes.get(focus)) is not None:
            chosen[node.label] = None
        chosen |= dict.fromkeys(labels.get("node", "") for labels, _ in blamed[: MAX_SHOWN // 2])
        measures: dict[str, list[tuple[float, str]]] = {name: [] for name in ENDS}
        for labels, value in chain.from_iterable(map(found.rows, worst)):
            name = labels.get("__name__", "")
            if name in measures:
                measures[name].append((value, labels.get("node", "")))
        for name, rows in measures.items():
            rows.sort(reverse=ENDS[name] == MOST)
        for turn in zip_longest(*measures.values()):
            chosen |= dict.fromkeys(one[1] for one in turn if one is not None)
        chosen.pop("", None)
        return list(chosen)[:MAX_SHOWN]

    def _down(self, drafts: Drafts, rows: Rows) -> dict[str, str]:
        """Nodes that the server does not reach: label → why."""
        labels_of: dict[str, list[str]] = {}
        for label, target in self._publisher.targets.items():
            labels_of.setdefault(target, []).append(label)
        down: dict[str, str] = {}
        for labels, _ in rows:
            target = labels.get("instance", "")
            host = labels.get("node") or target.rpartition(":")[0] or target
            for label in labels_of.get(target) or [host]:
                if label and label not in drafts.nodes:
                    down[label] = f"its agent at {clean(target)} cannot be scraped"
        return down

    async def drill(self, node: Node, at: float) -> None:
        """Tells all of one node.

        Raises:
            BackendError: it cannot be had.
        """
        found = await self._query_client.at_once(self._queries.node(node.label), at, NODE_SECONDS)
        drafts = Drafts(self._publisher.targets)
        drafts.add(found.rows("all"))
        drafts.add_instances(found.rows("times"))
        draft = drafts.nodes.get(node.label)
        if draft is None or draft.time is None:
            return
        for row in found.results["counters"].rows:
            if (rate := _rate(row)) is not None:
                drafts.add_as(rate[0], [(row.metric, rate[1])])
        self._publisher.whole = node.name
        self._publisher.send(node, draft, draft.time, OF_PARTS)
        if node.name not in self._with_past:
            self._with_past.add(node.name)
            await self._ask_past(self._queries.past((node.label,)), at)

    async def _past(self, at: float) -> None:
        """What was before the first tick: of the cluster, and where they are few, of the nodes."""
        queries = self._queries.past(None)
        nodes = self._publisher.nodes.values()
        if nodes and len(nodes) <= PAST_NODES:
            self._with_past.update(self._publisher.nodes)
            queries |= self._queries.past(node.label for node in nodes)
        await self._ask_past(queries, at)

    async def _ask_past(self, queries: Mapping[str, str], at: float) -> None:
        step = max(self._queries.interval, PAST_STEP)
        sums: dict[float, list[tuple[Labels, float]]] = {}
        tables: dict[str, dict[str, dict[float, float]]] = {}
        for key, query in queries.items():
            try:
                found = await self._query_client.client.range(query, at - PAST, at, step, SECONDS)
            except BackendError as error:
                self._query_client.notes.append(f"no past: {error}")
                continue
            for row in found.rows:
                values = {
                    moment: value for moment, text in row.values if (value := number(text)) == value
                }
                if key != "nodes":
                    for moment, value in values.items():
                        sums.setdefault(moment, []).append((row.metric, value))
                elif (name := _quantity(row)) in KEPT and self._speaks(row):
                    tables.setdefault(clean(row.metric.get("node", "")), {})[name] = values
        scalars: dict[str, dict[float, float]] = {}
        for moment, rows in sums.items():
            for where, value in past(rows):
                scalars.setdefault(where, {})[moment] = value
        self._publisher.publish_history(scalars, tables)

    def _speaks(self, row: Row) -> bool:
        """Whether its target is the one that counts for its node."""
        target = row.metric.get("instance", "")
        return self._publisher.targets.get(row.metric.get("node", ""), target) == target


def _with_cards(drafts: Drafts, focus: str | None) -> list[str] | None:
    """The nodes whose cards are asked for next: those that resend most, if they are many."""
    if len(drafts) <= MAX_CARDS:
        return None

    def resent(label: str) -> float:
        return drafts.nodes[label].values.get(RETRANSMIT, {}).get("", -1.0)

    worst = sorted(drafts.nodes, key=resent, reverse=True)[:SOME_CARDS]
    return [*worst, focus] if focus in drafts.nodes.keys() - set(worst) and focus else worst


def _quantity(row: Row) -> str:
    return row.metric.get("__name__", "").removeprefix(METRIC_PREFIX)


def _rate(row: Row) -> tuple[str, float] | None:
    """The rate of a counter by its samples; None where it was reset, or one sample is all."""
    quantity = RATES.get(_quantity(row))
    samples = [(moment, number(text)) for moment, text in row.values]
    if quantity is None or len(samples) < 2:
        return None
    (begun, first), (ended, last) = samples[0], samples[-1]
    rising = all(after >= before for (_, before), (_, after) in pairwise(samples))
    return (quantity, (last - first) / (ended - begun)) if rising and ended > begun else None
