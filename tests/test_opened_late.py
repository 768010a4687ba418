"""Agents, aggregators and dashboards that open late, each a process of its own.

The agents play the recordings of one simulated job in real time, with a fault at a known time.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.terminal import cpu_seconds
from tests.test_aggregator import Exporter, exporters, until
from tests.test_end_to_end import Pane
from tests.test_streams_end_to_end import ROOT, environment, run
from trntop.collectors.simulator import Truth, parse, simulate, truth
from trntop.recording.writer import Recorder

pytestmark = [
    pytest.mark.xdist_group("machine"),
    pytest.mark.slow,  # 100 s of real time, and 20 processes
]

NODES = 16
FAULT = 60.0
"""Seconds after the begin of the recordings at which the fault begins."""
AHEAD = 25.0
"""Seconds until then when the agents are started."""
SCENARIO = f"sim:efa-degraded?type=trn1.32xlarge&onset={FAULT}&minutes=3"
TICK = 3.5
"""Seconds between two readings of EFA counters, and a tick."""
OPENED = 3.0
"""Seconds of CPU time in which a dashboard shows what it finds: other programs run here, too."""


@dataclass
class Cluster:
    """Agents at 127.0.0.1, 127.0.0.2 and so on."""

    port: int
    truth: Truth
    nodes: int

    @property
    def sources(self) -> str:
        return f"http://127.0.0.[1-{self.nodes}]:{self.port}"

    @property
    def node(self) -> str:
        """The faulty one: dashboards name nodes by their addresses."""
        assert self.truth.node is not None
        return address(self.truth.node)


def address(node: str) -> str:
    return f"127.0.0.{int(node.removeprefix('trn-')) + 1}"


@contextmanager
def cluster(folder: Path, nodes: int, duration: float) -> Iterator[Cluster]:
    """Agents of one job, of which one has a fault for `duration` seconds."""
    simulation = parse(f"{SCENARIO}&nodes={nodes}&duration={duration:g}")
    start = time.time() + AHEAD - FAULT
    with ExitStack() as files:
        recorders: dict[str, Recorder] = {}
        for reading in simulate(simulation, start):
            recorder = recorders.get(reading.node)
            if recorder is None:
                path = folder / f"{reading.node}.jsonl"
                recorder = recorders[reading.node] = Recorder(path, created=start)
                files.enter_context(recorder)
            recorder.write(reading)
    (fault,) = truth(simulation, start)
    agents: list[subprocess.Popen[str]] = []
    try:
        port = "0"
        for node in sorted(recorders):
            agents.append(
                subprocess.Popen(
                    (sys.executable, "-m", "tests.present_agent", str(folder / f"{node}.jsonl"),
                     "--listen", f"{address(node)}:{port}"),
                    cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True,
                )
            )  # fmt: skip
            if port == "0":
                port = listening(agents[0])
        for agent in agents[1:]:
            listening(agent)
        yield Cluster(int(port), fault, nodes)
    finally:
        for agent in agents:
            agent.terminate()
        for agent in agents:
            assert agent.wait(10) == 0
            assert agent.stderr is not None
            agent.stderr.close()


def listening(agent: "subprocess.Popen[str]") -> str:
    assert agent.stderr is not None
    found = re.search(r":(\d+)/metrics", agent.stderr.readline())
    assert found is not None
    return found[1]


class Dashboard:
    """A dashboard in a terminal."""

    def __init__(self, folder: Path, *sources: str) -> None:
        folder.mkdir()
        self.pane = Pane(folder / "tmux", 200, 50)
        self.started = time.monotonic()
        self.pane.start(*sources, TZ="UTC")

    def close(self) -> None:
        """Quits as a user does; the shell has its terminal back."""
        self.pane.press("q")
        self.pane.gone()
        self.pane.kill()

    def shows(self, *texts: str) -> tuple[float, float]:
        """Seconds, and those of the CPU, from its start until it shows all texts."""
        self.pane.until(*texts)
        return time.monotonic() - self.started, cpu_seconds(self.pane.pid)


def clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(seconds))


def found(document: dict[str, Any], kind: str) -> dict[str, Any]:
    (incident,) = [incident for incident in document["incidents"] if incident["kind"] == kind]
    return incident


def check(cluster: Cluster, incident: dict[str, Any], *, is_open: bool) -> None:
    """The true node, device and onset, with evidence."""
    assert (incident["node"], incident["component"]) == (cluster.node, cluster.truth.component)
    assert incident["opened_at"] == pytest.approx(cluster.truth.onset, abs=TICK)
    assert cluster.node in {evidence.get("node") for evidence in incident["evidence"]}
    assert (incident["closed_at"] is None) is is_open
    if not is_open:
        assert incident["closed_at"] >= cluster.truth.end


def opened(folder: Path, cluster: Cluster, *sources: str, incident: dict[str, Any]) -> None:
    """A dashboard shows an open incident with its start and the time before it, soon."""
    dashboard = Dashboard(folder, *sources)
    try:
        since = clock(incident["opened_at"])
        seconds, busy = dashboard.shows(
            since, cluster.node, str(incident["component"]).removeprefix("efa:")
        )
        print(f"{folder.name}: {seconds:.1f} s, {busy:.1f} s of the CPU")
        assert busy < OPENED
        dashboard.pane.press("5")
        shown = dashboard.pane.until("evidence and runbook", f"since {since}")
        # The chart of the device has its past: healthy before the onset.
        assert re.search(r"[▁▂▃▄▅▆▇█⣀-⣿]{3}|[─╭╮╯╰]{12}", shown)
    finally:
        dashboard.close()


def test_dashboards_that_open_late_know_what_was_before(tmp_path: Path) -> None:
    with cluster(tmp_path, NODES, 18) as made, exporters() as start:
        state = ("--state", str(tmp_path / "state"))
        aggregator = start(made.sources, *state)
        until(lambda: aggregator.day["nodes"] == NODES and not aggregator.day["problems"])

        # The fault is detected; then a dashboard opens.
        until(lambda: aggregator.day["incidents"])
        first = found(aggregator.day, "efa_degraded")
        check(made, first, is_open=True)
        opened(tmp_path / "aggregator", made, aggregator.listen, incident=first)
        direct = json.loads(run("snapshot", "--json", made.sources))
        same = found(direct, "efa_degraded")
        check(made, same, is_open=True)
        opened(tmp_path / "agents", made, made.sources, incident=same)

        aggregator.kill()
        again: Exporter = start(made.sources, *state)
        recovered = found(again.day, "efa_degraded")
        assert (recovered["id"], recovered["opened_at"]) == (first["id"], first["opened_at"])

        # The fault is over; then the next one comes.
        until(lambda: found(again.day, "efa_degraded")["closed_at"] is not None)
        last = found(again.day, "efa_degraded")
        assert last["id"] == first["id"]
        check(made, last, is_open=False)
        for name, source in (("after", again.listen), ("after-direct", made.sources)):
            late = found(json.loads(run("snapshot", "--json", source)), "efa_degraded")
            check(made, late, is_open=False)
            dashboard = Dashboard(tmp_path / name, source)
            try:
                dashboard.shows("✓ no incidents", "1 closed")
                dashboard.pane.press("5")
                dashboard.pane.until("closed", clock(late["opened_at"]), made.node)
            finally:
                dashboard.close()
