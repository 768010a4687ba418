import time

import pytest

from trntop.collectors.fleet.addresses import (
    checked_host,
    checked_ip,
    expand,
    host_address,
    masked,
    targets_of,
)
from trntop.collectors.fleet.target import Target, named
from trntop.core.errors import UsageError
from trntop.core.settings import Fleet
from trntop.remote.hostlist import MAX_HOSTS

AGENT, SSH = Fleet(), Fleet(via="ssh")


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("trn-1", ["http://trn-1:10042"]),
        ("trn-[01-02]", ["http://trn-01:10042", "http://trn-02:10042"]),
        ("trn-[1-2]:9000", ["http://trn-1:9000", "http://trn-2:9000"]),
        ("http://trn-[1-2]:8000/metrics", [f"http://trn-{n}:8000/metrics" for n in (1, 2)]),
        ("HTTPS://trn-1/", ["https://trn-1:10042"]),
        ("ssh://ada@trn-1:22", ["ssh://ada@trn-1:22"]),
        ("http://[2001:db8::7]:10042", ["http://[2001:db8::7]:10042"]),
        ("10.0.1.7", ["http://10.0.1.7:10042"]),
    ],
)
def test_entries_become_addresses(text: str, addresses: list[str]) -> None:
    assert expand(text, AGENT) == addresses


def test_hosts_are_reached_by_the_settings() -> None:
    assert expand("trn-1", SSH) == ["ssh://trn-1"]
    assert expand("trn-1:2222", SSH) == ["ssh://trn-1:2222"]
    assert host_address("2001:db8::7", AGENT) == "http://[2001:db8::7]:10042"


HOSTILE = [
    "http://user:hunter2@trn-1:8000",
    "http://user@trn-1",
    "ssh://user:hunter2@trn-1",
    "ssh://-oProxyCommand=evil",
    "ssh://-l@trn-1",
    "ssh://trn-1/etc/passwd",
    "javascript:alert(1)",
    "javascript://trn-1/%0aalert(1)",
    "file:///etc/passwd",
    "data:text/plain,x",
    "ftp://trn-1",
    "http://",
    "http:///metrics",
    "http://trn 1",
    "http://trn-1\nhttp://trn-2",
    "http://trn-1\r\nHost: evil",
    "http://trn-1\x00",
    "http://trn-1\\@evil",
    "http://trn-1?token=hunter2",
    "http://trn-1#x",
    "http://trn-1:0",
    "http://trn-1:65536",
    "http://trn-1:99999999",
    "http://trn-1/\x1b]0;x",
    "http://-trn-1",
    "http://trn_1..",
    "http://169.254.169.254/latest/meta-data",
    "http://169.254.170.2",
    "http://[fe80::1]",
    "http://[fd00:ec2::254]",
    "http://[::ffff:169.254.169.254]",
    "http://2852039166",
    "http://0xA9FEA9FE",
    "http://0251.0376.0251.0376",
    "http://169.254.43518",
    "http://0.0.0.0",
    "http://[::]",
    "http://239.1.2.3",
    "169.254.169.254",
    "trn-[1-999999999]",
    "trn-[1-",
    "x" * 5000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_fault_30_hostile_entries_are_refused_without_their_secrets(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand(text, AGENT)
    message = str(caught.value)
    assert "hunter2" not in message
    assert message.isprintable()
    assert len(message) < 300


def test_secrets_are_masked() -> None:
    assert masked("http://ada:hunter2@trn-1/x") == "http://…@trn-1/x"
    assert masked("http://trn-1/x?token=hunter2") == "http://trn-1/x?…"


@pytest.mark.parametrize("host", ["127.1", "1", "0x7f.1", "010.0.0.1"])
def test_addresses_have_one_spelling(host: str) -> None:
    with pytest.raises(UsageError):
        checked_host(host)


def test_other_addresses_may_be_asked() -> None:
    for text in ("10.0.0.1", "127.0.0.1", "2001:db8::1", "fd12:3456::1", "100.64.0.1"):
        assert checked_ip(text) == text


def test_names_are_short_where_they_can_be() -> None:
    addresses = ["http://trn-1.a:1", "http://trn-1.b:1", "http://trn-2.a:1", "http://trn-3.a:1"]
    positions = [Target("", address) for address in (*addresses, *["http://trn-3.a:2"] * 2)]
    names = [target.name for target in targets_of(positions)]
    assert names == ["trn-1.a", "trn-1.b", "trn-2", "trn-3.a:1", "trn-3.a:2"]


def test_names_of_the_list_count_where_they_are_one_nodes() -> None:
    positions = [Target("x", "http://10.0.0.1:1", {"a": "b"}), Target("y", "http://10.0.0.2:1"),
              Target("y", "http://10.0.0.3:1")]  # fmt: skip
    targets = targets_of(positions)
    assert [target.name for target in targets] == ["x", "10.0.0.2", "10.0.0.3"]
    assert targets[0].facts == {"a": "b"}


@pytest.mark.parametrize(
    ("positions", "names"),
    [
        # One is called as the host of another, which has no name of its own.
        (
            [("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "y"), ("10.0.0.3", "y")],
            ["http://10.0.0.1:1", "http://10.0.0.2:1", "10.0.0.3"],
        ),
        ([("a", "http://b:1"), ("b", "")], ["http://a:1", "b"]),
        (
            [("[::1]", ""), ("[::1:1]", ""), ("x", "::1:1")],
            ["::1", "::1:1", "x"],
        ),
    ],
)
def test_no_two_have_one_name(positions: list[tuple[str, str]], names: list[str]) -> None:
    found = targets_of(Target(name, f"http://{host}:1") for host, name in positions)
    assert [target.name for target in found] == names


def test_no_two_have_one_name_however_they_are_shortened() -> None:
    found = named(["http://[::1]:9", "http://[::1]:8", "http://[::1:9]:5"])
    assert [target.name for target in found] == ["http://[::1]:9", "::1:8", "http://[::1:9]:5"]


def test_a_list_has_an_end() -> None:
    began = time.monotonic()
    with pytest.raises(UsageError, match="more than"):
        targets_of(Target("", f"http://trn-{number}:1") for number in range(MAX_HOSTS + 2))
    assert time.monotonic() - began < 10
