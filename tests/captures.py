"""Real inputs of others, which are not copied into the project: next to the checkout, or absent."""

from pathlib import Path

import pytest

_BESIDE = Path("shared", "captures")
FOLDER = next(
    (found for above in Path(__file__).parents if (found := above / _BESIDE).is_dir()), _BESIDE
)
NEURON_MONITOR = FOLDER / "neuron-monitor-inf2.xlarge.json"
TORCH_PROFILER = FOLDER / "torch-profiler-rank1.json.gz"
needs_captures = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the public captures are not beside this checkout"
)
