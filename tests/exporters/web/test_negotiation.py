import pytest

from trntop.exporters.metrics.exposition import Format
from trntop.exporters.web.negotiation import accepts_gzip, negotiate

TEXT = "text/plain; version=0.0.4; charset=utf-8"
TEXT_1 = "text/plain; version=1.0.0; charset=utf-8"
OM = "application/openmetrics-text; version=1.0.0; charset=utf-8"

PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;"
    "escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (PROMETHEUS_2_42, f"{OM}; escaping=underscores"),
        (PROMETHEUS_3, f"{OM}; escaping=allow-utf-8"),
        (f"{PROTOBUF};q=0.7,{PROMETHEUS_3}", f"{OM}; escaping=allow-utf-8"),
        (f"{PROTOBUF};q=0.9,text/plain;version=0.0.4;q=0.3", TEXT),
        (BROWSER, TEXT),
        ("text/plain", TEXT),
        ("text/*;q=0.3", TEXT),
        ("text/plain;version=1.0.0", f"{TEXT_1}; escaping=underscores"),
        ("text/plain;version=1.0.0;escaping=values", f"{TEXT_1}; escaping=values"),
        ("application/openmetrics-text", OM),
        ("application/openmetrics-text;version=0.0.1", TEXT),
        ("text/plain;q=0.5,application/openmetrics-text;q=0.6", OM),
        ("text/plain;q=0,application/openmetrics-text;q=0.1", OM),
    ],
)  # fmt: skip
def test_the_format_that_weighs_most(accept: str, content_type: str) -> None:
    written, chosen = negotiate(accept)
    assert chosen == content_type
    assert written is (Format.OPENMETRICS if "openmetrics" in chosen else Format.TEXT)


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "garbage;;;",
        ",;,=;q=",
        "*/*;q=0",
        PROTOBUF,
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;version=2.0.0",
        "application/openmetrics-text;version=x",
        "application/openmetrics-text;version=1.0.0;escaping=dots",
        "application/json",
        ";" * 30_000,
    ],
)
def test_the_last_resort(accept: str) -> None:
    assert negotiate(accept) == (Format.TEXT, TEXT)


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0.001", True),
        ("", False),
        ("identity", False),
        ("br", False),
        (",;,", False),
    ],
)
def test_gzip(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted
