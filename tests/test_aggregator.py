"""An aggregator as a process: what it finds survives `kill -9`, and is shown to who comes late."""

import contextlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.prometheus_server import Scrape, needs_prometheus, prometheus
from tests.test_streams_end_to_end import ROOT, TRNTOP, environment, run

pytestmark = pytest.mark.xdist_group("machine")

NODE = "sim:healthy?nodes=1&type=trn1.2xlarge&minutes=30"
QUICK = ("--set", "analysis.node_silent=2", "--set", "collect.period=0.5")
SECONDS = 40.0


class Exporter:
    """`trntop export` as a process."""

    def __init__(self, *arguments: str, listen: str = "127.0.0.1:0") -> None:
        self._process = subprocess.Popen(
            (*TRNTOP, "export", *arguments, "--listen", listen),
            cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        match = re.search(r"http://(\S+)/metrics", line)
        assert match is not None, line
        self.listen = match[1]
        self.port = self.listen.rpartition(":")[2]

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://{self.listen}{path}", trust_env=False)

    @property
    def day(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/v1/incidents").json()
        return found

    def end(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)
        assert self._process.wait(10) == (0 if number == signal.SIGTERM else -number)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def kill(self) -> None:
        if self._process.poll() is None:
            self.end(signal.SIGKILL)


@contextlib.contextmanager
def exporters() -> Iterator[Callable[..., Exporter]]:
    """Starts exporters; all are ended."""
    made: list[Exporter] = []

    def start(*arguments: str, **options: str) -> Exporter:
        made.append(Exporter(*arguments, **options))
        return made[-1]

    try:
        yield start
    finally:
        for process in made:
            process.kill()


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def doctor(agent: Exporter) -> str:
    """What it reports on aggregators on a machine with this agent."""
    done = subprocess.run(
        (*TRNTOP, "doctor", "--set", f"export.listen={agent.listen}"),
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    return next(line for line in done.stdout.splitlines() if line[2:].startswith("aggregator"))


def with_nodes(page: str) -> str:
    return page if "\ntrntop_nodes 2\n" in page else ""


@pytest.mark.slow
def test_an_aggregator_outlives_its_end(tmp_path: Path) -> None:
    with exporters() as start:
        here, there = start(NODE), start(NODE)
        nodes = f"http://127.0.0.1:{here.port},localhost:{there.port}"
        aggregator = start(nodes, "--state", str(tmp_path), *QUICK)
        until(lambda: "\ntrntop_aggregated 1\n" in here.get("/metrics").text)
        until(lambda: aggregator.day["nodes"] == 2 and not aggregator.day["problems"])
        there.kill()
        (found,) = until(lambda: aggregator.day["incidents"])
        assert (found["kind"], found["node"], found["closed_at"]) == (
            "node_silent",
            "localhost",
            None,
        )
        assert doctor(here).startswith("✓ aggregator: one reads the agent")
        assert doctor(aggregator).startswith("✗ aggregator: none reads the agent")
        aggregator.kill()

        again = start(nodes, "--state", str(tmp_path), *QUICK)
        (recovered,) = again.day["incidents"]
        # With the first nodes: no page without it, so that no alert is resolved and fires again.
        page = until(lambda: with_nodes(again.get("/metrics").text))
        assert re.search(r'\ntrn_incident_active\{kind="node_silent".* 1\n', page)
        members = ("id", "opened_at", "detected_at", "severity", "returns", "summary", "evidence")
        assert [recovered[name] for name in members] == [found[name] for name in members]

        # The program for the day, by itself and as a dashboard that opens late.
        text = run("incidents", again.listen)
        assert "aggregator of 2 nodes" in text
        assert "Node silent" in text
        (incident,) = json.loads(run("incidents", again.listen, "--json"))["incidents"]
        assert incident["id"] == found["id"]
        (shown,) = json.loads(run("snapshot", "--json", again.listen))["incidents"]
        assert (shown["id"], shown["opened_at"]) == (found["id"], found["opened_at"])


@needs_prometheus
def test_the_alert_on_a_straggler_fires_once_and_without_a_dashboard(tmp_path: Path) -> None:
    """With the rules and the scrape configuration that are deployed."""
    deployed = ROOT / "deploy" / "prometheus"
    (config,) = yaml.safe_load((deployed / "aggregator.yml").read_text())["scrape_configs"]
    relabel = {
        name: config[name] for name in config if name.endswith(("relabel_configs", "labels"))
    }
    with exporters() as start:
        # It has seen the node slow down before it is asked for the first time.
        agent = start("sim:slow-node?nodes=4&type=trn1.2xlarge&onset=40")
        aggregator = start(agent.listen)
        until(lambda: "\ntrntop_aggregated 1\n" in agent.get("/metrics").text)
        until(lambda: 'trn_incident_active{kind="straggler"' in aggregator.get("/metrics").text)
        # The agent of the simulation has all nodes, and finds it too.
        until(lambda: 'trn_incident_active{kind="straggler"' in agent.get("/metrics").text)
        scrapes = [
            Scrape("trntop", [agent.listen]),
            Scrape("trntop-aggregator", [aggregator.listen], options=relabel),
        ]
        with prometheus(tmp_path, scrapes, [deployed / "trntop.rules.yml"], 0.5) as server:
            # The values of the nodes are the agents', once each.
            server.until("count(trn_instance_info) == 4 and min(up) == 1")
            server.until('ALERTS{alertname="TrntopStraggler",alertstate="firing"}')
            # The condition is quoted once the limits of the aggregator are scraped, too.
            server.until('trn_rule_info{kind="straggler"}')

            def alerts() -> list[dict[str, Any]]:
                return [
                    alert for alert in server.alerts() if alert["labels"].get("kind") == "straggler"
                ]

            until(lambda: "Condition:" in alerts()[0]["annotations"]["description"])
            (alert,) = alerts()
            (incident,) = aggregator.day["incidents"]
            assert alert["labels"]["node"] == incident["node"]
            assert alert["labels"]["severity"] == incident["severity"]
            assert alert["labels"]["job"] == "trntop"
            assert "instance" not in alert["labels"]
            assert (
                "Condition: a node, rank or core more than 7 %"
                in alert["annotations"]["description"]
            )
            assert float(alert["value"]) == pytest.approx(incident["opened_at"])
            (row,) = json.loads(run("incidents", "--json", f"prometheus+{server.url}"))["incidents"]
            assert (row["kind"], row["node"]) == ("straggler", incident["node"])
            assert row["closed_at"] is None
            assert row["opened_at"] == pytest.approx(incident["opened_at"], abs=1)


def test_a_source_without_incidents_gives_one_line(tmp_path: Path) -> None:
    for arguments, reason in (
        (("127.0.0.1:9",), "http://127.0.0.1:9: connection refused: nothing listens there"),
        (("sim:demo",), "sim:demo keeps no incidents: name an agent, an aggregator or"),
    ):
        done = subprocess.run(
            (*TRNTOP, "incidents", *arguments),
            cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert done.stderr.startswith(f"trntop: {reason}")
        assert done.stderr.count("\n") == 1
