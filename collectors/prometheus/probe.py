"""What kind of server it is, and what it has: asked once, cheaply, before anything else."""

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from statistics import median

from . import queries, vendor_schema
from .capabilities import Capabilities
from .client import BackendError, Client, Trouble
from .queries import Questions
from .selectors import Scope

SECONDS = 20.0
"""For each of these questions, which have no screen waiting for them yet."""
HOUR = 3600.0
DEFAULT_INTERVAL = 15.0


async def probe(client: Client, scope: Scope, now: float) -> Capabilities:
    """Looks at the server.

    Raises:
        BackendError: it does not answer, or has nothing that can be shown.
    """
    server = await client.build(SECONDS)
    every = await client.names(now - HOUR, now, SECONDS)
    # Only those that matter: a server has others, which come and go.
    found = Capabilities(server, every & queries.NAMES, DEFAULT_INTERVAL)
    if not found.own:
        found = replace(found, names=every & vendor_schema.NAMES)
        if not found.names & vendor_schema.TELLING:
            raise BackendError(
                Trouble.NO_BACKEND,
                f"has {len(every):,} metrics, but none of trntop, neuron-monitor or the EFA "
                "exporter within the last hour",
            )
        return found
    asked = Questions(scope, found.names, DEFAULT_INTERVAL)
    jobs = (await client.instant(asked.scrape_jobs(), now, SECONDS)).rows
    if not jobs and asked.recorded:
        # `match` may be by a label of single nodes, which recorded values have not.
        found = replace(found, names=found.names - queries.RECORDED)
        asked = replace(asked, names=found.names)
        jobs = (await client.instant(asked.scrape_jobs(), now, SECONDS)).rows
    if not jobs:
        where = f" with {scope.match}" if scope.match else ""
        raise BackendError(Trouble.NO_BACKEND, f"has no node of trntop{where} within the last hour")
    return replace(
        found,
        interval=await _interval(client, asked, now),
        jobs=tuple(sorted({row.metric["job"] for row in jobs if row.metric.get("job")})),
    )


async def _interval(client: Client, asked: Questions, now: float) -> float:
    """Seconds between the samples of a node, by those of one; the usual where that takes long."""
    with suppress(BackendError):
        return await _measured(client, asked, now)
    return DEFAULT_INTERVAL


async def _measured(client: Client, asked: Questions, now: float) -> float:
    for row in (await client.instant(asked.any_node(), now, SECONDS)).rows:
        if label := row.metric.get("node"):
            for one in (await client.instant(asked.samples(label), now, SECONDS)).rows:
                gaps = [after - before for (before, _), (after, _) in pairwise(one.values)]
                if gaps:
                    return max(0.1, round(median(gaps), 1))
    return DEFAULT_INTERVAL
