import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from trntop.collectors.neuron_config import PATH, configuration, configuration_file


def test_all_groups_of_every_process() -> None:
    assert configuration(1.0) == {
        "period": "1s",
        "neuron_runtimes": [
            {
                "tag_filter": ".*",
                "metrics": [
                    {"type": "neuroncore_counters"},
                    {"type": "memory_used"},
                    {"type": "neuron_runtime_vcpu_usage"},
                    {"type": "execution_stats"},
                ],
            }
        ],
        "system_metrics": [
            {"type": "vcpu_usage"},
            {"type": "memory_info"},
            {"type": "neuron_hw_counters"},
        ],
    }


@pytest.mark.parametrize(("period", "text"), [(0.1, "0.1s"), (2.0, "2s"), (60.0, "60s")])
def test_period(period: float, text: str) -> None:
    assert configuration(period)["period"] == text


def test_fault_45_nothing_is_left_of_the_file() -> None:
    """It has no name; a child opens it as its standard input, any number of times."""
    with configuration_file(1.0) as descriptor:
        read = f"{sys.executable} -c 'print(open(\"{PATH}\").read())'"
        shown = subprocess.check_output(["sh", "-c", f"{read}; {read}"], stdin=descriptor)
        assert not list(Path(tempfile.gettempdir()).glob("trntop-*.json"))
    first, second = shown.decode().splitlines()
    assert json.loads(first) == json.loads(second) == configuration(1.0)
