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

SUMMARY = frozenset(
    (
        "device_memory_used_ratio",
        "efa_retransmit_ratio",
        "efa_tx_bytes_total",
        "job_comm_compute_ratio",
        "job_comm_seconds",
        "job_comm_share_ratio",
        "job_compute_seconds",
        "job_exposed_comm_seconds",
        "job_exposed_comm_share_ratio",
        "job_loss",
        "job_mfu_ratio",
        "job_ranks",
        "job_step",
        "job_step_seconds",
        "job_tokens_per_second",
        "node_comm_share_ceiling_ratio",
        "node_comm_share_floor_ratio",
        "node_compilers",
        "node_cpu_busy_ratio",
        "node_device_latency_p50_seconds",
        "node_device_latency_p99_seconds",
        "node_device_memory_total_bytes",
        "node_device_memory_used_bytes",
        "node_device_memory_used_max_ratio",
        "node_device_power_mean_ratio",
        "node_devices",
        "node_disk_read_bytes_total",
        "node_disk_written_bytes_total",
        "node_ecc_uncorrected_events",
        "node_efa_cards",
        "node_efa_cards_expected",
        "node_efa_link_bytes_per_second",
        "node_efa_retransmit_max_ratio",
        "node_efa_rx_bytes_per_second",
        "node_efa_tx_bytes_per_second",
        "node_efa_tx_imbalance_ratio",
        "node_executions_completed_total",
        "node_executions_failed_total",
        "node_hbm_bandwidth_ratio",
        "node_hbm_bytes_per_second",
        "node_kernel_efa_errors_total",
        "node_kernel_neuron_errors_total",
        "node_lustre_read_bytes_total",
        "node_lustre_written_bytes_total",
        "node_memory_available_bytes",
        "node_memory_total_bytes",
        "node_neuroncore_flops_per_second",
        "node_neuroncore_utilization_max_ratio",
        "node_neuroncore_utilization_mean_ratio",
        "node_neuroncore_utilization_min_ratio",
        "node_neuroncores",
        "node_neuroncores_busy",
        "node_runtimes",
        "node_tensor_engine_busy_mean_ratio",
        "node_unhealthy_components",
    )
)
"""What is on `/metrics`; `tests/catalog/test_catalog.py` holds the names against the catalog."""


def page_of(quantity: Quantity) -> Page | None:
    """The page it is on; None for what is on the screen and in the JSON only."""
    if not quantity.exported:
        return None
    if quantity.entity in _OF_CORES:
        return Page.CORES
    return Page.METRICS if quantity.name in SUMMARY else Page.DETAIL
