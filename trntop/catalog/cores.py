"""Quantities of NeuronCores, logical and physical."""

from collections.abc import Iterator

from trntop.catalog.names import (
    CORE_STATUSES,
    MEMORY_CATEGORIES,
    NEURON_MONITOR,
    NEURON_SYSFS,
    TENSOR_ENGINE,
)
from trntop.catalog.quantity import Combine, Entity, Kind, Provenance, Quantity

_LIVE = "Neuron driver 2.30.2 to be live; before, it is counted when a process exits"
_ENGINE = "Neuron SDK 2.25"
_PROFILE = "a profile of the NEFF (`trntop profile add FILE`)"


def cores() -> Iterator[Quantity]:
    """Of logical NeuronCores."""
    core, source = Entity.CORE, NEURON_MONITOR
    yield Quantity(
        "neuroncore_utilization_ratio", "ratio", core,
        "Share of the period the core was executing; a core that waits in a collective counts",
        combine=Combine.MAX, source=source,
    )  # fmt: skip
    yield Quantity(
        "neuroncore_flops_per_second", "flops_per_second", core,
        "Floating point operations per second",
        combine=Combine.SUM, source=source, needs="aws-neuronx-tools 2.7.2",
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
    derived = Provenance.DERIVED
    yield Quantity(
        "neuroncore_tensor_engine_busy_ratio", "ratio", core,
        "Share of time the tensor engine worked, mean of the physical cores behind it; compare "
        "utilization, because a core that waits in a collective counts as utilized",
        provenance=derived,
        formula="mean of physical_core_tensor_engine_busy_ratio over its physical cores",
    )  # fmt: skip
    yield Quantity(
        "neuroncore_hbm_bytes_per_second", "bytes_per_second", core,
        "HBM bytes read and written per second",
        provenance=derived, needs=_PROFILE,
        formula="bytes per execution of its NEFF (from a profile) × executions per second, "
        "spread over the cores of its process that execute",
    )  # fmt: skip
    yield Quantity(
        "neuroncore_hbm_bandwidth_ratio", "ratio", core,
        "Share of the core's part of the peak HBM bandwidth",
        provenance=derived, needs=_PROFILE,
        formula="neuroncore_hbm_bytes_per_second ÷ (peak of the chip ÷ its logical cores)",
    )  # fmt: skip
    yield Quantity(
        "neuroncore_hbm_floor_bytes_per_second", "bytes_per_second", core,
        "At least so many HBM bytes are read per second, if each execution reads all weights once; "
        "experts that are not used and weights that stay in SBUF are not read",
        provenance=Provenance.ESTIMATED,
        formula="(neuroncore_memory_constants_bytes + neuroncore_memory_tensors_bytes) × "
        "runtime_executions_completed_per_second ÷ cores of the process that execute",
    )  # fmt: skip


def physical_cores() -> Iterator[Quantity]:
    """Of physical NeuronCores, as the driver's sysfs tree lists them."""
    core, source = Entity.PHYSICAL_CORE, NEURON_SYSFS
    yield Quantity(
        "physical_core_memory_used_bytes", "bytes", core, "HBM in use", source=source,
    )  # fmt: skip
    for status in CORE_STATUSES:
        yield Quantity(
            f"physical_core_{status}_total", "executions", core,
            f"Executions that ended with status {status.replace('_', ' ')}",
            kind=Kind.COUNTER, source=source, exported=False, needs=_LIVE,
        )  # fmt: skip
    yield Quantity(
        "physical_core_failures_total", "executions", core,
        "Executions that ended with any status but success",
        kind=Kind.COUNTER, provenance=Provenance.DERIVED,
        formula="Σ of physical_core_failure_total and the other failures",
    )  # fmt: skip
    for state, text in (
        ("matmul", "multiplied matrices"),
        ("weight_load", "loaded weights"),
        ("idle", "did nothing"),
    ):
        counter = f"physical_core_tensor_engine_{state}_cycles_total"
        yield Quantity(
            counter, "cycles", core,
            f"Cycles in which the tensor engine {text}, all its row groups (`pe_cntrs`)",
            kind=Kind.COUNTER, source=TENSOR_ENGINE, exported=False, needs=_ENGINE,
        )  # fmt: skip
        yield Quantity(
            f"physical_core_tensor_engine_{state}_cycles_per_second", "per_second", core,
            f"Cycles per second in which the tensor engine {text}",
            provenance=Provenance.DERIVED, rate_of=counter, exported=False,
        )  # fmt: skip
    yield Quantity(
        "physical_core_tensor_engine_busy_ratio", "ratio", core,
        "Share of time the tensor engine worked",
        provenance=Provenance.DERIVED,
        formula="(matmul + weight_load) ÷ (matmul + weight_load + idle) of "
        "physical_core_tensor_engine_idle_cycles_per_second and the other two",
    )  # fmt: skip
