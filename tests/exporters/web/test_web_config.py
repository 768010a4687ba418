import os
from pathlib import Path

import pytest

from trntop.core.errors import SettingsError
from trntop.exporters.web.web_config import MAX_YAML, TlsServer, WebConfig, read

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "web.yml"


def error_in(file: Path, text: str | bytes) -> str:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as caught:
        read(file)
    message = str(caught.value)
    assert message.startswith(str(file))
    assert "\n" not in message
    return message.removeprefix(str(file))


WHOLE = f"""\
# every key
tls_server_config:
  cert_file: server.pem
  key_file: /etc/ssl/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca/clients.pem
  min_version: TLS13
basic_auth_users:
  alice: {HASH}
  no: {HASH}
  007: {HASH}
"""


def test_a_complete_file(file: Path) -> None:
    file.write_text(WHOLE)
    config = read(file)
    assert config == WebConfig(
        tls_server_config=TlsServer(
            cert_file="server.pem",
            key_file="/etc/ssl/server.key",
            client_auth_type="RequireAndVerifyClientCert",
            client_ca_file="ca/clients.pem",
            min_version="TLS13",
        ),
        basic_auth_users={"alice": HASH, "no": HASH, "007": HASH},
    )


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "{}", "tls_server_config:\nbasic_auth_users:\n"]
)
def test_an_empty_file_is_the_defaults(file: Path, text: str) -> None:
    file.write_text(text)
    assert read(file) == WebConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tls: {}", ": unknown key `tls`"),
        ("rate_limit: {burst: 1}", ": unknown key `rate_limit`"),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_allowed_sans: [c]}",
            ": unknown key `client_allowed_sans` in tls_server_config",
        ),
        ("tls_server_config: {cert_file: a}", ": Object missing required field `key_file`"),
        ("tls_server_config: x", ": Expected `object | null`, got `str` in tls_server_config"),
        ("- a", ": Expected `object`, got `array`"),
        (
            "tls_server_config: {cert_file: a, key_file: b, min_version: TLS11}",
            ": Invalid enum value 'TLS11' in tls_server_config.min_version",
        ),
        ("basic_auth_users: {alice: secret}", ": user alice: not a bcrypt hash; htpasswd"),
        ("basic_auth_users: {alice: }", ": user alice: not a bcrypt hash"),
        (f"basic_auth_users: {{'a:b': {HASH}}}", ": user 'a:b': a name is not empty and has no"),
        (f"basic_auth_users: {{'': {HASH}}}", ": user '': a name is not empty"),
        (
            f"basic_auth_users: {{a: {HASH.replace('$10$', '$17$')}}}",
            ": user a: a bcrypt hash of cost 17; use 10",
        ),
        ("a: [", ", line 1: expected the node content"),
        ("? [a]\n: b", ", line 1: found unhashable key"),
        ("a: &x [*x]", ", line 1: found unconstructable recursive node"),
        ("a: *x", ", line 1: found undefined alias 'x'"),
        ("a: !!python/object/apply:os.system [x]", ": unknown key `a`"),
        ("[" * 2000, ": not YAML"),
        (b"\xff\xfe\xff", ": not YAML"),
        (b"a: \x00", ": not YAML"),
        ("#" * (MAX_YAML + 1), ": longer than 64 KiB"),
    ],
)
def test_a_mistake_is_named(file: Path, text: str | bytes, message: str) -> None:
    assert error_in(file, text).startswith(message)


def test_a_hash_is_not_repeated(file: Path) -> None:
    assert "secret" not in error_in(file, "basic_auth_users: {alice: secret}")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in (
        ("none.yml", "No such file or directory"),
        (".", "not a regular file"),
        ("pipe", "not a regular file"),
    ):
        with pytest.raises(SettingsError, match=message):
            read(tmp_path / name)


def test_fault_60_aliases_that_expand_to_millions_cost_nothing(file: Path) -> None:
    """Ten levels of ten aliases each: 10^10 users, if anything expanded them."""
    first = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 11)]
    users = "basic_auth_users: *a10"
    assert error_in(file, "\n".join([first, *levels, users])).startswith(": unknown key `a0`")
    nested = "basic_auth_users: &a0 {x: y}\ntls_server_config: {cert_file: *a0, key_file: *a0}"
    assert ": Expected `str`, got `object`" in error_in(file, nested)
