"""Quantities of nodes: from neuron-monitor, from the host itself, roll-ups."""

from collections.abc import Iterator

from trntop.catalog.names import (
    AGENT,
    CPU_MODES,
    EFA_SOURCE,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    HOST,
    KERNEL_LOG,
    LOG,
    NEURON_MONITOR,
)
from trntop.catalog.quantity import Combine, Entity, Kind, Provenance, Quantity

_DETAIL_SUMS = ("node_hbm_peak_bytes_per_second", "node_executions_completed_per_second")
_SMOOTH = {"physical_core_tensor_engine_busy_ratio": ", mean of 20 s"}
"""A second is shorter than a training step: `trntop.pipeline.smooth`."""


def nodes() -> Iterator[Quantity]:
    """Of the node as a whole."""
    node, source, derived = Entity.NODE, NEURON_MONITOR, Provenance.DERIVED
    for what, label in (("memory", "host memory"), ("swap", "swap space")):
        for state in ("total", "used"):
            yield Quantity(
                f"node_{what}_{state}_bytes", "bytes", node, f"{state.capitalize()} {label}",
                source=source, detail=(what, state) != ("memory", "total"),
            )  # fmt: skip
    for mode in CPU_MODES:
        yield Quantity(
            f"node_vcpu_{mode}_ratio", "ratio", node,
            f"Share of vCPU time in mode {mode.replace('_', ' ')}", source=source, detail=True,
        )  # fmt: skip
    yield Quantity(
        "node_clock_offset_seconds", "seconds", node,
        "How far the node's clock is ahead of this one, by the quickest of its last frames; "
        "the delay on the way makes it appear behind",
        source=AGENT, detail=True,
    )  # fmt: skip
    yield Quantity("node_vcpus", "vcpus", node, "vCPUs of the node", source=source, detail=True)
    yield Quantity(
        "node_context_switches", "switches", node,
        "Context switches as neuron-monitor counts them; whether since boot or in the period is "
        "not documented",
        source=source, detail=True,
    )  # fmt: skip
    for status in EXECUTION_STATUSES:
        yield Quantity(
            f"node_executions_{status}_total", "executions", node,
            f"Executions {status.replace('_', ' ')} since the monitor started, all runtimes",
            kind=Kind.COUNTER, source=source, detail=status != "completed",
        )  # fmt: skip
    for error in EXECUTION_ERRORS:
        yield Quantity(
            f"node_execution_errors_{error}_total", "errors", node,
            f"Execution errors of kind {error} since the monitor started, all runtimes",
            kind=Kind.COUNTER, source=source, detail=True,
        )  # fmt: skip
    yield Quantity(
        "node_executions_failed_total", "executions", node,
        "Failed executions since the monitor started, all runtimes; what shows as a status and as "
        "an error counts once: the larger sum of each report",
        kind=Kind.COUNTER, source=source,
    )  # fmt: skip
    yield Quantity(
        "node_ecc_uncorrected_events", "events", node,
        "Uncorrected HBM and SRAM errors of all devices, as neuron-monitor counts them",
        provenance=derived,
        formula="Σ device_mem_ecc_uncorrected_events + Σ device_sram_ecc_uncorrected_events",
    )  # fmt: skip
    yield Quantity("node_devices", "devices", node, "Neuron devices present", source=source)
    yield Quantity(
        "node_neuroncores", "cores", node, "Logical NeuronCores present", source=source,
    )  # fmt: skip
    yield Quantity(
        "node_neuroncores_busy", "cores", node, "NeuronCores with a utilization above zero",
        provenance=derived, formula="count of neuroncore_utilization_ratio > 0",
    )  # fmt: skip
    yield Quantity(
        "node_runtimes", "runtimes", node, "Neuron processes that report", source=source,
    )  # fmt: skip
    for combine, of in (
        (Combine.MEAN, "neuroncore_utilization_ratio"),
        (Combine.MIN, "neuroncore_utilization_ratio"),
        (Combine.MAX, "neuroncore_utilization_ratio"),
        (Combine.MAX, "device_memory_used_ratio"),
        (Combine.MAX, "efa_retransmit_ratio"),
        (Combine.MEAN, "physical_core_tensor_engine_busy_ratio"),
        (Combine.MEAN, "device_power_mean_ratio"),
    ):
        base = of.removesuffix("_ratio").removeprefix("physical_core_")
        base = base.removesuffix(f"_{combine}")
        smooth = _SMOOTH.get(of, "")
        yield Quantity(
            f"node_{base}_{combine}_ratio", "ratio", node, f"{combine} of {of}{smooth}",
            combine=combine, provenance=derived, rollup_of=of,
        )  # fmt: skip
    for of, name in (
        ("neuroncore_flops_per_second", "node_neuroncore_flops_per_second"),
        ("device_memory_total_bytes", "node_device_memory_total_bytes"),
        ("device_hbm_peak_bytes_per_second", "node_hbm_peak_bytes_per_second"),
        ("efa_tx_bytes_per_second", "node_efa_tx_bytes_per_second"),
        ("efa_rx_bytes_per_second", "node_efa_rx_bytes_per_second"),
        ("efa_link_bytes_per_second", "node_efa_link_bytes_per_second"),
        ("runtime_executions_completed_per_second", "node_executions_completed_per_second"),
    ):
        unit = next(u for u in ("flops_per_second", "bytes_per_second", "per_second", "bytes")
                    if name.endswith(u))  # fmt: skip
        yield Quantity(
            name, unit, node, f"Sum of {of}", combine=Combine.SUM, provenance=derived,
            rollup_of=of, detail=name in _DETAIL_SUMS,
        )  # fmt: skip
    yield Quantity(
        "node_device_memory_used_bytes", "bytes", node,
        "HBM used on all devices; absent while it is unknown of one", provenance=derived,
        formula="Σ device_memory_used_bytes",
    )  # fmt: skip
    for scope in ("total", "device"):
        for percentile in ("p50", "p99"):
            yield Quantity(
                f"node_{scope}_latency_{percentile}_seconds", "seconds", node,
                f"Worst {percentile} execution latency of its runtimes",
                combine=Combine.MAX, provenance=derived,
                rollup_of=f"runtime_{scope}_latency_{percentile}_seconds", detail=scope == "total",
            )  # fmt: skip
    yield Quantity(
        "node_efa_tx_share_ratio", "ratio", node,
        "Transmitted bytes over the EFA devices' line rate",
        provenance=derived, detail=True,
        formula="node_efa_tx_bytes_per_second ÷ node_efa_link_bytes_per_second",
    )  # fmt: skip
    yield Quantity(
        "node_hbm_bytes_per_second", "bytes_per_second", node,
        "HBM bytes read and written per second; absent while it is unknown of one core",
        provenance=derived, formula="Σ neuroncore_hbm_bytes_per_second, mean of 20 s",
    )  # fmt: skip
    yield Quantity(
        "node_hbm_bandwidth_ratio", "ratio", node, "Share of the node's peak HBM bandwidth",
        provenance=derived,
        formula="node_hbm_bytes_per_second ÷ node_hbm_peak_bytes_per_second, mean of 20 s",
    )  # fmt: skip
    yield Quantity(
        "node_hbm_bandwidth_floor_ratio", "ratio", node,
        "At least this share of the peak HBM bandwidth, if each execution reads all weights once",
        provenance=Provenance.ESTIMATED, detail=True,
        formula="mean of device_hbm_bandwidth_floor_ratio, where it is known of all devices",
    )  # fmt: skip
    yield Quantity(
        "node_unhealthy_components", "components", node,
        "Components that the devices' own health checks name",
        combine=Combine.SUM, provenance=derived, rollup_of="device_unhealthy_components",
    )  # fmt: skip
    yield Quantity(
        "node_efa_cards", "cards", node, "EFA devices whose counters could be read",
        source=EFA_SOURCE,
    )  # fmt: skip
    yield Quantity(
        "node_efa_cards_expected", "cards", node, "EFA devices that the instance type has",
        provenance=derived,
        formula="EFA devices of the instance type, where node_efa_cards is known",
    )  # fmt: skip
    yield Quantity(
        "node_efa_tx_imbalance_ratio", "ratio", node,
        "How far the EFA device that sends least is behind its peers",
        provenance=derived, formula="1 − min of efa_tx_sibling_ratio",
    )  # fmt: skip
    yield Quantity(
        "node_comm_share_floor_ratio", "ratio", node,
        "At least this share of the time went into communication",
        provenance=Provenance.ESTIMATED,
        formula="the larger of efa_tx_bytes_per_second and efa_rx_bytes_per_second ÷ "
        "efa_link_bytes_per_second, of the busiest device, mean of 60 s",
    )  # fmt: skip
    yield Quantity(
        "node_comm_share_ceiling_ratio", "ratio", node,
        "At most this share of the time can have gone into exposed communication",
        provenance=Provenance.ESTIMATED,
        formula="node_neuroncore_utilization_mean_ratio − node_tensor_engine_busy_mean_ratio, "
        "mean of 60 s",
    )  # fmt: skip


def host() -> Iterator[Quantity]:
    """Of the node's host, by psutil and the kernel's log."""
    node, source, derived = Entity.NODE, HOST, Provenance.DERIVED
    yield Quantity(
        "node_cpu_busy_ratio", "ratio", node, "Share of CPU time not idle", source=source,
    )  # fmt: skip
    yield Quantity(
        "node_load1", "processes", node, "Load average over one minute", source=source, detail=True,
    )  # fmt: skip
    yield Quantity(
        "node_memory_available_bytes", "bytes", node, "Host memory that can be had", source=source,
    )  # fmt: skip
    yield Quantity(
        "node_processes", "processes", node, "Processes on the host", source=source, detail=True,
    )  # fmt: skip
    yield Quantity(
        "node_compilers", "processes", node, "Running neuronx-cc compiler processes",
        source=source,
    )  # fmt: skip
    yield Quantity(
        "node_compile_cache_modules", "modules", node,
        "Compiled modules in the compile cache", source=source, detail=True,
    )  # fmt: skip
    for name, unit, text in (
        ("compile_cache_hits", "lookups", "Lookups that found a module in the compile cache"),
        (
            "compile_cache_misses",
            "lookups",
            "Lookups that led to a compilation",
        ),
        (
            "compile_seconds",
            "seconds",
            "Time of compilations, overlaps counted once",
        ),
        ("collective_timeouts", "events", "Collectives that timed out, by PyTorch's watchdog"),
    ):
        yield Quantity(
            f"node_{name}_total", unit, node, f"{text}, in the training logs of the node",
            kind=Kind.COUNTER, provenance=Provenance.REPORTED, source=LOG, detail=True,
        )  # fmt: skip
    for name, text in (
        ("network_rx", "Bytes received on network interfaces, without loopback"),
        ("network_tx", "Bytes transmitted on network interfaces, without loopback"),
        ("disk_read", "Bytes read from disks"),
        ("disk_written", "Bytes written to disks"),
        ("lustre_read", "Bytes read from Lustre file systems"),
        ("lustre_written", "Bytes written to Lustre file systems"),
        ("nfs_read", "Bytes read from NFS servers, such as EFS"),
        ("nfs_written", "Bytes written to NFS servers, such as EFS"),
    ):
        counter = f"node_{name}_bytes_total"
        yield Quantity(
            counter, "bytes", node, text, kind=Kind.COUNTER, source=source,
            detail=name.startswith("network"),
        )  # fmt: skip
        yield Quantity(
            f"node_{name}_bytes_per_second", "bytes_per_second", node, f"{text}, per second",
            provenance=derived, rate_of=counter, exported=False,
        )  # fmt: skip
    for name, text in (
        ("neuron", "NEURON_HW_ERR lines in the kernel log since the monitor started"),
        ("efa", "Complaints of the EFA driver in the kernel log since the monitor started"),
    ):
        yield Quantity(
            f"node_kernel_{name}_errors_total", "errors", node, text,
            kind=Kind.COUNTER, source=KERNEL_LOG,
        )  # fmt: skip
