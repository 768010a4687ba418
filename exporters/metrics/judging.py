"""The series on who judges: whether an aggregator does, and whether this program keeps up."""

from trntop.catalog import Kind

from .exposition import Block, Family, number

AGGREGATED = Family(
    "trntop_aggregated",
    Kind.GAUGE,
    "Whether an aggregator reads this exporter: then alerts are those of the aggregator",
)
BEHIND = Family(
    "trntop_behind_seconds",
    Kind.GAUGE,
    "Seconds by which a tick of the last 30 s was late; 0 if the exporter keeps up",
)


def families(*, aggregated: bool, behind: float) -> list[Block]:
    return [
        (AGGREGATED, [f"{AGGREGATED.name} {int(aggregated)}\n"]),
        (BEHIND, [f"{BEHIND.name} {number(round(behind, 3))}\n"]),
    ]
