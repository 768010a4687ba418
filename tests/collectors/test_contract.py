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

from tests.collectors.contract import HOUR, Loop, Place, Row, Scene, stage, until, watchdog
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


def settings_of(place: Place) -> Collect:
    folder = place.source
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


def made(place: Place, source: str) -> Collector:
    return next(one for one in local("node", settings_of(place)) if one.source == source)


def of(source: str, prepare: Callable[[Place], object] = lambda place: None) -> Scene:
    async def scene(place: Place) -> Collector:
        prepare(place)
        return made(place, source)

    return scene


def neuron_tree(place: Place) -> None:
    sysfs_tree.neuron_tree(place.source / "root", devices=1, cores=2)


def efa_tree(place: Place) -> None:
    sysfs_tree.efa_tree(place.source / "root", cards=1)


def host_tree(place: Place) -> None:
    for name in ("stat", "meminfo", "loadavg", "cpuinfo", "net/dev", "diskstats"):
        text = Path("/proc", name).read_text().rstrip()
        sysfs_tree.write(place.source / "root" / "proc" / name, text)


def jobs_tree(place: Place) -> None:
    sysfs_tree.write(place.source / "jobs" / "all", "4711")


def profiles_tree(place: Place) -> None:
    sysfs_tree.write(place.source / "profiles.json", '{"schema": 1, "profiles": []}')


def polled(source: str, tree: Callable[[Place], None], **more: Any) -> Row:
    """A source of files that the kernel, a scheduler or `trntop profile` writes."""

    def hanging(place: Place) -> None:
        tree(place)
        place.hang_files()

    def hostile(place: Place) -> None:
        tree(place)
        files = [path for path in place.source.rglob("*") if path.is_file()]
        place.payload_file()
        for path in files:
            path.unlink()
            path.hardlink_to(place.source / "payload")

    given = of(source, hanging), of(source, hostile)
    return Row(source, Polled, of(source), *given, **{"appears": appearing(tree), **more})


def appearing(prepare: Callable[[Place], object]) -> Callable[[Place], Awaitable[None]]:
    async def appear(place: Place) -> None:
        prepare(place)

    return appear


def is_garbage(place: Place) -> bool:
    """Whether lines that are no reports are reported, or a report that is none."""
    return place.book.refused() or says(place, "not reports") or says(place, "is a report")


def hanging_program(name: str) -> Callable[[Place], None]:
    def prepare(place: Place) -> None:
        inside = place.source / "inside"
        place.script(HANG.format(inside=inside), name)
        place.inside = inside.exists

    return prepare


def writing_program(name: str, then: str = "exec sleep 100") -> Callable[[Place], None]:
    return lambda place: place.script(f"cat {place.payload_file()}\n{then}", name) and None


def fake_program(name: str, fake: str) -> Callable[[Place], Awaitable[None]]:
    import sys

    path = Path(sysfs_tree.__file__).with_name(fake)
    return appearing(
        lambda place: place.script(f'exec {sys.executable} -S -E {path} "$@"', name) and None
    )


JOURNAL_END = 'cat "${0%/*}/payload"'
"""The first entry is an old one, which nobody reads."""


def kernel_log(prepare: Callable[[Place], object]) -> Scene:
    async def scene(place: Place) -> Collector:
        prepare(place)
        command = [str(place.source / "journalctl")]
        return KernelLog("node", place.source, journal=command, gather=0.01)

    return scene


async def hanging_socket(place: Place) -> Collector:
    """A kubelet that takes the connection, and never answers."""
    door = listen(place, socket.AF_UNIX, str(place.source / "kubelet.sock"))
    place.inside = lambda: accepted(place, door)
    return made(place, POD_RESOURCES)


async def hostile_socket(place: Place) -> Collector:
    await serve_unix(place)
    return made(place, POD_RESOURCES)


async def serve_unix(place: Place) -> None:
    loop = asyncio.get_running_loop()
    path = str(place.source / "kubelet.sock")
    server = await loop.create_unix_server(lambda: Answer(place.payload), path)
    place.stack.callback(server.close)


# Steps, logs and standard input.


def steps(place: Place) -> Collector:
    folder = place.source
    return StepsCollector("node", folder / "steps.sock")


async def no_steps(place: Place) -> Collector:
    path = place.source / "file"
    path.touch()
    return StepsCollector("node", path / "steps.sock")


async def hanging_steps(place: Place) -> Collector:
    sender(place)
    return steps(place)


async def hostile_steps(place: Place) -> Collector:
    sender(place, place.payload[:4000], place.payload[:8000])
    return steps(place)


def sender(place: Place, *records: bytes) -> None:
    """A rank that connects as soon as it can, sends these records, and then nothing."""
    inside = place.inside
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.setblocking(False)
    place.stack.callback(one.close)
    connected: list[bool] = []

    def connect() -> bool:
        if not connected:
            with contextlib.suppress(OSError):
                one.connect(str(place.source / "steps.sock"))
                connected.append(True)
                for record in records:
                    one.send(record)
        return bool(connected)

    place.inside = lambda: connect() and inside()


async def hanging_log(place: Place) -> Collector:
    place.hang_call(tail.glob, "iglob")
    return made(place, LOG)


def says(place: Place, text: str) -> bool:
    return any(text in one.reason for one in place.book.statuses)


async def pipe_of(place: Place, payload: bytes | None = None, *, ended: bool = False) -> Collector:
    reader, writer = os.pipe()
    place.stack.callback(os.close, reader)
    if ended:
        os.close(writer)
    else:
        place.stack.callback(os.close, writer)
        place.inside = lambda: bool(place.book.statuses)
    if payload is not None:
        os.set_blocking(writer, False)
        left = [payload]

        def write() -> None:
            with contextlib.suppress(BlockingIOError):
                left[0] = left[0][os.write(writer, left[0]) :]

        place.inside = lambda: write() or not left[0]
    return StandardInput("node", reader)


async def closed_pipe(place: Place) -> Collector:
    return await pipe_of(place, ended=True)


async def hostile_pipe(place: Place) -> Collector:
    place.patch.setattr(stdin, "DEFAULT_PERIOD", 0.05)
    return await pipe_of(place, place.payload)


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


def listen(place: Place, family: int = socket.AF_INET, address: Any = ("127.0.0.1", 0)) -> Any:
    door = socket.socket(family, socket.SOCK_STREAM)
    place.stack.callback(door.close)
    door.setblocking(False)
    door.bind(address)
    door.listen(64)
    return door


def accepted(place: Place, door: socket.socket) -> bool:
    """Whether somebody has connected, who then waits."""
    with contextlib.suppress(BlockingIOError):
        one, _ = door.accept()
        place.stack.callback(one.close)
        return True
    return False


def hanging_server(place: Place) -> str:
    door = listen(place)
    place.inside = lambda: accepted(place, door)
    return f"127.0.0.1:{door.getsockname()[1]}"


def nobody(place: Place) -> str:
    """An address at which nobody listens."""
    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    place.stack.callback(door.close)
    return f"127.0.0.1:{door.getsockname()[1]}"


async def server(place: Place, head: str) -> str:
    """A server that answers with the payload after this head."""
    answer = f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n".encode() + place.payload
    if not head:
        answer = place.payload
    loop = asyncio.get_running_loop()
    one = await loop.create_server(lambda: Answer(answer), "127.0.0.1", 0)
    place.stack.callback(one.close)
    return f"127.0.0.1:{one.sockets[0].getsockname()[1]}"


Make = Callable[[Place, str], Collector]
TEXT = "200 OK\r\nContent-Type: text/plain"
JSON = "200 OK\r\nContent-Type: application/json"
STREAM = f"200 OK\r\nContent-Type: {wire.CONTENT_TYPE}"
REFUSAL = "500 No\r\nContent-Type: text/plain"


def network(name: str, kind: type[Collector], make: Make, head: str, **more: Any) -> Row:
    async def missing(place: Place) -> Collector:
        return make(place, nobody(place))

    async def hangs(place: Place) -> Collector:
        return make(place, hanging_server(place))

    async def hostile(place: Place) -> Collector:
        return make(place, await server(place, head))

    return Row(name, kind, missing, hangs, hostile, **more)


def agent(_: Place, address: str) -> Collector:
    (one,) = collectors_of(parse(f"http://{address}"), Settings())
    return one


def engine(_: Place, address: str) -> Collector:
    (one,) = collectors_of(parse(f"prometheus+http://{address}"), Settings())
    return one


def kubernetes_node(place: Place, address: str) -> Collector:
    (place.source / "token").write_text("secret")
    return Polled("n", KUBERNETES_NODE, NodeLabels(f"http://{address}", "n", place.source), 0.01)


def with_aws(make: Callable[[], Collector]) -> Make:
    def made(place: Place, address: str) -> Collector:
        for name in ("AWS_PROFILE", "AWS_REGION", "http_proxy", "HTTP_PROXY"):
            place.patch.delenv(name, raising=False)
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-west-2",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            place.patch.setenv(name, value)
        place.patch.setattr(aws, "TRIES", 1)
        return make()

    return made


def listed(text: str) -> Collector:
    (one,) = collectors_of(parse(text), Settings())
    return one


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


def probing(_: Place, address: str) -> Collector:
    other = AgentHost(Target("there", f"http://{address}"), SharedClient(Fleet()))
    return Probing("here", Here(), [other], 0.01, ProbeSpec(provider="tcp"), lambda _: "")


def was_probed(place: Place) -> bool:
    return any(b'"error":"' in one.data for one in place.book.readings)


def ssh(prepare: Callable[[Place], object]) -> Scene:
    async def scene(place: Place) -> Collector:
        prepare(place)
        command = str(place.source / "ssh")
        (one,) = collectors_of(parse("ssh://127.0.0.1"), Settings(fleet=Fleet(ssh=command)))
        return one

    return scene


def saved(prepare: Callable[[Place], object]) -> Scene:
    async def scene(place: Place) -> Collector:
        prepare(place)
        return SavedCheck(place.source / "check.jsonl", period=0.01)

    return scene


polls: Counter[Path] = Counter()
"""File → how often it was polled."""


def was_polled(place: Place) -> bool:
    """Whether it polled again: a check that cannot be read is not reported."""
    return polls[place.source / "check.jsonl"] > 1


def saved_check(place: Place) -> None:
    read = SavedCheck._read

    def counted(collector: SavedCheck) -> None:
        polls[collector._path] += 1
        read(collector)

    place.patch.setattr(SavedCheck, "_read", counted)
    (place.source / "check.jsonl").write_bytes(place.payload)


def hanging_check(place: Place) -> None:
    place.hang_call(checks, "open_recording")
    saved_check(place)


async def hanging_nodes(place: Place) -> Collector:
    path = place.source / "nodes"
    path.write_text("127.0.0.1")
    collector = listed(f"@{path}")
    place.hang_files()
    return collector


async def no_nodes(place: Place) -> Collector:
    path = place.source / "nodes"
    path.write_text("127.0.0.1")
    collector = listed(f"@{path}")
    path.unlink()
    return collector


async def hostile_nodes(place: Place) -> Collector:
    path = place.source / "nodes"
    path.write_text("127.0.0.1")
    collector = listed(f"@{path}")
    path.write_bytes(place.payload)
    return collector


def resolver(outcome: str) -> Scene:
    async def scene(place: Place) -> Collector:
        if outcome == "hangs":
            place.hang_call(socket, "getaddrinfo")
        else:

            def found(*_: object, **__: object) -> Any:
                if outcome == "missing":
                    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
                return [(2, 1, 6, "", (place.payload.decode(errors="replace"), 0))]

            place.patch.setattr(socket, "getaddrinfo", found)
        return listed("dns:trn.invalid")

    return scene


async def unresolved(place: Place) -> Collector:
    place.hang_call(socket, "getaddrinfo")
    return listed("http://trn-1.invalid")


def slurm(prepare: Callable[[Place], object]) -> Scene:
    async def scene(place: Place) -> Collector:
        prepare(place)
        place.patch.setenv("PATH", f"{place.source}:{os.environ['PATH']}")
        return listed("slurm:4711")

    return scene


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
    polled(JOB_MAPPING, jobs_tree, refused=lambda place: place.book.readings),
    Row(POD_RESOURCES, Polled, of(POD_RESOURCES), hanging_socket, hostile_socket),
    network(KUBERNETES_NODE, Polled, kubernetes_node, JSON),
    Row(
        KERNEL_LOG, KernelLog, kernel_log(lambda place: None),
        kernel_log(hanging_program("journalctl")),
        kernel_log(writing_program("journalctl", JOURNAL_END)),
        refused=lambda place: place.book.is_down(),
    ),
    Row(STEPS, StepsCollector, no_steps, hanging_steps, hostile_steps,
        refused=lambda place: place.inside() and place.book.refused()),
    Row(
        LOG, TrainingLog, of(LOG), hanging_log,
        of(LOG, lambda place: (place.source / "a.log").write_bytes(place.payload)),
        refused=lambda place: says(place, "no line of a known format"),
    ),
    Row("stdin: pipe", StandardInput, closed_pipe, pipe_of, hostile_pipe, quiet=True,
        refused=lambda place: place.inside() and is_garbage(place)),
    *AGENT_ROWS,
    Row("agents: names", Watch, AGENT_ROWS[0].missing, unresolved, AGENT_ROWS[0].hostile),
    Row("nodes file", Watch, no_nodes, hanging_nodes, hostile_nodes),
    Row("dns", Watch, resolver("missing"), resolver("hangs"), resolver("hostile")),
    Row("slurm", Watch, slurm(lambda place: None), slurm(hanging_program("scontrol")),
        slurm(writing_program("scontrol", "exit 0"))),
    network("ec2", Watch, with_aws(lambda: listed("ec2:tag/a=b")), JSON),
    Row("ssh", SshNode, ssh(lambda place: None), ssh(hanging_program("ssh")),
        ssh(writing_program("ssh", "exit 255"))),
    Row("ssh: noise", SshNode, ssh(lambda place: None), ssh(hanging_program("ssh")),
        ssh(writing_program("ssh", 'cat "${0%/*}/payload" >&2\nexit 1'))),
    network("engine", PrometheusCollector, engine, JSON),
    network("cloudwatch", ContainerInsights, with_aws(lambda: listed("cloudwatch:train")), JSON),
    network("probing", Probing, probing, JSON, refused=was_probed, quiet=True),
    network("probing: refusal", Probing, probing, REFUSAL, refused=was_probed, quiet=True),
    Row("saved check", SavedCheck, saved(lambda place: None), saved(hanging_check),
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
        for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            run = getattr(one, "run", None)
            if run is None or one.__module__ != module.name or Protocol in one.__bases__:
                continue
            if "sink" in inspect.signature(run).parameters:
                found.add(one)
    assert found == {row.kind for row in ROWS}


def test_every_local_source_has_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path, monkeypatch)
    made(place, HOST)
    sources = {(one.source, type(one)) for one in local("node", settings_of(place))}
    assert sources <= {(row.name, row.kind) for row in ROWS}


@each_row
def test_hanging(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While its source hangs it blocks nothing, and cancelled it leaves nothing behind."""

    async def main() -> None:
        place = Place(tmp_path, monkeypatch)
        async with stage(place, row.hangs) as task:
            await until(place.inside, "it is not in its source")
            assert not task.done()
            del task  # its traceback holds the collector
        place.book.check_texts()

    run(main)


@each_row
def test_missing(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a source it says so, and when there is one it goes on by itself."""

    async def main() -> None:
        place = Place(tmp_path, monkeypatch)
        async with stage(place, row.missing) as task:
            if not row.quiet:
                await until(place.book.is_down, "it does not say that its source is missing")
                assert not place.book.is_fresh()
            await asyncio.sleep(0)
            if row.appears is not None:
                await row.appears(place)
                loop = asyncio.get_running_loop()
                assert isinstance(loop, Loop)
                loop.jump(HOUR)
                await until(place.book.is_fresh, "it does not see that its source is there")
            if task.done():
                await task  # raises nothing
            del task
        place.book.check_texts()

    run(main)


@each_row
def test_hostile(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its source gives, it reports that, clean, and goes on."""

    async def main(name: str, payload: bytes) -> None:
        place = Place(tmp_path / f"{len(payload)}", monkeypatch, payload)
        async with stage(place, row.hostile) as task:
            await until(lambda: row.refused(place), f"it does not refuse {name}", task)
            if not row.quiet:
                before = place.book.entries
                loop = asyncio.get_running_loop()
                assert isinstance(loop, Loop)
                loop.jump(HOUR)
                await until(lambda: place.book.entries > before, f"it ends with {name}")
            assert row.refused(place)
            del task
        place.book.check_texts()

    for name, payload in PAYLOADS.items():
        run(lambda name=name, payload=payload: main(name, payload))
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
