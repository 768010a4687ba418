"""CPU time, memory, start time and file descriptors of the exporter's own process."""

import resource

import psutil

from trntop.catalog import Kind

from .exposition import Block, Family, number

# The standard families of Prometheus client libraries, whose Python library takes 2 MiB.
_FAMILIES = tuple(
    Family(f"process_{name}", Kind.COUNTER if name.endswith("_total") else Kind.GAUGE, about)
    for name, about in (
        ("virtual_memory_bytes", "Virtual memory size in bytes."),
        ("resident_memory_bytes", "Resident memory size in bytes."),
        ("start_time_seconds", "Start time of the process since unix epoch in seconds."),
        ("cpu_seconds_total", "Total user and system CPU time spent in seconds."),
        ("open_fds", "Number of open file descriptors."),
        ("max_fds", "Maximum number of open file descriptors."),
    )
)


def families() -> list[Block]:
    """The `process_*` families; empty if no file descriptor is left to read them."""
    process = psutil.Process()
    try:
        memory, cpu = process.memory_info(), process.cpu_times()
        values = (
            memory.vms,
            memory.rss,
            process.create_time(),
            cpu.user + cpu.system,
            process.num_fds(),
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        )
    except (OSError, psutil.Error):
        return []
    return [
        (family, [f"{family.name} {number(float(value))}\n"])
        for family, value in zip(_FAMILIES, values, strict=True)
    ]
