"""The command line of ssh, and its errors; those below are OpenSSH 9.2's own."""

import pytest

from trntop.collectors.ssh.address import Address
from trntop.collectors.ssh.command import arguments, diagnose, environment
from trntop.core.errors import SettingsError
from trntop.core.settings import Fleet

NODE = Address("trn-1", "ada", 2222)


def test_the_call() -> None:
    argv = arguments(NODE, Fleet(ssh="ssh -F '/a b/config'", connect=7), "exec sh -s")
    assert argv[:3] == ["ssh", "-F", "/a b/config"]
    assert argv[-7:] == ["-l", "ada", "-p", "2222", "--", "trn-1", "exec sh -s"]
    options = {argv[index + 1] for index, word in enumerate(argv) if word == "-o"}
    assert {"BatchMode=yes", "ConnectTimeout=7"} <= options
    assert not any("StrictHostKeyChecking" in word or "KnownHosts" in word for word in argv)


def test_unset_options_are_left_to_the_users_configuration() -> None:
    argv = arguments(Address("trn-1"), Fleet(), "true")
    assert "-l" not in argv
    assert "-p" not in argv


@pytest.mark.parametrize("ssh", ["ssh 'F", " "])
def test_a_setting_that_is_no_command(ssh: str) -> None:
    with pytest.raises(SettingsError, match=r"fleet\.ssh"):
        arguments(NODE, Fleet(ssh=ssh), "true")


def test_no_window_asks_and_messages_are_english() -> None:
    environ = environment({"LC_ALL": "de_DE.UTF-8", "SSH_AUTH_SOCK": "/run/agent"})
    assert environ == {
        "LC_ALL": "C",
        "SSH_ASKPASS_REQUIRE": "never",
        "SSH_AUTH_SOCK": "/run/agent",
    }


@pytest.mark.parametrize(
    ("message", "reason", "lasting"),
    [
        (
            "ada@trn-1: Permission denied (publickey).",
            "permission denied (publickey): it accepts none of your keys; ssh-add -l lists them",
            True,
        ),
        (
            "No ED25519 host key is known for trn-1 and you have requested strict checking.\n"
            "Host key verification failed.",
            "its host key is not known: connect once manually (ssh trn-1), or add it to"
            " known_hosts",
            True,
        ),
        (
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
            "Host key verification failed.",
            "its host key has changed: if you replaced the machine, run ssh-keygen -R trn-1",
            True,
        ),
        (
            "ssh: Could not resolve hostname trn-1: Name or service not known",
            "host name trn-1 does not resolve",
            False,
        ),
        (
            "ssh: connect to host 10.0.0.1 port 22: Connection refused",
            "connection refused by 10.0.0.1 port 22",
            False,
        ),
        (
            "ssh: connect to host 10.0.0.1 port 22: Connection timed out",
            "no response from its SSH port in time",
            False,
        ),
        (
            "Connection timed out during banner exchange\n"
            "Connection to 127.0.0.1 port 48207 timed out",
            "no response from its SSH port in time",
            False,
        ),
        ("ssh: connect to host 10.0.0.1 port 22: No route to host", "no route to it", False),
        (
            "kex_exchange_identification: read: Connection reset by peer\n"
            "Connection reset by 127.0.0.1 port 22",
            "it closed the connection immediately: too many connections, or access denied",
            False,
        ),
        (
            "channel 0: open failed: connect failed: Connection refused\n"
            "stdio forwarding failed\n"
            "kex_exchange_identification: Connection closed by remote host",
            "the jump host cannot reach it: connect failed: Connection refused",
            False,
        ),
        (
            "Unable to negotiate with 10.0.0.1 port 22: no matching host key type found. Their"
            " offer: ssh-rsa",
            "no matching host key type found",
            True,
        ),
        (
            "/etc/ssh/ssh_config: line 3: Bad configuration option: foo\n"
            "/etc/ssh/ssh_config: terminating, 1 bad configuration options",
            "the ssh configuration is invalid: /etc/ssh/ssh_config: line 3: Bad configuration"
            " option: foo",
            True,
        ),
        ("Timeout, server 10.0.0.1 not responding.", "it stopped responding", False),
        ("Connection to 10.0.0.1 closed by remote host.", "the connection was closed", False),
        ("something new", "ssh failed: something new", False),
        ("", "ssh failed", False),
    ],
)
def test_complaints_in_words(message: str, reason: str, lasting: bool) -> None:
    assert diagnose(message.split("\n"), 255, NODE)[:2] == (reason, lasting)


def test_ends_of_others() -> None:
    assert diagnose(["sh: not found"], 127, NODE)[:2] == (
        "it has no POSIX shell: sh: not found",
        True,
    )
    assert diagnose(["bye"], 3, NODE).reason == "the shell there exited with code 3: bye"
    assert diagnose([], -9, NODE).reason == "ssh ended by signal 9"
