"""Every quantity trntop knows, declared once.

The decoders fill these columns, the node merges them by `combine`, the roll-ups and
derivations compute further ones, and the screen, the JSON, the metrics page and
docs/metrics.md read names, units and help from here. On `/metrics` a quantity is called
`trn_` + its name.

Units are base units (seconds, bytes, ratios from 0 to 1); a unit stands in the name. A
counter ends in `_total`. Absent values are NaN inside trntop and nothing at all outside.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

METRIC_PREFIX = "trn_"


class Entity(StrEnum):
    """What a column has one value of."""

    NODE = "node"
    DEVICE = "device"
    """A Neuron device (chip), keyed by its index."""
    CORE = "core"
    """A logical NeuronCore, keyed by its flat index on the node."""
    EFA = "efa"
    """An EFA card, keyed by its device name."""
    RUNTIME = "runtime"
    """A Neuron process, keyed by its pid."""
    JOB = "job"
    """A training job as seen from one node, keyed by its name."""


class Kind(StrEnum):
    """How a value moves."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Combine(StrEnum):
    """How several values become one: runtimes on a core, ranks in a job, parts in a roll-up."""

    LAST = "last"
    MAX = "max"
    MIN = "min"
    MEAN = "mean"
    SUM = "sum"


class Provenance(StrEnum):
    """Where a value came from."""

    MEASURED = "measured"
    """A counter or a clock gave it."""
    REPORTED = "reported"
    """The training process said so."""
    DERIVED = "derived"
    """Computed from measured values by a documented formula."""
    ESTIMATED = "estimated"
    """Bounded or modelled."""
    SIMULATED = "simulated"
    """The simulator made it up."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One column of a frame.

    A quantity with `rollup_of` is that quantity's node value by `combine`; one with `rate_of` is
    the change of that counter per second; one with `formula` is computed by `trntop.derive`.
    """

    name: str
    unit: str
    entity: Entity
    help: str
    kind: Kind = Kind.GAUGE
    combine: Combine = Combine.LAST
    provenance: Provenance = Provenance.MEASURED
    source: str = ""
    """The collector's source whose payload holds it; empty for computed quantities."""
    rollup_of: str = ""
    rate_of: str = ""
    formula: str = ""
    exported: bool = True
    """Whether it has a series on the metrics page. Values keyed by pid never have."""

    @property
    def metric(self) -> str:
        """Name on the metrics page."""
        return METRIC_PREFIX + self.name


NEURON_MONITOR = "neuron-monitor"
EFA_SOURCE = "efa"
STEPS = "steps"

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
    "retrans_bytes": "SRD bytes retransmitted (driver 2.17.0 or newer)",
    "retrans_pkts": "SRD packets retransmitted (driver 2.17.0 or newer)",
    "retrans_timeout_events": "SRD time-outs that led to a change of path (2.17.0 or newer)",
    "unresponsive_remote_events": "Remote connections found unresponsive (2.17.0 or newer)",
    "impaired_remote_conn_events": "Connections put under a reduced rate limit (2.17.0 or newer)",
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
    "retrans_pkts",
    "retrans_timeout_events",
    "unresponsive_remote_events",
    "impaired_remote_conn_events",
)
"""The counters whose change per second is kept as a column of its own."""


def _cores() -> Iterator[Quantity]:
    core, source = Entity.CORE, NEURON_MONITOR
    yield Quantity(
        "neuroncore_utilization_ratio", "ratio", core,
        "Share of the period the core was executing; a core that waits in a collective counts",
        combine=Combine.MAX, source=source,
    )  # fmt: skip
    yield Quantity(
        "neuroncore_flops_per_second", "flops_per_second", core,
        "Floating point operations per second",
        combine=Combine.SUM, source=source,
    )  # fmt: skip
    for bound in (Combine.MIN, Combine.MAX):
        yield Quantity(
            f"neuroncore_physical_utilization_{bound}_ratio", "ratio", core,
            f"Utilization of the {'least' if bound is Combine.MIN else 'most'} busy physical core "
            "behind a logical core (LNC=2)",
            combine=bound, source=source,
        )  # fmt: skip
    for category in MEMORY_CATEGORIES:
        label = category.removesuffix("_memory").replace("_", " ")
        yield Quantity(
            f"neuroncore_memory_{category}_bytes", "bytes", core, f"HBM used for {label}",
            combine=Combine.SUM, source=source,
        )  # fmt: skip
    yield Quantity(
        "neuroncore_memory_used_bytes", "bytes", core, "HBM used, all categories",
        combine=Combine.SUM, source=source,
    )  # fmt: skip


def _devices() -> Iterator[Quantity]:
    device, source = Entity.DEVICE, NEURON_MONITOR
    yield Quantity(
        "device_memory_used_bytes", "bytes", device, "HBM used on the device",
        provenance=Provenance.DERIVED, formula="Σ neuroncore_memory_used_bytes over its cores",
    )  # fmt: skip
    yield Quantity(
        "device_memory_total_bytes", "bytes", device, "HBM of the device", source=source,
    )  # fmt: skip
    yield Quantity(
        "device_memory_used_ratio", "ratio", device, "Share of the device's HBM in use",
        provenance=Provenance.DERIVED,
        formula="device_memory_used_bytes ÷ device_memory_total_bytes",
    )  # fmt: skip
    for event in ECC_EVENTS:
        memory, _, outcome = event.partition("_ecc_")
        yield Quantity(
            f"device_{event}_events", "events", device,
            f"{'HBM' if memory == 'mem' else 'SRAM'} errors {outcome}, as neuron-monitor counts "
            "them; whether since boot or in the period is not documented",
            source=source,
        )  # fmt: skip


def _runtimes() -> Iterator[Quantity]:
    runtime, source = Entity.RUNTIME, NEURON_MONITOR
    for place, label in (("host", "host memory"), ("device", "HBM")):
        yield Quantity(
            f"runtime_{place}_memory_used_bytes", "bytes", runtime, f"{label} used by the process",
            source=source, exported=False,
        )  # fmt: skip
    for part in ("application_memory", "constants", "dma_buffers", "tensors"):
        yield Quantity(
            f"runtime_host_memory_{part}_bytes", "bytes", runtime,
            f"Host memory used for {part.removesuffix('_memory').replace('_', ' ')}",
            source=source, exported=False,
        )  # fmt: skip
    for mode in ("user", "system"):
        yield Quantity(
            f"runtime_vcpu_{mode}_ratio", "ratio", runtime,
            f"Share of the node's vCPU time the process spent in {mode} mode",
            source=source, exported=False,
        )  # fmt: skip
    for status in EXECUTION_STATUSES:
        yield Quantity(
            f"runtime_executions_{status}_per_second", "per_second", runtime,
            f"Executions {status.replace('_', ' ')}, per second",
            source=source, exported=False,
        )  # fmt: skip
    for error in EXECUTION_ERRORS:
        yield Quantity(
            f"runtime_errors_{error}_per_second", "per_second", runtime,
            f"Execution errors of kind {error}, per second",
            source=source, exported=False,
        )  # fmt: skip
    yield Quantity(
        "runtime_loaded_models", "models", runtime, "NEFFs the process has loaded",
        source=source, exported=False,
    )  # fmt: skip
    for scope, label in (("total", "seen by the runtime"), ("device", "on the device only")):
        for percentile in LATENCY_PERCENTILES:
            yield Quantity(
                f"runtime_{scope}_latency_{percentile}_seconds", "seconds", runtime,
                f"Execution latency {label}, {percentile} of the period",
                source=source, exported=False,
            )  # fmt: skip


def _efa() -> Iterator[Quantity]:
    efa, source = Entity.EFA, EFA_SOURCE
    for name, text in (EFA_PORT_COUNTERS | EFA_DEVICE_COUNTERS).items():
        unit = "bytes" if name.endswith("_bytes") else "events"
        yield Quantity(f"efa_{name}_total", unit, efa, text, kind=Kind.COUNTER, source=source)
    for name in EFA_RATES:
        unit = "bytes_per_second" if name.endswith("_bytes") else "per_second"
        yield Quantity(
            f"efa_{name}_per_second", unit, efa, f"{EFA_PORT_COUNTERS[name]}, per second",
            provenance=Provenance.DERIVED, rate_of=f"efa_{name}_total", exported=False,
        )  # fmt: skip
    yield Quantity(
        "efa_link_bytes_per_second", "bytes_per_second", efa,
        "Line rate; the driver's word is not to be trusted before 2.13.0", source=source,
    )  # fmt: skip
    yield Quantity(
        "efa_retransmit_ratio", "ratio", efa, "Share of transmitted packets that were sent again",
        provenance=Provenance.DERIVED,
        formula="efa_retrans_pkts_per_second ÷ efa_tx_pkts_per_second",
    )  # fmt: skip


def _jobs() -> Iterator[Quantity]:
    job, source, reported = Entity.JOB, STEPS, Provenance.REPORTED
    yield Quantity(
        "job_step", "steps", job, "Newest training step", combine=Combine.MAX,
        provenance=reported, source=source,
    )  # fmt: skip
    yield Quantity(
        "job_ranks", "ranks", job, "Ranks of the job that reported from this node",
        combine=Combine.SUM, provenance=reported, source=source,
    )  # fmt: skip
    for name, text in (
        ("step", "Duration of a step"),
        ("compute", "Time of a step in which the rank computed"),
        ("comm", "Time of a step in which a collective ran, hidden or not"),
        ("exposed_comm", "Time of a step in which a collective ran and nothing computed"),
    ):
        yield Quantity(
            f"job_{name}_seconds", "seconds", job, f"{text}, mean over the node's ranks",
            combine=Combine.MEAN, provenance=reported, source=source,
        )  # fmt: skip
    yield Quantity(
        "job_tokens_per_second", "tokens_per_second", job,
        "Tokens of the whole job per second, as its ranks report them",
        combine=Combine.MEAN, provenance=reported, source=source,
    )  # fmt: skip
    for name, formula, text in (
        ("comm_share", "job_comm_seconds ÷ job_step_seconds",
         "Share of the step in which a collective ran"),
        ("exposed_comm_share", "job_exposed_comm_seconds ÷ job_step_seconds",
         "Share of the step spent in communication alone"),
        ("comm_compute", "job_comm_seconds ÷ job_compute_seconds",
         "Communication time over compute time"),
    ):  # fmt: skip
        yield Quantity(
            f"job_{name}_ratio", "ratio", job, text, provenance=reported, formula=formula,
        )  # fmt: skip


def _nodes() -> Iterator[Quantity]:
    node, source, derived = Entity.NODE, NEURON_MONITOR, Provenance.DERIVED
    for what, label in (("memory", "host memory"), ("swap", "swap space")):
        for state in ("total", "used"):
            yield Quantity(
                f"node_{what}_{state}_bytes", "bytes", node, f"{state.capitalize()} {label}",
                source=source,
            )  # fmt: skip
    for mode in CPU_MODES:
        yield Quantity(
            f"node_vcpu_{mode}_ratio", "ratio", node,
            f"Share of vCPU time in mode {mode.replace('_', ' ')}", source=source,
        )  # fmt: skip
    yield Quantity("node_vcpus", "vcpus", node, "vCPUs of the node", source=source)
    yield Quantity(
        "node_context_switches", "switches", node,
        "Context switches as neuron-monitor counts them; whether since boot or in the period is "
        "not documented",
        source=source,
    )  # fmt: skip
    for status in EXECUTION_STATUSES:
        yield Quantity(
            f"node_executions_{status}_total", "executions", node,
            f"Executions {status.replace('_', ' ')} since the monitor started, all runtimes",
            kind=Kind.COUNTER, source=source,
        )  # fmt: skip
    for error in EXECUTION_ERRORS:
        yield Quantity(
            f"node_execution_errors_{error}_total", "errors", node,
            f"Execution errors of kind {error} since the monitor started, all runtimes",
            kind=Kind.COUNTER, source=source,
        )  # fmt: skip
    yield Quantity(
        "node_executions_failed_total", "executions", node,
        "Failed executions and execution errors of any kind since the monitor started",
        kind=Kind.COUNTER, provenance=derived,
        formula="Σ of the node's execution counts but `completed`, and of its errors",
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
    ):
        base = of.removesuffix("_ratio")
        yield Quantity(
            f"node_{base}_{combine}_ratio", "ratio", node, f"{combine} of {of}",
            combine=combine, provenance=derived, rollup_of=of,
        )  # fmt: skip
    for of, name in (
        ("neuroncore_flops_per_second", "node_neuroncore_flops_per_second"),
        ("device_memory_used_bytes", "node_device_memory_used_bytes"),
        ("device_memory_total_bytes", "node_device_memory_total_bytes"),
        ("efa_tx_bytes_per_second", "node_efa_tx_bytes_per_second"),
        ("efa_rx_bytes_per_second", "node_efa_rx_bytes_per_second"),
        ("efa_link_bytes_per_second", "node_efa_link_bytes_per_second"),
        ("runtime_executions_completed_per_second", "node_executions_completed_per_second"),
    ):
        unit = next(u for u in ("flops_per_second", "bytes_per_second", "per_second", "bytes")
                    if name.endswith(u))  # fmt: skip
        yield Quantity(
            name, unit, node, f"Sum of {of}", combine=Combine.SUM, provenance=derived,
            rollup_of=of,
        )  # fmt: skip
    for scope in ("total", "device"):
        for percentile in ("p50", "p99"):
            yield Quantity(
                f"node_{scope}_latency_{percentile}_seconds", "seconds", node,
                f"Worst {percentile} execution latency of its runtimes",
                combine=Combine.MAX, provenance=derived,
                rollup_of=f"runtime_{scope}_latency_{percentile}_seconds",
            )  # fmt: skip
    yield Quantity(
        "node_efa_tx_share_ratio", "ratio", node, "Transmitted bytes over the cards' line rate",
        provenance=derived,
        formula="node_efa_tx_bytes_per_second ÷ node_efa_link_bytes_per_second",
    )  # fmt: skip


CATALOG: dict[str, Quantity] = {
    quantity.name: quantity
    for family in (_nodes, _devices, _cores, _efa, _runtimes, _jobs)
    for quantity in family()
}
"""All quantities by name, in the order of the page: node first, then its parts."""


def of_entity(entity: Entity) -> tuple[Quantity, ...]:
    """The quantities with one value per `entity`."""
    return tuple(quantity for quantity in CATALOG.values() if quantity.entity is entity)


def describe() -> str:
    """The catalog as Markdown: `docs/metrics.md`."""
    lines = [
        "# Quantities and metrics",
        "",
        "Made by `python -m trntop.catalog > docs/metrics.md`; do not edit.",
        "",
        f"Names are those of the JSON; on the page of metrics they begin with `{METRIC_PREFIX}`.",
        "Those marked with – under *page* are on the screen and in the JSON only. Provenance: see",
        "[architecture](architecture.md#provenance); every value of a simulation is `simulated`.",
    ]
    for entity in Entity:
        lines += [
            "",
            f"## Per {entity}",
            "",
            "| name | unit | meaning | provenance | from | page |",
            "|---|---|---|---|---|---|",
        ]
        for quantity in of_entity(entity):
            rate = f"change of `{quantity.rate_of}`" if quantity.rate_of else ""
            origin = quantity.source or rate or quantity.formula or f"`{quantity.rollup_of}`"
            unit = quantity.unit.replace("_per_second", "/s").replace("per_second", "1/s")
            lines.append(
                f"| `{quantity.name}` | {unit} | {quantity.help} | {quantity.provenance} "
                f"| {origin} | {quantity.kind if quantity.exported else '–'} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    print(describe())
