"""Every screen on a Prometheus backend: a real one, and VictoriaMetrics, over simulated agents."""

import asyncio
import dataclasses
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.builders import NOON, make_view
from tests.collectors.prometheus.behind import NODES, imported, needs_victoria, scraped
from tests.prometheus_server import needs_prometheus
from tests.tui.sample_run import FakeSession, app_of
from tests.tui.test_app import picture, press, running, shown
from trntop.cli import opening
from trntop.core.model import ClusterTotals
from trntop.core.settings import Settings
from trntop.core.source_spec import parse_all
from trntop.tui.app import TrntopApp
from trntop.tui.screens.node import NodeScreen

pytestmark = pytest.mark.xdist_group("prometheus")

ROOT = Path(__file__).parents[2]
SIZE = (130, 40)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    written = subprocess.run(
        [sys.executable, "-m", "trntop", "rules", "prometheus"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    rules = folder / "trntop.rules.yml"
    rules.write_text(written.stdout)
    with scraped(folder, [rules]) as real:
        yield real.url


def backend_app(url: str) -> TrntopApp:
    settings = Settings()
    return TrntopApp(opening.session(parse_all([f"prometheus+{url}"]), settings), settings=settings)


async def until(
    pilot: Pilot[int], app: TrntopApp, enough: Callable[[str], object], seconds: float = 15.0
) -> str:
    """The text on the screen, once it is complete."""
    deadline = time.monotonic() + seconds
    while not enough(text := picture(app)):
        assert time.monotonic() < deadline, text
        await pilot.pause(0.1)
    return text


async def _all_screens(url: str) -> None:
    app = backend_app(url)
    async with running(app, SIZE) as pilot:
        text = await until(pilot, app, lambda text: text.count("trn-00") > NODES)
        assert "SIMULATED" in text
        assert f"{NODES} × trn2.48xlarge" in text
        assert "data " in text
        assert " old" in text
        assert "efa degraded" in text
        victim = next(
            incident.node for incident in app.session.view.open_incidents if incident.node
        )
        # The cursor is on the worst node, of which all is known.
        view = app.session.view
        await until(pilot, app, lambda _: "core" in app.session.view.cluster.nodes[victim]
                    .inventory.keys)  # fmt: skip
        assert "neuroncore_utilization_ratio" not in view.cluster.nodes["trn-007"].frame.columns
        await press(pilot, "2")
        text = await until(pilot, app, lambda text: "devices and cores" in text)
        assert isinstance(app.screen, NodeScreen)
        assert app.screen.node == victim
        assert "16 devices · 64 cores (LNC=2)" in text
        assert "rdmap" in text
        began = time.monotonic()
        await press(pilot, "n")
        turned = app.screen.node
        assert turned != victim
        await until(pilot, app, lambda text: "64 cores" in text and f"{turned} " in text)
        assert time.monotonic() - began < 3.0
        for key, words in (
            ("3", ("comm share of step", "limit 25 %", "single ranks are unknown: Prometheus")),
            ("4", ("EFA devices · traffic vs peers", "128/128 EFA devices up", "rdmap")),
            ("5", ("EFA degraded", "has the evidence")),
            ("6", ("last 5 min", "step time")),
            ("1", ("nodes · worst first",)),
        ):
            await press(pilot, key)
            await until(pilot, app, partial(_has, words))
        app.session.stop()


@needs_prometheus
async def test_every_screen_on_prometheus(server: str) -> None:
    await asyncio.wait_for(_all_screens(server), 60)


@needs_prometheus
def test_a_snapshot_of_it(server: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trntop", "snapshot", f"prometheus+{server}"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trn-00") >= NODES
    assert "SIMULATED" in done.stdout


@pytest.mark.slow
@needs_victoria
async def test_every_screen_on_victoria_metrics(tmp_path: Path) -> None:
    with imported(tmp_path) as url:
        await asyncio.wait_for(_all_screens(url), 60)


def _has(words: Sequence[str], text: str) -> bool:
    return all(word in text for word in words)


def _behind(whole: ClusterTotals, *, calm: bool = False) -> FakeSession:
    made = make_view(3)
    cluster = dataclasses.replace(made.cluster, whole=whole)
    incidents = () if calm else made.incidents
    return FakeSession(dataclasses.replace(made, cluster=cluster, incidents=incidents))


async def _text(session: FakeSession) -> str:
    app = app_of(session)
    async with running(app, SIZE) as pilot:
        await pilot.pause()
        return picture(app)


async def test_the_header_shows_what_part_of_the_cluster_is_shown() -> None:
    values = {"node_neuroncore_utilization_mean_ratio": 0.42}
    whole = ClusterTotals(
        nodes=31250, chosen=True, down=17, newest=NOON - 12, values=values, simulated=True
    )
    text = await _text(_behind(whole))
    assert "3 worst of 31,250 nodes" in text
    assert "17 not scraped" in text
    assert "data 12 s old" in text
    assert "SIMULATED" in text


async def test_a_backend_that_lags_gives_no_all_clear() -> None:
    text = await _text(_behind(ClusterTotals(nodes=3, newest=NOON - 300, old=True), calm=True))
    assert "newest sample in Prometheus is 5 min old" in text
    assert "no incidents" not in text


async def test_without_a_judge_nothing_is_shown_as_healthy() -> None:
    text = await _text(_behind(ClusterTotals(nodes=3, newest=NOON, judged=False), calm=True))
    assert "incidents not evaluated" in text


async def test_why_there_is_no_answer() -> None:
    text = await _text(
        _behind(ClusterTotals(nodes=3, newest=NOON, problem="429: too many questions"))
    )
    assert "Prometheus: 429: too many questions" in text


async def test_the_session_receives_the_focused_node() -> None:
    session = _behind(ClusterTotals(nodes=3, newest=NOON))
    app = app_of(session)
    async with running(app, SIZE) as pilot:
        first = shown(app).subject
        assert session.looked_at == first
        await press(pilot, "j")
        await pilot.pause()
        assert session.looked_at == shown(app).subject != first
