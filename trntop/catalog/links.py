"""Quantities of links: the ways from a node to its peers, as active probes see them."""

from collections.abc import Iterator

from trntop.catalog.names import PROBE
from trntop.catalog.quantity import Combine, Entity, Quantity


def links() -> Iterator[Quantity]:
    """Of links."""
    for name, unit, text in (
        ("link_latency_seconds", "seconds", "One-way latency of the newest probe"),
        ("link_probe_size_bytes", "bytes", "Size of the messages that the probe sent"),
        ("link_probe_timestamp_seconds", "seconds", "When the link was last probed, in unix time"),
    ):
        yield Quantity(name, unit, Entity.LINK, text, combine=Combine.MAX, source=PROBE)
