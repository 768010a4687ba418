"""The shape of a neuron-monitor report, as typed structs.

Field names are neuron-monitor's own. Every number may be an integer, a float or null; unknown
fields are ignored; what is missing is None or empty.
"""

import msgspec

from trntop.sources.columns import Number


class _Struct(msgspec.Struct, gc=False):
    pass


class Group(_Struct):
    """What every metric group begins with."""

    period: Number = None
    """Seconds the group's numbers cover."""
    error: str | None = None
    """Not empty: the numbers mean nothing."""


class Core(_Struct):
    """One logical core as one runtime sees it."""

    neuroncore_utilization: Number = None
    flops: Number = None
    effective_flops: Number = None


class Counters(Group):
    """`neuroncore_counters`."""

    neuroncores_in_use: dict[str, Core] | msgspec.UnsetType | None = msgspec.UNSET
    """Unset where it is damaged: that is not the same as no core in use."""


Latency = dict[str, Number]


class LatencyStats(_Struct):
    """Seconds by percentile; null when nothing was executed."""

    total_latency: Latency | None = None
    device_latency: Latency | None = None


class Execution(Group):
    """Counts are changes of the period."""

    error_summary: dict[str, Number] = {}
    execution_summary: dict[str, Number] = {}
    latency_stats: LatencyStats | None = None


class CoreMemory(_Struct):
    """HBM of one core by category, in the order of the catalog's MEMORY_CATEGORIES."""

    constants: Number = None
    model_code: Number = None
    model_shared_scratchpad: Number = None
    runtime_memory: Number = None
    tensors: Number = None


class Breakdown(_Struct):
    """`usage_breakdown` of a runtime."""

    neuroncore_memory_usage: dict[str, CoreMemory] | msgspec.UnsetType | None = msgspec.UNSET


class UsedBytes(_Struct):
    """`device` is an older spelling of `neuron_device`."""

    host: Number = None
    neuron_device: Number = None
    device: Number = None
    usage_breakdown: msgspec.Raw = msgspec.Raw()
    """A `Breakdown`, read apart."""


class Model(_Struct):
    """One loaded NEFF; a program on several cores is listed once for each."""

    name: str | None = None
    uuid: str | None = None
    is_running: bool | int = False


class Memory(Group):
    """`memory_used`."""

    neuron_runtime_used_bytes: UsedBytes | None = None
    loaded_models: list[Model] = []


class RuntimeVcpu(Group):
    """`neuron_runtime_vcpu_usage`, percent."""

    vcpu_usage: dict[str, Number] = {}


class RuntimeReport(_Struct):
    """The groups of one runtime."""

    neuroncore_counters: Counters | None = None
    execution_stats: Execution | None = None
    memory_used: Memory | None = None
    neuron_runtime_vcpu_usage: RuntimeVcpu | None = None


class RuntimeProcess(_Struct):
    """One Neuron process; a non-empty error makes all of it unusable."""

    pid: int | None = None
    neuron_runtime_tag: str | None = None
    error: str | None = None
    report: RuntimeReport | None = None


class DeviceCounters(_Struct):
    """ECC events of one device, in the order of the catalog's ECC_EVENTS."""

    neuron_device_index: int
    mem_ecc_corrected: Number = None
    mem_ecc_uncorrected: Number = None
    sram_ecc_corrected: Number = None
    sram_ecc_uncorrected: Number = None


class Hardware(Group):
    """`neuron_hw_counters`."""

    neuron_devices: list[DeviceCounters] = []


class Vcpu(Group):
    """`vcpu_usage`, percent."""

    average_usage: dict[str, Number] = {}
    usage_data: msgspec.Raw = msgspec.Raw()
    """By vCPU, an object each; only their number is read."""
    context_switch_count: Number = None


class HostMemory(Group):
    """`memory_info`."""

    memory_total_bytes: Number = None
    memory_used_bytes: Number = None
    swap_total_bytes: Number = None
    swap_used_bytes: Number = None


class System(_Struct):
    """`system_data`."""

    neuron_hw_counters: Hardware | None = None
    vcpu_usage: Vcpu | None = None
    memory_info: HostMemory | None = None


class HardwareInfo(_Struct):
    """`neuron_hardware_info`; counts are of logical cores."""

    neuron_device_type: str | None = None
    neuron_device_version: str | None = None
    neuroncore_version: str | None = None
    neuron_device_count: int | None = None
    neuron_device_memory_size: Number = None
    neuroncore_per_device_count: int | None = None
    logical_neuroncore_config: int | None = None
    logical_neuroncore_size: int | None = None
    error: str | None = None


class Report(_Struct):
    """One report of neuron-monitor."""

    neuron_runtime_data: list[RuntimeProcess] | None = None
    simulated: bool = False
    """Only in reports of the simulator."""
    system_data: System | None = None
    instance_info: dict[str, str | None] | None = None
    neuron_hardware_info: HardwareInfo | None = None
