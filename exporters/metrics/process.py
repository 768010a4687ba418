"""What the exporter itself costs, read from /proc."""

import os
from pathlib import Path

from trntop.catalog import Kind

PROC = Path("/proc")


class ProcessUsage:
    """This process's CPU time, memory, start and descriptors.

    Names and meanings are those every Prometheus client library uses.
    """

    FAMILIES = (
        (
            "process_cpu_seconds_total",
            Kind.COUNTER,
            "Total user and system CPU time spent in seconds.",
        ),
        ("process_resident_memory_bytes", Kind.GAUGE, "Resident memory size in bytes."),
        (
            "process_start_time_seconds",
            Kind.GAUGE,
            "Start time of the process since unix epoch in seconds.",
        ),
        ("process_open_fds", Kind.GAUGE, "Number of open file descriptors."),
    )

    def __init__(self, proc: Path = PROC) -> None:
        self._self = proc / "self"
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._boot = _boot_time(proc)

    def read(self) -> dict[str, float]:
        """Values by metric name; what this system does not tell is left out."""
        values: dict[str, float] = {}
        try:
            # The command's name stands in parentheses and may hold blanks and parentheses.
            stat = (self._self / "stat").read_bytes().rpartition(b")")[2].split()
            # Fields 14, 15, 22 and 24 of proc(5), the first after the name being the third.
            values["process_cpu_seconds_total"] = (int(stat[11]) + int(stat[12])) / self._ticks
            values["process_resident_memory_bytes"] = float(int(stat[21]) * self._page)
            if self._boot is not None:
                values["process_start_time_seconds"] = self._boot + int(stat[19]) / self._ticks
            # Listing the folder opens one descriptor more.
            values["process_open_fds"] = float(len(os.listdir(self._self / "fd")) - 1)  # noqa: PTH208
        except (OSError, ValueError, IndexError):
            pass
        return values


def _boot_time(proc: Path) -> float | None:
    try:
        for line in (proc / "stat").read_bytes().splitlines():
            if line.startswith(b"btime "):
                return float(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return None
