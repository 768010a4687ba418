"""What holds for the whole suite: no user's files are read, and work is shared out by file."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, and as many seconds as a busy machine takes for them.
settings.register_profile(
    "suite",
    max_examples=50,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")

FLAGS = ("TRNTOP_UPDATE_",)
"""How variables begin that are meant for tests."""

SIZE = ("COLUMNS", "LINES")
"""Set in the workers by readline; programs would take them for their terminal's size."""


def pytest_configure(config: pytest.Config) -> None:
    """Hides the user's settings and state before any test module is imported."""
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    folder = tempfile.TemporaryDirectory(prefix="trntop-home-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    for name in tuple(os.environ):
        if name.startswith(("XDG_", "TRNTOP_", *SIZE)) and not name.startswith(FLAGS):
            patch.delenv(name)
    patch.setenv("HOME", folder.name)
    for kind in ("config", "state", "data", "cache"):
        path = Path(folder.name, kind)
        path.mkdir()
        patch.setenv(f"XDG_{kind.upper()}_HOME", str(path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Runs the tests of a file in one process, so that they share what is made once per module."""
    from xdist.scheduler import LoadGroupScheduling

    class ByFile(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return super()._split_scope(nodeid).partition("::")[0]

    return ByFile(config, log)
