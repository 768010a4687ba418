"""A real Prometheus scrapes: the agent over the demo, and names that should not be used."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
import yaml

from tests.pages_server import serving
from tests.prometheus_server import Sample, Scrape, needs_prometheus, prometheus
from trntop.catalog import STEPS, Page
from trntop.cli import main
from trntop.core.model import Reading
from trntop.core.settings import Settings
from trntop.core.text import clean
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.rules.recording import HELD
from trntop.session.monitor import Monitor

pytestmark = [needs_prometheus, pytest.mark.xdist_group("servers")]

ROOT = Path(__file__).parents[2]
JOBS = {Page.METRICS: "trntop", Page.DETAIL: "trntop-detail", Page.CORES: "trntop-cores"}


@pytest.fixture
def agent() -> Iterator[str]:
    """Address of a real one over the demo."""
    source = "sim:demo?nodes=4&type=trn1.32xlarge"
    process = subprocess.Popen(
        [sys.executable, "-m", "trntop", "export", source, "--listen", "127.0.0.1:0"],
        stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://([\d.]+:\d+)", line)
        assert found is not None, line
        yield found[1]
    finally:
        process.terminate()
        process.wait(10)
        process.stderr.close()


def lines(address: str, page: Page) -> int:
    """Series of a page as it is now."""
    text = httpx.get(f"http://{address}{page.path}", trust_env=False).text
    return sum(not line.startswith("#") for line in text.splitlines())


def test_the_agent_over_the_demo(
    agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rules", "prometheus"]) == 0
    rules = tmp_path / "trntop.rules.yml"
    rules.write_text(capsys.readouterr().out)
    scrapes = [Scrape(job, [agent], page.path) for page, job in JOBS.items()]
    with prometheus(tmp_path, scrapes, [rules]) as real:
        real.until("up == 1", lambda found: len(found) == len(JOBS))
        for page, job in JOBS.items():

            def as_many(found: list[Sample], page: Page = page) -> bool:
                return bool(found) and found[0].value == lines(agent, page) > 100

            real.until(f'scrape_samples_scraped{{job="{job}"}}', as_many)
        records = {
            rule["record"]
            for group in yaml.safe_load(rules.read_text())["groups"]
            for rule in group["rules"]
            if "record" in rule
        }
        # The demo begins with a healthy minute, in which no incident is open.
        wanted = {name for name in records - {HELD} if ":trn_incident" not in name}
        real.until(
            'group by (__name__) ({__name__=~".+:.+:.+"})',
            lambda found: {series.labels["__name__"] for series in found} >= wanted,
        )
        assert [rule["lastError"] for rule in real.rules() if rule["health"] != "ok"] == []
        assert [target["lastError"] for target in real.targets()] == [""] * len(JOBS)
        (nodes,) = real.query("cluster:trn_instance_info:count")
        assert (nodes.value, nodes.labels["simulated"]) == (4, "true")
        assert real.complaints() == []


NAMES = (
    'a "quoted" name', "back\\slash", "back\\nslash-n", "}", '{a="b"} 1 #', "two\nlines",
    "bell\x07",
    "\x1b[31mred\x1b]0;title\x07", "\x9b2J", "nul\x00", "zero\u200bwidth", "\u202eright", "ünï",
    "日本", "e" + 50 * "\u0301", 1_000_000 * "x", "# HELP x y", "lone \udcff surrogate",
)  # fmt: skip


@pytest.mark.parametrize("written", list(Format))
def test_any_name_can_be_scraped(written: Format, tmp_path: Path) -> None:
    jobs = [name for name in NAMES if "\udcff" not in name]
    monitor = Monitor(Settings())
    for rank, job in enumerate(jobs):
        step = {"job": job, "rank": rank, "step": 7, "step_seconds": 2.0}
        monitor.feed(Reading("trn-001", STEPS, 1.76e9, msgspec.json.encode(step)))
    monitor.feed(Reading("trn-001", STEPS, 1.76e9, b'{"job": "\xff\xfe}", "step": 1}'))
    for node in NAMES:
        # Names of nodes are cleaned where a stream is read; here they come as they are.
        step = {"job": "one", "rank": 0, "step": 7, "step_seconds": 2.0}
        monitor.feed(Reading(node, STEPS, 1.76e9, msgspec.json.encode(step)))
    page = Exposition().render(monitor.tick(1.76e9)).body(Page.METRICS, written)
    with (
        serving({"/metrics": [page]}, written) as server,
        prometheus(tmp_path, [Scrape("trntop", [server.address])], interval=0.5) as real,
    ):
        (up,) = real.until("up")
        (target,) = real.targets()
        assert (up.value, target["lastError"]) == (1, "")
        (count,) = real.query("scrape_samples_scraped")
        series = [line for line in page.decode().split("\n") if line and line[0] != "#"]
        assert count.value == len(series)
        reported_jobs = {series.labels["training_job"] for series in real.query("trn_job_step")}
        # Two that differ beyond the cut, or in what is not shown, are one.
        assert reported_jobs == {clean(job, 128) for job in jobs} | {"one"}
        nodes = {series.labels["node"] for series in real.query("trn_instance_info")}
        assert nodes == {name.replace("\udcff", "?") for name in NAMES} | {"trn-001"}
        assert real.complaints() == []
