"""EFA counters as AWS's node exporter publishes them: `node_amazonefa_<counter>{device,port}`.

Source: `4.validation_and_observability/3.efa-node-exporter/amazon_efa_linux.go` in
https://github.com/aws-samples/awsome-distributed-training. Values are those of the driver and
cumulative. `lifespan`, which it publishes as well, is a setting of the kernel and no counter. It
expects the device's counters among the port's, where only drivers before 1.14.0 keep them.
"""

import numpy as np

from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_EXPORTER, EFA_PORT_COUNTERS, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import Sample
from trntop.core.text import clean
from trntop.sources.columns import COUNTER
from trntop.sources.exporter_page import read, within
from trntop.sources.source import Role, Source

PREFIX = "node_amazonefa_"
MAX_DEVICES = 256
PERIOD = 5.0
"""Seconds between two polls of the page."""

_INFO = f"{PREFIX}info"
_COUNTERS = {f"{PREFIX}{name}": name for name in EFA_PORT_COUNTERS | EFA_DEVICE_COUNTERS}
_SUCCESS = "node_scrape_collector_success"
_FAMILIES = frozenset((*_COUNTERS, _INFO, _SUCCESS))


def decode(data: bytes) -> Sample:
    """One page.

    Raises:
        DecodeError: nothing of the EFA exporter is on it.
    """
    page = read(data, _FAMILIES)
    failed = any(
        row.value == 0 for row in page.of(_SUCCESS) if row.labels.get("collector") == "amazonefa"
    )
    named = [name for name in page.families if name != _SUCCESS]
    if not named and not failed:
        raise DecodeError("no page of the EFA node exporter")
    series = [row for name in named for row in page.of(name)]
    labels = {row.labels.get("device", "") for row in series}
    devices = sorted(labels - {""})[:MAX_DEVICES]
    place = {device: index for index, device in enumerate(devices)}
    sample = Sample(period=PERIOD, problems=page.problems)
    # As trntop's own pages under these names state.
    sample.simulated = any(row.labels.get("provenance") == "simulated" for row in series[:1])
    if failed:
        sample.unusable = "node_exporter's collector amazonefa failed"
        return sample
    sample.keys[Entity.EFA] = tuple(clean(device, 64) for device in devices)
    for family, name in _COUNTERS.items():
        column = np.full(len(devices), np.nan)
        for row in page.of(family):
            index = place.get(row.labels.get("device", ""))
            if index is not None:
                column[index] = row.value
        if not np.isnan(column).all():
            sample.columns[f"efa_{name}_total"] = within(column, COUNTER)
    readable = sample.columns.get("efa_tx_bytes_total", np.full(len(devices), np.nan))
    sample.columns["node_efa_cards"] = np.array([float(np.isfinite(readable).sum())])
    return sample


SOURCE = Source(
    name=EFA_EXPORTER,
    decode=decode,
    role=Role.PAGE,
    gives="traffic, retransmits, drops and errors of each EFA device, as AWS's EFA node exporter "
    "publishes them",
    origin="its page, `http://HOST:9100/metrics`, polled each 5 s",
    needs="node_exporter with the collector `amazonefa` on a node without an agent of trntop",
    without="no EFA columns of such a node",
)
