"""What the rules read of the nodes, so that an analysis need compute nothing else.

`tests/analysis/test_rule_inputs.py` holds this table against the rules' source and against what
they say.
"""

from collections.abc import Iterable

from trntop.catalog import (
    CORE_FAILURES,
    EXECUTION_ERRORS,
    FAILED_STATUSES,
    UNCORRECTED_ECC,
)
from trntop.core.custom_rule import OwnRule

_MOVED = tuple(
    f"node_{where}_{way}_bytes_per_second"
    for where in ("disk", "lustre")
    for way in ("read", "written")
)
_CARD_COUNTERS = (
    "tx_bytes",
    "rx_bytes",
    "tx_pkts",
    "retrans_pkts",
    "retrans_timeout_events",
    "impaired_remote_conn_events",
    "unresponsive_remote_events",
    "rx_drops",
    "rdma_read_wr_err",
    "rdma_write_wr_err",
)

RULE_INPUTS = frozenset(
    (
        "device_memory_total_bytes",
        "device_memory_used_ratio",
        "efa_no_completion_cmds_total",
        "efa_retransmit_ratio",
        *(f"efa_{kind}_total" for kind in _CARD_COUNTERS),
        *(f"efa_{kind}_per_second" for kind in _CARD_COUNTERS),
        "job_comm_share_ratio",
        "job_exposed_comm_share_ratio",
        "job_step",
        "job_step_seconds",
        "link_latency_seconds",
        "link_probe_size_bytes",
        "link_probe_timestamp_seconds",
        "neuroncore_memory_used_bytes",
        "neuroncore_utilization_ratio",
        "node_compilers",
        "node_cpu_busy_ratio",
        "node_device_latency_p50_seconds",
        "node_device_memory_used_max_ratio",
        "node_devices",
        "node_ecc_uncorrected_events",
        "node_efa_cards",
        "node_executions_completed_per_second",
        "node_executions_failed_total",
        *(f"node_executions_{status}_total" for status in FAILED_STATUSES),
        *(f"node_execution_errors_{error}_total" for error in EXECUTION_ERRORS),
        "node_memory_available_bytes",
        "node_memory_total_bytes",
        "node_neuroncores",
        "node_neuroncore_flops_per_second",
        "node_neuroncore_utilization_max_ratio",
        "node_neuroncore_utilization_mean_ratio",
        "node_neuroncore_utilization_min_ratio",
        "node_runtimes",
        "node_vcpu_io_wait_ratio",
        "node_vcpu_system_ratio",
        "node_vcpu_user_ratio",
        *_MOVED,
        "physical_core_failures_total",
        *(f"physical_core_{status}_total" for status in CORE_FAILURES),
        "rank_comm_seconds",
        "rank_compute_seconds",
        "rank_exposed_comm_seconds",
        "rank_pipeline_stage",
        "rank_step",
        "rank_step_seconds",
        "runtime_device_memory_used_bytes",
        "runtime_executions_completed_per_second",
        *(f"runtime_executions_{status}_per_second" for status in FAILED_STATUSES),
        *(f"runtime_errors_{error}_per_second" for error in EXECUTION_ERRORS),
        *(name for names in UNCORRECTED_ECC for name in names),
    )
)
"""The quantities that the rulebook reads, and those that tell what a run announces."""


def rule_inputs(own: Iterable[OwnRule] = ()) -> frozenset[str]:
    """The quantities that the rulebook and the user's own rules read."""
    return RULE_INPUTS | {rule.comparison.quantity for rule in own}
