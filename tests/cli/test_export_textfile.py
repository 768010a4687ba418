"""`trntop export --textfile`, as a process of its own."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

SOURCE = "sim:healthy?nodes=1&minutes=1&seed=7"


def trntop(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trntop", "export", *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def families(path: Path) -> set[str]:
    return {family.name for family in text_string_to_metric_families(path.read_text())}


def test_once_writes_the_page_and_ends(tmp_path: Path) -> None:
    path = tmp_path / "trntop.prom"
    ran = trntop(SOURCE, "--textfile", str(path), "--once", "--compat", "amazonefa")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    found = families(path)
    assert {"trn_node_devices", "trntop_source_up", "node_amazonefa_tx_bytes"} <= found
    assert not any(name.startswith("process_") for name in found)
    assert [path.name for path in tmp_path.iterdir()] == ["trntop.prom"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--textfile", "{}/none/trntop.prom", "--once"], 1, "directory .*/none does not exist"),
        (["--textfile", "{}/trntop.txt", "--once"], 2, r"only files such as trntop"),
        (
            ["--textfile", "{}/trntop.prom", "-p", "0"],
            2,
            "--textfile cannot be combined with --listen, --port or --web.systemd-socket",
        ),
        (
            ["--textfile", "{}/trntop.prom", "--probe-every", "5m"],
            2,
            "--textfile cannot be combined with --allow-probes",
        ),
        (
            ["--textfile", "{}/trntop.prom", "--allow-probes"],
            2,
            "--textfile cannot be combined with --allow-probes",
        ),
        (["--once"], 2, "--once needs --textfile"),
    ],
)
def test_impossible_options_are_refused_in_one_line(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    ran = trntop(SOURCE, *(argument.format(tmp_path) for argument in arguments))
    assert ran.returncode == code
    assert re.fullmatch(rf"trntop: [^\n]*{words}[^\n]*\n", ran.stderr)
    assert not any(tmp_path.iterdir())


def test_stopped_it_takes_its_file_away(tmp_path: Path) -> None:
    path = tmp_path / "trntop.prom"
    process = subprocess.Popen(
        [sys.executable, "-m", "trntop", "export", SOURCE, "--textfile", str(path)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        while not path.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert "trntop_build_info" in path.read_text()
        process.send_signal(signal.SIGTERM)
        _, talk = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, talk) == (0, "")
    assert not any(tmp_path.iterdir())


def test_once_without_any_data_fails_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "trntop.prom"
    ran = trntop("http://127.0.0.1:1", "--textfile", str(path), "--once")
    assert ran.returncode == 1
    assert "trntop: no data from 127.0.0.1: connection refused" in ran.stderr
    assert "trntop_source_up" in path.read_text(), "what is known is written all the same"
