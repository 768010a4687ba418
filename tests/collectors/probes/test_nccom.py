"""Reports of nccom-test in the form of its guide."""

import json
from pathlib import Path

import pytest

from trntop.check.model import ProbeError
from trntop.collectors.probes import nccom


def test_a_report_has_a_result_for_each_size_and_statistic(tmp_path: Path) -> None:
    row = {"size(B)": 1024, "type": "fp32", "busbw(GB/s)": 0.25, "time:avg(us)": 6.19}
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"results": [row | {"time:p99(us)": 9.5}, {"size(B)": 2048}]}))
    mean, tail = nccom.results_of(path)
    assert (mean.size_bytes, mean.statistic, mean.seconds) == (1024, "mean", 6.19e-6)
    assert (tail.statistic, tail.seconds) == ("p99", pytest.approx(9.5e-6))
    assert mean.bytes_per_second == 0.25 * (1 << 30)


def test_the_median_of_older_versions(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text('{"results": [{"size(B)": 8, "time(us)": 63.5}]}')
    assert [one.statistic for one in nccom.results_of(path)] == ["p50"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"results": [', "is not JSON"),
        ('{"other": []}', "has no list `results`"),
        ("[]", "has no list `results`"),
        ('{"results": [7, {"size(B)": "x", "time:avg(us)": -1}]}', "no size and time"),
    ],
)
def test_a_file_without_results_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "report"
    path.write_text(content)
    with pytest.raises(ProbeError, match=complaint) as error:
        nccom.results_of(path)
    assert str(path) in str(error.value)
    with pytest.raises(ProbeError, match="No such file"):
        nccom.results_of(tmp_path / "nosuch")
