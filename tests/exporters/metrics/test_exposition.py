import pytest

from trntop.catalog import Kind
from trntop.exporters.metrics.exposition import Family, Format, escape, labels, number


@pytest.mark.parametrize(
    ("family", "text", "openmetrics"),
    [
        (
            Family("trn_node_vcpus", Kind.GAUGE, "vCPUs of the node"),
            "# HELP trn_node_vcpus vCPUs of the node\n# TYPE trn_node_vcpus gauge\n",
            "# TYPE trn_node_vcpus gauge\n# HELP trn_node_vcpus vCPUs of the node\n",
        ),
        (
            Family("efa_tx_bytes_total", Kind.COUNTER, "Sent"),
            "# HELP efa_tx_bytes_total Sent\n# TYPE efa_tx_bytes_total counter\n",
            "# TYPE efa_tx_bytes counter\n# UNIT efa_tx_bytes bytes\n# HELP efa_tx_bytes Sent\n",
        ),
        (
            Family("efa_tx_bytes_per_second", Kind.GAUGE, "Sent"),
            "# HELP efa_tx_bytes_per_second Sent\n# TYPE efa_tx_bytes_per_second gauge\n",
            "# TYPE efa_tx_bytes_per_second gauge\n# HELP efa_tx_bytes_per_second Sent\n",
        ),
        (
            Family("trn_device_info", Kind.GAUGE, "Place"),
            "# HELP trn_device_info Place\n# TYPE trn_device_info gauge\n",
            "# TYPE trn_device info\n# HELP trn_device Place\n",
        ),
        (
            Family("node_amazonefa_rx_pkts", Kind.COUNTER, "Received"),
            "# HELP node_amazonefa_rx_pkts Received\n# TYPE node_amazonefa_rx_pkts counter\n",
            "# TYPE node_amazonefa_rx_pkts unknown\n# HELP node_amazonefa_rx_pkts Received\n",
        ),
        (
            Family("x", Kind.GAUGE, 'a "b" \\ c\nd'),
            '# HELP x a "b" \\\\ c\\nd\n# TYPE x gauge\n',
            '# TYPE x gauge\n# HELP x a \\"b\\" \\\\ c\\nd\n',
        ),
    ],
)
def test_headers(family: Family, text: str, openmetrics: str) -> None:
    assert family.header(Format.TEXT) == text
    assert family.header(Format.OPENMETRICS) == openmetrics


def test_content_types() -> None:
    assert Format.TEXT.content_type.startswith("text/plain; version=0.0.4;")
    assert Format.OPENMETRICS.content_type.startswith("application/openmetrics-text; version=1.0.0")


def test_escape_and_labels() -> None:
    assert escape('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
    assert labels([("a", 1), ("b", ""), ("c", "x")]) == '{a="1",c="x"}'
    assert labels([("a", "")]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-3.0, "-3"),
        (0.1, "0.1"),
        (1e-9, "1e-09"),
        (103079215104.0, "103079215104"),
        (2.0**53, "9007199254740992.0"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_are_short_and_exact(value: float, text: str) -> None:
    assert number(value) == text
    assert float(text) == value
