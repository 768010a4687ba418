"""What `ssh://` may name."""

import pytest

from trntop.collectors.fleet import agents
from trntop.collectors.fleet.target import Target
from trntop.collectors.ssh.address import Address, parse
from trntop.core.errors import UsageError
from trntop.core.settings import Fleet


def targets(text: str) -> list[Target]:
    return agents.targets(text, Fleet())


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("ssh://trn-1", [Address("trn-1")]),
        ("SSH://trn-1/", [Address("trn-1")]),
        (
            "ssh://ec2-user@trn-[09-11]:2222",
            [Address(f"trn-{n}", "ec2-user", 2222) for n in ("09", "10", "11")],
        ),
        ("ssh://ada@a,b:22, c", [Address("a", "ada"), Address("b", port=22), Address("c")]),
        ("ssh://trn-[1,3],trn-1", [Address("trn-1"), Address("trn-3")]),
        ("ssh://10.0.0.7", [Address("10.0.0.7")]),
        ("ssh://[fd00::7]:22", [Address("fd00::7", port=22)]),
        ("ssh://my_alias", [Address("my_alias")]),
    ],
)
def test_forms(text: str, addresses: list[Address]) -> None:
    assert [parse(target.address) for target in targets(text)] == addresses


@pytest.mark.parametrize("address", ["ssh://ada@trn-1:22", "ssh://[fd00::7]", "ssh://trn-1"])
def test_it_is_shown_as_it_was_written(address: str) -> None:
    assert str(parse(targets(address)[0].address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "ssh://",
        "ssh://,",
        "ssh://trn-1/path",
        "ssh://-oProxyCommand=reboot",
        "ssh://-l@trn-1",
        "ssh://trn-1:0",
        "ssh://trn-1:65536",
        "ssh://trn-1:ssh",
        "ssh://trn-[1-",
        "ssh://$(reboot)",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        targets(text)


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="cannot contain a password; ssh uses your keys") as caught:
        targets("ssh://ada:hunter2@trn-1")
    assert "hunter2" not in str(caught.value)


def test_nodes_have_the_shortest_unambiguous_names() -> None:
    found = targets("ssh://trn-1.example.org,trn-2.example.org,127.0.0.1:2201,127.0.0.1:2202")
    assert [(target.name, target.address) for target in found] == [
        ("trn-1", "ssh://trn-1.example.org"),
        ("trn-2", "ssh://trn-2.example.org"),
        ("127.0.0.1:2201", "ssh://127.0.0.1:2201"),
        ("127.0.0.1:2202", "ssh://127.0.0.1:2202"),
    ]
