"""The table of EFA devices, on the dashboards `node` and `efa`."""

from grafana_foundation_sdk.models import dashboard

from .board import to_efa_devices, to_node
from .common import GIGABITS
from .panels import LIMITS, Column, above, below, rows
from .promql import most, rate, series

BY = "node, efa_device"


def worst(node: str) -> str:
    """The EFA devices with the highest retransmit rate, as many as the user wants."""
    return f"topk($top, {most(BY, series('trn_efa_retransmit_ratio', node))})"


def efa_devices(node: str, height: int = 10) -> dashboard.Panel:
    """The worst EFA devices of the nodes that match `node`."""
    chosen = worst(node)

    def of(metric: str) -> str:
        return f"{most(BY, series(metric, node))} and on ({BY}) {chosen}"

    def per_second(metric: str) -> str:
        return f"{most(BY, rate(metric, node))} and on ({BY}) {chosen}"

    sent = most(BY, rate("trn_efa_tx_bytes_total", node))
    received = most(BY, rate("trn_efa_rx_bytes_total", node))
    line_rate = most(BY, series("trn_efa_link_bytes_per_second", node))
    return rows(
        "EFA devices",
        "Highest retransmits first. An EFA device is degraded if it retransmits more than "
        f"{LIMITS.retransmits:.1%} while its peers do not. Less traffic than its peers "
        "alone is not a fault: many jobs use EFA devices unevenly.",
        {"node": "node", "efa_device": "EFA device"},
        Column("retransmits", chosen, "percentunit", above(LIMITS.retransmits)),
        Column("tx", f"{sent} * 8 and on ({BY}) {chosen}", GIGABITS),
        Column("rx", f"{received} * 8 and on ({BY}) {chosen}", GIGABITS),
        Column("of line rate", f"{sent} / {line_rate} and on ({BY}) {chosen}", "percentunit",
               bar=True),
        Column("of peers", of("trn_efa_tx_sibling_ratio"), "percentunit",
               below(LIMITS.card_traffic)),
        Column("timeouts/s", per_second("trn_efa_retrans_timeout_events_total"), "cps",
               above(0.0001)),
        Column("drops/s", per_second("trn_efa_rx_drops_total"), "cps", above(0.0001)),
        Column("unresponsive/s", per_second("trn_efa_unresponsive_remote_events_total"), "cps",
               above(0.0001)),
        Column("impaired/s", per_second("trn_efa_impaired_remote_conn_events_total"), "cps",
               above(0.0001)),
        sort="retransmits",
        links={"node": [to_node(), to_efa_devices()]},
        height=height,
    )  # fmt: skip
