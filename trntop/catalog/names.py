"""The names of the sources, and those of their counters and categories."""

from trntop.steps import KINDS

NEURON_MONITOR = "neuron-monitor"
NEURON_SYSFS = "neuron-sysfs"
TENSOR_ENGINE = "tensor-engine"
NEURON_LS = "neuron-ls"
EFA_SOURCE = "efa"
HOST = "host"
KERNEL_LOG = "kernel-log"
STEPS = "steps"
LOG = "log"
PROFILES = "profiles"
JOB_MAPPING = "job-mapping"
POD_RESOURCES = "pod-resources"
KUBERNETES_NODE = "kubernetes-node"
PROBE = "probe"
NEURON_EXPORTER = "neuron-exporter"
EFA_EXPORTER = "efa-exporter"
CLOUDWATCH = "cloudwatch"
FLEET = "fleet"
SSH = "ssh"
"""The connection to a node on which nothing is installed."""
AGENT = "agent"
"""Messages of an agent of a node, see `trntop.remote.wire`; they have no decoder."""
INCIDENTS = "incidents"
"""Incidents of an aggregator, see `trntop.remote.judges`; they have no decoder either."""
PROMETHEUS = "engine"
"""Summaries of a Prometheus backend, see `trntop.remote.summary`; they have no decoder either."""
DEVICE_SOURCES = (NEURON_MONITOR, NEURON_SYSFS, TENSOR_ENGINE, NEURON_LS, EFA_SOURCE)
"""Those that need Neuron or EFA devices."""

COLLECTIVES = {kind: kind.replace("_", "-") for kind in KINDS} | {"send_recv": "send/recv"}
"""Kinds of collectives, and what people call them."""

HBM_QUANTITIES = (
    "runtime_hbm_read_bytes_per_second",
    "runtime_hbm_write_bytes_per_second",
    "neuroncore_hbm_bytes_per_second",
    "neuroncore_hbm_bandwidth_ratio",
    "device_hbm_bytes_per_second",
    "device_hbm_bandwidth_ratio",
    "node_hbm_bytes_per_second",
    "node_hbm_bandwidth_ratio",
)
"""What is computed from the bytes per execution of a program."""

MEMORY_CATEGORIES = (
    "constants",
    "model_code",
    "model_shared_scratchpad",
    "runtime_memory",
    "tensors",
)
"""neuron-monitor's categories of HBM use per core."""

EXECUTION_STATUSES = (
    "completed",
    "completed_with_err",
    "completed_with_num_err",
    "timed_out",
    "incorrect_input",
    "failed_to_queue",
)
FAILED_STATUSES = EXECUTION_STATUSES[1:]
EXECUTION_ERRORS = ("generic", "numerical", "transient", "model", "runtime", "hardware")
LATENCY_PERCENTILES = ("p0", "p1", "p25", "p50", "p75", "p99", "p100")
ECC_EVENTS = (
    "mem_ecc_corrected",
    "mem_ecc_uncorrected",
    "sram_ecc_corrected",
    "sram_ecc_uncorrected",
)
CPU_MODES = ("user", "nice", "system", "idle", "io_wait", "irq", "soft_irq")

# EFA driver, efa_verbs.c: EFA_DEFINE_PORT_STATS and EFA_DEFINE_DEVICE_STATS.
EFA_PORT_COUNTERS = {
    "tx_bytes": "Bytes transmitted, RDMA included",
    "tx_pkts": "Packets transmitted",
    "rx_bytes": "Bytes received, RDMA included",
    "rx_pkts": "Packets received",
    "rx_drops": "Packets received and then dropped",
    "send_bytes": "Bytes sent by send operations",
    "send_wrs": "Send work requests",
    "recv_bytes": "Bytes received by send operations",
    "recv_wrs": "Receive work requests",
    "rdma_read_bytes": "Bytes received with RDMA read",
    "rdma_read_wrs": "RDMA read work requests",
    "rdma_read_wr_err": "RDMA read work requests that failed",
    "rdma_read_resp_bytes": "Bytes sent in response to RDMA reads",
    "rdma_write_bytes": "Bytes of RDMA writes",
    "rdma_write_wrs": "RDMA write work requests",
    "rdma_write_wr_err": "RDMA write work requests that failed",
    "rdma_write_recv_bytes": "Bytes received by RDMA writes",
    "retrans_bytes": "SRD bytes retransmitted",
    "retrans_pkts": "SRD packets retransmitted",
    "retrans_timeout_events": "SRD time-outs that led to a change of path",
    "unresponsive_remote_events": "Remote connections found unresponsive",
    "impaired_remote_conn_events": "Connections put under a reduced rate limit",
}
EFA_DEVICE_COUNTERS = {
    "submitted_cmds": "Admin commands submitted",
    "completed_cmds": "Admin commands completed",
    "cmds_err": "Admin commands that failed",
    "no_completion_cmds": "Admin commands that never completed: the control plane is dead",
    "keep_alive_rcvd": "Keep-alive events from the device",
    "alloc_pd_err": "Failed protection domain allocations",
    "create_qp_err": "Failed queue pair creations",
    "create_cq_err": "Failed completion queue creations",
    "reg_mr_err": "Failed memory registrations",
    "alloc_ucontext_err": "Failed user context allocations",
    "create_ah_err": "Failed address handle creations",
    "mmap_err": "Failed memory mappings",
    "alloc_mr_err": "Failed kernel memory region allocations",
    "get_dma_mr_err": "Failed DMA memory regions",
}
EFA_RATES = (
    "tx_bytes",
    "rx_bytes",
    "tx_pkts",
    "rx_drops",
    "rdma_read_wr_err",
    "rdma_write_wr_err",
    "retrans_pkts",
    "retrans_timeout_events",
    "unresponsive_remote_events",
    "impaired_remote_conn_events",
)
"""The counters whose change per second is kept as a column of its own."""

# Neuron driver 2.24 to 2.30, neuron_sysfs_metrics.c.
CORE_FAILURES = (
    "failure",
    "timeout",
    "exec_bad_input",
    "hw_error",
    "execute_completed_with_error",
    "execute_completed_with_num_error",
    "generic_error",
    "resource_error",
    "resource_nc_error",
    "execute_failed_to_queue",
    "invalid_error",
    "unsupported_neff_version",
    "oob_error",
    "hw_collectives_error",
    "hw_hbm_ue_error",
    "hw_nc_ue_error",
    "hw_dma_abort_error",
    "execute_sw_nq_overflow",
    "execute_sw_semaphore_error",
    "execute_sw_event_error",
    "execute_sw_psum_collision",
    "execute_sw_sequencer_fatal",
    "hw_repairable_hbm_ue_error",
)
CORE_STATUSES = ("success", *CORE_FAILURES)
CORE_STATUS_ALIASES = {
    "infer_completed_with_error": "execute_completed_with_error",
    "infer_completed_with_num_error": "execute_completed_with_num_error",
    "infer_failed_to_queue": "execute_failed_to_queue",
}
"""Names of the guide's tree, which are older than the driver's."""
SYSFS_ECC = {
    "mem_ecc_corrected": "HBM errors corrected",
    "mem_ecc_uncorrected": "HBM errors uncorrected",
    "mem_ecc_repairable_uncorrected": "HBM errors uncorrected, but in rows that can be replaced",
    "sram_ecc_corrected": "SRAM errors corrected",
    "sram_ecc_uncorrected": "SRAM errors uncorrected",
}
HEALTH_STATUS = {
    "hbm_ecc_err_count": "mem_ecc_uncorrected",
    "repairable_hbm_ecc_err_count": "mem_ecc_repairable_uncorrected",
    "sram_ecc_err_count": "sram_ecc_uncorrected",
}
"""Counts in `health_status` of newer drivers → the same error among `SYSFS_ECC`."""
UNCORRECTED_ECC = (
    tuple(f"device_{name}_total" for name in SYSFS_ECC if "uncorrected" in name),
    tuple(f"device_{name}_events" for name in ECC_EVENTS if "uncorrected" in name),
)
"""Quantities of errors that were not corrected: as the driver counts, else as neuron-monitor."""
