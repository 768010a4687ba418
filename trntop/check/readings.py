"""The probes of a check as readings, so that a recording of them shows on the screen of EFA."""

from collections.abc import Iterator

import msgspec

from trntop.catalog import names
from trntop.check.result import Check
from trntop.core.model import Reading


def readings(check: Check) -> Iterator[Reading]:
    """One reading of the source `probe` for each probe, of the node that was its client."""
    for run in sorted(check.trials, key=lambda one: one.time):
        results = [
            # Whole, as a statistic that is left out is not known to be the mean.
            msgspec.structs.asdict(one)
            | {"card": one.card or run.card, "peer_card": one.peer_card or run.peer_card}
            for one in run.results
        ]
        document: dict[str, object] = {"results": results}
        if not results:
            tool = check.plan.spec.tool
            document = {
                "tool": tool, "peer": run.server, "card": run.card, "error": run.error
            }  # fmt: skip
        data = msgspec.json.encode(document)
        yield Reading(run.client, names.PROBE, run.time, data, check.simulated)
