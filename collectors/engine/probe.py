"""What kind of server it is, and what it has: asked once, cheaply, before anything else."""

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from .client import Client, EngineError, Trouble
from .nodes import INSTANCE
from .questions import Questions
from .selectors import Scope

SECONDS = 20.0
"""For each of these questions, which have no screen waiting for them yet."""
HOUR = 3600.0
DEFAULT_INTERVAL = 15.0

FOREIGN = (
    "neuroncore_utilization_ratio",
    "neuron_hardware_info",
    "neuron_hardware",
    "node_amazonefa_tx_bytes",
)
"""Metrics of others that tell of Trainium nodes."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """A server and what can be asked of it."""

    server: str
    """`Prometheus 2.42.0`; empty where it does not say."""
    names: frozenset[str]
    interval: float = DEFAULT_INTERVAL
    jobs: tuple[str, ...] = ()
    """Scrape jobs of trntop's pages."""

    @property
    def own(self) -> bool:
        """Whether there are series of trntop."""
        return INSTANCE in self.names


async def probe(client: Client, scope: Scope, now: float) -> Capabilities:
    """Looks at the server.

    Raises:
        EngineError: it does not answer, or has nothing that can be shown.
    """
    server = await client.build(SECONDS)
    names = await client.names(now - HOUR, now, SECONDS)
    found = Capabilities(server, names)
    if not found.own:
        if not names.intersection(FOREIGN):
            raise EngineError(
                Trouble.NO_ENGINE,
                f"has {len(names):,} metrics, but none of trntop, neuron-monitor or the EFA "
                "exporter within the last hour",
            )
        return found
    questions = Questions(scope, names, DEFAULT_INTERVAL)
    jobs = (await client.instant(questions.scrape_jobs(), now, SECONDS)).rows
    if not jobs:
        where = f" with {scope.match}" if scope.match else ""
        raise EngineError(Trouble.NO_ENGINE, f"has no node of trntop{where} within the last hour")
    return Capabilities(
        server,
        names,
        await _interval(client, questions, now),
        tuple(sorted({row.metric["job"] for row in jobs if row.metric.get("job")})),
    )


async def _interval(client: Client, questions: Questions, now: float) -> float:
    """Seconds between the samples of a node, by those of one; the usual where that takes long."""
    with suppress(EngineError):
        return await _measured(client, questions, now)
    return DEFAULT_INTERVAL


async def _measured(client: Client, questions: Questions, now: float) -> float:
    for row in (await client.instant(questions.any_node(), now, SECONDS)).rows:
        if label := row.metric.get("node"):
            for one in (await client.instant(questions.samples(label), now, SECONDS)).rows:
                gaps = [after - before for (before, _), (after, _) in pairwise(one.values)]
                if gaps:
                    return max(0.1, round(median(gaps), 1))
    return DEFAULT_INTERVAL
