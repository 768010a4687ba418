import socket
import threading

import pytest

from trntop.collectors.fleet import dns
from trntop.collectors.fleet.dns import Dns
from trntop.collectors.fleet.target import FindError
from trntop.core.errors import UsageError
from trntop.core.settings import Fleet

FLEET = Fleet()


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of every name."""
    known: list[str] = []

    def lookup(name: str, port: None, **_: object) -> list[tuple[int, int, int, str, object]]:
        if not known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (address, 0)) for address in known]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return known


async def test_each_address_is_a_node(addresses: list[str]) -> None:
    nodes = Dns("agents.train.svc:9000", FLEET)
    addresses += ["10.0.1.7", "2001:db8::9"]
    assert {target.name: target.address for target in await nodes.find()} == {
        "10.0.1.7": "http://10.0.1.7:9000",
        "2001:db8::9": "http://[2001:db8::9]:9000",
    }
    addresses.remove("10.0.1.7")
    assert [target.name for target in await nodes.find()] == ["2001:db8::9"]
    addresses.clear()
    with pytest.raises(FindError, match=r"dns:agents.train.svc:9000: Name or service not known"):
        await nodes.find()


async def test_a_resolver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "DEADLINE", 0.05)
    hold = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: hold.wait(10) and [])
    try:
        with pytest.raises(FindError, match="no response"):
            await Dns("agents", FLEET).find()
    finally:
        hold.set()


async def test_fault_29_metadata_addresses_are_not_used(addresses: list[str]) -> None:
    addresses += ["169.254.169.254", "10.0.0.1"]
    assert [target.name for target in await Dns("evil", FLEET).find()] == ["10.0.0.1"]
    addresses.remove("10.0.0.1")
    with pytest.raises(FindError, match="link-local"):
        await Dns("evil", FLEET).find()


async def test_loopback_has_a_name_everywhere() -> None:
    found = await Dns("localhost", FLEET).find()
    assert {target.address for target in found} & {
        "http://127.0.0.1:10042", "http://[::1]:10042",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "a b", "agents:0", "agents:99999", "agents:x", "-x", "a/b"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="dns:"):
        Dns(text, FLEET)
