"""fi_pingpong: real probes over tcp on loopback, and each way in which it fails."""

import asyncio
import contextlib
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Iterator

import psutil
import pytest

from trntop.check.model import ProbeError, ProbeResult, ProbeServer, ProbeSpec
from trntop.collectors.probes import fi_pingpong, prober
from trntop.collectors.probes.fi_pingpong import row
from trntop.collectors.probes.prober import Prober
from trntop.collectors.probes.process import Ended, Process
from trntop.collectors.probes.run import Failure

pytestmark = pytest.mark.xdist_group("machine")

LOOPBACK = "127.0.0.1"
SPEC = ProbeSpec(provider="tcp", iterations=200, repeats=2, seconds=20)
BRIEF = ProbeSpec(provider="tcp", iterations=200, repeats=1, seconds=1.5)
ENDLESS = ProbeSpec(provider="tcp", iterations=1_000_000, repeats=1, seconds=3)

HEADER = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"

needs_tool = pytest.mark.skipif(not shutil.which("fi_pingpong"), reason="needs libfabric-bin")


@pytest.mark.parametrize(
    ("line", "lost", "seconds"),
    [
        ("64      10      =10      1.2k        0.00s      2.03      31.55       0.03", 0, 31.55e-6),
        ("4k      1k      +3       7.8m        0.01s    724.96       5.65       0.18", 3, 5.65e-6),
        ("1.5m    1m      -2k      ...         0.01s   4435.60     236.40       0.00", 0, 236e-6),
    ],
)
def test_a_table(line: str, lost: int, seconds: float) -> None:
    assert row(HEADER + line) == (lost, pytest.approx(seconds, rel=0.01))


def test_columns_go_by_their_names() -> None:
    swapped = "bytes #ack #sent total time usec/xfer MB/sec\n64 +2k 10 1.2k 0.00s 31.55 2.03\n"
    assert row(swapped) == (2000, pytest.approx(31.55e-6))
    assert row("") is row("Error at iteration=1\n") is row(HEADER) is None


@pytest.mark.parametrize(
    "table",
    [
        HEADER.replace("usec/xfer", "us/xfer") + "64 10 =10 1.2k 0.00s 2.03 31.55 0.03",
        HEADER + "64      10      =1",
        HEADER + "64 10 =10 1.2k 0.00s 2.03 fast 0.03",
        HEADER + "64 10 ?10 1.2k 0.00s 2.03 31.55 0.03",
        HEADER + "64 10 +10q 1.2k 0.00s 2.03 31.55 0.03",
    ],
)
def test_another_table(table: str) -> None:
    with pytest.raises(ProbeError, match=r"64 10 .* is not a row of its table"):
        row(table)


def test_commands() -> None:
    efa = ProbeSpec(efa_device="rdmap16s27", peer_efa_device="rdmap32s27", size_bytes=64)
    assert fi_pingpong.client(efa, "trn-002", 21001, 1000) == [
        "FI_PROVIDER=efa", "fi_pingpong", "-v", "-p", "efa", "-e", "rdm", "-S", "64", "-I", "1000",
        "-d", "rdmap16s27-rdm", "-P", "21001", "trn-002",
    ]  # fmt: skip
    assert fi_pingpong.server(efa, 21001, 1000)[-4:] == ["-d", "rdmap32s27-rdm", "-B", "21001"]
    tcp = ProbeSpec(provider="tcp", efa_device="rdmap16s27")
    assert "-d" not in fi_pingpong.client(tcp, "trn-002", 21001, 1000)


@pytest.mark.parametrize(
    ("message", "code", "sentence", "faulty"),
    [
        (
            "[error] util/pingpong.c:1119: cq_readerr: Unreachable remote - never received a",
            5,
            "x does not respond over efa (Unreachable remote - never received a)",
            "path",
        ),
        ("", 104, "the server side on x reset the connection", "server"),
        ("env: 'fi_pingpong': No such file or directory", 127, "is not installed", "client"),
        ("", -11, "was ended by SIGSEGV without an error", "client"),
        (
            "fi_mr_reg(): util/pingpong.c:1372, ret=-12 (Cannot allocate memory)",
            12,
            "fi_mr_reg failed: Cannot allocate memory",
            "client",
        ),
        (
            "[error] util/pingpong.c:408 : failed to connect: No route to host",
            113,
            "cannot connect to x (No route to host)",
            "path",
        ),
    ],
)
def test_failures_that_need_hardware(message: str, code: int, sentence: str, faulty: str) -> None:
    failure = fi_pingpong.read(ProbeSpec(), Ended(code, "", message, 1.0), 100, "x")
    assert isinstance(failure, Failure)
    assert sentence in failure.text
    assert failure.side == faulty


def test_a_table_without_its_row_is_no_measurement() -> None:
    failure = fi_pingpong.read(ProbeSpec(size_bytes=1 << 30), Ended(0, "", "", 1.0), 100, "x")
    assert isinstance(failure, Failure)
    assert "provider efa may not support messages of 1073741824 bytes" in failure.text


def left_over() -> list[int]:
    """Processes of the tool that this one started and that still are there."""
    return [
        child.pid
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE
    ]


@pytest.fixture
async def node() -> AsyncIterator[Prober]:
    node = Prober("trn-001")
    yield node
    await node.close()
    assert left_over() == []


async def probe(
    node: Prober, spec: ProbeSpec, served: ProbeSpec | None = None
) -> tuple[list[ProbeResult], str]:
    """A probe of a node with itself; what it gives, and what the server side complains of."""
    server = await node.serve(served or spec)
    try:
        results = await node.probe(spec, LOOPBACK, server)
    finally:
        complaint = await node.end(server)
    return results, complaint


@contextlib.asynccontextmanager
async def under_way(
    node: Prober, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple["asyncio.Task[list[ProbeResult]]", ProbeServer, psutil.Process]]:
    """A probe whose messages go to and fro until its deadline; with its server side's process."""
    monkeypatch.setattr(prober, "WARM_UP", ENDLESS.iterations)
    served = await node.serve(ENDLESS)
    probing = asyncio.create_task(node.probe(ENDLESS, LOOPBACK, served))
    (server,) = node._servers.values()
    assert server.process is not None
    assert await server.process.prints("Starting test chrono", 3)
    yield probing, served, psutil.Process(server.process.pid)
    await node.end(served)


@needs_tool
async def test_a_probe(node: Prober) -> None:
    results, complaint = await probe(node, SPEC)
    assert [result.statistic for result in results] == ["mean", "min", "max"]
    mean, least, most = (result.seconds or 0 for result in results)
    assert 0 < least <= mean <= most < 0.1
    first = results[0]
    assert (first.tool, first.peer, first.provider) == ("fi_pingpong", LOOPBACK, "tcp")
    assert (first.iterations, first.size_bytes, first.lost) == (400, 64, 0)
    assert first.load.startswith("load ")
    assert not any(result.error for result in results)
    assert complaint == ""


@needs_tool
async def test_without_a_listener(node: Prober) -> None:
    (result,) = await node.probe(BRIEF, LOOPBACK, ProbeServer(id="x", port=21999))
    assert result.error == "no probe server listens on 127.0.0.1 port 21999"
    assert (result.faulty_side, result.seconds) == ("server", None)


@needs_tool
async def test_a_name_that_is_not_known(node: Prober) -> None:
    (result,) = await node.probe(BRIEF, "nosuch.invalid", ProbeServer(id="x", port=21999))
    assert result.error.startswith("nosuch.invalid port 21999: the host name does not resolve (")
    assert result.faulty_side == "client"


def listener() -> socket.socket:
    """A socket that listens on a port of those that server sides have."""
    for port in prober.PORTS:
        sock = socket.socket()
        try:
            sock.bind((LOOPBACK, port))
            sock.listen(0)
        except OSError:
            sock.close()
            continue
        return sock
    raise AssertionError("no port is free")


@pytest.fixture
def full() -> Iterator[int]:
    """A port at which the kernel drops connections: the queue of its listener is full."""
    with contextlib.ExitStack() as opened:
        address = opened.enter_context(listener()).getsockname()
        for _ in range(4):
            client = opened.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
        yield address[1]


@needs_tool
async def test_connections_are_dropped_on_the_way(node: Prober, full: int) -> None:
    (result,) = await node.probe(BRIEF, LOOPBACK, ProbeServer(id="x", port=full))
    assert result.error.startswith(f"after 2 s: 127.0.0.1 port {full} does not respond: packets")
    assert "security group" in result.error
    assert result.faulty_side == "path"


@needs_tool
async def test_a_listener_that_sends_nothing(node: Prober) -> None:
    with listener() as silent:
        port = silent.getsockname()[1]
        (result,) = await node.probe(BRIEF, LOOPBACK, ProbeServer(id="x", port=port))
    assert result.error.endswith(f"{LOOPBACK} port {port} accepts a connection, but sends nothing")
    assert result.faulty_side == "server"


@needs_tool
async def test_no_provider_on_both_sides(node: Prober) -> None:
    spec = ProbeSpec(provider="efa", efa_device="rdmap16s27", iterations=200, repeats=1, seconds=3)
    (result,), complaint = await probe(node, spec)
    assert result.error.endswith("ended before the test")
    assert result.faulty_side == "server"
    assert (result.efa_device, result.provider) == ("rdmap16s27", "efa")
    assert complaint.startswith("libfabric has no provider efa")


@needs_tool
async def test_no_provider_on_the_client_s_side(
    node: Prober, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fi_pingpong._ENDPOINTS, "tcp", "rdm")
    spec = ProbeSpec(provider="efa", efa_device="rdmap16s27", iterations=200, repeats=1, seconds=3)
    (result,), _ = await probe(node, spec, BRIEF)
    assert result.error.startswith(
        "libfabric has no provider efa on device rdmap16s27 for messages of 64 bytes"
    )
    assert result.faulty_side == "client"


@needs_tool
async def test_the_two_sides_use_different_endpoints(
    node: Prober, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await node.serve(BRIEF)
    monkeypatch.setitem(fi_pingpong._ENDPOINTS, "tcp", "rdm")
    (result,) = await node.probe(BRIEF, LOOPBACK, server)
    assert result.error.startswith("after 2 s: 127.0.0.1 port")
    await node.end(server)


@needs_tool
async def test_the_server_side_is_killed(node: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    async with under_way(node, monkeypatch) as (probing, server, tool):
        tool.kill()
        (result,) = await probing
        assert "ended during the test" in result.error
        assert result.faulty_side == "server"
        assert await node.end(server) == "fi_pingpong was ended by SIGKILL"


@needs_tool
async def test_the_server_side_hangs(node: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    async with under_way(node, monkeypatch) as (probing, server, tool):
        tool.send_signal(signal.SIGSTOP)
        (result,) = await probing
        assert "or its side hangs" in result.error
        assert result.faulty_side == ""
        assert (await node.end(server)).startswith("did not finish in")


@needs_tool
async def test_ports_that_are_taken(node: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("", 0)) as busy:
        port = busy.getsockname()[1]
        monkeypatch.setattr(prober, "PORTS", range(port, port + 1))
        monkeypatch.setattr(prober, "PORT_ATTEMPTS", 1)
        with pytest.raises(ProbeError, match="1 ports were in use"):
            await node.serve(BRIEF)
        ended = await (await Process.start(["fi_pingpong", "-B", str(port)], 3)).wait()
    message = fi_pingpong.server_error(BRIEF, ended)
    assert message == "cannot listen on the port (Address already in use)"


@needs_tool
@pytest.mark.parametrize(("client", "server"), [(64, 1024), (1024, 64)])
async def test_the_two_sides_get_different_sizes(node: Prober, client: int, server: int) -> None:
    sized = [
        ProbeSpec(provider="tcp", size_bytes=size, iterations=200, repeats=1, seconds=3)
        for size in (client, server)
    ]
    (result,), complaint = await probe(node, *sized)
    assert "ended during the test" in result.error or "different sizes" in result.error
    assert complaint.startswith("cq_readerr")


@needs_tool
@pytest.mark.parametrize(("client", "server"), [(200, 400), (400, 200)])
async def test_the_two_sides_get_different_numbers(
    node: Prober, client: int, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prober, "WARM_UP", 400)
    numbered = [
        ProbeSpec(provider="tcp", iterations=number, repeats=1, seconds=2.5)
        for number in (client, server)
    ]
    (result,), _ = await probe(node, *numbered)
    assert result.seconds is None
    assert "does not confirm the messages" in result.error or "or its side" in result.error


@needs_tool
async def test_an_endpoint_that_it_does_not_know(
    node: Prober, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fi_pingpong._ENDPOINTS, "tcp", "foo")
    sentence = "fi_pingpong has no endpoint foo"
    with pytest.raises(ProbeError, match=f"the server side does not start: {sentence}"):
        await node.serve(BRIEF)
    (result,) = await node.probe(BRIEF, LOOPBACK, ProbeServer(id="x", port=21999))
    assert (result.error, result.faulty_side) == (sentence, "client")


@needs_tool
async def test_no_connection_ever(node: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prober, "LEAD_SECONDS", 0.0)
    server = await node.serve(ProbeSpec(provider="tcp", seconds=1))
    await asyncio.sleep(1.7)
    assert left_over() == []
    assert await node.end(server) == "no client connected within 1 s"
