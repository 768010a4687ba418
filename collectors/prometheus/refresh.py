"""The queries of a refresh and of one node, and what is made of their results."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise, zip_longest

from trntop.catalog import METRIC_PREFIX
from trntop.core.model import Severity
from trntop.core.text import clean
from trntop.pipeline.derive import RATES
from trntop.pipeline.history import KEPT

from .client import BackendError, Client, Labels, Result, Row, Rows, number
from .nodes import OF_EFA, OF_PARTS, Drafts, Node
from .publisher import Publisher
from .queries import (
    COMPLETED,
    MAX_ALL,
    MAX_EFA_NODES,
    MAX_SHOWN,
    MOST,
    RETRANSMIT,
    RULES,
    SOME_EFA_NODES,
    WORST,
    Queries,
)
from .totals import Totals, recorded_history

NODE_SECONDS = 5.0
"""Timeout of the queries of one node."""
PAST = 900.0
"""Seconds of history that the graphs start with."""
PAST_STEP = 5.0
"""Least seconds between its values."""
PAST_NODES = 64
"""Nodes up to which the history of all is queried at the start."""
MAX_DOWN = 50
"""Unreachable nodes shown of a large cluster."""
_RANK = {severity.value: -severity.rank for severity in Severity}


class Refresher:
    """Refreshes the nodes of one backend.

    Args:
        client: the backend.
        publisher: receives the results.
        queries: the queries that the backend supports.
    """

    def __init__(self, client: Client, publisher: Publisher, queries: Queries) -> None:
        self._client = client
        self._publisher = publisher
        self._queries = queries
        self._large: bool | None = None
        """Whether there are too many nodes to show all; None before they are counted."""
        self._efa_nodes: list[str] | None = []
        """The nodes whose EFA devices are queried; None is all."""
        self._with_history: set[str] = set()

    def supports(self, queries: Queries) -> bool:
        """Whether it can go on with these queries, which may have another interval."""
        if replace(queries, interval=0.0) != replace(self._queries, interval=0.0):
            return False
        self._queries = queries
        return True

    async def refresh(self, at: float, focus: str | None) -> None:
        """One refresh, with all its queries for one time of the server.

        Raises:
            BackendError: a required query failed.
        """
        first = self._large is None
        if first:
            rows = (await self._client.instant(self._queries.count(), at)).rows()
            count = int(sum(value for _, value in rows))
            self._large = count > MAX_ALL
            self._efa_nodes = None if count <= MAX_EFA_NODES else []
        if self._large:
            await self._refresh_worst(at, focus)
        else:
            await self._refresh_all(at, focus)
        if first:
            await self._backfill(at)

    async def _refresh_all(self, at: float, focus: str | None) -> None:
        queries = self._queries.all_nodes(self._efa_nodes)
        found = await self._client.refresh(queries, at, ("nodes", "times"))
        drafts = Drafts()
        for key in ("about", "nodes", "jobs", "silent", "retransmitted"):
            drafts.add(_rows(found, key))
        drafts.add_instances(_rows(found, "times"))
        drafts.add_values(COMPLETED, _rows(found, "completed"))
        drafts.add_values("efa_tx_bytes_per_second", _rows(found, "tx"))
        total = Totals()
        total.add_nodes(drafts.nodes.values(), at - self._publisher.stale_after)
        self._large = len(drafts.nodes) > MAX_ALL
        self._efa_nodes = _worst_efa_nodes(drafts, focus)
        down = self._down(drafts, _rows(found, "down"))
        await self._publisher.publish(drafts, at, OF_EFA, down)
        roster = self._publisher.roster(at)
        self._publisher.publish_summary(total, roster, len(down), _incidents(found))

    async def _refresh_worst(self, at: float, focus: str | None) -> None:
        if not self._queries.recorded:
            raise BackendError(f"more than {MAX_ALL:,} nodes need {RULES}, or a narrower match=")
        found = await self._client.refresh(self._queries.totals(), at, ("recorded", "worst"))
        total = Totals()
        total.add_recorded(_rows(found, "recorded"))
        unreached = list(_rows(found, "down"))
        total.nodes += len(unreached)
        self._large = not 0 < total.nodes <= MAX_ALL
        queries = self._queries.some_nodes(self._choose(found, focus))
        detail = await self._client.refresh(queries, at, ("nodes", "times"))
        drafts = Drafts()
        drafts.add(_rows(detail, "nodes"))
        drafts.add_instances(_rows(detail, "times"))
        drafts.add_values("efa_tx_bytes_per_second", _rows(detail, "tx"))
        down = self._down(drafts, iter(unreached[:MAX_DOWN]))
        await self._publisher.publish(drafts, at, OF_EFA, down)
        roster = [*map(clean, drafts.nodes), *down]
        self._publisher.keep(set(roster))
        self._publisher.publish_summary(
            total, roster, len(unreached), _incidents(found), chosen=True
        )

    def _choose(self, found: Mapping[str, Result], focus: str | None) -> list[str]:
        """The labels of the worst nodes: those with incidents, then by each measure in turn."""
        incidents = sorted(
            _rows(found, "incidents"),
            key=lambda row: (_RANK.get(row[0].get("severity", ""), 1), row[1]),
        )
        chosen: dict[str, None] = {}
        if focus is not None and (node := self._publisher.nodes.get(focus)) is not None:
            chosen[node.label] = None
        chosen |= dict.fromkeys(labels.get("node", "") for labels, _ in incidents[: MAX_SHOWN // 2])
        measures: dict[str, list[tuple[float, str]]] = {name: [] for name in WORST}
        for labels, value in _rows(found, "worst"):
            if (name := labels.get("__name__", "")) in measures:
                measures[name].append((value, labels.get("node", "")))
        for name, rows in measures.items():
            rows.sort(reverse=WORST[name] == MOST)
        for turn in zip_longest(*measures.values()):
            chosen |= dict.fromkeys(row[1] for row in turn if row is not None)
        chosen.pop("", None)
        return list(chosen)[:MAX_SHOWN]

    def _down(self, drafts: Drafts, rows: Rows) -> dict[str, str]:
        """Nodes that the server cannot scrape: label → reason."""
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

    async def refresh_node(self, node: Node, at: float) -> None:
        """Publishes everything about one node.

        Raises:
            BackendError: a query failed.
        """
        queries = self._queries.node(node.label)
        results = await asyncio.gather(
            *(self._client.instant(query, at, NODE_SECONDS) for query in queries.values())
        )
        found = dict(zip(queries, results, strict=True))
        drafts = Drafts()
        drafts.add(found["all"].rows())
        drafts.add_instances(found["times"].rows())
        draft = drafts.nodes.get(node.label)
        if draft is None or draft.time is None:
            return
        for row in found["counters"].series:
            if (rate := _rate(row)) is not None:
                drafts.add_values(rate[0], [(row.metric, rate[1])])
        self._publisher.full = node.name
        self._publisher.send(node, draft, draft.time, OF_PARTS)
        if node.name not in self._with_history:
            self._with_history.add(node.name)
            await self._query_history(self._queries.node_history((node.label,)), at)

    async def _backfill(self, at: float) -> None:
        """Publishes the history of the cluster, and of the nodes if they are few."""
        queries = self._queries.total_history()
        nodes = self._publisher.nodes.values()
        if nodes and len(nodes) <= PAST_NODES:
            self._with_history.update(self._publisher.nodes)
            queries |= self._queries.node_history(node.label for node in nodes)
        await self._query_history(queries, at)

    async def _query_history(self, queries: Mapping[str, str], at: float) -> None:
        step = max(self._queries.interval, PAST_STEP)
        totals: dict[float, list[tuple[Labels, float]]] = {}
        tables: dict[str, dict[str, dict[float, float]]] = {}
        for key, query in queries.items():
            try:
                found = await self._client.range(query, at - PAST, at, step)
            except BackendError as error:
                self._client.notes.append(f"no history: {error}")
                continue
            for row in found.series:
                values = {
                    time: value for time, text in row.values if (value := number(text)) == value
                }
                if key == "recorded":
                    for time, value in values.items():
                        totals.setdefault(time, []).append((row.metric, value))
                elif (name := _quantity(row)) in KEPT:
                    tables.setdefault(clean(row.metric.get("node", "")), {})[name] = values
        scalars: dict[str, dict[float, float]] = {}
        for time, rows in totals.items():
            for where, value in recorded_history(rows):
                scalars.setdefault(where, {})[time] = value
        self._publisher.publish_history(scalars, tables)


def _rows(found: Mapping[str, Result], key: str) -> Rows:
    return found[key].rows() if key in found else iter(())


def _incidents(found: Mapping[str, Result]) -> Rows | None:
    """None if the query failed."""
    return found["incidents"].rows() if "incidents" in found else None


def _worst_efa_nodes(drafts: Drafts, focus: str | None) -> list[str] | None:
    """The nodes whose EFA devices are queried next: of many, those with the most retransmits."""
    if len(drafts.nodes) <= MAX_EFA_NODES:
        return None

    def retransmits(label: str) -> float:
        return drafts.nodes[label].values.get(RETRANSMIT, {}).get("", -1.0)

    worst = sorted(drafts.nodes, key=retransmits, reverse=True)[:SOME_EFA_NODES]
    return [*worst, focus] if focus in drafts.nodes.keys() - set(worst) and focus else worst


def _quantity(row: Row) -> str:
    return row.metric.get("__name__", "").removeprefix(METRIC_PREFIX)


def _rate(row: Row) -> tuple[str, float] | None:
    """The rate of a counter from its samples; None after a reset, or with a single sample."""
    quantity = RATES.get(_quantity(row))
    samples = [(time, number(text)) for time, text in row.values]
    if quantity is None or len(samples) < 2:
        return None
    (begun, first), (ended, last) = samples[0], samples[-1]
    rising = all(after >= before for (_, before), (_, after) in pairwise(samples))
    return (quantity, (last - first) / (ended - begun)) if rising and ended > begun else None
