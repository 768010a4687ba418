"""perftest's tables; a run without a device is real, the tables are made up in its form."""

import shutil

import pytest

from trntop.check.model import ProbeError, ProbeSpec, Served
from trntop.collectors.probes.perftest import IbSendLat, row
from trntop.collectors.probes.prober import Prober
from trntop.collectors.probes.process import Ended
from trntop.collectors.probes.tool import Failure, Run, results

LATENCY = """\
---------------------------------------------------------------------------------------
                    Send Latency Test
 Dual-port       : OFF		Device         : rdmap16s27
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]\
   99% percentile[usec]   99.9% percentile[usec]
 64      1000          15.50          40.25        16.24  	       16.39  	0.90	19.73  	22.25
---------------------------------------------------------------------------------------
"""
SPEC = ProbeSpec(tool="ib_send_lat", card="rdmap16s27", iterations=1000, repeats=2, seconds=5)


def read(tool: IbSendLat, code: int | None, out: str = "", errors: str = "") -> Run | Failure:
    return tool.read(SPEC, Ended(code, out, errors, 5.0), 1000, "x port 1")


def test_latency() -> None:
    tool = IbSendLat()
    run = read(tool, 0, LATENCY)
    assert isinstance(run, Run)
    assert run.seconds == pytest.approx(
        {"p50": 16.24e-6, "mean": 16.39e-6, "min": 15.5e-6, "max": 40.25e-6, "p99": 19.73e-6}
    )
    slower = run._replace(seconds={name: 2 * value for name, value in run.seconds.items()})
    found = {one.statistic: one for one in results("ib_send_lat", SPEC, "trn-002", [run, slower])}
    assert found["p50"].seconds == pytest.approx(1.5 * 16.24e-6)
    assert found["min"].seconds == pytest.approx(15.5e-6)
    assert found["max"].seconds == pytest.approx(80.5e-6)
    assert (found["p99"].iterations, found["p99"].card) == (2000, "rdmap16s27")


def test_commands() -> None:
    tool = IbSendLat()
    assert tool.client(SPEC, "trn-002", 21001, 1000) == [
        "stdbuf", "--output=L", "ib_send_lat", "-c", "SRD", "-x", "0", "-F", "-s", "64",
        "-n", "1000", "-p", "21001", "-d", "rdmap16s27", "trn-002",
    ]  # fmt: skip
    assert "-d" not in tool.server(SPEC, 21001, 1000)


def test_failures() -> None:
    tool = IbSendLat()
    with pytest.raises(ProbeError, match=r"64 1000 .* is not a row"):
        row(LATENCY.replace("64      1000          15.50", "64 1000"))
    assert row("") == {}
    for failure, text, guilty in (
        (read(tool, 0), "ib_send_lat measured nothing", "client"),
        (read(tool, None), "ib_send_lat to x port 1 did not finish in 5 s", ""),
        (
            read(tool, 1, errors="Couldn't connect to 10.0.0.2:21001"),
            "no probe server listens on x port 1",
            "server",
        ),
        (read(tool, 127), "ib_send_lat is not installed; the package perftest has it", "client"),
        (
            read(tool, 1, errors=" Unable to create the resources needed by comm struct"),
            "ib_send_lat: Unable to create the resources needed by comm struct",
            "client",
        ),
    ):
        assert failure == Failure(text, guilty)


@pytest.mark.skipif(not shutil.which("ib_send_lat"), reason="needs perftest")
async def test_without_a_device() -> None:
    spec = ProbeSpec(tool="ib_send_lat", card="rdmap16s27", seconds=5)
    sentence = "ib_send_lat finds no such EFA device"
    node = Prober("trn-001")
    with pytest.raises(ProbeError, match=f"the server side does not start: {sentence}"):
        await node.serve(spec)
    (result,) = await node.probe(spec, "127.0.0.1", Served(id="x", port=21999))
    assert result.error.startswith(sentence)
    assert (result.tool, result.card, result.guilty) == ("ib_send_lat", "rdmap16s27", "client")
    await node.close()
