import os
from pathlib import Path

import pytest

from trntop.core.errors import SettingsError
from trntop.exporters.web.web_config import (
    MAX_BYTES,
    HttpServer,
    RateLimit,
    TlsServer,
    WebConfig,
    read,
)

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
# all there is
tls_server_config:
  cert_file: server.pem
  key_file: /etc/ssl/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca/clients.pem
  client_allowed_sans: [prometheus.example.org, 10.0.0.1]
  min_version: TLS13
  max_version: TLS13
  cipher_suites:
    - TLS_AES_128_GCM_SHA256
  prefer_server_cipher_suites: false
  curve_preferences: [X25519, CurveP256]
http_server_config:
  http2: true
  headers:
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    Strict-Transport-Security: max-age=31536000; includeSubDomains
    Content-Security-Policy:
basic_auth_users:
  alice: {HASH}
  no: {HASH}
  007: {HASH}
rate_limit:
  interval: 1m0.5s
  burst: 10
"""


def test_a_whole_file(file: Path) -> None:
    file.write_text(WHOLE)
    config = read(file)
    assert config == WebConfig(
        tls_server_config=TlsServer(
            cert_file=str(file.parent / "server.pem"),
            key_file="/etc/ssl/server.key",
            client_auth_type="RequireAndVerifyClientCert",
            client_ca_file=str(file.parent / "ca/clients.pem"),
            client_allowed_sans=("prometheus.example.org", "10.0.0.1"),
            min_version="TLS13",
            max_version="TLS13",
            cipher_suites=("TLS_AES_128_GCM_SHA256",),
            prefer_server_cipher_suites=False,
            curve_preferences=("X25519", "CurveP256"),
        ),
        http_server_config=HttpServer(
            http2=True,
            headers={
                "X-Frame-Options": "deny",
                "X-Content-Type-Options": "nosniff",
                "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
            },
        ),
        basic_auth_users=dict.fromkeys(("alice", "no", "007"), HASH),
        rate_limit=RateLimit(interval="1m0.5s", burst=10),
    )
    assert config.rate_limit.seconds == 60.5


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "{}", "tls_server_config:\nbasic_auth_users:\nrate_limit: {}\n"]
)
def test_what_says_nothing_is_the_defaults(file: Path, text: str) -> None:
    file.write_text(text)
    assert read(file) == WebConfig()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tls: {}", ": unknown key `tls`"),
        ("tls_server_config: {cert_fil: x}", ": unknown key `cert_fil` in tls_server_config"),
        ("rate_limit: {rate: 1}", ": unknown key `rate` in rate_limit"),
        ("tls_server_config: x", ": Expected `object | null`, got `str` in tls_server_config"),
        ("- a", ": Expected `object`, got `array`"),
        ("http_server_config: {http2: maybe}", ": Expected `bool | null`, got `str` in http_"),
        (
            "tls_server_config: {client_auth_type: Any}",
            ": Invalid enum value 'Any' in tls_server_config.client_auth_type",
        ),
        (
            "tls_server_config: {min_version: SSL30}",
            ": Invalid enum value 'SSL30' in tls_server_config.min_version",
        ),
        ("http_server_config: {headers: {Server: x}}", ": header Server cannot be set; these can"),
        (
            "http_server_config: {headers: {X-Frame-Options: DENY}}",
            ": header X-Frame-Options must be deny or sameorigin, not DENY",
        ),
        (
            'http_server_config: {headers: {X-XSS-Protection: "0\\r\\nSet-Cookie: a"}}',
            ": header X-XSS-Protection holds what no header may",
        ),
        ("basic_auth_users: {alice: secret}", ": user alice: not a bcrypt hash; htpasswd"),
        ("basic_auth_users: {alice: }", ": user alice: not a bcrypt hash"),
        (f"basic_auth_users: {{'a:b': {HASH}}}", ": user 'a:b': a name is not empty and has no"),
        (f"basic_auth_users: {{'': {HASH}}}", ": user '': a name is not empty"),
        (
            f"basic_auth_users: {{a: {HASH.replace('$10$', '$17$')}}}",
            ": user a: a bcrypt hash of cost 17; 16 is the most",
        ),
        (
            f"basic_auth_users:\n  a: {HASH}\n  a: {HASH}\n",
            ", line 3: a stands there twice",
        ),
        ("basic_auth_users: {}\nbasic_auth_users: {}", ", line 2: basic_auth_users stands there"),
        ("rate_limit: {interval: 5}", ": rate_limit.interval: 5 is no duration such as 100ms"),
        ("rate_limit: {interval: -1s}", ": rate_limit.interval: -1s is no duration"),
        ("rate_limit: {interval: 1s, burst: many}", ": Expected `int`, got `str` in rate_limit"),
        ("rate_limit: {interval: 1s}", ": rate_limit.burst must be at least 1"),
        ("a: [", ", line 1: expected the node content"),
        ("? [a]\n: b", ", line 1: a key is no word"),
        ("a: &x [*x]", ", line 1: found unconstructable recursive node"),
        ("a: *x", ", line 1: found undefined alias 'x'"),
        ("a: !!python/object/apply:os.system [x]", ": unknown key `a`"),
        ("[" * 2000, ": not YAML"),
        (b"\xff\xfe\xff", ": not YAML"),
        (b"a: \x00", ": not YAML"),
        ("#" * (MAX_BYTES + 1), ": longer than 256 KiB"),
    ],
)
def test_a_mistake_is_named(file: Path, text: str | bytes, said: str) -> None:
    assert error_in(file, text).startswith(said)


def test_a_hash_is_not_repeated(file: Path) -> None:
    assert "secret" not in error_in(file, "basic_auth_users: {alice: secret}")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, said in (
        ("none.yml", "No such file or directory"),
        (".", "not a regular file"),
        ("pipe", "not a regular file"),
    ):
        with pytest.raises(SettingsError, match=said):
            read(tmp_path / name)
