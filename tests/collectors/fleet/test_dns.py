import socket
import threading
from collections.abc import Sequence

import pytest

from trntop.collectors.fleet import dns
from trntop.collectors.fleet.dns import Dns
from trntop.collectors.fleet.target import FindError
from trntop.core.errors import UsageError
from trntop.core.settings import Fleet

FLEET = Fleet()


class Resolver:
    """Names and addresses of a made-up network."""

    def __init__(self, **names: str) -> None:
        self.addresses: dict[str, str] = {address: name for name, address in names.items()}
        self.asked: list[str] = []

    def resolve(self, name: str) -> Sequence[str]:
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return list(self.addresses)

    def reverse(self, address: str) -> str:
        self.asked.append(address)
        name = self.addresses[address]
        if not name:
            raise socket.gaierror(socket.EAI_NONAME, "no name")
        return name


def finder(resolver: Resolver, text: str = "agents.train.svc") -> Dns:
    return Dns(text, FLEET, resolver.resolve, resolver.reverse)


async def test_nodes_go_by_the_names_of_their_addresses() -> None:
    resolver = Resolver()
    resolver.addresses = {
        "10.0.1.7": "trn-7.agents.train.svc.cluster.local",
        "10.0.1.8": "",
        "2001:db8::9": "10-0-1-9.agents",
    }
    found = await finder(resolver, "agents.train.svc:9000").find()
    assert {target.name: target.address for target in found} == {
        "trn-7": "http://10.0.1.7:9000",
        "10.0.1.8": "http://10.0.1.8:9000",
        "10-0-1-9": "http://[2001:db8::9]:9000",
    }


async def test_nodes_join_and_leave_and_keep_their_names() -> None:
    resolver = Resolver(first="10.0.0.1")
    nodes = finder(resolver)
    assert [target.name for target in await nodes.find()] == ["first"]
    resolver.addresses = {"10.0.0.1": "renamed", "10.0.0.2": "second"}
    assert [target.name for target in await nodes.find()] == ["first", "second"]
    assert resolver.asked == ["10.0.0.1", "10.0.0.2"]
    resolver.addresses = {"10.0.0.2": "second"}
    assert [target.name for target in await nodes.find()] == ["second"]
    # Another pod has got the address meanwhile.
    resolver.addresses = {"10.0.0.1": "third", "10.0.0.2": "second"}
    assert [target.name for target in await nodes.find()] == ["third", "second"]


async def test_a_resolver_that_knows_no_name_says_so() -> None:
    with pytest.raises(FindError, match=r"dns:agents.train.svc: Name or service not known"):
        await finder(Resolver()).find()


async def test_slow_names_do_not_hold_back_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "NAMING", 0.05)
    hold = threading.Event()

    def reverse(_: str) -> str:
        hold.wait(10)
        return "late"

    nodes = Dns("agents", FLEET, lambda _: ["10.0.0.1"], reverse)
    try:
        assert [target.name for target in await nodes.find()] == ["10.0.0.1"]
        hold.set()
        assert [target.name for target in await nodes.find()] == ["10.0.0.1"], "once is for good"
    finally:
        hold.set()


async def test_a_resolver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "DEADLINE", 0.05)
    hold = threading.Event()

    def resolve(_: str) -> Sequence[str]:
        hold.wait(10)
        return []

    try:
        with pytest.raises(FindError, match="not answered"):
            await Dns("agents", FLEET, resolve, str).find()
    finally:
        hold.set()


async def test_metadata_addresses_are_not_asked() -> None:
    resolver = Resolver(evil="169.254.169.254", good="10.0.0.1")
    assert [target.name for target in await finder(resolver).find()] == ["good"]
    with pytest.raises(FindError, match="link-local"):
        await finder(Resolver(evil="169.254.169.254")).find()


async def test_names_that_are_none_are_not_shown() -> None:
    resolver = Resolver()
    resolver.addresses = {"10.0.0.1": "evil\x1b[31m.example", "10.0.0.2": "-rf.example"}
    names = [target.name for target in await finder(resolver).find()]
    assert names == ["10.0.0.1", "10.0.0.2"]


async def test_loopback_has_a_name_everywhere() -> None:
    found = await Dns("localhost", FLEET).find()
    assert {target.address for target in found} & {
        "http://127.0.0.1:10042", "http://[::1]:10042",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "a b", "agents:0", "agents:99999", "agents:x", "-x", "a/b"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="dns:"):
        Dns(text, FLEET)
