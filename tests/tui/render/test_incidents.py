import dataclasses

from tests.builders import NOON, make_incident
from tests.tui.render.contexts import CONTEXT, text
from tests.tui.sample_run import COMM_INCIDENT, EFA_INCIDENT, PAST_INCIDENT, VICTIM, view_model
from trntop.core.model import Coverage, Evidence, Incident, RuleCoverage
from trntop.tui.render import table
from trntop.tui.render.incidents import (
    Tense,
    columns,
    detail,
    location,
    row_of,
    tense,
    worst,
)
from trntop.tui.render.line import wrap
from trntop.tui.view_model import ViewModel

VIEW_MODEL = view_model(trouble=True)
LATER = dataclasses.replace(EFA_INCIDENT, id="later", opened_at=NOON + 30)
"""Seen from an earlier time."""


def earlier() -> ViewModel:
    return dataclasses.replace(VIEW_MODEL, behind=60.0, later=(LATER,))


def row(incident: Incident, width: int, shown: ViewModel = VIEW_MODEL) -> str:
    fitting = table.layout(columns(width, utc=True), width - 1)
    return table.row(fitting, row_of(incident, shown), width, CONTEXT, cursor=False).text.rstrip()


def titles(width: int) -> list[str]:
    fitting = table.layout(columns(width, utc=True), width - 1)
    return [column.title for column, _ in fitting]


def test_where_there_is_little_room_it_goes_to_the_sentence() -> None:
    assert titles(80) == ["severity", "since", "for", "summary"]
    assert titles(116) == ["severity", "since", "for", "summary"]
    assert titles(150) == ["severity", "since", "for", "location", "summary"]
    assert titles(196) == ["severity", "since", "for", "kind", "location", "summary"]
    assert EFA_INCIDENT.summary.endswith("peers 0.0 %)")
    assert row(EFA_INCIDENT, 116).endswith(EFA_INCIDENT.summary)


def test_rows_in_the_right_tense() -> None:
    assert row(EFA_INCIDENT, 80).startswith("  ● critical  11:59:16     44 s  trn-007")
    assert row(PAST_INCIDENT, 80).startswith("  ▲ closed    11:45:00    3 min  device 3")
    assert row(LATER, 80, earlier()).startswith("  ● later     12:00:30        –  trn-007")
    acked = dataclasses.replace(VIEW_MODEL, acknowledged={EFA_INCIDENT.id: NOON})
    assert row(EFA_INCIDENT, 80, acked).startswith("  ● acked     11:59:16     44 s  trn-007")
    found = [tense(incident, earlier()) for incident in (EFA_INCIDENT, PAST_INCIDENT, LATER)]
    assert found == [Tense.OPEN, Tense.CLOSED, Tense.LATER]


def page(incident: Incident | None, width: int = 90, shown: ViewModel = VIEW_MODEL) -> str:
    return text(detail(shown, incident, width, CONTEXT))


def test_an_open_incident_in_full() -> None:
    shown_text = page(dataclasses.replace(EFA_INCIDENT, detected_at=NOON - 32, returns=2))
    assert shown_text.startswith("● critical  EFA degraded\ntrn-007 rdmap96s27: 2.1 % retransmits")
    assert "location  trn-007 efa:rdmap96s27\n" in shown_text
    assert "when      since 11:59:16 UTC, for 44 s; detected after 12 s;" in shown_text
    assert "recurred 2 times" in " ".join(shown_text.split())
    assert "next      Probe the node" in shown_text
    assert "evidence\n· trn-007: retransmits 2.1 %" in shown_text
    assert "runbook  one EFA device is degraded\n\nWhat it means" in shown_text


def test_a_past_one_and_one_to_come() -> None:
    shown_text = page(PAST_INCIDENT)
    assert shown_text.startswith("▲ warning  Memory pressure  closed\n")
    assert "when      11:45:00 to 11:48:20 UTC, for 3 min 20 s\n" in shown_text
    shown_text = page(LATER, shown=earlier())
    assert shown_text.startswith("● critical  EFA degraded  later\n")
    assert "when      12:00:30 UTC, 30 s later\n" in shown_text
    unnoticed = dataclasses.replace(LATER, opened_at=NOON - 3)
    shown = dataclasses.replace(earlier(), later=(unnoticed,))
    assert "11:59:57 UTC, not detected yet at this time\n" in page(unnoticed, shown=shown)


def test_of_a_rule_of_ones_own_there_is_no_runbook() -> None:
    shown_text = page(make_incident("hot_host"))
    assert "runbook" not in shown_text
    assert "next " not in shown_text


def test_evidence_and_runbook_side_by_side_where_there_is_room() -> None:
    first, *_ = page(EFA_INCIDENT, 160).split("\n")
    assert first.startswith("● critical  EFA degraded")
    assert first.endswith("runbook  one EFA device is degraded")
    assert "runbook" not in page(EFA_INCIDENT, 140).split("\n")[0]
    assert page(make_incident("hot_host"), 160).startswith("▲ warning  hot_host\n")


def test_the_worst_one_with_its_next_step_charts_and_what_to_check() -> None:
    lines = worst(VIEW_MODEL, 76, 56, CONTEXT)
    shown_text = text(lines)
    assert {strip.cell_length for strip in lines} == {76}
    assert shown_text.index("next      Probe the node") < shown_text.index("evidence\n")
    assert shown_text.index("retransmits, worst") < shown_text.index("Check first\n")
    assert "What it means" not in shown_text
    assert worst(view_model(), 76, 56, CONTEXT) == []


def test_none() -> None:
    assert page(None) == "no incident to show"
    calm = dataclasses.replace(VIEW_MODEL, view=dataclasses.replace(VIEW_MODEL.view, incidents=()))
    rule = RuleCoverage("latency_regression", missing=("link_latency_seconds",))
    judging = dataclasses.replace(
        calm.view, coverage=Coverage(NOON - 60, NOON - 9, (RuleCoverage("hang", NOON - 9), rule))
    )
    shown = page(None, 110, dataclasses.replace(calm, view=judging)).splitlines()
    assert shown[0] == "no incident; these rules judge"
    assert shown[2].startswith("Latency regression   no input, needs probe  a probed link")
    assert shown[3].strip().startswith("probe needs agents with --probe-every")
    assert shown[-1].startswith("Hang                 since 11:59:51         steps stopped")


def test_lines_are_of_the_width_and_running_text_is_not_too_wide() -> None:
    for width in (20, 60, 90, 200):
        assert {
            strip.cell_length for strip in detail(VIEW_MODEL, EFA_INCIDENT, width, CONTEXT)
        } == {width}
    evidence = Evidence(30 * "in words alone, ", VICTIM)
    wordy = dataclasses.replace(EFA_INCIDENT, evidence=(evidence,), job=None)
    assert max(len(line) for line in page(wordy, 140).split("\n")) <= 92


def test_foreign_text_cannot_drive_the_terminal() -> None:
    hostile = dataclasses.replace(
        COMM_INCIDENT, summary="[/red]\x1b[2J\x07", node="trn\x9b31m", component="[@click=x]"
    )
    shown_text = text(detail(VIEW_MODEL, hostile, 80, CONTEXT)) + row(hostile, 200)
    assert not any(char in shown_text for char in "\x1b\x07\x9b\0")
    assert "[/red]" in shown_text


def test_wrapped_lines_keep_a_number_and_its_unit_together() -> None:
    assert wrap("the siblings 0.0 % of it", 16) == ["the siblings", "0.0 % of it"]
    assert wrap("waits 0.9 s a step", 10) == ["waits", "0.9 s a", "step"]
    assert wrap("a 節節節 b", 6) == ["a", "節節節", "b"]
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrap("a /long/path", 5) == ["a", "/long", "/path"]
    assert wrap("", 9) == [""]


def test_location() -> None:
    assert location(EFA_INCIDENT) == "trn-007 efa:rdmap96s27"
    assert location(make_incident(node=None, job="j")) == "j"
    assert location(make_incident(node=None)) == "cluster"
