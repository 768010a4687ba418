"""Which page of metrics a quantity is on.

`/metrics` is what one Prometheus scrapes of every node of a large cluster: about a hundred
series a node, of which the whole cluster's can be asked at once. The rest is for the Prometheus
of one block of nodes, or unused. No series is on two pages, so that all of them can be
scraped side by side.
"""

from enum import StrEnum

from trntop.catalog.quantity import Entity, Quantity


class Page(StrEnum):
    """A page of metrics."""

    METRICS = "metrics"
    """`/metrics`: nodes rolled up, jobs, and what distinguishes a faulty device from its peers."""
    DETAIL = "detail"
    """`/metrics/detail`: everything else of nodes, devices and links."""
    CORES = "cores"
    """`/metrics/cores`: quantities per NeuronCore, logical or physical."""

    @property
    def path(self) -> str:
        """Where the exporter serves it."""
        return "/metrics" if self is Page.METRICS else f"/metrics/{self}"


_OF_CORES = (Entity.CORE, Entity.PHYSICAL_CORE)

_OF_EACH = (Entity.NODE, Entity.JOB)
_DISTINGUISHING = ("device_memory_used_ratio", "efa_retransmit_ratio", "efa_tx_bytes_total")
"""What distinguishes a faulty device from its peers, on `/metrics` next to the roll-ups."""


def page_of(quantity: Quantity) -> Page | None:
    """The page it is on; None for what is on the screen and in the JSON only."""
    if not quantity.exported:
        return None
    if quantity.entity in _OF_CORES:
        return Page.CORES
    if quantity.name in _DISTINGUISHING or (quantity.entity in _OF_EACH and not quantity.detail):
        return Page.METRICS
    return Page.DETAIL
