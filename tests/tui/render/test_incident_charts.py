"""What the quantities behind an incident did, as charts."""

import dataclasses

import pytest

from tests.builders import NOON, make_incident
from tests.tui.render.contexts import CONTEXT, text
from tests.tui.sample_run import COMM_INCIDENT, EFA_INCIDENT, JOB, PAST_INCIDENT, VICTIM, view_model
from trntop.core.model import Evidence, Incident, Severity
from trntop.pipeline.history import KEPT
from trntop.tui.render import incident_charts
from trntop.tui.render.incidents import detail

TROUBLED = view_model(trouble=True)


def of(incident: Incident, **changes: object) -> Incident:
    return dataclasses.replace(incident, **changes)  # type: ignore[arg-type]


def titles(incident: Incident) -> list[str]:
    return [chart.title for chart in incident_charts.charts(TROUBLED, incident, 300.0)]


def test_evidence_comes_first_then_the_effect_on_the_job() -> None:
    history_ = ["job: comm share", "job: step time"]
    assert titles(EFA_INCIDENT) == ["retransmits, worst", *history_]
    assert titles(COMM_INCIDENT) == history_
    exposed = Evidence("exposed", None, "job_exposed_comm_share_ratio", 0.19, 0.15)
    assert titles(of(COMM_INCIDENT, evidence=(exposed,))) == ["job: exposed share", *history_]


def test_a_node_that_the_incident_does_not_name_is_named() -> None:
    assert titles(of(EFA_INCIDENT, node=None, job=None)) == [f"{VICTIM}: retransmits, worst"]


def test_a_quantity_of_many_parts_is_shown_as_what_is_kept_of_it() -> None:
    item = Evidence("device 3 is full", VICTIM, "device_memory_used_ratio", 0.97, 0.95)
    assert titles(of(EFA_INCIDENT, job=None, evidence=(item, item))) == ["HBM, fullest device"]
    for name in KEPT:
        own = Evidence("by a rule of the user's own", VICTIM, name, 0.5, 0.4)
        (chart,) = incident_charts.charts(
            TROUBLED, of(EFA_INCIDENT, job=None, evidence=(own,)), 300.0
        )
        assert chart.quantity == name


@pytest.mark.parametrize(
    "item",
    [
        Evidence("in words alone", VICTIM),
        Evidence("nobody keeps it", VICTIM, "rank_compute_seconds", 5.3, 3.9),
        Evidence("a node that is not there", "trn-999", "efa_retransmit_ratio", 0.02, 0.002),
        Evidence("of no node", None, "efa_retransmit_ratio", 0.02, 0.002),
    ],
)
def test_what_is_not_kept_is_not_drawn(item: Evidence) -> None:
    bare = of(EFA_INCIDENT, job=None, evidence=(item,))
    assert titles(bare) == []
    assert incident_charts.draw(TROUBLED, bare, 100, 7, CONTEXT) == []


@pytest.mark.parametrize(
    ("ago", "closed", "seconds"),
    [(30, None, 300), (239, None, 300), (241, None, 360), (9000, None, 900), (9000, 800, 900)],
)
def test_it_reaches_back_to_the_beginning(ago: float, closed: float | None, seconds: int) -> None:
    closed_at = None if closed is None else NOON - closed
    assert (
        incident_charts.span(TROUBLED, of(EFA_INCIDENT, opened_at=NOON - ago, closed_at=closed_at))
        == seconds
    )


def test_what_was_over_before_anything_that_is_kept_has_no_charts() -> None:
    old = of(EFA_INCIDENT, opened_at=NOON - 2000, closed_at=NOON - 901)
    assert incident_charts.span(TROUBLED, old) is None
    assert incident_charts.draw(TROUBLED, old, 100, 7, CONTEXT) == []


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.CRITICAL])
@pytest.mark.parametrize("closed_at", [None, NOON - 10])
def test_what_is_above_its_limit_has_the_colour_of_the_incident(
    severity: Severity, closed_at: float | None
) -> None:
    item = of(EFA_INCIDENT, severity=severity, closed_at=closed_at)
    lines = incident_charts.draw(TROUBLED, item, 100, 7, CONTEXT)
    styles = {part.style for strip in lines for part in strip}
    assert CONTEXT.palette.severity(severity) in {
        part.style for part in lines[0] if part.text.startswith("2.1 %")
    }
    assert styles & set(CONTEXT.palette.over[severity])


def test_the_beginning_is_marked() -> None:
    axis = incident_charts.draw(TROUBLED, EFA_INCIDENT, 100, 7, CONTEXT)[-1]
    assert axis.text.count("▴") == 3
    over = of(EFA_INCIDENT, closed_at=NOON - 10)
    grey = incident_charts.draw(TROUBLED, over, 100, 7, CONTEXT)[-1]
    assert {part.style for part in grey if "▴" in part.text} == {CONTEXT.palette.muted}


def test_only_its_own_time_has_its_color() -> None:
    ended = of(EFA_INCIDENT, closed_at=NOON - 10)
    axis = incident_charts.draw(TROUBLED, ended, 100, 7, CONTEXT)[-1].text
    assert "▴━" in axis
    assert "━─" in axis, "it has ended"
    before = of(EFA_INCIDENT, opened_at=NOON - 200, closed_at=NOON - 100)
    lines = incident_charts.draw(TROUBLED, before, 100, 7, CONTEXT)
    styles = {part.style for strip in lines for part in strip}
    assert not styles & set(CONTEXT.palette.over[EFA_INCIDENT.severity])


def test_it_is_between_evidence_and_runbook_if_it_fits() -> None:
    shown = {
        width: text(detail(TROUBLED, EFA_INCIDENT, width, CONTEXT)) for width in (78, 116, 192)
    }
    assert "retransmits, worst" not in shown[78]
    for width in (116, 192):
        title = shown[width]
        assert title.index("evidence") < title.index("retransmits, worst 2.1 %")
    assert shown[116].index("worst 2.1 %") < shown[116].index("What it means")
    over = of(EFA_INCIDENT, opened_at=NOON - 2000, closed_at=NOON - 901)
    assert "retransmits, worst" not in text(detail(TROUBLED, over, 116, CONTEXT))


@pytest.mark.parametrize("width", [100, 116, 150, 192, 290])
def test_it_fits(width: int) -> None:
    crowded = make_incident("comm_bound", job=JOB, node=VICTIM)
    for incident in (EFA_INCIDENT, COMM_INCIDENT, PAST_INCIDENT, crowded):
        lines = detail(TROUBLED, incident, width, CONTEXT)
        assert {line.cell_length for line in lines} == {width}
