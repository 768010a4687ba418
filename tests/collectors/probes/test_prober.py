"""What the prober refuses, how it ends, and what it makes of runs; the runs are real."""

import asyncio
import shutil
from collections.abc import AsyncIterator

import psutil
import pytest
from msgspec import structs

from trntop.check.model import BusyError, ProbeError, ProbeServer, ProbeSpec
from trntop.collectors.probes import fi_pingpong, prober
from trntop.collectors.probes.prober import Prober
from trntop.collectors.probes.run import Failure, Run, check_spec
from trntop.collectors.probes.turns import Turns

pytestmark = pytest.mark.xdist_group("machine")

LOOPBACK = "127.0.0.1"
SPEC = ProbeSpec(provider="tcp", iterations=100, repeats=2, seconds=15)
SOMEWHERE = ProbeServer(id="x", port=21999)
NAN = float("nan")

needs_tool = pytest.mark.skipif(not shutil.which("fi_pingpong"), reason="needs libfabric-bin")


@pytest.fixture
async def node() -> AsyncIterator[Prober]:
    node = Prober("trn-001")
    yield node
    await node.close()
    assert tools() == []


def tools() -> list[str]:
    return [
        child.name()
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("efa_device", "rdmap16s27; reboot"), ("efa_device", "-h"), ("efa_device", "a" * 40),
        ("efa_device", "../x"), ("peer_efa_device", "rdmap16s27\n"), ("size_bytes", 0),
        ("size_bytes", 1 << 40), ("iterations", 4), ("iterations", 10**9), ("repeats", 0),
        ("repeats", 1000),
        ("seconds", 0.0), ("seconds", 1e9), ("seconds", NAN),
    ],
)  # fmt: skip
async def test_probes_that_may_not_be_run(node: Prober, field: str, value: object) -> None:
    spec = structs.replace(SPEC, **{field: value})
    with pytest.raises(ProbeError, match=f"^{field}: "):
        check_spec(spec)
    with pytest.raises(ProbeError, match=f"^{field}: "):
        await node.serve(spec)
    with pytest.raises(ProbeError, match=f"^{field}: "):
        await node.probe(spec, LOOPBACK, SOMEWHERE)


@pytest.mark.parametrize("address", ["", "-h", "a b", "10.0.0.1;x", "::1", "x" * 300, "a\nb"])
async def test_addresses_that_are_none(node: Prober, address: str) -> None:
    with pytest.raises(ProbeError, match="neither an IPv4 address nor a host name"):
        await node.probe(SPEC, address, SOMEWHERE)


@pytest.mark.parametrize("port", [0, 22, 443, 10042, 47592, 70000])
async def test_ports_that_are_no_server_side_s(node: Prober, port: int) -> None:
    with pytest.raises(ProbeError, match=f"port {port} is not between 21000 and 31999"):
        await node.probe(SPEC, LOOPBACK, ProbeServer(id="x", port=port))


@needs_tool
async def test_one_probe_at_a_time() -> None:
    turns = Turns()
    first, two = (Prober(name, turns=turns) for name in ("a", "b"))
    server = await first.serve(SPEC)
    for other in (first, two):
        with pytest.raises(BusyError, match="busy: another probe is under way"):
            await other.serve(SPEC)
    with pytest.raises(BusyError):
        await two.probe(SPEC, LOOPBACK, SOMEWHERE)
    # The other side of the same one may be here too.
    probing = asyncio.create_task(two.probe(SPEC, LOOPBACK, server))
    await asyncio.sleep(0.1)
    await first.close()
    with pytest.raises(BusyError, match="another probe is under way"):
        await first.serve(SPEC)
    await two.close()
    with pytest.raises(asyncio.CancelledError):
        await probing
    again = await first.serve(SPEC)
    await first.end(again)
    assert tools() == []


@needs_tool
async def test_given_up_it_leaves_nothing(node: Prober) -> None:
    server = await node.serve(structs.replace(SPEC, iterations=1_000_000, seconds=60))
    probing = asyncio.create_task(
        node.probe(structs.replace(SPEC, iterations=1_000_000, seconds=60), LOOPBACK, server)
    )
    while len(tools()) < 2 and not probing.done():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    probing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probing
    await node.end(server)
    assert tools() == []
    assert await node.end(server) == "", "nothing is known of it any more"


@needs_tool
async def test_over_a_slow_link_what_fits_counts(
    node: Prober, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = fi_pingpong.read

    def slow(*args: object, **kwargs: object) -> Run | Failure:
        run = read(*args, **kwargs)  # type: ignore[arg-type]
        return run._replace(seconds=0.5) if isinstance(run, Run) else run

    monkeypatch.setattr(fi_pingpong, "read", slow)
    monkeypatch.setattr(prober, "WARM_UP", 10)
    server = await node.serve(SPEC)
    (result,) = await node.probe(SPEC, LOOPBACK, server)
    assert (result.seconds, result.iterations) == (0.5, 10)
    assert result.error == ""
    assert await node.end(server) == "", "that it waits for a further run is no complaint"


async def test_a_tool_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prober, "FOLDERS", ())
    node = Prober("trn-001", path=["/nosuch"])
    with pytest.raises(ProbeError, match="fi_pingpong is not installed; the EFA installer and"):
        await node.serve(SPEC)
    (result,) = await node.probe(SPEC, LOOPBACK, SOMEWHERE)
    assert result.error.startswith("fi_pingpong is not installed")
    assert result.faulty_side == "client"


async def test_commands_are_wrapped() -> None:
    targets: list[list[str]] = []

    def wrap(argv: object) -> list[str]:
        targets.append(list(argv))  # type: ignore[call-overload]
        return ["false"]

    node = Prober("trn-001", wrap, ["/opt/tools"])
    (result,) = await node.probe(SPEC, LOOPBACK, SOMEWHERE)
    assert targets[0][:2] == ["env", "LC_ALL=C"]
    assert targets[0][2].startswith("PATH=/opt/tools:/opt/amazon/efa/bin:")
    assert targets[0][3:5] == ["FI_PROVIDER=tcp", "fi_pingpong"]
    assert result.error == "fi_pingpong exited with code 1 without an error"
    assert result.load == ""
