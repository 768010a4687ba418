import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.collectors.recording_sink import wait_until
from trntop.collectors import compiler
from trntop.collectors.compiler import CompileCache, cache_url, processes, title

TICK = os.sysconf("SC_CLK_TCK")
BOOTED = 1_763_600_000
COMPILE = ["/opt/venv/bin/python3.11", "/opt/venv/bin/neuronx-cc", "compile", "--target=trn2"]


class Proc:
    """A procfs in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        (path / "stat").write_text(f"cpu  1 2 3 4\nintr 5\nbtime {BOOTED}\n")
        (path / "self").mkdir()

    def has(self, pid: int, *arguments: str, parent: int = 1, since: int = 100) -> None:
        folder = self.path / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_bytes(
            b"".join(f"{argument}\0".encode() for argument in arguments)
        )
        fields = ["S", str(parent), *["0"] * 17, str(since * TICK), *["0"] * 30]
        (folder / "stat").write_text(f"{pid} (a) b (c) {' '.join(fields)}\n")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))
    return Proc(tmp_path / "proc")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (COMPILE, "neuronx-cc compile"),
        (["neuronx-cc", "compile", "x.hlo"], "neuronx-cc compile"),
        (["/usr/bin/python3", "-u", "/x/neuron-cc", "-v", "compile"], "neuron-cc compile"),
        (["neuronx-cc", "--version"], ""),
        (["python3", "train.py", "neuronx-cc", "compile"], ""),
        (["bash", "-c", "neuronx-cc compile x.hlo"], ""),
        (["/x/neuronx-cc/bin/walrus_driver", "compile"], ""),
        (["python3", "-u"], ""),
        ([""], ""),
    ],
)
def test_what_counts_as_a_compiler(arguments: list[str], shown: str) -> None:
    assert title(arguments) == shown


def test_helpers_and_copies_of_a_compiler_do_not_count(proc: Proc) -> None:
    proc.has(1, "/sbin/init")
    proc.has(2)  # a kernel thread
    proc.has(50, "python3", "train.py")
    proc.has(60, *COMPILE, parent=50, since=200)
    proc.has(61, *COMPILE, parent=60, since=250)
    proc.has(62, "sh", "-c", "hlo2penguin", parent=60, since=250)
    proc.has(63, *COMPILE, parent=62, since=250)
    proc.has(70, *COMPILE, parent=1, since=300)
    count, compilers, partial = processes(5.0)
    assert (count, partial) == (8, False)
    assert [(compiler.pid, compiler.command) for compiler in compilers] == [
        (60, "neuronx-cc compile"), (70, "neuronx-cc compile"),
    ]  # fmt: skip
    assert compilers[1].since - compilers[0].since == 100


def test_fault_20_a_fork_storm_is_read_for_a_while_only(proc: Proc) -> None:
    """The clock goes on by 10 ms per process: of 500, those of a budget of 1 s are read."""
    for pid in range(2, 502):
        proc.has(pid, *(COMPILE if pid == 501 else ["worker"]))
    reads = itertools.count()
    assert processes(1.0, lambda: 0.01 * next(reads)) == (500, [], True)
    count, compilers, partial = processes(10.0, lambda: 0.01 * next(reads))
    assert (count, len(compilers), partial) == (500, 1, False)


def test_processes_that_end_meanwhile_are_no_matter(proc: Proc) -> None:
    proc.has(60, *COMPILE)
    (proc.path / "60/stat").unlink()
    (proc.path / "61").mkdir()
    assert processes(5.0) == (2, [], False)


def test_a_running_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", "/proc")
    script = tmp_path / "neuronx-cc"
    script.write_text(f"#!{sys.executable} -S\nimport time\ntime.sleep(600)\n")
    script.chmod(0o755)
    child = subprocess.Popen([script, "compile", "--secret"])
    try:

        def found() -> list[compiler.Compiler]:
            _, compilers, _ = processes(5.0)
            return [compiler for compiler in compilers if compiler.pid == child.pid]

        wait_until(found)
        assert found()[0].command == "neuronx-cc compile"
        assert abs(found()[0].since - time.time()) < 60
    finally:
        child.kill()
        child.wait()


def module(cache: Path, name: str, *, done: bool = True, version: str = "2.21.1") -> Path:
    folder = cache / f"neuronxcc-{version}" / f"MODULE_{name}"
    folder.mkdir(parents=True)
    (folder / "model.hlo_module.pb").touch()
    if done:
        (folder / "model.done").touch()
    return folder


def test_finished_modules_of_all_versions_count(tmp_path: Path) -> None:
    module(tmp_path, "a")
    module(tmp_path, "b", version="2.22.2")
    unfinished = module(tmp_path, "c", done=False)
    (tmp_path / "lock").touch()
    (tmp_path / "neuronxcc-2.21.1/other").mkdir()
    cache = CompileCache(tmp_path)
    assert cache.count(1.0) == (2, False)
    (unfinished / "model.done").touch()
    module(tmp_path, "d")
    assert cache.count(1.0) == (4, False)
    for file in unfinished.iterdir():
        file.unlink()
    unfinished.rmdir()
    assert cache.count(1.0) == (3, False)


def test_what_there_was_no_time_for_is_read_later(tmp_path: Path) -> None:
    for number in range(10):
        module(tmp_path, str(number))
    ticks = iter([0.0, *[0.1] * 4, 9.0, 9.0, *[9.1] * 6])
    cache = CompileCache(tmp_path, lambda: next(ticks))
    assert cache.count(1.0) == (4, True)
    assert cache.count(1.0) == (10, False)


def test_more_modules_than_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "MAX_MODULES", 3)
    for number in range(5):
        module(tmp_path, str(number))
    assert CompileCache(tmp_path).count(1.0) == (3, True)


def test_no_cache(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        CompileCache(tmp_path / "none").count(1.0)


@pytest.mark.parametrize(
    ("setting", "variable", "folder"),
    [
        ("", None, "/host/var/tmp/neuron-compile-cache"),
        ("", "", "/host/var/tmp/neuron-compile-cache"),
        ("", "/fsx/cache", "/fsx/cache"),
        ("", "file:///fsx/cache", "/fsx/cache"),
        ("/mine", "/fsx/cache", "/mine"),
        ("/mine", "s3://bucket/cache", "/mine"),
        ("", "s3://bucket/cache", "s3://bucket/cache"),
    ],
)
def test_where_the_cache_is(
    monkeypatch: pytest.MonkeyPatch, setting: str, variable: str | None, folder: str
) -> None:
    monkeypatch.delenv("NEURON_COMPILE_CACHE_URL", raising=False)
    if variable is not None:
        monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", variable)
    assert cache_url(Path("/host"), setting) == folder
