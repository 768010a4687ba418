"""The names of AWS's node exporter for EFA (`node_exporter --collector.amazonefa`).

Source: `4.validation_and_observability/3.efa-node-exporter/amazon_efa_linux.go` in
https://github.com/aws-samples/awsome-distributed-training. Counters without `_total`, with the
labels `device` and `port`, and one `node_amazonefa_info` per device. AWS's exporter publishes the
counters of the admin queue only if the driver has them among those of the port (before 1.14.0);
this page always has them. `node_amazonefa_lifespan` is a kernel setting and is omitted.
"""

import math
from collections.abc import Iterator

from trntop.catalog import CATALOG, EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS, Entity, Kind
from trntop.core.model import Cluster, NodeView

from ..exposition import Block, Family, labels, number
from .node_labels import LabelPairs, labeled_nodes

PORT = "1"
"""An EFA device has one port."""

_NOT_IN_AWS_EXPORTER = ("alloc_mr_err", "get_dma_mr_err")

_INFO = Family(
    "node_amazonefa_info", Kind.GAUGE, "EFA devices whose counters can be read; always 1"
)
_COUNTERS = {
    f"efa_{name}_total": Family(
        f"node_amazonefa_{name}", Kind.COUNTER, CATALOG[f"efa_{name}_total"].help
    )
    for name in EFA_PORT_COUNTERS | EFA_DEVICE_COUNTERS
    if name not in _NOT_IN_AWS_EXPORTER
}


def families(cluster: Cluster) -> Iterator[Block]:
    """The EFA devices of all nodes."""
    info: list[str] = []
    counters: dict[str, list[str]] = {name: [] for name in _COUNTERS}
    for view, node_labels in labeled_nodes(cluster, lambda _: ()):
        info += [f"{_INFO.name}{labels(pairs)} 1\n" for pairs in _readable(view, node_labels)]
        ports = [
            labels([("device", str(device)), ("port", PORT), *node_labels])
            for device in view.inventory.of(Entity.EFA)
        ]
        for name, family in _COUNTERS.items():
            column = view.frame.columns.get(name)
            if column is not None:
                counters[name] += [
                    f"{family.name}{port} {number(value)}\n"
                    for port, value in zip(ports, column.tolist(), strict=True)
                    if math.isfinite(value)
                ]
    if info:
        yield _INFO, info
    for name, family in _COUNTERS.items():
        if counters[name]:
            yield family, counters[name]


def _readable(view: NodeView, node_labels: LabelPairs) -> Iterator[LabelPairs]:
    """Labels of the devices whose counters can be read; none while EFA is not read."""
    sent = view.frame.columns.get("efa_tx_bytes_total")
    if sent is None:
        return
    for device, value in zip(view.inventory.of(Entity.EFA), sent.tolist(), strict=True):
        if math.isfinite(value):
            yield (("device", str(device)), *node_labels)
