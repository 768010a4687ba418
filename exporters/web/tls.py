"""TLS as in the web configuration file, as far as Python's `ssl` supports it."""

import ipaddress
import os
import ssl
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from trntop.core.errors import SettingsError

from .web_config import TlsServer, read_file

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_REQUIRING = ("RequireAnyClientCert", "RequireClientCert", "RequireAndVerifyClientCert")
_ASKING = (*_REQUIRING, "VerifyClientCertIfGiven")

Say = Callable[[str], None]


def context_of(config: TlsServer, warn: Say) -> ssl.SSLContext:
    """The context that new connections shake hands with.

    Args:
        config: with paths that can be opened as they are.
        warn: gets a message for each setting that is weaker than, or differs from, the file.

    Raises:
        SettingsError: something is missing, cannot be read or does not fit together.
    """
    _check(config)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.min_version]
    context.maximum_version = _VERSIONS[config.max_version]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    for what in ("cipher_suites", "curve_preferences"):
        if getattr(config, what):
            warn(f"{what} is ignored: the defaults of Python and OpenSSL apply")
    _set_client_auth(context, config, warn)
    _load_certificate(context, config, warn)
    return context


def names_of(certificate: dict[str, Any] | None) -> frozenset[str]:
    """The subject alternative names of a certificate as `SSLSocket.getpeercert` gives it."""
    names = set()
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        if kind in ("DNS", "email", "URI"):
            names.add(value)
        elif kind == "IP Address":
            with suppress(ValueError):  # OpenSSL writes `<invalid>` for one of a wrong length
                names.add(str(ipaddress.ip_address(value.strip())))
    return frozenset(names)


def _check(config: TlsServer) -> None:
    for what in ("cert", "key", "client_ca"):
        if getattr(config, what) and getattr(config, f"{what}_file"):
            raise SettingsError(f"{what} and {what}_file: only one of them")
    for what in ("cert", "key"):
        if not (getattr(config, what) or getattr(config, f"{what}_file")):
            raise SettingsError(f"{what}_file is missing")
    for what in ("min_version", "max_version"):
        if getattr(config, what) not in _VERSIONS:
            raise SettingsError(f"{what}: use TLS12 or TLS13; older versions are not safe")
    if config.min_version > config.max_version:
        raise SettingsError("min_version is above max_version")


def _set_client_auth(context: ssl.SSLContext, config: TlsServer, warn: Say) -> None:
    kind = config.client_auth_type
    given = bool(config.client_ca or config.client_ca_file)
    if config.client_allowed_sans and kind not in _REQUIRING:
        raise SettingsError(
            "client_allowed_sans needs client_auth_type: RequireAndVerifyClientCert, or clients"
            " without a certificate would pass"
        )
    if kind not in _ASKING:
        if given and kind == "NoClientCert":
            raise SettingsError("client_ca_file is given, but client_auth_type asks for nothing")
        if kind == "RequestClientCert":
            # What it lets in is everybody: the same as not asking.
            warn("client_auth_type: RequestClientCert lets every client in")
        return
    if not given:
        raise SettingsError(f"client_auth_type: {kind} needs client_ca_file")
    if kind not in ("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"):
        warn(f"client_auth_type: {kind} is kept as RequireAndVerifyClientCert")
    context.verify_mode = ssl.CERT_REQUIRED if kind in _REQUIRING else ssl.CERT_OPTIONAL
    try:
        context.load_verify_locations(cadata=_pem(config, "client_ca").decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        where = config.client_ca_file or "client_ca"
        raise SettingsError(f"{where}: no certificates in PEM") from error


def _load_certificate(context: ssl.SSLContext, config: TlsServer, warn: Say) -> None:
    where = f"{config.cert_file or 'cert'} and {config.key_file or 'key'}"
    with ExitStack() as opened:
        # Read once and as they are now: OpenSSL would only take them from files, one after the
        # other, while somebody renews them.
        certificate = opened.enter_context(_memory(_pem(config, "cert")))
        key = opened.enter_context(_memory(_pem(config, "key")))
        try:
            context.load_cert_chain(_path(certificate), _path(key), password=lambda: "")
        except ssl.SSLError as error:
            raise SettingsError(f"{where}: no certificate with its key: {_why(error)}") from error
    if config.key_file and _open_to_all(Path(config.key_file)):
        warn(f"{config.key_file}: every user of this machine can read this key; chmod o-r it")


def _pem(config: TlsServer, what: str) -> bytes:
    file = getattr(config, f"{what}_file")
    text: str = getattr(config, what)
    return read_file(Path(file)) if file else text.encode()


def _memory(content: bytes) -> Any:
    file = os.fdopen(os.memfd_create("pem"), "r+b")
    file.write(content)
    file.flush()
    return file


def _path(file: Any) -> str:
    return f"/proc/self/fd/{file.fileno()}"


def _open_to_all(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & 0o004)
    except OSError:
        return False


def _why(error: ssl.SSLError) -> str:
    """OpenSSL's reason in words: `key values mismatch`."""
    return (error.reason or "not in PEM, or the key is encrypted").replace("_", " ").lower()
