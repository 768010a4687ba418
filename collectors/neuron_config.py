"""The configuration of neuron-monitor: all processes, and all metric groups except `k8s_info`,
which fails outside of some EKS clusters.

Format: AWS's neuron-monitor user guide.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

RUNTIME_GROUPS = (
    "neuroncore_counters",
    "memory_used",
    "neuron_runtime_vcpu_usage",
    "execution_stats",
)
SYSTEM_GROUPS = ("vcpu_usage", "memory_info", "neuron_hw_counters")


def configuration(period: float) -> dict[str, Any]:
    """All metric groups, every `period` seconds."""
    return {
        "period": f"{period:g}s",
        "neuron_runtimes": [
            {"tag_filter": ".*", "metrics": [{"type": group} for group in RUNTIME_GROUPS]}
        ],
        "system_metrics": [{"type": group} for group in SYSTEM_GROUPS],
    }


PATH = "/dev/stdin"
"""How the child opens its configuration."""


@contextlib.contextmanager
def configuration_file(period: float) -> Iterator[int]:
    """The configuration as a file in memory, for the child's standard input.

    It has no name, so nothing is left of it whatever becomes of this process.

    Raises:
        OSError: it cannot be written.
    """
    with os.fdopen(os.memfd_create("neuron-monitor.json"), "w") as file:
        json.dump(configuration(period), file)
        file.flush()
        yield file.fileno()
