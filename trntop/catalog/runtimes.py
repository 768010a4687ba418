"""Quantities of Neuron processes; keyed by pid, so never on the page of metrics."""

from collections.abc import Iterator

from trntop.catalog.names import (
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    LATENCY_PERCENTILES,
    NEURON_MONITOR,
)
from trntop.catalog.quantity import Entity, Provenance, Quantity


def runtimes() -> Iterator[Quantity]:
    """Of Neuron processes."""
    runtime, source = Entity.RUNTIME, NEURON_MONITOR
    for place, label in (("host", "host memory"), ("device", "HBM")):
        yield Quantity(
            f"runtime_{place}_memory_used_bytes", "bytes", runtime, f"{label} used by the process",
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
    yield Quantity(
        "runtime_execution_period_seconds", "seconds", runtime,
        "Time in which the executions were counted",
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
    for way in ("read", "write"):
        yield Quantity(
            f"runtime_hbm_{way}_bytes_per_second", "bytes_per_second", runtime,
            f"HBM bytes per second, {way}",
            provenance=Provenance.DERIVED, exported=False,
            formula=f"hbm_{way}_bytes of its NEFF's profile × completed executions per second",
        )  # fmt: skip
