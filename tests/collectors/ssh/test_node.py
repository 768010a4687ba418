"""Nodes over a real sshd on loopback: they are read, and report what is wrong with them."""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.collectors.fleet.test_watch import Changing
from tests.collectors.recording_sink import RecordingSink, alive, running, wait_until
from tests.collectors.ssh.nodes import collect
from tests.sshd import ALIAS, Sshd, needs_sshd, sshd
from trntop.catalog import (
    EFA_SOURCE,
    HOST,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    SSH,
    TENSOR_ENGINE,
    Entity,
)
from trntop.collectors import ssh
from trntop.collectors.backoff import Backoff
from trntop.collectors.fleet.target import Target
from trntop.collectors.fleet.watch import Watch
from trntop.collectors.ssh import answers
from trntop.collectors.ssh.address import parse as addresses
from trntop.collectors.ssh.node import SshNode
from trntop.core import descriptors
from trntop.core.model import State, Status
from trntop.core.settings import Fleet, Settings
from trntop.core.source_spec import Origin, parse
from trntop.session.collector import Collector
from trntop.session.monitor import Monitor
from trntop.sources import DECODERS

pytestmark = [needs_sshd, pytest.mark.xdist_group("servers")]
NODES = 16
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


def settings(tmp_path: Path, command: str, connect: float = 5.0, **some: object) -> Settings:
    options = {"period": 0.5, **some}
    return Settings(collect=collect(tmp_path, **options), fleet=Fleet(ssh=command, connect=connect))


def node(config: Settings, name: str = "trn-1", **options: float) -> SshNode:
    address = addresses(f"ssh://{name}")
    return SshNode(name, address, config, backoff=Backoff(0.1), retry_interval=0.2, **options)


def reason(sink: RecordingSink, name: str = "trn-1") -> str:
    """The first reason why a node cannot be reached."""
    return next(
        status.reason.partition("; next attempt")[0]
        for status in sink.statuses
        if (status.node, status.source, status.state) == (name, SSH, State.DOWN)
    )


def last(sink: RecordingSink) -> dict[tuple[str, str], Status]:
    return {(status.node, status.source): status for status in sink.statuses}


def reporting(sink: RecordingSink) -> set[tuple[str, str]]:
    return {(reading.node, reading.source) for reading in sink.readings}


@contextlib.asynccontextmanager
async def all_of(collectors: list[Collector], sink: RecordingSink) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for collector in collectors:
            await stack.enter_async_context(running(collector, sink))
        yield


async def test_sixteen_nodes(server: Sshd, tmp_path: Path, sink: RecordingSink) -> None:
    """Every source of each of them; one lacks neuron-monitor, another's ends at once."""
    command = server.ssh(nodes={"trn-07": {"FAKE_NEURON_MONITOR": "exit:3"}})
    config = settings(tmp_path, command, period=1.0)
    source = parse(f"ssh://trn-[01-{NODES}]")
    assert source.origin is Origin.SSH
    names = {f"trn-{number:02}" for number in range(1, NODES + 1)}
    kinds = {SSH, NEURON_MONITOR, EFA_SOURCE, TENSOR_ENGINE, NEURON_SYSFS, NEURON_LS, HOST}
    expected = {(name, kind) for name in names for kind in kinds} - {("trn-07", NEURON_MONITOR)}
    async with all_of(ssh.collectors(source, config), sink):
        await sink.until(lambda: reporting(sink) >= expected, 30)
        await sink.until(lambda: last(sink)["trn-07", NEURON_MONITOR].state is State.DOWN)
        everything = server.sessions()
        assert len(server.running("sshd:")) >= NODES
    assert "code 3: simulated failure" in last(sink)["trn-07", NEURON_MONITOR].reason
    for reading in sink.readings:
        sample = DECODERS[reading.source](reading.data)
        assert not sample.problems
        if reading.source == EFA_SOURCE:
            assert len(sample.keys[Entity.EFA]) == 2
    wait_until(lambda: not any(map(alive, everything)))


async def test_a_monitor_shows_the_node(server: Sshd, tmp_path: Path, sink: RecordingSink) -> None:
    config = settings(tmp_path, server.ssh())
    async with running(node(config), sink):
        await sink.until(lambda: len({source for _, source in reporting(sink)}) == 7, 15)
    monitor = Monitor(config)
    for reading in sink.readings:
        monitor.feed(reading)
    view = monitor.tick(sink.readings[-1].time).cluster.nodes["trn-1"]
    assert view.state in (State.FRESH, State.LATE)
    assert {source.name: source.state for source in view.frame.sources}[SSH] is State.FRESH
    assert len(view.inventory.keys[Entity.EFA]) == 2
    assert view.inventory.facts["instance_type"] == "trn2.48xlarge"


async def test_a_missing_neuron_monitor_leaves_the_rest(
    server: Sshd, tmp_path: Path, sink: RecordingSink
) -> None:
    config = settings(tmp_path, server.ssh(), neuron_monitor="no-such-program")
    async with running(node(config), sink):
        await sink.until(lambda: ("trn-1", EFA_SOURCE) in reporting(sink), 10)
        await sink.until(lambda: ("trn-1", NEURON_MONITOR) in last(sink))
    status = last(sink)["trn-1", NEURON_MONITOR]
    assert status.state is State.DOWN
    assert status.reason.startswith("no-such-program is not installed there")


async def test_a_key_that_is_refused(server: Sshd, tmp_path: Path, sink: RecordingSink) -> None:
    async with running(node(settings(tmp_path, server.ssh(key="other"))), sink):
        await sink.until(lambda: sink.reasons(State.DOWN), 10)
    assert reason(sink).startswith("permission denied (publickey)")
    assert sink.readings == []


async def test_host_keys_are_checked(server: Sshd, tmp_path: Path, sink: RecordingSink) -> None:
    unknown, changed = tmp_path / "unknown", tmp_path / "changed"
    unknown.touch()
    kind, key = (server.folder / "other.pub").read_text().split()[:2]
    changed.write_text(f"{ALIAS} {kind} {key}\n")
    command = server.ssh(
        *("Host trn-1", f"UserKnownHostsFile {unknown}"),
        *("Host trn-2", f"UserKnownHostsFile {changed}"),
    )
    config = settings(tmp_path, command)
    async with running(node(config), sink), running(node(config, "trn-2"), sink):
        await sink.until(
            lambda: (
                len(
                    {
                        each.node
                        for each in sink.statuses
                        if each.reason and each.state is State.DOWN
                    }
                )
                == 2
            ),
            10,
        )
    assert reason(sink, "trn-1").startswith("its host key is not known")
    assert reason(sink, "trn-2").startswith("its host key has changed")
    assert unknown.read_text() == "", "nothing was trusted"


async def test_hosts_that_do_not_answer(server: Sshd, tmp_path: Path, sink: RecordingSink) -> None:
    """One whose port is open and silent, one that is closed, one without a name."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        command = server.ssh(
            *("Host trn-1", f"Port {listener.getsockname()[1]}"),
            *("Host trn-2", "Port 1"),
            *("Host trn-3", "HostName no-such-host.invalid"),
        )
        config = settings(tmp_path, command, connect=1.0)
        names = [f"trn-{number}" for number in range(1, 5)]
        async with all_of([node(config, name) for name in names], sink):
            await sink.until(lambda: ("trn-4", EFA_SOURCE) in reporting(sink), 10)
            await sink.until(
                lambda: (
                    {each.node for each in sink.statuses if each.state is State.DOWN}
                    >= {"trn-1", "trn-2", "trn-3"}
                ),
                10,
            )
    assert reason(sink, "trn-1") == "no response from its SSH port in time"
    assert reason(sink, "trn-2") == "connection refused by 127.0.0.1 port 1"
    assert reason(sink, "trn-3") == "host name no-such-host.invalid does not resolve"


async def test_two_machines_that_are_called_the_same_stay_apart(
    server: Sshd, tmp_path: Path, sink: RecordingSink
) -> None:
    config = settings(tmp_path, server.ssh())
    before = descriptors._reserved
    sink.register("trn-1", "ssh://trn-1.elsewhere", SSH)
    async with running(node(config), sink):
        await sink.until(lambda: sink.statuses)
        status = sink.statuses[-1]
        assert (status.node, status.state) == ("ssh://trn-1", State.DOWN)
        assert status.reason == "the name trn-1 belongs to ssh://trn-1.elsewhere"
        assert sink.readings == []
        sink.remove("trn-1", "ssh://trn-1.elsewhere")
        await sink.until(lambda: ("trn-1", SSH) in reporting(sink), 10)
        assert sink.removed == ["trn-1", "ssh://trn-1"]
        assert descriptors._reserved > before
    assert {name for name, _ in reporting(sink)} == {"trn-1"}
    assert descriptors._reserved == before


async def test_a_list_loses_the_name_that_its_node_goes_by(
    server: Sshd, tmp_path: Path, sink: RecordingSink
) -> None:
    config = settings(tmp_path, server.ssh())
    sink.register("trn-1", "http://trn-1.elsewhere")
    listed = Changing(Target("trn-1", "ssh://trn-1", {"zone": "x"}), Target("a", "ssh://a"))
    async with running(Watch(listed, config), sink):
        await sink.until(lambda: ("a", SSH) in reporting(sink), 10)
        del listed.targets[0]
        await sink.until(lambda: sink.removed == ["ssh://trn-1"])
    assert {name for name, _ in reporting(sink)} == {"a"}


async def test_a_login_shell_that_talks(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, sink: RecordingSink
) -> None:
    """A banner, and a .bashrc that greets on both channels: skipped and counted."""
    folder = tmp_path_factory.mktemp("sshd")
    (folder / "banner").write_text("Authorized use only\n")
    home = folder / "talk.sh"
    home.write_text('echo "Welcome {"; echo "last login" >&2; eval "$SSH_ORIGINAL_COMMAND"\n')
    options = (f"Banner {folder / 'banner'}", f"ForceCommand . {home}")
    with sshd(folder, *options) as server:
        async with running(node(settings(tmp_path, server.ssh())), sink):
            await sink.until(
                lambda: reporting(sink) >= {("trn-1", NEURON_MONITOR), ("trn-1", SSH)}, 10
            )
    assert last(sink)["trn-1", SSH].counts["noise"] == 3
    assert last(sink)["trn-1", NEURON_MONITOR].counts["skipped"] == 0


async def test_a_node_that_hangs_is_given_up_and_comes_back(
    server: Sshd, tmp_path: Path, sink: RecordingSink
) -> None:
    config = settings(tmp_path, server.ssh())
    async with running(node(config, silence=1.5), sink):
        await sink.until(lambda: ("trn-1", EFA_SOURCE) in reporting(sink), 10)
        stopped = server.sessions()
        try:
            _signal(stopped, signal.SIGSTOP)
            await sink.until(lambda: sink.reasons(State.DOWN), 10)
            assert reason(sink) == "no response for 2 s: the node hangs"
            before = len(sink.readings)
            await sink.until(lambda: len(sink.readings) > before + 3, 10)
        finally:
            _signal(stopped, signal.SIGCONT)
        assert last(sink)["trn-1", SSH].counts["connections"] == 2
    wait_until(lambda: not server.sessions())


async def test_a_node_that_answers_without_end(
    server: Sshd, tmp_path: Path, sink: RecordingSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MAX_DUMP", 100)
    async with running(node(settings(tmp_path, server.ssh()), silence=2.0), sink):
        await sink.until(lambda: sink.reasons(State.DOWN), 10)
    assert "is longer than" in reason(sink)


async def test_a_connection_that_is_cut(server: Sshd, tmp_path: Path, sink: RecordingSink) -> None:
    async with running(node(settings(tmp_path, server.ssh())), sink):
        await sink.until(lambda: ("trn-1", EFA_SOURCE) in reporting(sink), 10)
        _signal(server.running("sshd:"), signal.SIGKILL)
        await sink.until(lambda: sink.reasons(State.DOWN))
        assert reason(sink) == "the connection was closed"
        await sink.until(lambda: last(sink)["trn-1", SSH].state is State.FRESH, 10)


async def test_a_configuration_that_would_be_in_the_way(
    server: Sshd, tmp_path: Path, sink: RecordingSink
) -> None:
    """A terminal, a command of its own, a forwarding that cannot be: none of them is for us."""
    command = server.ssh(
        "RequestTTY force",
        "RemoteCommand no-such-command",
        "LocalForward 127.0.0.1:1 127.0.0.1:1",
        "ExitOnForwardFailure yes",
        "LogLevel DEBUG3",
        "ControlMaster auto",
        f"ControlPath {tmp_path / 'own'}",
    )
    async with running(node(settings(tmp_path, command)), sink):
        await sink.until(lambda: ("trn-1", NEURON_MONITOR) in reporting(sink), 10)
        assert not (tmp_path / "own").exists(), "trntop starts no master connection"
    assert last(sink)["trn-1", SSH].counts["noise"] == 0


async def test_a_shared_connection_is_used_and_stays(
    server: Sshd, tmp_path: Path, sink: RecordingSink
) -> None:
    path = server.folder / "shared"  # short: a socket's path has at most 108 bytes
    command = server.ssh(f"ControlPath {path}")
    master = await asyncio.create_subprocess_exec(
        *shlex.split(command), "-M", "-N", "trn-1", stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await asyncio.to_thread(wait_until, path.is_socket, 10)
        before = len(server.running("sshd:"))
        async with running(node(settings(tmp_path, command)), sink):
            await sink.until(lambda: ("trn-1", NEURON_MONITOR) in reporting(sink), 10)
            assert len(server.running("sshd:")) == before, "no second connection"
        await asyncio.to_thread(wait_until, lambda: not server.running("neuron_monitor.py"))
        assert master.returncode is None
    finally:
        master.terminate()
        await master.wait()


async def test_quitting_is_quick(server: Sshd, tmp_path: Path, sink: RecordingSink) -> None:
    config = settings(tmp_path, server.ssh())
    async with all_of([node(config, f"trn-{number}") for number in range(4)], sink):
        await sink.until(lambda: len({name for name, _ in reporting(sink)}) == 4, 15)
        began = time.monotonic()
    assert time.monotonic() - began < 2.0  # four, one after the other


def test_a_recording_of_a_node_plays_again(server: Sshd, tmp_path: Path) -> None:
    config = settings(tmp_path, server.ssh())
    options = [f"fleet.ssh={config.fleet.ssh}"]
    options += [
        f"collect.{key}={getattr(config.collect, key)}"
        for key in ("root", "neuron_monitor", "neuron_ls", "period")
    ]
    file = tmp_path / "night.jsonl.gz"
    trntop = [sys.executable, "-m", "trntop"]
    record = [*trntop, "record", "ssh://trn-1", "-o", str(file), "--max-seconds", "4"]
    for option in options:
        record += ["--set", option]
    subprocess.run(record, cwd=ROOT, check=True, timeout=60, stderr=subprocess.PIPE)
    snapshot = [*trntop, "snapshot", str(file), "--json"]
    done = subprocess.run(snapshot, cwd=ROOT, check=True, timeout=60, capture_output=True)
    (shown,) = json.loads(done.stdout)["nodes"]
    states = {source["source"]: source["state"] for source in shown["sources"]}
    assert shown["node"] == "trn-1"
    assert states.keys() >= {SSH, NEURON_MONITOR, EFA_SOURCE, TENSOR_ENGINE, NEURON_SYSFS, HOST}
    assert set(states.values()) == {"ended"}
    assert len(shown["efa"]) == 2


def test_a_killed_trntop_leaves_nothing_behind(server: Sshd, tmp_path: Path) -> None:
    """SIGKILL of our side: everything ends over there, though neuron-monitor is silent."""
    config = settings(tmp_path, server.ssh(nodes={"trn-1": {"FAKE_NEURON_MONITOR": "hang"}}))
    program = textwrap.dedent(f"""
        import asyncio
        from tests.collectors.recording_sink import RecordingSink
        from trntop.collectors import ssh
        from trntop.core.settings import *
        from trntop.core.source_spec import parse

        async def main():
            settings = {config!r}
            await ssh.collectors(parse("ssh://trn-1"), settings)[0].run(RecordingSink())

        asyncio.run(main())
    """)
    child = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    try:
        wait_until(lambda: server.running("neuron_monitor.py"), 30)
        everything = server.sessions()
    finally:
        child.kill()
        child.wait()
    # Not only sshd's children: what outlives its session has no parent.
    wait_until(lambda: not any(map(alive, everything)), 5)


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def test_a_target_of_a_list() -> None:
    collector = ssh.connect(Target("trn-9", "ssh://ada@trn-009.example.org:2222"), Settings())
    assert (collector.node, collector.source) == ("trn-9", SSH)
