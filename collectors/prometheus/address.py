"""The SOURCE `prometheus+http(s)://HOST[:PORT][/PREFIX][?match=…&tenant=…&sigv4=REGION]`."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from trntop.core.errors import UsageError
from trntop.core.suggest import unknown
from trntop.core.text import clean

_PARAMETERS = ("match", "tenant", "sigv4")
# A label, how it is compared, and a text in quotes as PromQL has it.
_MATCHER = r'[A-Za-z_][A-Za-z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"'
_MATCHERS = re.compile(rf"\s*{_MATCHER}\s*(?:,\s*{_MATCHER}\s*)*,?\s*")
_AMP = re.compile(r"aps-workspaces(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)")
"""The hosts of Amazon Managed Service for Prometheus, by region."""
_WORD = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a Prometheus backend."""

    url: str
    """`http://HOST:PORT/PREFIX`, without a slash at the end."""
    name: str
    """Its name on the screen: host and port."""
    match: str = ""
    """Label matchers of every selector: `cluster="a",env!="test"`."""
    tenant: str = ""
    """`X-Scope-OrgID`; overrides the setting."""
    region: str = ""
    """AWS region of signed requests."""


def parse(text: str) -> Address:
    """The address of a SOURCE.

    Raises:
        UsageError: it is not valid; the message contains no password.
    """
    scheme, _, rest = text.partition("+")
    try:
        parts = urlsplit(rest)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if scheme.lower() != "prometheus" or parts.scheme not in ("http", "https") or not host:
        raise UsageError("a Prometheus backend is prometheus+http://HOST:PORT, or with https")
    if "@" in parts.netloc:
        raise UsageError(
            f"prometheus+{parts.scheme}://{clean(host)}: an address cannot contain a password; "
            "use fleet.password_file or fleet.token_file"
        )
    blank = any(map(str.isspace, parts.netloc + parts.path))
    if parts.fragment or blank or not rest.isprintable():
        raise UsageError(
            f"prometheus+{parts.scheme}://{clean(host)}: an address cannot contain blanks or #"
        )
    match, tenant, region = _parameters(parts.query)
    amp = _AMP.fullmatch(host)
    name = f"[{host}]" if ":" in host else host
    where = name if port is None else f"{name}:{port}"
    return Address(
        url=f"{parts.scheme}://{where}{parts.path.rstrip('/').removesuffix('/api/v1')}",
        name=clean(where),
        match=match,
        tenant=tenant,
        region=region or (amp[1] if amp else ""),
    )


def _parameters(query: str) -> tuple[str, str, str]:
    matchers: list[str] = []
    found = dict.fromkeys(_PARAMETERS, "")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise UsageError("parameters of a Prometheus backend are NAME=VALUE, joined by &") from None
    for name, value in pairs:
        if name not in _PARAMETERS:
            raise UsageError(unknown("parameter", clean(name, 32), _PARAMETERS))
        if name == "match":
            inside = value.strip().removeprefix("{").removesuffix("}").strip()
            if not _MATCHERS.fullmatch(inside):
                raise UsageError(
                    f'match={clean(value, 64)} is not valid; use match=cluster="a", or %22 for "'
                )
            matchers.append(inside.rstrip(", "))
        elif not _WORD.fullmatch(value) or found[name]:
            raise UsageError(f"{name} must be one word, given once")
        else:
            found[name] = value
    return ",".join(matchers), found["tenant"], found["sigv4"]
