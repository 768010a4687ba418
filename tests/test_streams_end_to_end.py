"""`trntop export` and its clients, as processes: snapshot, aggregator, recording, analysis."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.xdist_group("machine")

ROOT = Path(__file__).parents[1]
TRNTOP = (sys.executable, "-m", "trntop")


@contextlib.contextmanager
def export(*arguments: str) -> Iterator[str]:
    """An agent as a process of its own, and where it is."""
    with subprocess.Popen(
        (*TRNTOP, "export", *arguments, "--listen", "127.0.0.1:0"),
        cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            match = re.search(r"http://\S+(?=/metrics)", process.stderr.readline())
            assert match is not None
            yield match[0]
        finally:
            process.terminate()
            assert process.wait(5) == 0


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRNTOP")}
    return {**kept, "PYTHONPATH": str(ROOT)}


def run(*arguments: str, seconds: float = 30) -> str:
    done = subprocess.run(
        (*TRNTOP, *arguments),
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=seconds,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def snapshot(*sources: str) -> dict[str, dict[str, object]]:
    nodes: Sequence[dict[str, object]] = json.loads(run("snapshot", "--json", *sources))["nodes"]
    return {str(node["node"]): node for node in nodes}


@pytest.mark.slow
def test_an_aggregator_serves_its_nodes(tmp_path: Path) -> None:
    with (
        export("sim:healthy?nodes=1&type=trn1.2xlarge") as target,
        export("sim:healthy?nodes=2") as two,
    ):
        first_port, second_port = (url.rpartition(":")[2] for url in (target, two))
        sources = (f"http://127.0.0.1:{first_port}", f"http://127.0.0.2:9,127.0.0.1:{second_port}")
        with export(*sources) as aggregator:
            direct = snapshot(aggregator)
            assert set(direct) == {"127.0.0.1", "127.0.0.2", "trn-000", "trn-001"}
            assert {name: node["state"] for name, node in direct.items()} == {
                "127.0.0.1": "fresh", "127.0.0.2": "down", "trn-000": "fresh", "trn-001": "fresh",
            }  # fmt: skip
            rows = direct["127.0.0.2"]["sources"]
            assert isinstance(rows, list)
            assert rows[0]["reason"] == "connection refused: nothing listens there"
            assert all(node["simulated"] for name, node in direct.items() if name != "127.0.0.2")
            page = httpx.get(f"{aggregator}/metrics", trust_env=False).text
            for name, up in (("127.0.0.1", 1), ("127.0.0.2", 0), ("trn-001", 1)):
                assert f'trntop_source_up{{node="{name}",source="agent"}} {up}' in page
            assert page.count("\ntrn_node_neuroncore_utilization_mean_ratio{") == 3
            detail = httpx.get(f"{aggregator}/metrics/detail", trust_env=False).text
            assert detail.count("\ntrn_node_clock_offset_seconds{") == 3
            kept = tmp_path / "run.jsonl.zst"
            run("record", "--max-seconds", "5", "-o", str(kept), aggregator)
            again = snapshot(str(kept))
            assert {name for name, node in again.items() if node["values"]} == {
                "127.0.0.1", "trn-000", "trn-001",
            }  # fmt: skip
            report = json.loads(run("analyze", "--json", "--seconds", "4", aggregator))
            assert report["nodes"] == 4
            assert report["simulated"]


def test_an_aggregator_of_one_node_is_not_mistaken_for_it() -> None:
    with export("sim:healthy?nodes=1&type=trn1.2xlarge") as target:
        port = target.rpartition(":")[2]
        with export(f"http://localhost:{port}") as aggregator:
            assert set(snapshot(aggregator)) == {"localhost"}


def test_without_a_terminal_the_dashboard_prints_the_data_of_an_agent() -> None:
    with export("sim:healthy?nodes=1&type=trn1.2xlarge") as target:
        port = target.rpartition(":")[2]
        text = run(f"127.0.0.1:{port}")
    assert "SIMULATED" in text
    assert re.search(r"127\.0\.0\.1\s+fresh\s+training", text)


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    done = subprocess.run(
        (*TRNTOP, "snapshot", "http://ann:hunter2@trn-001"),
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "password_file" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
