"""Agents that probe the way to each other: real agents and real fi_pingpong on loopback."""

import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.collectors.recording_sink import FAKE
from tests.network import FIRST, ROOT, may_be_first
from trntop.cli import main

pytestmark = pytest.mark.xdist_group("machine")

ADDRESSES = ("127.0.0.2", "127.0.0.3")
LATENCY = re.compile(r"^trn_link_latency_seconds\{.*peer=\"([^\"]+)\".*\} (\S+)$", re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--probe-every", "5m"], "--probe-every needs --allow-probes"),
        (["sim:healthy", "--probe-every", "5m"], "needs the source local"),
        (["--probe-every", "soon"], "soon is not a valid duration; use 300 or 5m"),
        (["--probe-every", "1h"], "probe_every must be a number from 0 to 600"),
        (
            ["--probe-every", "5m", "--allow-probes", "--probe-peers", "@nodes"],
            "use nodes such as trn-[001-016]",
        ),
    ],
)
def test_missing_parts_are_reported(
    options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", *options]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("fi_pingpong") is None, reason="fi_pingpong is not installed")
@pytest.mark.slow
def test_two_agents_probe_each_other(tmp_path: Path) -> None:
    port = _free_port()
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(32))
    settings = (
        *(f"collect.neuron_monitor={FAKE}", "collect.disabled=steps,kernel-log"),
        *("export.probe_provider=tcp", "export.probe_load=1000"),
    )
    options = [
        *("--allow-probes", "--probe-token-file", str(token)),
        *("--probe-every", "5s", "--probe-peers", f"127.0.0.[2-3]:{port}"),
        *(word for setting in settings for word in ("--set", setting)),
    ]
    program = [*(FIRST if may_be_first() else ()), sys.executable, "-m", "trntop"]
    agents = [
        subprocess.Popen(
            [*program, "export", "--listen", f"{address}:{port}", *options],
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
        )
        for address in ADDRESSES
    ]
    try:
        for address, peer in zip(ADDRESSES, reversed(ADDRESSES), strict=True):
            found = _latencies(f"http://{address}:{port}")
            assert found.keys() == {peer}
            assert 0 < found[peer] < 1
    finally:
        for agent in agents:
            agent.terminate()
        for agent in agents:
            assert agent.wait(10) == 0


def _latencies(address: str) -> dict[str, float]:
    """Peer → seconds, once there are any."""
    deadline = time.monotonic() + 90
    found: dict[str, float] = {}
    with httpx.Client(base_url=address, trust_env=False) as client:
        while not found:
            assert time.monotonic() < deadline, "no link was probed"
            time.sleep(0.2)
            try:
                page = client.get("/metrics/detail").text
            except httpx.TransportError:
                continue
            found = {peer: float(value) for peer, value in LATENCY.findall(page)}
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESSES[0], 0))
        port: int = probe.getsockname()[1]
    return port
