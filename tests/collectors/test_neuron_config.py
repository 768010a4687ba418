import json
import stat
from pathlib import Path

import pytest

from trntop.collectors.neuron_config import configuration, configuration_file


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


def test_file_is_private_and_removed() -> None:
    with configuration_file(1.0) as path:
        assert json.loads(path.read_text()) == configuration(1.0)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


def test_file_may_be_swept_away_meanwhile() -> None:
    with configuration_file(1.0) as path:
        Path(path).unlink()
