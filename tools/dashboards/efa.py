"""EFA: whether the network between the nodes is healthy, and which device is not."""

from grafana_foundation_sdk.models import dashboard

from trntop.catalog import EFA_DEVICE_COUNTERS

from .board import Board, choice, how_many
from .common import GIGABITS, data, found
from .efa_devices import BY, efa_devices, worst
from .layout import Section
from .panels import LIMITS, Query, above, heat, lines, stats
from .promql import NODE, OF_NODE, chosen, most, rate, series, worst_rows

_DEVICE = "{{node}} {{efa_device}}"
_INCIDENTS = chosen(OF_NODE, 'kind=~"efa_.*|latency_regression|comm_bound"')


def board() -> Board:
    """The dashboard."""
    return Board(
        "efa",
        "trntop / EFA",
        "EFA devices of all nodes: which are degraded or down, and their traffic.",
        [choice("node", "Node", "trn_instance_info", "node"), how_many()],
        [
            Section("", [found(_INCIDENTS, width=21, height=6), data(NODE, height=6), *_head()]),
            Section("EFA devices, worst first", [efa_devices(NODE, height=11)]),
            Section("Worst EFA devices over time", _heat()),
            Section("Traffic", _traffic()),
            Section("Errors and drops", _events()),
            Section("Links (active probes)", _links()),
            Section("EFA control plane", _control(), folded=True),
        ],
        _INCIDENTS,
    )


def _sum(metric: str) -> str:
    return f"sum({most('node', series(metric, NODE))})"


def _count(counter: str) -> str:
    """A counter of all EFA devices, per second."""
    return f"sum({most(BY, rate(counter, NODE))})"


def _head() -> list[dashboard.Panel]:
    share = "percentunit"
    retransmits = most(BY, series("trn_efa_retransmit_ratio", NODE))
    sent, capacity = (_sum(f"trn_node_efa_{of}_bytes_per_second") for of in ("tx", "link"))
    return [
        stats("EFA devices up",
            "Devices that can be read, and devices that the instance types have.",
            Query(_sum("trn_node_efa_cards"), "up"),
            Query(_sum("trn_node_efa_cards_expected"), "expected"), width=4),
        stats("Devices over the limit", f"Devices with retransmits above {LIMITS.retransmits:.1%}.",
            Query(f"count({retransmits} > {LIMITS.retransmits}) or count({retransmits}) * 0"),
            steps=above(1), width=4),
        stats("Worst retransmit rate", "Share of packets.", Query(f"max({retransmits})"),
            unit=share, steps=above(LIMITS.retransmits), width=4),
        stats("EFA tx", "All EFA devices.", Query(f"{sent} * 8"), unit=GIGABITS),
        stats("EFA tx of line rate", "All EFA devices.", Query(f"{sent} / {capacity}"), unit=share),
        stats("Timeouts/s", "Timeouts that led to a change of path, all EFA devices.",
            Query(_count("trn_efa_retrans_timeout_events_total")), unit="cps",
            steps=above(0.0001)),
        stats("Driver errors/s", "Errors of the EFA driver in the kernel log.",
            Query(f"sum({most('node', rate('trn_node_kernel_efa_errors_total', NODE))})"),
            unit="cps", steps=above(0.0001)),
    ]  # fmt: skip


def _heat() -> list[dashboard.Panel]:
    steady = "The worst by mean over the time range; set the number with the variable at the top."
    top = 10 * LIMITS.retransmits
    full = f"Full color at ten times the limit of {LIMITS.retransmits:.1%}."
    return [
        heat("Retransmits by EFA device", f"{steady} {full}",
             Query(worst_rows("trn_efa_retransmit_ratio", NODE, by=BY), _DEVICE),
             scheme="Reds", top=top),
        heat("Imbalance by node",
             f"How much less the least-used EFA device sends than its peers. {steady}",
             Query(worst_rows("trn_node_efa_tx_imbalance_ratio", NODE), "{{node}}"),
             scheme="Oranges", top=1),
        heat("Traffic by node", f"{steady} Here the worst are those with the least traffic.",
             Query(worst_rows("trn_node_efa_tx_share_ratio", NODE, lowest=True), "{{node}}"),
             scheme="Blues", top=1),
    ]  # fmt: skip


def _traffic() -> list[dashboard.Panel]:
    sent = f"{most(BY, rate('trn_efa_tx_bytes_total', NODE))} * 8"
    return [
        lines("Traffic of all EFA devices", "Traffic and line rate, RDMA included.",
              Query(f"{_sum('trn_node_efa_tx_bytes_per_second')} * 8", "transmitted"),
              Query(f"{_sum('trn_node_efa_rx_bytes_per_second')} * 8", "received"),
              Query(f"{_sum('trn_node_efa_link_bytes_per_second')} * 8", "line rate"),
              unit=GIGABITS),
        lines("Traffic of the top retransmitting EFA devices", "What they transmit.",
              Query(f"{sent} and on ({BY}) {worst(NODE)}", _DEVICE), unit=GIGABITS),
        lines("Traffic by verb", "Bytes of all EFA devices by verb.",
              *(Query(f"{_count(f'trn_efa_{verb}_bytes_total')} * 8", name)
                for verb, name in (("send", "sent"), ("recv", "received"),
                                   ("rdma_read", "RDMA read"),
                                   ("rdma_read_resp", "RDMA read, answered"),
                                   ("rdma_write", "RDMA write"),
                                   ("rdma_write_recv", "RDMA write, received"))),
              unit=GIGABITS),
        lines("Packets", "All EFA devices.",
              Query(_count("trn_efa_tx_pkts_total"), "transmitted"),
              Query(_count("trn_efa_rx_pkts_total"), "received"), unit="pps"),
        lines("Work requests", "All EFA devices.",
              *(Query(_count(f"trn_efa_{verb}_wrs_total"), name)
                for verb, name in (("send", "send"), ("recv", "receive"),
                                   ("rdma_read", "RDMA read"), ("rdma_write", "RDMA write"))),
              unit="ops"),
        lines("Retransmitted bytes", "All EFA devices.",
              Query(f"{_count('trn_efa_retrans_bytes_total')} * 8", "retransmitted"),
              unit=GIGABITS),
    ]  # fmt: skip


def _events() -> list[dashboard.Panel]:
    def worst_devices(counter: str) -> Query:
        return Query(f"topk(5, {most(BY, rate(counter, NODE))} > 0)", _DEVICE)

    five = "The five worst EFA devices at each point in time; no data is good."
    return [
        lines("Retransmitted packets", five, worst_devices("trn_efa_retrans_pkts_total"),
              unit="pps"),
        lines("Timeouts", f"{five} Each led to a change of path.",
              worst_devices("trn_efa_retrans_timeout_events_total"), unit="cps"),
        lines("Received packets dropped", five, worst_devices("trn_efa_rx_drops_total"),
              unit="pps"),
        lines("Unresponsive peers", five,
              worst_devices("trn_efa_unresponsive_remote_events_total"), unit="cps"),
        lines("Impaired connections", five,
              worst_devices("trn_efa_impaired_remote_conn_events_total"), unit="cps"),
        lines("Failed work requests", "All EFA devices.",
              Query(_count("trn_efa_rdma_read_wr_err_total"), "RDMA read"),
              Query(_count("trn_efa_rdma_write_wr_err_total"), "RDMA write"), unit="ops"),
    ]  # fmt: skip


def _links() -> list[dashboard.Panel]:
    by = "node, efa_device, peer"
    latency = f"topk($top, {most(by, series('trn_link_latency_seconds', NODE))})"
    return [
        lines("Latency, slowest links",
              "Measured by active probes: EFA has no latency counter.",
              Query(latency, "{{node}} to {{peer}}"), unit="s", width=24),
    ]  # fmt: skip


def _control() -> list[dashboard.Panel]:
    failed = [name for name in EFA_DEVICE_COUNTERS if name.endswith("_err") and name != "cmds_err"]
    return [
        lines("Admin commands", "All EFA devices.",
              Query(_count("trn_efa_submitted_cmds_total"), "submitted"),
              Query(_count("trn_efa_completed_cmds_total"), "completed"),
              Query(_count("trn_efa_keep_alive_rcvd_total"), "keep-alives received"),
              unit="ops"),
        lines("Failed admin commands",
              "A command that never completes means the control plane is dead.",
              Query(_count("trn_efa_cmds_err_total"), "failed"),
              Query(_count("trn_efa_no_completion_cmds_total"), "never completed"), unit="ops"),
        lines("Failed resources", "All EFA devices: failed creations per second.",
              *(Query(_count(f"trn_efa_{name}_total"),
                      name.removesuffix("_err").replace("_", " ")) for name in failed),
              unit="ops"),
    ]  # fmt: skip
