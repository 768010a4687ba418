"""Signed requests, checked by the document that describes them and not by botocore."""

import asyncio
import hashlib
import hmac
from urllib.parse import quote

import pytest

from tests.collectors.prometheus.fake_prometheus import Answer, Request, fake_backend, vector
from trntop.collectors.prometheus.address import parse
from trntop.collectors.prometheus.client import BackendError, Client
from trntop.core.settings import Fleet

KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "a-session-token"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def signature(request: Request, method: str, region: str) -> str:
    """What the signature must be: Signature Version 4, step by step."""
    fields = dict(
        part.strip().split("=", 1)
        for part in request.headers["Authorization"].removeprefix("AWS4-HMAC-SHA256 ").split(",")
    )
    signed = fields["SignedHeaders"].split(";")
    headers = {name.lower(): value for name, value in request.headers.items()}
    canonical = "\n".join(
        [
            method,
            quote(request.path, safe="/-_.~"),
            "",
            *(f"{name}:{' '.join(headers[name].split())}" for name in signed),
            "",
            fields["SignedHeaders"],
            hashlib.sha256(request.body).hexdigest(),
        ]
    )
    stamp = headers["x-amz-date"]
    scope = f"{stamp[:8]}/{region}/aps/aws4_request"
    assert fields["Credential"] == f"{KEY}/{scope}"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in (stamp[:8], region, "aps", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    assert hmac.new(key, text.encode(), hashlib.sha256).hexdigest() == fields["Signature"]
    return fields["SignedHeaders"]


async def _ask(url: str) -> None:
    # The setting is for lists of instances too: a workspace may be in another region.
    address = parse(f"prometheus+{url}/workspaces/ws-1?sigv4=us-west-2")
    client = Client(address, Fleet(region="eu-west-1"))
    try:
        await client.instant('up{node="a b+c"}', 1000.0, 5.0)
    finally:
        await client.close()


def test_a_signature_matches_the_specification() -> None:
    with fake_backend(lambda _: vector([])) as server:
        asyncio.run(_ask(server.url))
    (request,) = server.requests
    assert request.path == "/workspaces/ws-1/api/v1/query"
    names = signature(request, "POST", "us-west-2").split(";")
    assert {"host", "x-amz-date", "x-amz-security-token"} <= set(names)
    assert SECRET not in str(request.headers)


def test_a_refusal_does_not_repeat_the_keys() -> None:
    with fake_backend(lambda _: Answer(403, b"")) as server, pytest.raises(BackendError) as caught:
        asyncio.run(_ask(server.url))
    assert "access denied" in str(caught.value)
    assert KEY not in str(caught.value)
    assert TOKEN not in str(caught.value)
