"""Addresses of Prometheus backends."""

import pytest

from trntop.collectors.prometheus.address import Address, parse
from trntop.collectors.prometheus.queries import Queries, one_of, quoted
from trntop.core.errors import UsageError


def test_a_host_alone() -> None:
    assert parse("prometheus+http://prom:9090") == Address("http://prom:9090", "prom:9090")
    assert parse("prometheus+https://[::1]:9090/").url == "https://[::1]:9090"


def test_a_prefix_a_tenant_and_matchers() -> None:
    found = parse(
        "prometheus+https://mimir.example/prometheus/api/v1?match=cluster%3D%22a%22"
        "&match={env!=\"test\",}&tenant=ml"
    )  # fmt: skip
    assert found.url == "https://mimir.example/prometheus"
    assert (found.match, found.tenant, found.region) == ('cluster="a",env!="test"', "ml", "")


def test_amazon_managed_prometheus_is_signed_for_its_region() -> None:
    host = "aps-workspaces.us-east-2.amazonaws.com"
    assert parse(f"prometheus+https://{host}/workspaces/ws-1").region == "us-east-2"
    assert parse("prometheus+http://127.0.0.1:1?sigv4=eu-west-1").region == "eu-west-1"


@pytest.mark.parametrize(
    "text",
    [
        "prometheus+http://",
        "prometheus+ftp://host",
        "prometheus+http://host:99999",
        "prometheus+http://host/#x",
        "prometheus+http://ho st",
        "prometheus+http://host?match=up",
        'prometheus+http://host?match=a="b"} or up{c="d"',
        "prometheus+http://host?colour=red",
        "prometheus+http://host?tenant=a%0Ab",
        "prometheus+http://[bad",
    ],
)
def test_a_server_that_is_no_backend_is_reported(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        parse("prometheus+http://me:s3cret@host:9090")
    assert "s3cret" not in str(caught.value)


def test_foreign_text_stays_inside_its_quotes() -> None:
    scope = Queries('cluster="a"', frozenset())
    assert scope.select("up", f"node={quoted(chr(34) + '} or up{')}") == (
        'up{cluster="a",node="\\"} or up{"}'
    )
    assert one_of("node", ["trn-1", "a.b|c"]) == 'node=~"trn-1|a\\\\.b\\\\|c"'
    assert Queries("", frozenset()).select("up") == "up"
