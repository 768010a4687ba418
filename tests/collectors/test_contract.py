"""What every collector keeps, whatever its source does: see
`trntop.session.collector.Collector`.
"""

import asyncio
import contextlib
import importlib
import inspect
import logging
import os
import pkgutil
import random
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.collectors.contract import HOUR, Loop, Row, Sandbox, Setup, stage, until, watchdog
from tests.fakes import sysfs_tree
from trntop import collectors
from trntop.catalog import (
    EFA_SOURCE,
    HOST,
    JOB_MAPPING,
    KERNEL_LOG,
    KUBERNETES_NODE,
    LOG,
    NEURON_LS,
    NEURON_MONITOR,
    NEURON_SYSFS,
    POD_RESOURCES,
    PROFILES,
    STEPS,
    TENSOR_ENGINE,
)
from trntop.check.model import ProbeResult, ProbeServer, ProbeSpec
from trntop.collectors import aws, checks, local, stdin, tail
from trntop.collectors.checks import SavedCheck
from trntop.collectors.cloudwatch import ContainerInsights
from trntop.collectors.fleet import collectors_of
from trntop.collectors.fleet.target import Target
from trntop.collectors.fleet.watch import Watch
from trntop.collectors.hosts.agent import AgentHost, SharedClient
from trntop.collectors.kernel_log import KernelLog
from trntop.collectors.kubernetes_node import NodeLabels
from trntop.collectors.neuron_ls import NeuronLs
from trntop.collectors.neuron_monitor import NeuronMonitor
from trntop.collectors.polled import Polled
from trntop.collectors.probing import Probing
from trntop.collectors.prometheus.collector import PrometheusCollector
from trntop.collectors.ssh.node import SshNode
from trntop.collectors.stdin import StandardInput
from trntop.collectors.steps import StepsCollector
from trntop.collectors.training_log import TrainingLog
from trntop.core.settings import Collect, Fleet, Settings
from trntop.core.source_spec import parse
from trntop.remote import wire
from trntop.session.collector import Collector

pytestmark = pytest.mark.xdist_group("contract")

NESTED = b"[" * 5000 + b"]" * 5000
PAYLOADS = {
    "random": random.Random(1).randbytes(4096).replace(b"\n", b"") + b"\n",
    "long line": b"x" * (1 << 21) + b"\n",
    "nested": NESTED + b"\n",
    "nested in an object": b'{"x":' + NESTED + b"}\n",
    "wrong types": b'{"schema":1,"status":"success","data":7,"id":"\\u001b[31m","port":1,'
    b'"trials":{},"MESSAGE":{},"neuron_runtime_data":"x","period":[],'
    b'"step":"\\u001b]0;x\\u0007","targets":5,"time":{}}\n',
    "no UTF-8, escape sequences": b"\x1b]0;owned\x07\xff\xfe\x1b[31m\x00\xc3(\r\x1b[2J\n",
}
HANG = "trap '' TERM\n: >{inside}\nwhile :; do sleep 100; done"
"""A program that writes nothing, and holds on through SIGTERM."""


# Local sources, made as `trntop` makes them.


def settings_of(sandbox: Sandbox) -> Collect:
    folder = sandbox.source
    root = folder / "root"
    root.mkdir(exist_ok=True)
    return Collect(
        root=str(root),
        neuron_monitor=str(folder / "neuron-monitor"),
        neuron_ls=str(folder / "neuron-ls"),
        steps_socket=str(folder / "no folder" / "steps" / "steps.sock"),
        logs=(str(folder / "*.log"),),
        job_mapping=str(folder / "jobs"),
        profiles=str(folder / "profiles.json"),
        pod_resources=str(folder / "kubelet.sock"),
        period=0.05,
    )


def collector_of(sandbox: Sandbox, source: str) -> Collector:
    return next(
        collector for collector in local("node", settings_of(sandbox)) if collector.source == source
    )


def of(source: str, prepare: Callable[[Sandbox], object] = lambda sandbox: None) -> Setup:
    async def setup(sandbox: Sandbox) -> Collector:
        prepare(sandbox)
        return collector_of(sandbox, source)

    return setup


def neuron_tree(sandbox: Sandbox) -> None:
    sysfs_tree.neuron_tree(sandbox.source / "root", devices=1, cores=2)


def efa_tree(sandbox: Sandbox) -> None:
    sysfs_tree.efa_tree(sandbox.source / "root", count=1)


def host_tree(sandbox: Sandbox) -> None:
    for name in ("stat", "meminfo", "loadavg", "cpuinfo", "net/dev", "diskstats"):
        text = Path("/proc", name).read_text().rstrip()
        sysfs_tree.write(sandbox.source / "root" / "proc" / name, text)


def jobs_tree(sandbox: Sandbox) -> None:
    sysfs_tree.write(sandbox.source / "jobs" / "all", "4711")


def profiles_tree(sandbox: Sandbox) -> None:
    sysfs_tree.write(sandbox.source / "profiles.json", '{"schema": 1, "profiles": []}')


def polled(source: str, tree: Callable[[Sandbox], None], **more: Any) -> Row:
    """A source of files that the kernel, a scheduler or `trntop profile` writes."""

    def hanging(sandbox: Sandbox) -> None:
        tree(sandbox)
        sandbox.hang_files()

    def hostile(sandbox: Sandbox) -> None:
        tree(sandbox)
        files = [path for path in sandbox.source.rglob("*") if path.is_file()]
        sandbox.payload_file()
        for path in files:
            path.unlink()
            path.hardlink_to(sandbox.source / "payload")

    setups = of(source, hanging), of(source, hostile)
    return Row(source, Polled, of(source), *setups, **{"appears": appearing(tree), **more})


def appearing(prepare: Callable[[Sandbox], object]) -> Callable[[Sandbox], Awaitable[None]]:
    async def appear(sandbox: Sandbox) -> None:
        prepare(sandbox)

    return appear


def is_garbage(sandbox: Sandbox) -> bool:
    """Whether lines that are no reports are reported, or a report that is none."""
    return (
        sandbox.sink.refused() or reports(sandbox, "not reports") or reports(sandbox, "is a report")
    )


def hanging_program(name: str) -> Callable[[Sandbox], None]:
    def prepare(sandbox: Sandbox) -> None:
        inside = sandbox.source / "inside"
        sandbox.script(HANG.format(inside=inside), name)
        sandbox.inside = inside.exists

    return prepare


def writing_program(name: str, then: str = "exec sleep 100") -> Callable[[Sandbox], None]:
    return lambda sandbox: sandbox.script(f"cat {sandbox.payload_file()}\n{then}", name) and None


def fake_program(name: str, fake: str) -> Callable[[Sandbox], Awaitable[None]]:
    import sys

    path = Path(sysfs_tree.__file__).with_name(fake)
    return appearing(
        lambda sandbox: sandbox.script(f'exec {sys.executable} -S -E {path} "$@"', name) and None
    )


JOURNAL_END = 'cat "${0%/*}/payload"'
"""The first entry is an old one, which is not read."""


def kernel_log(prepare: Callable[[Sandbox], object]) -> Setup:
    async def setup(sandbox: Sandbox) -> Collector:
        prepare(sandbox)
        command = [str(sandbox.source / "journalctl")]
        return KernelLog("node", sandbox.source, journal=command, gather=0.01)

    return setup


async def hanging_socket(sandbox: Sandbox) -> Collector:
    """A kubelet that takes the connection, and never answers."""
    door = listen(sandbox, socket.AF_UNIX, str(sandbox.source / "kubelet.sock"))
    sandbox.inside = lambda: accepted(sandbox, door)
    return collector_of(sandbox, POD_RESOURCES)


async def hostile_socket(sandbox: Sandbox) -> Collector:
    await serve_unix(sandbox)
    return collector_of(sandbox, POD_RESOURCES)


async def serve_unix(sandbox: Sandbox) -> None:
    loop = asyncio.get_running_loop()
    path = str(sandbox.source / "kubelet.sock")
    server = await loop.create_unix_server(lambda: Answer(sandbox.payload), path)
    sandbox.stack.callback(server.close)


# Steps, logs and standard input.


def steps(sandbox: Sandbox) -> Collector:
    folder = sandbox.source
    return StepsCollector("node", folder / "steps.sock")


async def no_steps(sandbox: Sandbox) -> Collector:
    path = sandbox.source / "file"
    path.touch()
    return StepsCollector("node", path / "steps.sock")


async def hanging_steps(sandbox: Sandbox) -> Collector:
    sender(sandbox)
    return steps(sandbox)


async def hostile_steps(sandbox: Sandbox) -> Collector:
    sender(sandbox, sandbox.payload[:4000], sandbox.payload[:8000])
    return steps(sandbox)


def sender(sandbox: Sandbox, *records: bytes) -> None:
    """A rank that connects as soon as it can, sends these records, and then nothing."""
    inside = sandbox.inside
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.setblocking(False)
    sandbox.stack.callback(client.close)
    connected: list[bool] = []

    def connect() -> bool:
        if not connected:
            with contextlib.suppress(OSError):
                client.connect(str(sandbox.source / "steps.sock"))
                connected.append(True)
                for record in records:
                    client.send(record)
        return bool(connected)

    sandbox.inside = lambda: connect() and inside()


async def hanging_log(sandbox: Sandbox) -> Collector:
    sandbox.hang_call(tail.glob, "iglob")
    return collector_of(sandbox, LOG)


def reports(sandbox: Sandbox, text: str) -> bool:
    return any(text in status.reason for status in sandbox.sink.statuses)


async def pipe_of(
    sandbox: Sandbox, payload: bytes | None = None, *, ended: bool = False
) -> Collector:
    reader, writer = os.pipe()
    sandbox.stack.callback(os.close, reader)
    if ended:
        os.close(writer)
    else:
        sandbox.stack.callback(os.close, writer)
        sandbox.inside = lambda: bool(sandbox.sink.statuses)
    if payload is not None:
        os.set_blocking(writer, False)
        left = [payload]

        def write() -> None:
            with contextlib.suppress(BlockingIOError):
                left[0] = left[0][os.write(writer, left[0]) :]

        sandbox.inside = lambda: write() or not left[0]
    return StandardInput("node", reader)


async def closed_pipe(sandbox: Sandbox) -> Collector:
    return await pipe_of(sandbox, ended=True)


async def hostile_pipe(sandbox: Sandbox) -> Collector:
    sandbox.patch.setattr(stdin, "DEFAULT_PERIOD", 0.05)
    return await pipe_of(sandbox, sandbox.payload)


# Other machines.


class Answer(asyncio.Protocol):
    """Answers whatever comes with these bytes, and hangs up."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert isinstance(self._transport, asyncio.Transport)
        self._transport.write(self._answer)
        self._transport.close()


def listen(sandbox: Sandbox, family: int = socket.AF_INET, address: Any = ("127.0.0.1", 0)) -> Any:
    door = socket.socket(family, socket.SOCK_STREAM)
    sandbox.stack.callback(door.close)
    door.setblocking(False)
    door.bind(address)
    door.listen(64)
    return door


def accepted(sandbox: Sandbox, door: socket.socket) -> bool:
    """Whether a client has connected, which then waits."""
    with contextlib.suppress(BlockingIOError):
        connection, _ = door.accept()
        sandbox.stack.callback(connection.close)
        return True
    return False


def hanging_server(sandbox: Sandbox) -> str:
    door = listen(sandbox)
    sandbox.inside = lambda: accepted(sandbox, door)
    return f"127.0.0.1:{door.getsockname()[1]}"


def closed_port(sandbox: Sandbox) -> str:
    """An address without a listener."""
    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    sandbox.stack.callback(door.close)
    return f"127.0.0.1:{door.getsockname()[1]}"


async def server(sandbox: Sandbox, head: str) -> str:
    """A server that answers with the payload after this head."""
    answer = f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n".encode() + sandbox.payload
    if not head:
        answer = sandbox.payload
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answer(answer), "127.0.0.1", 0)
    sandbox.stack.callback(server.close)
    return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


Make = Callable[[Sandbox, str], Collector]
TEXT = "200 OK\r\nContent-Type: text/plain"
JSON = "200 OK\r\nContent-Type: application/json"
STREAM = f"200 OK\r\nContent-Type: {wire.CONTENT_TYPE}"
REFUSAL = "500 No\r\nContent-Type: text/plain"


def network(name: str, kind: type[Collector], make: Make, head: str, **more: Any) -> Row:
    async def missing(sandbox: Sandbox) -> Collector:
        return make(sandbox, closed_port(sandbox))

    async def hangs(sandbox: Sandbox) -> Collector:
        return make(sandbox, hanging_server(sandbox))

    async def hostile(sandbox: Sandbox) -> Collector:
        return make(sandbox, await server(sandbox, head))

    return Row(name, kind, missing, hangs, hostile, **more)


def agent(_: Sandbox, address: str) -> Collector:
    (collector,) = collectors_of(parse(f"http://{address}"), Settings())
    return collector


def prometheus_backend(_: Sandbox, address: str) -> Collector:
    (collector,) = collectors_of(parse(f"prometheus+http://{address}"), Settings())
    return collector


def kubernetes_node(sandbox: Sandbox, address: str) -> Collector:
    (sandbox.source / "token").write_text("secret")
    return Polled("n", KUBERNETES_NODE, NodeLabels(f"http://{address}", "n", sandbox.source), 0.01)


def with_aws(make: Callable[[], Collector]) -> Make:
    def collector_of(sandbox: Sandbox, address: str) -> Collector:
        for name in ("AWS_PROFILE", "AWS_REGION", "http_proxy", "HTTP_PROXY"):
            sandbox.patch.delenv(name, raising=False)
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-west-2",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            sandbox.patch.setenv(name, value)
        sandbox.patch.setattr(aws, "TRIES", 1)
        return make()

    return collector_of


def listed(text: str) -> Collector:
    (collector,) = collectors_of(parse(text), Settings())
    return collector


class Here:
    """This machine as one that probes."""

    name = "here"

    async def inspect(self) -> Any:
        raise NotImplementedError

    async def serve(self, spec: ProbeSpec) -> ProbeServer:
        raise NotImplementedError

    async def probe(self, spec: ProbeSpec, peer: str, server: ProbeServer) -> list[ProbeResult]:
        return [ProbeResult(tool=spec.tool, peer=peer, error="not today")]

    async def end(self, server: ProbeServer) -> str:
        return ""

    async def close(self) -> None:
        return None


def probing(_: Sandbox, address: str) -> Collector:
    other = AgentHost(Target("there", f"http://{address}"), SharedClient(Fleet()))
    return Probing("here", Here(), [other], 0.01, ProbeSpec(provider="tcp"), lambda _: "")


def was_probed(sandbox: Sandbox) -> bool:
    return any(b'"error":"' in reading.data for reading in sandbox.sink.readings)


def ssh(prepare: Callable[[Sandbox], object]) -> Setup:
    async def setup(sandbox: Sandbox) -> Collector:
        prepare(sandbox)
        command = str(sandbox.source / "ssh")
        (collector,) = collectors_of(parse("ssh://127.0.0.1"), Settings(fleet=Fleet(ssh=command)))
        return collector

    return setup


def saved(prepare: Callable[[Sandbox], object]) -> Setup:
    async def setup(sandbox: Sandbox) -> Collector:
        prepare(sandbox)
        return SavedCheck(sandbox.source / "check.jsonl", period=0.01)

    return setup


polls: Counter[Path] = Counter()
"""File → how often it was polled."""


def was_polled(sandbox: Sandbox) -> bool:
    """Whether it polled again: a check that cannot be read is not reported."""
    return polls[sandbox.source / "check.jsonl"] > 1


def saved_check(sandbox: Sandbox) -> None:
    read = SavedCheck._read

    def counted(collector: SavedCheck) -> None:
        polls[collector._path] += 1
        read(collector)

    sandbox.patch.setattr(SavedCheck, "_read", counted)
    (sandbox.source / "check.jsonl").write_bytes(sandbox.payload)


def hanging_check(sandbox: Sandbox) -> None:
    sandbox.hang_call(checks, "open_recording")
    saved_check(sandbox)


async def hanging_nodes(sandbox: Sandbox) -> Collector:
    path = sandbox.source / "nodes"
    path.write_text("127.0.0.1")
    collector = listed(f"@{path}")
    sandbox.hang_files()
    return collector


async def no_nodes(sandbox: Sandbox) -> Collector:
    path = sandbox.source / "nodes"
    path.write_text("127.0.0.1")
    collector = listed(f"@{path}")
    path.unlink()
    return collector


async def hostile_nodes(sandbox: Sandbox) -> Collector:
    path = sandbox.source / "nodes"
    path.write_text("127.0.0.1")
    collector = listed(f"@{path}")
    path.write_bytes(sandbox.payload)
    return collector


def resolver(outcome: str) -> Setup:
    async def setup(sandbox: Sandbox) -> Collector:
        if outcome == "hangs":
            sandbox.hang_call(socket, "getaddrinfo")
        else:

            def found(*_: object, **__: object) -> Any:
                if outcome == "missing":
                    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
                return [(2, 1, 6, "", (sandbox.payload.decode(errors="replace"), 0))]

            sandbox.patch.setattr(socket, "getaddrinfo", found)
        return listed("dns:trn.invalid")

    return setup


async def unresolved(sandbox: Sandbox) -> Collector:
    sandbox.hang_call(socket, "getaddrinfo")
    return listed("http://trn-1.invalid")


def slurm(prepare: Callable[[Sandbox], object]) -> Setup:
    async def setup(sandbox: Sandbox) -> Collector:
        prepare(sandbox)
        sandbox.patch.setenv("PATH", f"{sandbox.source}:{os.environ['PATH']}")
        return listed("slurm:4711")

    return setup


AGENT_ROWS = [
    network("agent: stream", Watch, agent, STREAM),
    network("agent: page", Watch, agent, TEXT),
    network("agent: refusal", Watch, agent, REFUSAL),
    network("agent: no HTTP", Watch, agent, ""),
]

ROWS = [
    Row(
        NEURON_MONITOR, NeuronMonitor, of(NEURON_MONITOR),
        of(NEURON_MONITOR, hanging_program("neuron-monitor")),
        of(NEURON_MONITOR, writing_program("neuron-monitor")), refused=is_garbage,
        appears=fake_program("neuron-monitor", "neuron_monitor.py"),
    ),
    Row(
        NEURON_LS, NeuronLs, of(NEURON_LS),
        of(NEURON_LS, hanging_program("neuron-ls")),
        of(NEURON_LS, writing_program("neuron-ls", "exit 0")),
        appears=fake_program("neuron-ls", "neuron_ls.py"),
    ),
    polled(NEURON_SYSFS, neuron_tree),
    polled(TENSOR_ENGINE, neuron_tree),
    polled(EFA_SOURCE, efa_tree),
    polled(HOST, host_tree),
    polled(PROFILES, profiles_tree, appears=None),
    # Any line is a job's id: there is nothing to refuse.
    polled(JOB_MAPPING, jobs_tree, refused=lambda sandbox: sandbox.sink.readings),
    Row(POD_RESOURCES, Polled, of(POD_RESOURCES), hanging_socket, hostile_socket),
    network(KUBERNETES_NODE, Polled, kubernetes_node, JSON),
    Row(
        KERNEL_LOG, KernelLog, kernel_log(lambda sandbox: None),
        kernel_log(hanging_program("journalctl")),
        kernel_log(writing_program("journalctl", JOURNAL_END)),
        refused=lambda sandbox: sandbox.sink.is_down(),
    ),
    Row(STEPS, StepsCollector, no_steps, hanging_steps, hostile_steps,
        refused=lambda sandbox: sandbox.inside() and sandbox.sink.refused()),
    Row(
        LOG, TrainingLog, of(LOG), hanging_log,
        of(LOG, lambda sandbox: (sandbox.source / "a.log").write_bytes(sandbox.payload)),
        refused=lambda sandbox: reports(sandbox, "no line of a known format"),
    ),
    Row("stdin: pipe", StandardInput, closed_pipe, pipe_of, hostile_pipe, quiet=True,
        refused=lambda sandbox: sandbox.inside() and is_garbage(sandbox)),
    *AGENT_ROWS,
    Row("agents: names", Watch, AGENT_ROWS[0].missing, unresolved, AGENT_ROWS[0].hostile),
    Row("nodes file", Watch, no_nodes, hanging_nodes, hostile_nodes),
    Row("dns", Watch, resolver("missing"), resolver("hangs"), resolver("hostile")),
    Row("slurm", Watch, slurm(lambda sandbox: None), slurm(hanging_program("scontrol")),
        slurm(writing_program("scontrol", "exit 0"))),
    network("ec2", Watch, with_aws(lambda: listed("ec2:tag/a=b")), JSON),
    Row("ssh", SshNode, ssh(lambda sandbox: None), ssh(hanging_program("ssh")),
        ssh(writing_program("ssh", "exit 255"))),
    Row("ssh: noise", SshNode, ssh(lambda sandbox: None), ssh(hanging_program("ssh")),
        ssh(writing_program("ssh", 'cat "${0%/*}/payload" >&2\nexit 1'))),
    network("engine", PrometheusCollector, prometheus_backend, JSON),
    network("cloudwatch", ContainerInsights, with_aws(lambda: listed("cloudwatch:train")), JSON),
    network("probing", Probing, probing, JSON, refused=was_probed, quiet=True),
    network("probing: refusal", Probing, probing, REFUSAL, refused=was_probed, quiet=True),
    Row("saved check", SavedCheck, saved(lambda sandbox: None), saved(hanging_check),
        saved(saved_check), quiet=True, refused=was_polled),
]  # fmt: skip
each_row = pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Nothing here uses TLS, and each client would read all certificates of the system.
    monkeypatch.setattr(ssl.SSLContext, "set_default_verify_paths", lambda _: None)
    with watchdog():
        yield


def run(main: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())


def test_every_collector_has_a_row() -> None:
    found = set()
    for module in pkgutil.walk_packages(collectors.__path__, f"{collectors.__name__}."):
        for _, class_ in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            run = getattr(class_, "run", None)
            if run is None or class_.__module__ != module.name or Protocol in class_.__bases__:
                continue
            if "sink" in inspect.signature(run).parameters:
                found.add(class_)
    assert found == {row.kind for row in ROWS}


def test_every_local_source_has_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox(tmp_path, monkeypatch)
    collector_of(sandbox, HOST)
    sources = {
        (collector.source, type(collector)) for collector in local("node", settings_of(sandbox))
    }
    assert sources <= {(row.name, row.kind) for row in ROWS}


@each_row
def test_hanging(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While its source hangs it blocks nothing, and cancelled it leaves nothing behind."""

    async def main() -> None:
        sandbox = Sandbox(tmp_path, monkeypatch)
        async with stage(sandbox, row.hangs) as task:
            await until(sandbox.inside, "it is not in its source")
            assert not task.done()
            del task  # its traceback holds the collector
        sandbox.sink.check_texts()

    run(main)


@each_row
def test_missing(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a source it reports that, and when there is one it continues by itself."""

    async def main() -> None:
        sandbox = Sandbox(tmp_path, monkeypatch)
        async with stage(sandbox, row.missing) as task:
            if not row.quiet:
                await until(sandbox.sink.is_down, "it does not say that its source is missing")
                assert not sandbox.sink.is_fresh()
            await asyncio.sleep(0)
            if row.appears is not None:
                await row.appears(sandbox)
                loop = asyncio.get_running_loop()
                assert isinstance(loop, Loop)
                loop.jump(HOUR)
                await until(sandbox.sink.is_fresh, "it does not see that its source is there")
            if task.done():
                await task  # raises nothing
            del task
        sandbox.sink.check_texts()

    run(main)


@each_row
def test_hostile(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its source gives, it reports that, clean, and goes on."""

    async def main(name: str, payload: bytes) -> None:
        sandbox = Sandbox(tmp_path / f"{len(payload)}", monkeypatch, payload)
        async with stage(sandbox, row.hostile) as task:
            await until(lambda: row.refused(sandbox), f"it does not refuse {name}", task)
            if not row.quiet:
                before = sandbox.sink.entries
                loop = asyncio.get_running_loop()
                assert isinstance(loop, Loop)
                loop.jump(HOUR)
                await until(lambda: sandbox.sink.entries > before, f"it ends with {name}")
            assert row.refused(sandbox)
            del task
        sandbox.sink.check_texts()

    for name, payload in PAYLOADS.items():
        run(lambda name=name, payload=payload: main(name, payload))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
