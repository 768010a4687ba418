"""Quantities of EFA devices."""

import re
from collections.abc import Iterator

from trntop.catalog.names import (
    EFA_DEVICE_COUNTERS,
    EFA_PORT_COUNTERS,
    EFA_RATES,
    EFA_SOURCE,
)
from trntop.catalog.quantity import Entity, Kind, Provenance, Quantity

_SRD = "EFA driver 2.17.0, Nitro v4"
_RDMA_WRITE = "EFA driver 2.5.0, a device that can write"
_NEEDS = {
    **dict.fromkeys(
        (
            "retrans_bytes",
            "retrans_pkts",
            "retrans_timeout_events",
            "unresponsive_remote_events",
            "impaired_remote_conn_events",
        ),
        _SRD,
    ),
    **{name: _RDMA_WRITE for name in EFA_PORT_COUNTERS if name.startswith("rdma_write")},
    **dict.fromkeys(("alloc_mr_err", "get_dma_mr_err"), "EFA driver 2.12.0 with kernel verbs"),
}


ERROR_KINDS = {
    "retrans_timeout_events": "time-outs",
    "impaired_remote_conn_events": "impaired connections",
    "unresponsive_remote_events": "unresponsive peers",
    "rx_drops": "receive drops",
    "rdma_read_wr_err": "failed reads",
    "rdma_write_wr_err": "failed writes",
}
"""Counters of errors, and what they count."""


def is_up(state: str | None) -> bool:
    """Whether a port's state, such as `4: ACTIVE`, is up; an unknown one may be."""
    return not state or re.search(r"\bACTIVE\b", state, re.IGNORECASE) is not None


def efa() -> Iterator[Quantity]:
    """Of EFA devices."""
    efa, source = Entity.EFA, EFA_SOURCE
    for name, text in (EFA_PORT_COUNTERS | EFA_DEVICE_COUNTERS).items():
        unit = "bytes" if name.endswith("_bytes") else "events"
        yield Quantity(
            f"efa_{name}_total", unit, efa, text, kind=Kind.COUNTER, source=source,
            needs=_NEEDS.get(name, ""),
        )  # fmt: skip
    for name in EFA_RATES:
        unit = "bytes_per_second" if name.endswith("_bytes") else "per_second"
        yield Quantity(
            f"efa_{name}_per_second", unit, efa, f"{EFA_PORT_COUNTERS[name]}, per second",
            provenance=Provenance.DERIVED, rate_of=f"efa_{name}_total", exported=False,
        )  # fmt: skip
    yield Quantity(
        "efa_stated_link_bytes_per_second", "bytes_per_second", efa,
        "Line rate as the driver states it; absent before 2.13.0, which always states 100 Gb/s",
        source=source, exported=False, needs="EFA driver 2.13.0",
    )  # fmt: skip
    yield Quantity(
        "efa_link_bytes_per_second", "bytes_per_second", efa, "Line rate",
        provenance=Provenance.DERIVED,
        formula="efa_stated_link_bytes_per_second, else that of the instance type",
    )  # fmt: skip
    yield Quantity(
        "efa_retransmit_ratio", "ratio", efa,
        "Share of transmitted packets that were retransmitted",
        needs=_SRD, provenance=Provenance.DERIVED,
        formula="efa_retrans_pkts_per_second ÷ efa_tx_pkts_per_second",
    )  # fmt: skip
    yield Quantity(
        "efa_tx_sibling_ratio", "ratio", efa,
        "Transmitted bytes over the median of the node's devices; far below 1 is a degraded rail",
        provenance=Provenance.DERIVED,
        formula="efa_tx_bytes_per_second ÷ its median over the node's devices",
    )  # fmt: skip
