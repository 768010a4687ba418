"""From when on each rule judges, and what it needs before that."""

from dataclasses import replace

import pytest

from tests.analysis.test_analyzer import steps
from tests.builders import NOON, make_node, view_of
from tests.corpus import SCENARIOS, played
from tests.reports import efa_payload, efa_reading, monitor_reading, runtime
from tests.reports import report as monitored
from tests.tui.render.contexts import CONTEXT, text
from trntop.analysis.coverage import beginning, joined, lack, lacks, summary, without_input
from trntop.analysis.rulebook import KINDS
from trntop.core.model import Coverage, Reading, RuleCoverage, View
from trntop.core.settings import Analysis, Settings
from trntop.exporters.report import report
from trntop.pipeline.history import History
from trntop.session.monitor import Monitor, play
from trntop.tui.render import alert, incidents
from trntop.tui.view_model import ViewModel

pytestmark = pytest.mark.xdist_group("corpus")


def views_of(readings: list[Reading]) -> list[View]:
    readings.sort(key=lambda reading: reading.time)
    return list(play(readings, Monitor(Settings())))


def needs(view: View) -> dict[str, str]:
    return {rule.kind: lack(rule, view.time) for rule in view.coverage.rules}


@pytest.mark.parametrize("name", sorted({*SCENARIOS, "healthy"}))
def test_no_rule_opens_an_incident_before_it_judges(name: str) -> None:
    view = played(name).last
    since = {rule.kind: rule.since for rule in view.coverage.rules if rule.judges(view.time)}
    for incident in view.incidents:
        assert incident.detected_at is not None
        assert since[incident.kind] is not None
        assert since[incident.kind] <= incident.detected_at  # type: ignore[operator]
    # All rules that wait for no longer past do after a minute.
    assert view.coverage.watching is not None
    assert view.coverage.since is not None
    assert 30 <= view.coverage.since - view.coverage.watching <= 62
    missing = {rule.kind for rule in view.coverage.rules if rule.missing}
    assert missing == ({"latency_regression"} if name != "latency-regression" else set())


def test_rules_count_the_steps_that_they_need() -> None:
    views = views_of(steps(0, 240, 0.6, 0.2))
    early = views[9]
    assert needs(early)["straggler"] == "needs 4 more steps"
    assert needs(early)["comm_bound"] == "needs 16 s more"
    assert needs(early)["latency_regression"] == "no input, needs probe"
    assert not early.coverage.judges(early.time)
    # Steps of 4 s: the seventh is that of second 24 after the first.
    judged = next(view for view in views if not needs(view)["straggler"])
    assert judged.time - views[0].time == pytest.approx(24, abs=2)
    assert {rule.kind for rule in judged.coverage.rules} == set(KINDS)
    last = views[-1]
    assert needs(last)["slowdown"] == ""
    assert needs(last)["efa_degraded"] == "no input, needs efa"


def test_a_rule_without_input_for_long_starts_over() -> None:
    devices = [efa_reading(efa_payload(a={"tx_bytes": t}), float(t)) for t in range(30)]
    views = views_of(
        devices + [monitor_reading(monitored(runtime()), float(t)) for t in range(130)]
    )
    states = [needs(view)["efa_degraded"] for view in views]
    assert states[0] == "needs 12 s more"
    assert states[12] == ""
    assert states[-1] == "no input, needs efa"


def test_time_that_goes_back_resets() -> None:
    monitor = Monitor(Settings())
    for second in (1000, 1060, 10):
        for reading in steps(second, second + 1, 0.6, 0.2):
            if second == 10 and reading.time == 10:
                monitor.restart()
            monitor.feed(reading)
        view = monitor.tick(second + 0.5)
    assert view.coverage.watching == 10.5


EARLY = Coverage(
    NOON - 6,
    NOON + 8,
    (
        RuleCoverage("hang", NOON - 1),
        RuleCoverage("comm_bound", NOON + 8),
        RuleCoverage("straggler", NOON + 8, steps=5),
        RuleCoverage("latency_regression", missing=("link_latency_seconds",)),
    ),
)


def test_texts() -> None:
    assert beginning(EARLY, NOON, utc=True) == ["watching for 6 s", "judging from 12:00:08"]
    unsure = replace(EARLY, since=None)
    assert beginning(unsure, NOON, utc=True) == [
        "watching for 6 s",
        "Straggler needs 5 more steps",
    ]
    assert lacks(EARLY, NOON) == ["Comm bound: needs 8 s more", "Straggler: needs 5 more steps"]
    assert without_input(EARLY) == ["Latency regression (probe)"]
    assert summary(EARLY, NOON)[0] == "Judged: not yet, too little data"
    done = replace(EARLY, since=NOON - 1)
    assert beginning(done, NOON, utc=True) == []
    assert summary(done, NOON)[0] == "Judged: from 11:59:59 UTC, 1 of 4 rules"
    # Programs that do not report it, and backends.
    assert beginning(Coverage(), NOON, utc=True) == summary(Coverage(), NOON) == []


def test_two_judges_have_judged_since_the_later_one() -> None:
    other = Coverage(NOON - 60, NOON - 20, (RuleCoverage("hang", NOON - 20), RuleCoverage("own")))
    both = joined([EARLY, other, Coverage()])
    assert (both.watching, both.since) == (NOON - 6, NOON + 8)
    assert both.rules[0] == RuleCoverage("hang", NOON - 1)
    assert {rule.kind for rule in both.rules} >= {"hang", "straggler", "own"}
    assert joined([]) == Coverage()


def test_the_screen_and_the_report_give_no_all_clear_before() -> None:
    view = replace(view_of(make_node(0), make_node(1)), coverage=EARLY)
    model = ViewModel(view=view, history=History(60), limits=Analysis(), utc=True)
    assert text(alert.draw(model, 120, CONTEXT)).startswith(
        " watching for 6 s · judging from 12:00:08"
    )
    assert "✓" not in text(alert.draw(model, 120, CONTEXT))
    detail = text(incidents.detail(model, None, 80, CONTEXT))
    assert "Straggler            needs 5 more steps" in detail
    assert "Latency regression   no input, needs probe" in detail
    assert "Hang                 since 11:59:59" in detail
    page = report(view, view, 6.0, ())
    assert "INCONCLUSIVE, too little data for the rules" in page
    assert "- Judged: not yet, too little data\n" in page
    later = replace(view, coverage=replace(EARLY, since=NOON - 1))
    complete = text(alert.draw(replace(model, view=later), 120, CONTEXT))
    assert complete.startswith(" ✓ no incidents  Comm bound: needs 8 s more")
    assert "HEALTHY" in report(later, later, 6.0, ())
