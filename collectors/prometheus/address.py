"""`prometheus+http(s)://HOST[:PORT][/PREFIX][?match=…&tenant=…&sigv4=REGION]`: which server, and
which of its series.
"""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from trntop.core.errors import UsageError
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
    """Where an engine is, and what is asked of it."""

    url: str
    """`http://HOST:PORT/PREFIX`, without a slash at the end."""
    name: str
    """What it goes by on the screen: host and port."""
    match: str = ""
    """Label matchers that go into every selector: `cluster="a",env!="test"`."""
    tenant: str = ""
    """For `X-Scope-OrgID`; over the setting."""
    region: str = ""
    """AWS region, where requests are to be signed."""


def parse(text: str) -> Address:
    """An engine as the user named it.

    Raises:
        UsageError: it is not written as it should be; never with a password that stands in it.
    """
    scheme, _, rest = text.partition("+")
    try:
        parts = urlsplit(rest)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if scheme.lower() != "prometheus" or parts.scheme not in ("http", "https") or not host:
        raise UsageError("an engine is written prometheus+http://HOST:PORT, or with https")
    if "@" in parts.netloc:
        raise UsageError(
            f"prometheus+{parts.scheme}://{clean(host)}: no password in the address, where others "
            "can read it: name a file in fleet.password_file or fleet.token_file"
        )
    blank = any(map(str.isspace, parts.netloc + parts.path))
    if parts.fragment or blank or not rest.isprintable():
        raise UsageError(f"prometheus+{parts.scheme}://{clean(host)}: no blank and no # there")
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
    """Matchers, tenant and region."""
    matchers: list[str] = []
    found = dict.fromkeys(_PARAMETERS, "")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise UsageError("engine: what stands behind ? is NAME=VALUE, joined by &") from None
    for name, value in pairs:
        if name not in _PARAMETERS:
            known = ", ".join(_PARAMETERS)
            raise UsageError(f"engine: {clean(name, 32)} is no parameter; known are {known}")
        if name == "match":
            inside = value.strip().removeprefix("{").removesuffix("}").strip()
            if not _MATCHERS.fullmatch(inside):
                raise UsageError(
                    f'engine: match={clean(value, 64)} is written match=cluster="a", or %22 for "'
                )
            matchers.append(inside.rstrip(", "))
        elif not _WORD.fullmatch(value) or found[name]:
            raise UsageError(f"engine: {name} is one word, said once")
        else:
            found[name] = value
    return ",".join(matchers), found["tenant"], found["sigv4"]
