"""The web configuration file: TLS, headers, users and rate limit.

Its schema is that of the Prometheus exporters,
https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md, so that one
file serves them all. What differs is stricter, and stands in `docs/exporter.md`.
"""

import re
import stat
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml
from msgspec import structs

from trntop.core.errors import SettingsError
from trntop.core.text import clean

MAX_BYTES = 256 << 10
"""Longest file that is read, of certificates too."""
MAX_COST = 16
"""Of a bcrypt hash. It takes seconds to check; one more, and a first scrape would time out."""

HEADERS: dict[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""Headers that may be set, and their values where only some are allowed."""

Version = Literal["TLS10", "TLS11", "TLS12", "TLS13"]
ClientAuth = Literal[
    "NoClientCert",
    "RequestClientCert",
    "RequireAnyClientCert",
    "RequireClientCert",  # an older name of the one above
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
]

_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class TlsServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tls_server_config`; files are absolute, or relative to where the program runs."""

    cert: str = ""
    key: str = ""
    client_ca: str = ""
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    client_auth_type: ClientAuth = "NoClientCert"
    client_allowed_sans: tuple[str, ...] = ()
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True

    @property
    def files(self) -> tuple[Path, ...]:
        """The files it names."""
        return tuple(map(Path, filter(None, (self.cert_file, self.key_file, self.client_ca_file))))


class HttpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`http_server_config`."""

    http2: bool | None = None
    headers: dict[str, str] = {}


class RateLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rate_limit`: a bucket of `burst` requests, one more each `interval`; 0 is no limit."""

    interval: str = "0"
    burst: int = 0

    @property
    def seconds(self) -> float:
        """The interval.

        Raises:
            ValueError: it is no duration as Go writes them, such as `100ms` or `1m30s`.
        """
        if self.interval == "0":
            return 0.0
        parts = _DURATION.findall(self.interval)
        if "".join(number + unit for number, unit in parts) != self.interval or not parts:
            raise ValueError(f"rate_limit.interval: {self.interval} is no duration such as 100ms")
        return sum(float(number) * _UNITS[unit] for number, unit in parts)


class WebConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    tls_server_config: TlsServer | None = None
    http_server_config: HttpServer = HttpServer()
    basic_auth_users: dict[str, str] = {}
    rate_limit: RateLimit = RateLimit()


def read(path: Path) -> WebConfig:
    """The configuration in a file, checked as far as it can be without its certificates.

    Raises:
        SettingsError: in one sentence, what is wrong with the file.
    """
    document = _parse(path)
    try:
        config = msgspec.convert(_said(document), WebConfig, strict=False)
        _check_headers(config.http_server_config.headers)
        _check_users(config.basic_auth_users)
        if config.rate_limit.seconds and config.rate_limit.burst < 1:
            raise ValueError("rate_limit.burst must be at least 1, or nothing would be served")
    except ValueError as error:
        # Of msgspec too: "Object contains unknown field `x` - at `$.rate_limit`".
        said = re.sub(r"\bObject contains unknown field\b", "unknown key", str(error))
        said = re.sub(r" - at `\$\.?(.*)`$", lambda at: f" in {at[1]}" if at[1] else "", said)
        raise SettingsError(f"{path}: {clean(said)}") from error
    tls = config.tls_server_config
    if tls is None:
        return config
    folder = path.parent
    return structs.replace(
        config,
        tls_server_config=structs.replace(
            tls,
            cert_file=tls.cert_file and str(folder / tls.cert_file),
            key_file=tls.key_file and str(folder / tls.key_file),
            client_ca_file=tls.client_ca_file and str(folder / tls.client_ca_file),
        ),
    )


def read_file(path: Path) -> bytes:
    """The content of a file.

    Raises:
        SettingsError: it cannot be read, is no regular file, or is too long.
    """
    try:
        # Looked at before it is opened: opening a FIFO would wait for a writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise SettingsError(f"{path}: not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise SettingsError(f"{path}: longer than {MAX_BYTES >> 10} KiB")
    return data


class _Loader(yaml.BaseLoader):
    """YAML whose scalars are all strings, so that no user is named False, and no key is twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key is no word", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"{key.value} stands there twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _parse(path: Path) -> Any:
    data = read_file(path)
    try:
        return yaml.load(data, _Loader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        reason = clean(error.problem or error.context or "damaged")
        raise SettingsError(f"{path}{line}: {reason}") from error
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not YAML") from error


def _said(document: Any) -> Any:
    """The document without keys that are left blank, which is how YAML says nothing.

    Users stay: one whose hash is missing is a mistake, and not one user less.
    """
    if document is None or document == "":
        return {}
    if not isinstance(document, dict):
        return document
    kept = {key: value for key, value in document.items() if value != ""}
    return {
        key: value
        if key == "basic_auth_users"
        else _said(value)
        if isinstance(value, dict)
        else value
        for key, value in kept.items()
    }


def _check_headers(headers: dict[str, str]) -> None:
    for name, value in headers.items():
        if name not in HEADERS:
            raise ValueError(f"header {name} cannot be set; these can: {', '.join(HEADERS)}")
        if HEADERS[name] and value not in HEADERS[name]:
            raise ValueError(f"header {name} must be {' or '.join(HEADERS[name])}, not {value}")
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"header {name} holds what no header may")


def _check_users(users: dict[str, str]) -> None:
    for name, hashed in users.items():
        if not name or ":" in name:
            raise ValueError(f"user {name!r}: a name is not empty and has no colon")
        match = _HASH.fullmatch(hashed)
        if match is None:
            raise ValueError(f"user {name}: not a bcrypt hash; htpasswd -nBC 10 {name} makes one")
        if not 4 <= int(match[1]) <= MAX_COST:
            raise ValueError(
                f"user {name}: a bcrypt hash of cost {match[1]}; {MAX_COST} is the most that can"
                " be checked within a scrape's time, 10 is usual"
            )
