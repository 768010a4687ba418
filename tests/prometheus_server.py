"""A real Prometheus on loopback, for tests: scrapes, evaluates rules and answers queries.

with prometheus(tmp_path, [Scrape("trntop", ["127.0.0.1:10042"])]) as server:
    server.until("up == 1")
    assert server.query("trn_node_devices")[0].value == 16
"""

import json
import math
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus is not installed"
)

START_SECONDS = 30.0
WAIT_SECONDS = 30.0
STOP_SECONDS = 10.0
PAUSE = 0.05
ATTEMPTS = 3
"""A free port may be taken by another before Prometheus binds to it."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """A scrape job. `options` are further keys of a scrape config, `http_sd_configs` among them."""

    job: str
    targets: Sequence[str] = ()
    """`HOST:PORT` each."""
    path: str = "/metrics"
    labels: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        """As Prometheus' configuration file has it."""
        config: dict[str, Any] = {"job_name": self.job, "metrics_path": self.path}
        if self.targets:
            group = {"targets": list(self.targets), "labels": dict(self.labels)}
            config["static_configs"] = [group]
        return {**config, **self.options}


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series, the labels with `__name__` where the series has a name."""

    labels: Mapping[str, str]
    time: float
    value: float


class PrometheusServer:
    """A running Prometheus; made by `prometheus`."""

    def __init__(self, process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
        self._process = process
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=10.0)
        self._log = log
        self.url = url

    def query(self, expr: str, at: float | None = None) -> list[Sample]:
        """An instant vector, or a scalar as one sample without labels.

        Raises:
            ValueError: Prometheus refuses the expression, or warns of it.
        """
        data = self._get("query", query=expr, **_moment(at))
        if data["resultType"] == "scalar":
            time_, value = data["result"]
            return [Sample({}, float(time_), float(value))]
        return [
            Sample(series["metric"], float(series["value"][0]), float(series["value"][1]))
            for series in data["result"]
        ]

    def samples(
        self, selector: str, window: str = "1h", at: float | None = None
    ) -> list[list[Sample]]:
        """The stored samples of each series of a selector, oldest first; none later than `at`."""
        data = self._get("query", query=f"{selector}[{window}]", **_moment(at))
        return [
            [Sample(series["metric"], float(at), float(value)) for at, value in series["values"]]
            for series in data["result"]
        ]

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that are pending or firing, as the API gives them."""
        alerts: list[dict[str, Any]] = self._get("alerts")["alerts"]
        return alerts

    def rules(self) -> list[dict[str, Any]]:
        """All rules, with `health` and `lastError`."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        """The active targets, with `health` and `lastError`."""
        targets: list[dict[str, Any]] = self._get("targets")["activeTargets"]
        return targets

    def until(
        self,
        expr: str,
        enough: Callable[[list[Sample]], bool] = bool,
        seconds: float = WAIT_SECONDS,
    ) -> list[Sample]:
        """What a query gives, once it is `enough`: by default once it gives any series."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.query(expr)
            if enough(found):
                return found
            if time.monotonic() > deadline:
                pytest.fail(f"{expr} gives {found} after {seconds:g} s; {self.complaints()}")
            time.sleep(PAUSE)

    def complaints(self) -> list[str]:
        """The lines of its log that are warnings or errors."""
        lines = self._log.read_text(errors="replace").splitlines()
        return [line for line in lines if "level=warn" in line or "level=error" in line]

    def _get(self, what: str, **parameters: str) -> Any:
        answer = self._client.get(f"/api/v1/{what}", params=parameters).json()
        if answer["status"] != "success" or answer.get("warnings"):
            raise ValueError(f"{parameters}: {answer.get('error') or answer.get('warnings')}")
        return answer["data"]

    def wait_ready(self) -> bool:
        """Waits until it is ready; False where it ended instead, its port taken by another."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                if "address already in use" in self._log.read_text():
                    return False
                pytest.fail(f"prometheus has ended:\n{self._log.read_text()}")
            try:
                if self._client.get("/-/ready").status_code == 200:
                    return True
            except httpx.TransportError:
                pass
            time.sleep(PAUSE)
        pytest.fail(f"prometheus is not ready after {START_SECONDS:g} s:\n{self._log.read_text()}")

    def stop(self) -> None:
        """Ends it at once: nothing of its storage is wanted any more."""
        self._client.close()
        self._process.kill()
        self._process.wait(STOP_SECONDS)


@contextmanager
def prometheus(
    folder: Path,
    scrapes: Sequence[Scrape],
    rules: Sequence[Path] = (),
    interval: float = 1.0,
) -> Iterator[PrometheusServer]:
    """A Prometheus of its own, until the end of the block.

    Its first scrape comes after 5 s, whatever the interval: that is how often it searches new
    targets.

    Args:
        folder: an empty folder for its configuration, log and storage.
        scrapes: what it scrapes.
        rules: its rule files.
        interval: seconds between scrapes, and between evaluations; no finer than milliseconds.
    """
    every = f"{math.ceil(interval * 1000)}ms"
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [str(path.resolve()) for path in rules],
        "scrape_configs": [scrape.config() for scrape in scrapes],
    }
    file, log = folder / "prometheus.yml", folder / "prometheus.log"
    file.write_text(json.dumps(config))  # JSON is YAML
    for _ in range(ATTEMPTS):
        server = _start(file, log, folder / "data")
        try:
            if server.wait_ready():
                yield server
                return
        finally:
            server.stop()
    pytest.fail(f"found no port for prometheus:\n{log.read_text()}")


def _moment(at: float | None) -> dict[str, str]:
    """The parameter of a query with its time."""
    return {} if at is None else {"time": f"{at:.3f}"}


def _start(file: Path, log: Path, storage: Path) -> PrometheusServer:
    address = f"127.0.0.1:{_free_port()}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={storage}",
                f"--web.listen-address={address}",
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=file.parent,
        )
    return PrometheusServer(process, f"http://{address}", log)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
