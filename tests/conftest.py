"""What holds for the whole suite: no user's files are read, and work is shared out by file."""

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import psutil
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


MEMORY, MEMORY_BYTES = "/dev/shm", 2 << 30
"""A file system in memory, and how much of it must be free to be used."""


def pytest_configure(config: pytest.Config) -> None:
    """Hides the user's settings and state before any test module is imported."""
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    # A shell has its background jobs ignore it, and so would the programs that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Programs that tests start would compile every module again: half of their CPU.
    patch.setattr(sys, "dont_write_bytecode", False)
    patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    # Trees of thousands of small files: on a busy disk they take longer than all else.
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
        patch.setenv("TMPDIR", MEMORY)
        patch.setattr(tempfile, "tempdir", None)
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


@pytest.fixture(autouse=True)
def _own_procfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of a made-up machine set it."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", "/proc")


def pytest_collection(session: pytest.Session) -> None:
    """Has each process import the tests of other folders first.

    In a fresh clone the first to import a module compiles it, and all would compile all of them.
    """
    config = session.config
    tests = str(config.rootpath / "tests")
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker and config.args in (["tests"], [tests]):
        paths = sorted(str(path) for path in Path(tests).iterdir() if path.name[0] not in "_.")
        first = (
            len(paths)
            * int(worker.removeprefix("gw"))
            // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        )
        config.args = [*paths[first:], *paths[:first]]


def pytest_collection_finish() -> None:
    """Frees the garbage collector of what stays: a quarter of the suite's CPU."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts what must run in one process first, so that no process is left alone with it."""
    items.sort(key=lambda item: (item.get_closest_marker("xdist_group") is None, item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more processes than CPUs: nearly half of the time is waiting for servers and programs."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Runs the files of an `xdist_group`, and the tests of any other file, in one process.

    pytest-xdist 3.8 passes groups on in node ids, which pytest 9.2 ignores.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid.partition("::")[0])

    @cache
    def scope(file: str) -> str:
        group = re.search(r'xdist_group\("(\w+)"\)', (config.rootpath / file).read_text())
        return group[1] if group else file

    return ByFile(config, log)
