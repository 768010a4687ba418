"""Programs that are killed, and a system that changes under them."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.test_end_to_end import Pane
from tests.test_streams_end_to_end import ROOT, TRNTOP, environment
from tools.crash import SHARES, Crash, end, served, until
from trntop.recording.reader import open_recording

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("machine")]

SET_BACK = """
import signal, sys, time
real, back = time.time, []
time.time = lambda: real() - 3600.0 * len(back)
signal.signal(signal.SIGUSR1, lambda *_: back.append(1))
from trntop.cli import main
sys.exit(main())
"""
"""trntop, whose wall clock a signal sets back by an hour."""


@pytest.mark.parametrize("program", SHARES)
def test_fault_52_killed_programs_lose_no_more_than_documented(
    program: str, tmp_path: Path
) -> None:
    crash = Crash(tmp_path, random.Random(program))
    for _ in range(2):
        result = getattr(crash, program)()
        assert result.faults == ()


def frame(address: str) -> tuple[float, dict[str, Any]]:
    """Its time, and the only node."""
    answer = httpx.get(
        f"http://{address}/v1/frame", headers={"Accept": "application/json"}, trust_env=False
    ).json()
    (node,) = answer["nodes"]
    return answer["time"], node


def test_fault_21_a_live_agent_whose_clock_is_set_back(tmp_path: Path) -> None:
    """Its time goes on, its sources stay fresh, and it opens no incident."""
    fake = ROOT / "tests" / "fakes" / "neuron_monitor.py"
    agent = subprocess.Popen(
        (sys.executable, "-c", SET_BACK, "export", "--listen", "127.0.0.1:0",
         "--state", str(tmp_path), "--set", f"collect.neuron_monitor={fake}",
         "--set", "collect.period=0.2"),
        cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        address = served(agent)
        ready = f"http://{address}/-/ready"
        until(lambda: httpx.get(ready, trust_env=False).status_code == 200)
        since, before = frame(address)
        agent.send_signal(signal.SIGUSR1)
        until(lambda: frame(address)[0] > since + 3.0)
        now, after = frame(address)
        assert now < time.time() + 60.0
        states = {source["source"]: source["state"] for source in after["sources"]}
        assert states["neuron-monitor"] == "fresh"
        assert after["values"].keys() >= before["values"].keys()
        day = httpx.get(f"http://{address}/v1/incidents", trust_env=False).json()
        assert day["incidents"] == []
    finally:
        end(agent)


def test_fault_51_a_file_system_that_turns_read_only(tmp_path: Path) -> None:
    """By an error, while the journal is open: the agent reports it, and writes to the next one."""
    if os.geteuid() or not all(map(shutil.which, ("unshare", "nsenter", "mkfs.ext4", "losetup"))):
        pytest.skip("needs root and ext4")
    state, image = tmp_path / "state", tmp_path / "image"
    state.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(("mkfs.ext4", "-q", "-F", image), check=True)
    attached = subprocess.run(("losetup", "-f", "--show", image), capture_output=True, text=True)
    device = attached.stdout.strip()
    if not device:
        pytest.skip("no loop devices here")
    agent = subprocess.Popen(
        ("unshare", "--mount", "sh", "-c",
         f"mount -o errors=remount-ro {device} {state} || exit 77; exec \"$@\"", "sh",
         *TRNTOP, "export", "sim:demo?nodes=1&type=trn1.2xlarge&minutes=600", "--speed", "60",
         "--listen", "127.0.0.1:0", "--state", str(state)),
        cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert agent.stderr is not None
        try:
            address = served(agent)
        except RuntimeError:
            pytest.skip("no mounts here")
        journal = Path(f"/proc/{agent.pid}/root{state}/incidents-agent.jsonl")
        until(lambda: journal.read_bytes())
        Path(f"/sys/fs/ext4/{Path(device).name}/trigger_fs_error").write_text("1")
        line = agent.stderr.readline()
        assert "Read-only file system; incidents are not kept for a restart" in line
        generation = frame(address)[0]
        until(lambda: frame(address)[0] > generation)
        remount = f"umount -l {state} && mount -t tmpfs none {state}"
        subprocess.run(("nsenter", "-m", "-t", str(agent.pid), "sh", "-c", remount), check=True)
        assert agent.stderr.readline().endswith("incidents are kept again\n")
        assert b'"incident":' in journal.read_bytes()
    finally:
        end(agent)
        subprocess.run(("losetup", "-d", device), check=True)


def test_two_dashboards_record_one_incident(tmp_path: Path) -> None:
    """Both in the same second, in one directory."""
    agent = subprocess.Popen(
        (*TRNTOP, "export", "sim:ecc?nodes=1&type=trn1.2xlarge&onset=150",
         "--listen", "127.0.0.1:0"),
        cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    panes = [Pane(tmp_path / f"tmux-{number}", 100, 30) for number in range(2)]
    try:
        address = served(agent)
        for pane in panes:
            pane.start(f"http://{address}")
        folder = tmp_path / "state" / "trntop" / "blackbox"
        until(lambda: len(list(folder.glob("*.zst"))) == 2)
        for path in folder.iterdir():
            until(lambda: path.stat().st_size > 1000)  # noqa: B023
            assert len(list(open_recording(path))) > 10
    finally:
        for pane in panes:
            pane.kill()
        end(agent)


def test_fault_51_a_state_directory_that_is_read_only(tmp_path: Path) -> None:
    """The agent reports that incidents are not kept, and continues."""
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("needs root for a mount namespace")
    agent = subprocess.Popen(
        ("unshare", "--mount", "sh", "-c",
         f"mount -t tmpfs -o ro none {tmp_path} || exit 77; exec \"$@\"", "sh",
         *TRNTOP, "export", "sim:device-lost?nodes=1&type=trn1.2xlarge", "--listen", "127.0.0.1:0",
         "--state", str(tmp_path)),
        cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert agent.stderr is not None
        line = agent.stderr.readline()
        if agent.poll() == 77:
            pytest.skip("no mounts here")
        assert re.search("incidents are not kept for a restart: .*Read-only file system", line)
        address = served(agent)
        page = f"http://{address}/metrics"
        until(lambda: "\ntrntop_nodes 1\n" in httpx.get(page, trust_env=False).text)
    finally:
        end(agent)
