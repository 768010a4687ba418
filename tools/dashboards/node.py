"""One node: identity, incidents, devices, cores, EFA devices, host and sources."""

from grafana_foundation_sdk.models import dashboard

from trntop.catalog import (
    CPU_MODES,
    EXECUTION_ERRORS,
    EXECUTION_STATUSES,
    MEMORY_CATEGORIES,
)

from .board import Board, choice, how_many, to_job
from .common import GIGABITS, data, found, states
from .efa_devices import efa_devices
from .layout import Section
from .panels import (
    CRITICAL,
    LIMITS,
    WELL,
    Column,
    Query,
    above,
    heat,
    lines,
    rows,
    stats,
)
from .promql import HERE, TROUBLE, at_node, mean, most, rate, series


def board() -> Board:
    """The dashboard."""
    return Board(
        "node",
        "trntop / node",
        "One node: open incidents, devices and NeuronCores, EFA devices, host.",
        [choice("node", "Node", "trn_instance_info", "node", several=False), how_many()],
        [
            Section("", [found(at_node, width=14), _jobs(), *_head(), _identity()]),
            Section("Devices and cores", [_devices(), *_cores()]),
            Section("EFA devices", [efa_devices(HERE, height=8), *_traffic()]),
            Section("Compute", _work()),
            Section("Memory", _memory()),
            Section("Host", _host()),
            Section("Sources and allocations", [*_allocated(), states(HERE), *_events()]),
        ],
        at_node,
    )


def _value(metric: str) -> str:
    return most("", series(metric, HERE))


def _head() -> list[dashboard.Panel]:
    share = "percentunit"
    return [
        data(HERE),
        stats("Sources up", "Up if at least one source reports.", Query(_value("trntop_source_up")),
            mapped={"0": ("down", CRITICAL), "1": ("up", WELL)}, width=2),
        stats("Phase", "Phase of the run on the node.",
            Query(most("phase", series("trn_node_phase", HERE)), "{{phase}}"), name_only=True,
            width=3),
        stats("Utilization", "A core that waits in a collective counts as utilized.",
            Query(_value("trn_node_neuroncore_utilization_mean_ratio")), unit=share, width=2),
        stats("TE busy", "Share of time in which the tensor engines are busy.",
            Query(_value("trn_node_tensor_engine_busy_mean_ratio")), unit=share, width=2),
        stats("HBM, fullest", "The fullest device.",
            Query(_value("trn_node_device_memory_used_max_ratio")), unit=share,
            steps=above(LIMITS.memory), width=2),
        stats("HBM bandwidth", "Needs an imported profile of each running program.",
            Query(_value("trn_node_hbm_bandwidth_ratio")), unit=share, width=2),
        stats("EFA tx", "All EFA devices.",
            Query(f"{_value('trn_node_efa_tx_bytes_per_second')} * 8"), unit=GIGABITS, width=2),
        stats("Retransmits", "Worst EFA device.",
            Query(_value("trn_node_efa_retransmit_max_ratio")), unit=share,
            steps=above(LIMITS.retransmits), width=2),
        stats("Comm share of step",
            "As the training process reports it; else between the two estimated bounds.",
            Query(_value("trn_job_comm_share_ratio"), "reported"),
            Query(_value("trn_node_comm_share_floor_ratio"), "at least"),
            Query(_value("trn_node_comm_share_ceiling_ratio"), "at most"),
            unit=share, steps=above(LIMITS.comm_share), width=4),
    ]  # fmt: skip


def _identity() -> dashboard.Panel:
    shown = {
        "node": "node", "instance_type": "type", "instance_id": "instance id",
        "instance_name": "name", "availability_zone": "zone", "region": "region",
        "ultraserver_id": "UltraServer", "neuron_device_type": "devices",
        "neuroncore_version": "cores", "lnc": "LNC", "instance": "scraped from",
    }  # fmt: skip
    return rows(
        "Instance",
        "As reported by the node's sources.",
        shown,
        Column("info", series("trn_instance_info", HERE), shown=False),
        sort="node",
        hidden=("__name__", "job", "subnet_id", "simulated"),
        height=3,
    )


def _jobs() -> dashboard.Panel:
    by = "training_job"

    def here(metric: str) -> str:
        return mean(by, series(metric, HERE))

    return rows(
        "Jobs on this node",
        "As reported by the ranks on this node.",
        {by: "job"},
        Column("ranks", here("trn_job_ranks")),
        Column("step", here("trn_job_step"), "locale"),
        Column("step time", here("trn_job_step_seconds"), "s"),
        Column("compute", here("trn_job_compute_seconds"), "s"),
        Column("comm", here("trn_job_comm_seconds"), "s"),
        Column("exposed", here("trn_job_exposed_comm_seconds"), "s"),
        sort="job",
        rising=True,
        links={"job": [to_job()]},
        width=10,
        height=8,
    )


def _devices() -> dashboard.Panel:
    by = "neuron_device"

    def of(metric: str, how: str = "max") -> str:
        return f"{how} by ({by}) ({series(metric, HERE)})"

    return rows(
        "Devices",
        "The unhealthy and the fullest first. Utilization is that of the device's cores, which "
        "are on the page of cores.",
        {by: "device", "pci": "PCI", "numa_node": "NUMA", "serial": "serial"},
        Column("unhealthy", of("trn_device_unhealthy_components"), steps=above(critical=1)),
        Column("utilization", of("trn_neuroncore_utilization_ratio", "avg"), "percentunit",
               bar=True),
        Column("least core", of("trn_neuroncore_utilization_ratio", "min"), "percentunit"),
        Column("TE", of("trn_device_tensor_engine_busy_ratio"), "percentunit"),
        Column("HBM", of("trn_device_memory_used_ratio"), "percentunit", above(LIMITS.memory)),
        Column("HBM used", of("trn_device_memory_used_bytes"), "bytes"),
        Column("HBM there", of("trn_device_memory_total_bytes"), "bytes"),
        Column("HBM bandwidth", of("trn_device_hbm_bandwidth_ratio"), "percentunit"),
        Column("power, mean", of("trn_device_power_mean_ratio"), "percentunit"),
        Column("power, most", of("trn_device_power_max_ratio"), "percentunit"),
        Column("place", f"max by ({by}, pci, numa_node, serial) "
               f"({series('trn_device_info', HERE)})", shown=False),
        sort="unhealthy",
        height=9,
    )  # fmt: skip


def _cores() -> list[dashboard.Panel]:
    core, physical = "neuron_device, neuroncore", "neuron_device, physical_core"
    return [
        heat("Utilization of cores", "A row per logical NeuronCore, device and core.",
             Query(most(core, series("trn_neuroncore_utilization_ratio", HERE)),
                   "{{neuron_device}} / {{neuroncore}}"), scheme="Blues", top=1, width=12),
        heat("Tensor engines", "One row per physical core. Waiting does not count.",
             Query(most(physical, series("trn_physical_core_tensor_engine_busy_ratio", HERE)),
                   "{{neuron_device}} / {{physical_core}}"), scheme="Greens", top=1, width=12),
    ]  # fmt: skip


def _traffic() -> list[dashboard.Panel]:
    return [
        lines("EFA traffic", "All EFA devices, and their line rate.",
              Query(f"{_value('trn_node_efa_tx_bytes_per_second')} * 8", "transmitted"),
              Query(f"{_value('trn_node_efa_rx_bytes_per_second')} * 8", "received"),
              Query(f"{_value('trn_node_efa_link_bytes_per_second')} * 8", "line rate"),
              unit=GIGABITS, width=12),
        lines("EFA devices", "Devices that can be read, and devices that the instance type has.",
              Query(_value("trn_node_efa_cards"), "up"),
              Query(_value("trn_node_efa_cards_expected"), "expected"),
              unit="short", width=6),
        lines("Imbalance", "How much less the least-used EFA device sends than its peers.",
              Query(_value("trn_node_efa_tx_imbalance_ratio"), "least used"),
              unit="percentunit", limit=1 - LIMITS.card_traffic, width=6),
    ]  # fmt: skip


def _work() -> list[dashboard.Panel]:
    share = "percentunit"
    return [
        lines("Utilization and tensor engines", "Of the node's cores, and of their tensor engines.",
              Query(_value("trn_node_neuroncore_utilization_max_ratio"), "most"),
              Query(_value("trn_node_neuroncore_utilization_mean_ratio"), "mean"),
              Query(_value("trn_node_neuroncore_utilization_min_ratio"), "least"),
              Query(_value("trn_node_tensor_engine_busy_mean_ratio"), "TE"),
              unit=share, top=1),
        lines("FLOP/s", "As reported by neuron-monitor.",
              Query(_value("trn_node_neuroncore_flops_per_second"), "node"), unit="flops"),
        lines("Cores and processes", "Present, and in use.",
              Query(_value("trn_node_neuroncores"), "cores"),
              Query(_value("trn_node_neuroncores_busy"), "busy cores"),
              Query(_value("trn_node_devices"), "devices"),
              Query(_value("trn_node_runtimes"), "Neuron processes"), unit="short"),
        lines("Executions", "Completed per second, all processes.",
              Query(most("", rate("trn_node_executions_completed_total", HERE)), "completed"),
              unit="ops"),
        lines("Failed executions", "Per second, by status.",
              Query(most("", rate("trn_node_executions_failed_total", HERE)), "failed"),
              *(Query(most("", rate(f"trn_node_executions_{status}_total", HERE)),
                      status.replace("_", " "))
                for status in EXECUTION_STATUSES if status != "completed"),
              unit="ops"),
        lines("Execution errors", "Per second, by kind.",
              *(Query(most("", rate(f"trn_node_execution_errors_{error}_total", HERE)), error)
                for error in EXECUTION_ERRORS),
              unit="ops"),
        lines("Execution latency", "Of the slowest process: on the device, and end to end.",
              *(Query(_value(f"trn_node_{where}_latency_{point}_seconds"), f"{name}, {point}")
                for where, name in (("device", "device"), ("total", "total"))
                for point in ("p50", "p99")),
              unit="s"),
        lines("Power", "Share of the device's power limit.",
              Query(_value("trn_node_device_power_mean_ratio"), "mean"),
              Query(f"topk(3, {most('neuron_device', series('trn_device_power_max_ratio', HERE))})",
                    "device {{neuron_device}}, most"), unit=share),
        lines("ECC and health", "Uncorrected errors, and failed health checks.",
              Query(_value("trn_node_ecc_uncorrected_events"), "uncorrected ECC"),
              Query(_value("trn_node_unhealthy_components"), "unhealthy parts"),
              Query(f"sum({series('trn_device_mem_ecc_corrected_events', HERE)})",
                    "corrected in HBM"),
              Query(f"sum({series('trn_device_sram_ecc_corrected_events', HERE)})",
                    "corrected in SRAM"), unit="short"),
    ]  # fmt: skip


def _memory() -> list[dashboard.Panel]:
    fullest = most("neuron_device", series("trn_device_memory_used_ratio", HERE))
    return [
        lines("HBM by use", "Sum over the cores of the node.",
              *(Query(f"sum({most('neuroncore', used)})", use.replace("_", " "))
                for use in MEMORY_CATEGORIES
                if (used := series(f"trn_neuroncore_memory_{use}_bytes", HERE))),
              unit="bytes", stacked=True, width=6),
        lines("HBM, fullest devices", "The five fullest.",
              Query(f"topk(5, {fullest})", "device {{neuron_device}}"),
              unit="percentunit", limit=LIMITS.memory, top=1, width=6),
        lines("HBM, node", "Used and total.",
              Query(_value("trn_node_device_memory_used_bytes"), "used"),
              Query(_value("trn_node_device_memory_total_bytes"), "there"), unit="bytes",
              width=6),
        lines("HBM bandwidth", "Read and written by the running programs, from their profiles.",
              Query(_value("trn_node_hbm_bytes_per_second"), "node"),
              Query(_value("trn_node_hbm_peak_bytes_per_second"), "peak"), unit="Bps", width=6),
    ]  # fmt: skip


def _host() -> list[dashboard.Panel]:
    return [
        lines("CPU", "Share of vCPU time, by mode.",
              *(Query(_value(f"trn_node_vcpu_{mode}_ratio"), mode.replace("_", " "))
                for mode in CPU_MODES if mode != "idle"),
              unit="percentunit", stacked=True, top=1),
        lines("CPU busy and load", "Load: one-minute average.",
              Query(_value("trn_node_cpu_busy_ratio"), "busy"),
              Query(f"{_value('trn_node_load1')} / {_value('trn_node_vcpus')}", "load per vCPU"),
              unit="percentunit"),
        lines("Memory", "Of the host.",
              Query(_value("trn_node_memory_used_bytes"), "used"),
              Query(_value("trn_node_memory_available_bytes"), "available"),
              Query(_value("trn_node_memory_total_bytes"), "there"),
              Query(_value("trn_node_swap_used_bytes"), "swap"), unit="bytes"),
        lines("Disks, Lustre and NFS", "Data loading and checkpoints.",
              *(Query(most("", rate(f"trn_node_{of}_{way}_bytes_total", HERE)), f"{name}, {way}")
                for of, name in (("disk", "disk"), ("lustre", "Lustre"), ("nfs", "NFS"))
                for way in ("read", "written")),
              unit="Bps"),
        lines("Network", "All interfaces except EFA and loopback.",
              Query(most("", rate("trn_node_network_rx_bytes_total", HERE)), "received"),
              Query(most("", rate("trn_node_network_tx_bytes_total", HERE)), "transmitted"),
              unit="Bps"),
        lines("Compilers", "Training pauses while a compiler runs.",
              Query(_value("trn_node_compilers"), "running compilers"),
              Query(_value("trn_node_compile_cache_modules"), "modules in the cache"),
              unit="short"),
        lines("Kernel log", "Errors per second; each should be zero.",
              Query(most("", rate("trn_node_kernel_neuron_errors_total", HERE)), "Neuron driver"),
              Query(most("", rate("trn_node_kernel_efa_errors_total", HERE)), "EFA driver"),
              unit="cps", width=24, height=5),
    ]  # fmt: skip


def _events() -> list[dashboard.Panel]:
    return [
        lines("Source events", "Per second: problems, restarts and others.",
              Query("sum by (source, event) "
                    f"({rate('trntop_source_events_total', TROUBLE, HERE)})",
                    "{{source}}: {{event}}"), unit="cps", width=12),
    ]  # fmt: skip


def _allocated() -> list[dashboard.Panel]:
    container = {"namespace": "namespace", "pod": "pod", "container": "container"}
    devices = most(
        "neuron_device, hpc_job, namespace, pod, container", series("trn_allocation_info", HERE)
    )
    cores = most(
        "neuroncore, namespace, pod, container", series("trn_neuroncore_allocation_info", HERE)
    )
    return [
        rows("Device allocations", "Devices allocated by the scheduler, used or not.",
             {"neuron_device": "device", "hpc_job": "Slurm job", **container},
             Column("given", devices, shown=False),
             sort="device", rising=True, width=12, height=8),
        rows("Core allocations", "NeuronCores allocated one by one; most jobs have whole devices.",
             {"neuroncore": "core", **container}, Column("given", cores, shown=False),
             sort="core", rising=True, width=12, height=8),
    ]  # fmt: skip
