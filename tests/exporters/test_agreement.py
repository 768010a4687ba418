"""Screen, page and alerts agree: a real Prometheus evaluates the rules that trntop prints.

Each scenario of the simulator is served as an exporter of its own. A scrape gets the page of 15
seconds of data after the one before, so that a minute of the run passes in a second or two.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.corpus import SCENARIOS, SPACING, played
from tests.pages_server import serving
from tests.prometheus_server import PrometheusServer, Sample, Scrape, needs_prometheus, prometheus
from tests.tui.sample_run import FakeSession, app_of
from tests.tui.settled import settled
from trntop.analysis.rulebook import RULEBOOK, rules
from trntop.analysis.runbook import kind_name
from trntop.catalog import Page
from trntop.cli import main
from trntop.core.model import Incident, View
from trntop.core.settings import Settings
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.rules.alerts import name_of
from trntop.exporters.rules.recording import HELD
from trntop.tui.screens.incidents import IncidentsScreen

pytestmark = [needs_prometheus, pytest.mark.xdist_group("corpus")]

INTERVAL = 0.5
"""Seconds in which they pass; also between evaluations."""
BEFORE, AFTER = 4, 3
"""Pages served before the first incident and after the last."""

Labels = tuple[str, str, str, str, str]
"""Kind, severity, training job, node and component of an incident."""
LABELS = ("kind", "severity", "training_job", "node", "component")


@dataclass(frozen=True, slots=True)
class Frame:
    """What a scrape gets, and what the screen shows at that moment."""

    page: bytes
    view: View
    unjudged: frozenset[str]
    """Kinds that are not on the page."""

    @property
    def shown(self) -> dict[Labels, float]:
        """The open incidents, and since when."""
        return {labels_of(incident): incident.opened_at for incident in self.view.open_incidents}


def labels_of(incident: Incident) -> Labels:
    """As the page has it: a runtime without its pid."""
    component = re.sub(r"^runtime:.*", "runtime", incident.component or "")
    return (
        incident.kind, str(incident.severity), incident.job or "", incident.node or "", component,
    )  # fmt: skip


def frames(name: str) -> list[Frame]:
    """The pages of a scenario around what happens in it."""
    views = played(name).views
    eventful = [number for number, view in enumerate(views) if view.open_incidents]
    if eventful:
        views = views[max(0, eventful[0] - BEFORE) : eventful[-1] + 1 + AFTER]
    # Without `process_start_time_seconds`: incidents of an exporter that has just started are held.
    exposition = Exposition(usage=tuple, rules=rules(Settings().analysis))
    made = []
    for view in views:
        page = exposition.render(view).body(Page.METRICS, Format.TEXT)
        judged = re.findall(rb'^trn_incidents\{kind="(\w+)"\} ', page, re.MULTILINE)
        kinds = {rule.kind for rule in RULEBOOK} - {kind.decode() for kind in judged}
        made.append(Frame(page, view, frozenset(kinds)))
    return made


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Frame]]:
    return {name: frames(name) for name in ("healthy", *SCENARIOS)}


def rule_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["rules", "prometheus"]) == 0
    file = folder / "trntop.rules.yml"
    file.write_text(capsys.readouterr().out)
    return file


def test_fault_59_alerts_fire_for_what_the_screen_shows_and_when(
    corpus: dict[str, list[Frame]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = rule_file(tmp_path, capsys)
    pages = {f"/{name}": [scrape.page for scrape in made] for name, made in corpus.items()}
    with serving(pages) as server:
        scrapes = [Scrape(name, [server.address], f"/{name}") for name in corpus]
        with prometheus(tmp_path, scrapes, [file], INTERVAL) as real:
            (now,) = real.until("vector(time())", lambda _: server.over, 90)
            real.until(f"vector(time()) > {now.value + 3 * INTERVAL}")  # the last is judged too
            assert [rule["lastError"] for rule in real.rules() if rule["health"] != "ok"] == []
            assert real.complaints() == []
            evaluations = sorted(
                {
                    sample.time
                    for series in real.samples('ALERTS{alertname=~".*NoData"}')
                    for sample in series
                }
            )
            for name, made in corpus.items():
                # The last one may still be under way.
                check(real, name, made, evaluations[:-1])


def check(
    real: PrometheusServer, name: str, made: Sequence[Frame], evaluations: Sequence[float]
) -> None:
    """Alerts follow the page, which is that of the screen, within one evaluation."""

    def samples(selector: str) -> list[list[Sample]]:
        return real.samples(selector, at=evaluations[-1])

    (ups,) = samples(f'up{{job="{name}"}}')
    assert {sample.value for sample in ups} == {1.0}, name
    times = [at for at in evaluations if at >= ups[0].time]

    expected: dict[Labels, list[int]] = defaultdict(list)
    since: dict[Labels, set[float]] = defaultdict(set)
    for number, at in enumerate(times):
        scraped = sum(sample.time <= at for sample in ups)
        for incident, opened in made[min(scraped, len(made)) - 1].shown.items():
            expected[incident].append(number)
            since[incident].add(opened)
    fired: dict[Labels, list[int]] = {}
    query = f'ALERTS{{job="{name}",alertstate="firing",alertname!~".*NoData"}}'
    for series in samples(query):
        labels = series[0].labels
        alert = (*(labels.get(label, "") for label in LABELS),)
        assert labels["alertname"] == name_of(labels["kind"])
        fired[alert] = sorted(times.index(sample.time) for sample in series)

    assert fired.keys() == expected.keys(), name
    for incident, numbers in fired.items():
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), (name, incident)
        assert numbers[0] - expected[incident][0] in (0, 1), (name, incident)
        assert numbers[-1] - expected[incident][-1] in (0, 1), (name, incident)
    held = {
        (*(series[0].labels.get(label, "") for label in LABELS),): {row.value for row in series}
        for series in samples(f'{HELD}{{job="{name}"}}')
    }
    assert held == since, name
    # Those that cannot be judged are neither quiet nor well.
    blind = samples(f'ALERTS{{job="{name}",alertname=~".*NoData"}}')
    last = {series[0].labels["kind"] for series in blind if series[-1].time == times[-1]}
    assert last == made[-1].unjudged, name


def test_the_page_agrees_with_the_screen_as_soon_as_it_changes(
    corpus: dict[str, list[Frame]],
) -> None:
    assert not any(frame.shown for frame in corpus["healthy"])
    for name in SCENARIOS:
        for frame in corpus[name]:
            page = frame.page.decode()
            lines = re.findall(r"^trn_incident_active\{(.*)\} 1$", page, re.MULTILINE)
            labels_shown = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in lines]
            places = {(*(labels.get(label, "") for label in LABELS),) for labels in labels_shown}
            assert places == frame.shown.keys()
        opening = next(frame for frame in corpus[name] if frame.shown)
        (incident,) = opening.view.open_incidents
        assert incident.detected_at is not None
        assert 0 <= opening.view.time - incident.detected_at < SPACING, name


@pytest.mark.parametrize("name", ["efa-degraded", "checkpoint-stall"])
async def test_the_table_of_incidents_has_the_same_rows(
    corpus: dict[str, list[Frame]], name: str
) -> None:
    frame = [scrape for scrape in corpus[name] if scrape.shown][1]
    app = app_of(FakeSession(frame.view))
    async with app.run_test(size=(160, 40)) as pilot:
        await settled(pilot)
        await pilot.press("i")
        await settled(pilot)
        screen = app.screen
        assert isinstance(screen, IncidentsScreen)
        rows = [row for row in screen.table.rows if row.open]
        assert {labels_of(row): row.opened_at for row in rows} == frame.shown
        strips = screen._compositor.render_strips()
        picture = "\n".join("".join(part.text for part in strip) for strip in strips)
    ((kind, severity, job, node, _),) = frame.shown
    assert kind_name(kind) in picture
    rows_of = [line for line in picture.splitlines() if severity in line]
    assert any((node or job) in line for line in rows_of)
