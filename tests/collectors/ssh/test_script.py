"""The script that a node runs, in each shell that is here, without ssh between."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from tests.collectors.recording_sink import RecordingSink, alive, pids, running, wait_until
from tests.collectors.ssh.nodes import collect
from tests.fakes import sysfs_tree
from tests.sshd import descendants
from trntop.catalog import EFA_SOURCE, HOST, NEURON_LS, NEURON_MONITOR, NEURON_SYSFS, TENSOR_ENGINE
from trntop.collectors.backoff import Backoff
from trntop.collectors.child import STDERR, STDIN
from trntop.collectors.efa import EfaReader
from trntop.collectors.host import HostReader
from trntop.collectors.neuron_ls import NeuronLs
from trntop.collectors.neuron_monitor import NeuronMonitor
from trntop.collectors.neuron_sysfs import NeuronSysfsReader
from trntop.collectors.ssh import script, sources
from trntop.collectors.ssh.connection import Connection
from trntop.collectors.ssh.dump import Dump
from trntop.collectors.ssh.host import RemoteHostReader
from trntop.collectors.tensor_engine import TensorEngineReader
from trntop.collectors.worker import StuckError
from trntop.core.model import State
from trntop.core.settings import Collect

pytestmark = pytest.mark.xdist_group("servers")

SHELLS = ("dash", "bash", "busybox")
APPLETS = "sh grep find xargs head tail cat mktemp sed sleep rm setsid"


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A shell, and the PATH on which it finds its tools."""
    path = shutil.which(request.param)
    if path is None:
        pytest.skip(f"{request.param} is not installed")
    if request.param != "busybox":
        return path, os.environ["PATH"]
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in APPLETS.split():
        (tools / name).symlink_to(path)
    return str(tools / "sh"), str(tools)


@pytest.fixture
def settings(tmp_path: Path) -> Collect:
    return collect(tmp_path, period=0.2)


@contextlib.asynccontextmanager
async def linked(
    settings: Collect, shell: tuple[str, str] = ("sh", "")
) -> AsyncIterator[Connection]:
    path, places = shell
    environ = {**os.environ, "PATH": places or os.environ["PATH"]}
    connection = await Connection.open([path, "-s"], environ, settings)
    try:
        await asyncio.wait_for(connection.ready, 5)
        yield connection
    finally:
        connection.close()
        await connection.end(0.1)


async def read(
    connection: Connection, source: str, dump: Dump, reader: Callable[[], bytes]
) -> object:
    return json.loads(await sources.RemoteReads(connection, source, dump).call(reader, 5))


async def test_what_is_read_there_is_what_would_be_read_here(
    settings: Collect, shell: tuple[str, str]
) -> None:
    root = Path(settings.root)
    efa, engines, sysfs = Dump(), Dump(), Dump()
    here = [EfaReader(root), TensorEngineReader(root), NeuronSysfsReader(root)]
    there = (
        (EFA_SOURCE, efa, EfaReader(efa)),
        (TENSOR_ENGINE, engines, TensorEngineReader(engines)),
        (NEURON_SYSFS, sysfs, NeuronSysfsReader(sysfs)),
    )

    async def agree() -> None:
        for local, (source, dump, reader) in zip(here, there, strict=True):
            assert await read(connection, source, dump, reader) == json.loads(local())

    async with linked(settings, shell) as connection:
        await agree()
        device = sysfs_tree.efa_tree(root / "other", count=1)[0]
        sysfs_tree.bump(sysfs_tree.efa_counter(root, device, "tx_bytes"), 17)
        sysfs_tree.fail(sysfs_tree.efa_counter(root, device, "rx_bytes"))
        here[0] = EfaReader(root)  # the one before holds open what is no longer there
        core = sysfs_tree.core_folder(root, 0, 1)
        sysfs_tree.write(core / "tensor_engine/pe_cntrs", sysfs_tree.pe_cntrs(7, 8, 9))
        await agree()
        sysfs_tree.remove_efa_device(root, device)
        sysfs_tree.remove_device(root, 1)
        await agree()
        sysfs_tree.neuron_device(root, 1, devices=2, cores=2)
        await agree()


async def test_devices_of_an_older_driver(settings: Collect, tmp_path: Path) -> None:
    root = tmp_path / "older"
    sysfs_tree.efa_tree(root, count=2, driver="2.8.0", rate=100)
    dump = Dump()
    async with linked(structs.replace(settings, root=str(root))) as connection:
        there = await read(connection, EFA_SOURCE, dump, EfaReader(dump))
    assert there == json.loads(EfaReader(root)())


async def test_the_host(settings: Collect, shell: tuple[str, str]) -> None:
    dump = Dump()
    reader = RemoteHostReader(dump, 10.0)
    async with linked(settings, shell) as connection:
        there = await read(connection, HOST, dump, reader)
    here = HostReader(Path(settings.root)).report()
    assert isinstance(there, dict)
    assert there["dmi"] == here["dmi"]
    assert there["cpu"]["count"] == here["cpu"]["count"]
    assert there["memory"]["total"] == here["memory"]["total"]
    assert there["errors"] == []


async def test_neuron_monitor(
    settings: Collect, shell: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_NEURON_MONITOR_PIDS", str(tmp_path / "pids"))
    monkeypatch.setenv("FAKE_NEURON_MONITOR", "exit-after:2:3")
    sink = RecordingSink()
    async with linked(settings, shell) as connection, _flushing(connection):
        monitor = NeuronMonitor(
            "n",
            period=0.2,
            backoff=Backoff(0.01),
            launch=sources.RemoteMonitor(connection, "-").launch,
        )
        async with running(monitor, sink):
            await sink.until(lambda: len(sink.readings) >= 3)
    assert {reading.source for reading in sink.readings} == {NEURON_MONITOR}
    assert sink.reasons(State.DOWN)[0].startswith(
        "neuron-monitor exited with code 3: simulated failure; next start in"
    )
    wait_until(lambda: not any(map(alive, pids(tmp_path / "pids"))))


async def test_neuron_monitor_that_holds_on(
    settings: Collect, shell: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It does not heed SIGTERM, has a child, and writes nothing: it is killed with its child."""
    monkeypatch.setenv("FAKE_NEURON_MONITOR_PIDS", str(tmp_path / "pids"))
    monkeypatch.setenv("FAKE_NEURON_MONITOR", "ignore-term-with-child")
    async with linked(settings, shell) as connection, _flushing(connection):
        async with sources.RemoteMonitor(connection, "-").launch(lambda chunk: None) as process:
            await asyncio.to_thread(wait_until, lambda: len(pids(tmp_path / "pids")) == 2)
            await process.end(0.1)
            assert process.ended.result() == -signal.SIGKILL
        wait_until(lambda: not any(map(alive, pids(tmp_path / "pids"))))


@pytest.mark.parametrize("mode", ["array", "object", "object-only"])
async def test_neuron_ls(
    settings: Collect, shell: tuple[str, str], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("FAKE_NEURON_LS", mode)
    sink = RecordingSink()
    async with (
        linked(settings, shell) as connection,
        running(NeuronLs("n", run=partial(sources.run_neuron_ls, connection, "-")), sink),
    ):
        await sink.until(lambda: sink.readings)
    assert b"neuron_processes" in sink.readings[0].data
    assert b"hunter2" not in sink.readings[0].data, "arguments of commands may be secret"


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("no-driver", "neuron-ls exited with code 1: no neuron device found"),
        ("garbage", "neuron-ls wrote no JSON: +--------+"),
        ("silent", "neuron-ls wrote nothing"),
    ],
)
async def test_neuron_ls_that_fails(
    settings: Collect, monkeypatch: pytest.MonkeyPatch, mode: str, reason: str
) -> None:
    monkeypatch.setenv("FAKE_NEURON_LS", mode)
    sink = RecordingSink()
    async with (
        linked(settings) as connection,
        running(NeuronLs("n", run=partial(sources.run_neuron_ls, connection, "-")), sink),
    ):
        await sink.until(lambda: sink.reasons(State.DOWN))
    assert sink.reasons(State.DOWN) == [reason]


async def test_programs_that_are_missing(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program")
    settings = collect(tmp_path, neuron_monitor="no-such-program", neuron_ls=str(plain))
    sink = RecordingSink()
    async with linked(settings) as connection:
        monitor = NeuronMonitor(
            "n", launch=sources.RemoteMonitor(connection, "no-such-program").launch
        )
        lister = NeuronLs("n", run=partial(sources.run_neuron_ls, connection, str(plain)))
        async with running(monitor, sink), running(lister, sink):
            await sink.until(lambda: len(sink.reasons(State.DOWN)) == 2)
    monitor_reason, lister_reason = sorted(
        sink.reasons(State.DOWN), key=lambda reason: reason[:1] == "/"
    )
    assert monitor_reason.startswith("no-such-program is not installed there: neither on PATH nor")
    assert lister_reason.startswith(f"{plain} is not executable by this user")


async def test_a_machine_of_another_kind(tmp_path: Path) -> None:
    """No driver, no EFA device, not even /proc: each source reports it."""
    (tmp_path / "root").mkdir()
    sink = RecordingSink()
    settings = collect(tmp_path)
    async with linked(settings) as connection:
        for source in sources.sources("n", connection, settings):
            if source.source in (EFA_SOURCE, TENSOR_ENGINE, NEURON_SYSFS, HOST):
                async with running(source, sink):
                    await sink.until(lambda: sink.reasons(State.DOWN))
                assert sink.readings == []
                sink.statuses.clear()


async def test_a_read_that_hangs_holds_up_no_other(settings: Collect) -> None:
    """A FIFO without a writer hangs like a driver in trouble."""
    counter = Path(settings.root) / "sys/module/efa/version"
    counter.unlink()
    os.mkfifo(counter)
    efa, engines = Dump(), Dump()
    async with linked(settings) as connection:
        with pytest.raises(StuckError):
            await sources.RemoteReads(connection, EFA_SOURCE, efa).call(EfaReader(efa), 0.5)
        assert await read(connection, TENSOR_ENGINE, engines, TensorEngineReader(engines))


async def test_a_remote_read_waits_for_the_previous_one(settings: Collect) -> None:
    version = Path(settings.root) / "sys/module/efa/version"
    version.unlink()
    os.mkfifo(version)
    dump = Dump()
    reads, reader = None, EfaReader(dump)
    async with linked(settings) as connection, _flushing(connection):
        reads = sources.RemoteReads(connection, EFA_SOURCE, dump)
        for _ in range(2):
            with pytest.raises(StuckError):
                await reads.call(reader, 0.3)
        await asyncio.to_thread(version.write_text, "2.17.3g\n")  # the first goes on
        version.unlink()
        sysfs_tree.write(version, "2.17.4g")
        assert json.loads(await reads.call(reader, 5))["driver"] == "2.17.4g"


@pytest.mark.parametrize("end", ["closed", "killed"])
async def test_nothing_is_left_when_the_connection_ends(
    settings: Collect,
    shell: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    end: str,
) -> None:
    monkeypatch.setenv("FAKE_NEURON_MONITOR", "hang")
    monkeypatch.setenv("FAKE_NEURON_LS", "hang")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with _folders() as folders:
        async with (
            linked(settings, shell) as connection,
            sources.RemoteMonitor(connection, "-").launch(lambda chunk: None),
        ):
            connection.request(NEURON_LS, "-j", "-a")
            pid = connection._transport.get_pid()
            await asyncio.to_thread(wait_until, lambda: _fakes(pid) == 2)
            everything = descendants(pid)
            assert folders()
            if end == "closed":
                pipe = connection._transport.get_pipe_transport(STDIN)
                assert pipe is not None
                pipe.close()
            else:  # as when its machine shuts down
                os.kill(pid, signal.SIGTERM)
            await asyncio.wait_for(connection.ended, 5)
            wait_until(lambda: not any(map(alive, everything)))
            assert not folders()


@pytest.mark.parametrize(
    ("shell", "reading"),
    [("dash", True), *((name, False) for name in SHELLS)],
    indirect=["shell"],
)
async def test_nothing_is_left_after_the_last_request(
    settings: Collect,
    shell: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    reading: bool,
) -> None:
    """The other machine has vanished: the connection stays open, and may not accept answers."""
    timeout = 3 if reading else 1
    monkeypatch.setattr(script, "TIMEOUT", timeout)
    monkeypatch.setenv("FAKE_NEURON_MONITOR", "hang")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with _folders() as folders:
        async with (
            linked(settings, shell) as connection,
            sources.RemoteMonitor(connection, "-").launch(lambda chunk: None),
        ):
            pid = connection._transport.get_pid()
            async with _flushing(connection):
                await asyncio.to_thread(wait_until, lambda: _fakes(pid) == 1)
                if reading:
                    await asyncio.sleep(timeout + 1.2)
                    assert _fakes(pid) == 1, "as long as it is asked it stays"
            everything = descendants(pid)
            if not reading:
                pipe = connection._transport.get_pipe_transport(STDERR)
                assert isinstance(pipe, asyncio.ReadTransport)
                pipe.pause_reading()
                connection.send("flush\n" * 5000)  # more answers than a pipe holds
            gone = lambda: not any(map(alive, (pid, *everything)))  # noqa: E731
            await asyncio.to_thread(wait_until, gone, 10)
            assert not folders()


def _fakes(pid: int) -> int:
    """How many of the fake programs run below a process."""
    lines = []
    for child in descendants(pid):
        with contextlib.suppress(OSError):
            lines.append(Path(f"/proc/{child}/cmdline").read_bytes())
    return sum(line.count(b"/fakes/") for line in lines if b"-S\0-E" in line)


@contextlib.asynccontextmanager
async def _flushing(connection: Connection) -> AsyncIterator[None]:
    """A heartbeat, as the collector of a node has it."""

    async def heartbeat() -> None:
        while True:
            connection.flush()
            await asyncio.sleep(0.1)

    task = asyncio.create_task(heartbeat())
    try:
        yield
    finally:
        task.cancel()


@contextlib.contextmanager
def _folders() -> Iterator[Callable[[], set[Path]]]:
    """Returns which folders of the script are new."""

    def found() -> set[Path]:
        return {
            path for folder in ("/dev/shm", "/tmp") for path in Path(folder).glob("trntop.??????")
        }

    before = found()
    yield lambda: found() - before
