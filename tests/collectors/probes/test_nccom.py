"""nccom-test: reports in the forms of its guide, and runs of a simulated one."""

import json
import sys
from pathlib import Path

import pytest

from trntop.check.model import BusyError, ProbeError, ProbeResult, ProbeSpec
from trntop.collectors.probes import nccom
from trntop.collectors.probes.prober import Prober

FAKE = Path(__file__).parents[2] / "fakes/nccom_test.py"
TABLE = """\
some log line
size(B)  count(elems)  type  time:avg(us)  time:p50(us)  time:p99(us)  algbw(GB/s)  busbw(GB/s)
   1024  256  fp32  10.5  10  12  0.10  0.09
   2048  512  fp32  11.5  11  13  0.20  0.19
Avg bus bandwidth:\t9.1966GB/s
"""
REPORT = {
    "results": [
        {
            "size(B)": 1024, "count(elems)": 256, "type": "fp32", "algbw(GB/s)": 0.1655,
            "busbw(GB/s)": 0.25, "time:avg(us)": 6.19,
        }
    ]
}  # fmt: skip
SPEC = ProbeSpec(tool="nccom-test", iterations=20, seconds=3)


def figures(results: list[ProbeResult]) -> dict[tuple[int | None, str], float | None]:
    return {(one.size_bytes, one.statistic): one.seconds for one in results}


def test_a_table() -> None:
    results = nccom.results(TABLE.encode(), "trn-002")
    assert figures(results) == pytest.approx(
        {
            (1024, "p50"): 10e-6, (1024, "mean"): 10.5e-6, (1024, "p99"): 12e-6,
            (2048, "p50"): 11e-6, (2048, "mean"): 11.5e-6, (2048, "p99"): 13e-6,
        }
    )  # fmt: skip
    assert results[0].bytes_per_second == pytest.approx(0.09 * (1 << 30))
    assert {(one.tool, one.peer, one.partial) for one in results} == {
        ("nccom-test", "trn-002", False)
    }


def test_columns_go_by_their_names() -> None:
    older = "size(B) type count(elems) busbw(GB/s) time(us)\n8 fp32 2 0.1 63.5\n"
    assert figures(nccom.results(older.encode())) == {(8, "p50"): pytest.approx(63.5e-6)}


def test_a_table_that_is_cut_off() -> None:
    results = nccom.results(TABLE[: TABLE.index("0.20")].encode())
    assert {one.size_bytes for one in results} == {1024}
    assert all(one.partial for one in results)


def test_a_report(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(REPORT))
    (result,) = nccom.results_of(path)
    assert (result.statistic, result.seconds) == ("mean", pytest.approx(6.19e-6))
    assert result.bytes_per_second == 0.25 * (1 << 30)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "neither its JSON nor its table"),
        ('{"results": [', "no JSON"),
        ('{"other": []}', "without `results`"),
        ('{"results": [7, {"size(B)": "x", "time:avg(us)": -1}]}', "neither its JSON nor"),
        ("Neuron DKMS Driver is not running!\n", "the Neuron driver is not loaded"),
        ("x\n1 errors found - test failed\n", "1 errors found - test failed"),
    ],
)
def test_what_is_no_report(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "report"
    path.write_text(content)
    with pytest.raises(ProbeError, match=complaint) as error:
        nccom.results_of(path)
    assert str(path) in str(error.value)
    with pytest.raises(ProbeError, match="No such file"):
        nccom.results_of(tmp_path / "nosuch")


@pytest.fixture
def node(tmp_path: Path) -> Prober:
    """A node on which the simulated program is installed."""
    program = tmp_path / "nccom-test"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {FAKE} "$@"\n')
    program.chmod(0o755)
    return Prober("trn-001", path=[str(tmp_path)])


async def test_a_run(node: Prober) -> None:
    server = await node.serve(SPEC)
    with pytest.raises(BusyError, match="serves another probe"):
        await node.serve(SPEC)
    results = await node.probe(SPEC, "127.0.0.1", server)
    assert figures(results) == pytest.approx(
        {(64, "p50"): 20e-6, (64, "mean"): 21.5e-6, (64, "p90"): 25e-6, (64, "p99"): 31e-6}
    )
    assert results[0].peer == "127.0.0.1"
    assert await node.end(server) == ""


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ("no-driver", "nccom-test failed: the Neuron driver is not loaded"),
        ("fails", "nccom-test failed: Failure running neuron-bench - log file nccom_test_log_7"),
        ("hang", "nccom-test was not through after 3 s"),
    ],
)
async def test_runs_that_fail(
    node: Prober, monkeypatch: pytest.MonkeyPatch, behaviour: str, error: str
) -> None:
    monkeypatch.setenv("FAKE_NCCOM_TEST", behaviour)
    server = await node.serve(SPEC)
    (result,) = await node.probe(SPEC, "127.0.0.1", server)
    assert result.error.startswith(error)
    await node.close()


async def test_it_is_not_installed() -> None:
    node = Prober("trn-001", path=[])
    server = await node.serve(SPEC)
    (result,) = await node.probe(SPEC, "127.0.0.1", server)
    assert "nccom-test is not installed" in result.error
    await node.close()
