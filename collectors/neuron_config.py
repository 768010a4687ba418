"""The configuration of neuron-monitor: all processes, and all metric groups except `k8s_info`,
which is an error outside of some EKS clusters.

Format: AWS's neuron-monitor user guide.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RUNTIME_GROUPS = (
    "neuroncore_counters",
    "memory_used",
    "neuron_runtime_vcpu_usage",
    "execution_stats",
)
SYSTEM_GROUPS = ("vcpu_usage", "memory_info", "neuron_hw_counters")


def configuration(period: float) -> dict[str, Any]:
    """All metric groups each `period` seconds."""
    return {
        "period": f"{period:g}s",
        "neuron_runtimes": [
            {"tag_filter": ".*", "metrics": [{"type": group} for group in RUNTIME_GROUPS]}
        ],
        "system_metrics": [{"type": group} for group in SYSTEM_GROUPS],
    }


@contextlib.contextmanager
def configuration_file(period: float) -> Iterator[Path]:
    """The configuration as a private temporary file, removed at the end.

    Raises:
        OSError: it cannot be written.
    """
    descriptor, name = tempfile.mkstemp(prefix="trntop-", suffix=".json")
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(configuration(period), file)
        yield path
    finally:
        path.unlink(missing_ok=True)
