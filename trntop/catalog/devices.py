"""Quantities of Neuron devices."""

from collections.abc import Iterator

from trntop.catalog.names import (
    ECC_EVENTS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    SYSFS_ECC,
)
from trntop.catalog.quantity import Entity, Kind, Provenance, Quantity


def devices() -> Iterator[Quantity]:
    """Of Neuron devices."""
    device, source = Entity.DEVICE, NEURON_MONITOR
    yield Quantity(
        "device_memory_used_bytes", "bytes", device, "HBM used on the device",
        provenance=Provenance.DERIVED,
        formula="Σ neuroncore_memory_used_bytes over its cores, else that of its physical cores",
    )  # fmt: skip
    yield Quantity(
        "device_memory_total_bytes", "bytes", device,
        "HBM of the device, as stated, else that of the chip", source=source,
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
    sysfs, derived = NEURON_SYSFS, Provenance.DERIVED
    for name, text in SYSFS_ECC.items():
        yield Quantity(
            f"device_{name}_total", "events", device, f"{text}, as the driver counts them",
            kind=Kind.COUNTER, source=sysfs,
            needs="Neuron driver 2.30.2" if name.endswith("_corrected") else "",
        )  # fmt: skip
    for statistic in ("min", "max", "mean"):
        yield Quantity(
            f"device_power_{statistic}_ratio", "ratio", device,
            f"Power as a share of the device's limit, {statistic} of the last whole "
            "minute",
            source=sysfs, needs="firmware API 3",
        )  # fmt: skip
    yield Quantity(
        "device_unhealthy_components", "components", device,
        "Components that the device's own health check names", source=sysfs,
        needs="Neuron driver 2.30.2, Trainium2 or newer",
    )  # fmt: skip
    yield Quantity(
        "device_tensor_engine_busy_ratio", "ratio", device,
        "Share of time its tensor engines worked",
        provenance=derived,
        formula="mean of physical_core_tensor_engine_busy_ratio over its cores, mean of 20 s",
    )  # fmt: skip
    yield Quantity(
        "device_hbm_peak_bytes_per_second", "bytes_per_second", device,
        "Peak HBM bandwidth of the chip, decimal, from the hardware pages",
        provenance=derived, formula="820e9, 2.9e12, 4.9e12 for Trainium1, 2, 3",
    )  # fmt: skip
    yield Quantity(
        "device_hbm_bytes_per_second", "bytes_per_second", device,
        "HBM bytes read and written per second",
        provenance=derived,
        formula="Σ neuroncore_hbm_bytes_per_second over its cores, mean of 20 s",
    )  # fmt: skip
    yield Quantity(
        "device_hbm_bandwidth_ratio", "ratio", device, "Share of the peak HBM bandwidth",
        provenance=derived,
        formula="device_hbm_bytes_per_second ÷ device_hbm_peak_bytes_per_second",
    )  # fmt: skip
    yield Quantity(
        "device_hbm_bandwidth_floor_ratio", "ratio", device,
        "At least this share of the peak HBM bandwidth, if each execution reads all weights once",
        provenance=Provenance.ESTIMATED,
        formula="Σ neuroncore_hbm_floor_bytes_per_second over its cores ÷ "
        "device_hbm_peak_bytes_per_second, mean of 20 s",
    )  # fmt: skip
