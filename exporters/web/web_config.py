"""The web configuration file: TLS and users.

Its keys are those of the Prometheus exporters that matter here,
https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md; any other key
is an error, so that no protection is assumed that is not in force.
"""

import re
import ssl
import stat
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from trntop.core.errors import SettingsError
from trntop.core.text import clean

MAX_BYTES = 256 << 10
"""Limit of a certificate or a key."""
MAX_YAML = 64 << 10
"""Limit of the file, some 700 users: PyYAML needs half a second, in the loop of the scrapes."""
MAX_COST = 16
"""Limit of a bcrypt hash's cost: 16 takes seconds, and a first scrape would time out above."""
_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)


class TlsServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tls_server_config`; paths are relative to the file."""

    cert_file: str
    key_file: str
    client_ca_file: str = ""
    client_auth_type: Literal["NoClientCert", "RequireAndVerifyClientCert"] = "NoClientCert"
    min_version: Literal["TLS12", "TLS13"] = "TLS12"

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.cert_file, self.key_file, self.client_ca_file)))


class WebConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    tls_server_config: TlsServer | None = None
    basic_auth_users: dict[str, str] = {}


def read(path: Path) -> WebConfig:
    """The configuration in a file.

    Raises:
        SettingsError: the file cannot be read or used.
    """
    document = _parse(path) or {}
    if isinstance(document, dict):
        # A section whose keys are commented out.
        document = {key: value for key, value in document.items() if value != ""}
    try:
        config = msgspec.convert(document, WebConfig)
        _check_users(config.basic_auth_users)
    except ValueError as error:
        # Of msgspec too: "Object contains unknown field `x` - at `$.tls_server_config`".
        text = str(error).replace("Object contains unknown field", "unknown key")
        text = re.sub(r" - at `\$\.?(.*)`$", lambda at: f" in {at[1]}" if at[1] else "", text)
        raise SettingsError(f"{path}: {clean(text)}") from error
    return config


def tls_context(config: TlsServer, folder: Path) -> ssl.SSLContext:
    """The TLS context of a configuration.

    Raises:
        SettingsError: a file cannot be used, or the keys contradict each other.
    """
    requires_client = config.client_auth_type == "RequireAndVerifyClientCert"
    if requires_client != bool(config.client_ca_file):
        raise SettingsError(
            "client_ca_file and client_auth_type: RequireAndVerifyClientCert need each other"
        )
    for name in config.files:
        read_file(folder / name)  # a file that OpenSSL cannot open is reported without its name
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    if config.min_version == "TLS13":
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(
            folder / config.cert_file, folder / config.key_file, password=lambda: ""
        )
    except ssl.SSLError as error:
        reason = (error.reason or "not PEM, or the key is encrypted").replace("_", " ").lower()
        raise SettingsError(f"{config.cert_file} and {config.key_file}: {reason}") from error
    if requires_client:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(folder / config.client_ca_file)
        except ssl.SSLError as error:
            raise SettingsError(f"{config.client_ca_file}: no certificates in PEM") from error
    return context


def read_file(path: Path, most: int = MAX_BYTES) -> bytes:
    """The content of a file.

    Raises:
        SettingsError: it cannot be read, is not a regular file, or is too large.
    """
    try:
        # Before it is opened: opening a FIFO would wait for a writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise SettingsError(f"{path}: not a regular file")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    if len(data) > most:
        raise SettingsError(f"{path}: longer than {most >> 10} KiB")
    return data


def _parse(path: Path) -> Any:
    try:
        # All scalars are strings: no user is named False.
        return yaml.load(read_file(path, MAX_YAML), yaml.BaseLoader)  # noqa: S506 (a loader of strings only)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        reason = clean(error.problem or error.context or "damaged")
        raise SettingsError(f"{path}{line}: {reason}") from error
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not YAML") from error


def _check_users(users: dict[str, str]) -> None:
    for name, hashed in users.items():
        if not name or ":" in name:
            raise ValueError(f"user {name!r}: a name is not empty and has no colon")
        match = _HASH.fullmatch(hashed)
        if match is None:
            raise ValueError(f"user {name}: not a bcrypt hash; htpasswd -nBC 10 {name} makes one")
        if not 4 <= int(match[1]) <= MAX_COST:
            raise ValueError(f"user {name}: a bcrypt hash of cost {match[1]}; use 10")
