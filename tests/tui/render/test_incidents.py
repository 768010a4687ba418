import dataclasses
import time
from collections.abc import Iterator

import pytest

from tests.builders import NOON, make_incident
from tests.tui.render.pens import PEN, PLAIN, text
from tests.tui.scenes import COMM_INCIDENT, EFA_INCIDENT, PAST_INCIDENT, VICTIM, view_model
from trntop.core.model import Evidence, Incident
from trntop.tui.render import table
from trntop.tui.render.incidents import (
    IncidentColumns,
    Tense,
    brief,
    detail,
    place,
    tense,
    told,
    wrap,
)
from trntop.tui.view_model import ViewModel

SCENE = view_model(trouble=True)
LATER = dataclasses.replace(EFA_INCIDENT, id="later", opened_at=NOON + 30)
"""Seen from an earlier time."""


def earlier() -> ViewModel:
    return dataclasses.replace(SCENE, behind=60.0, later=(LATER,))


@pytest.fixture
def in_kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Five and a half hours ahead of UTC."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def row(incident: Incident, width: int, shown: ViewModel = SCENE) -> str:
    columns = table.layout(IncidentColumns(shown, width).all(), width - 1)
    return table.row(columns, incident, width, PEN, cursor=False).text.rstrip()


def titles(width: int) -> list[str]:
    columns = IncidentColumns(SCENE, width).all()
    return [column.title for column, _ in table.layout(columns, width - 1)]


def test_where_there_is_little_room_it_goes_to_the_sentence() -> None:
    assert titles(80) == ["severity", "since", "for", "what"]
    assert titles(116) == ["severity", "since", "for", "what"]
    assert titles(150) == ["severity", "since", "for", "where", "what"]
    assert titles(196) == ["severity", "since", "for", "kind", "where", "what"]
    assert EFA_INCIDENT.summary.endswith("(siblings 0.0 %)")
    assert row(EFA_INCIDENT, 116).endswith(EFA_INCIDENT.summary)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("a: comm is 31 % of step time since 11:59:16 UTC (log)",
         "a: comm is 31 % of step time (log)"),
        ("a: HBM is full, since 11:59:16 UTC (device)", "a: HBM is full (device)"),
        ("a: nothing heard since 11:59:16 UTC; efa was the last to speak",
         "a: nothing heard; efa was the last to speak"),
    ],
)  # fmt: skip
def test_a_row_tells_its_beginning_once(said: str, shown: str) -> None:
    incident = dataclasses.replace(EFA_INCIDENT, summary=said)
    assert row(incident, 150).endswith(f"  {shown}")
    (line,) = brief(SCENE, incident, 120, PEN)
    assert line.text.rstrip().endswith(f"  {shown}")
    assert said in page(incident)


def test_rows_in_the_right_tense() -> None:
    assert row(EFA_INCIDENT, 80).startswith("  ● critical  11:59:16     44 s  EFA card")
    assert row(PAST_INCIDENT, 80).startswith("  ▲ past      11:45:00    3 min  device 3")
    assert row(LATER, 80, earlier()).startswith("  ● later     12:00:30        –  EFA card")
    assert [tense(one, earlier()) for one in (EFA_INCIDENT, PAST_INCIDENT, LATER)] == list(Tense)


def page(incident: Incident | None, width: int = 90, shown: ViewModel = SCENE) -> str:
    return text(detail(shown, incident, width, PEN))


def test_an_open_incident_in_full() -> None:
    said = page(dataclasses.replace(EFA_INCIDENT, detected_at=NOON - 32, returns=2))
    assert said.startswith("● critical  efa_degraded\nEFA card rdmap96s27 on trn-007")
    assert "where  trn-007 efa:rdmap96s27\n" in said
    assert "when   since 11:59:16 UTC, for 44 s; noticed 12 s after it began;" in said
    assert "closed and came back 2 times" in " ".join(said.split())
    assert "next   Probe the node" in said
    assert "what is seen\n· trn-007: retransmits 2.1 %" in said
    assert "runbook  one EFA device is degraded\n\nWhat it means" in said


def test_a_past_one_and_one_to_come() -> None:
    said = page(PAST_INCIDENT)
    assert said.startswith("▲ warning  memory_pressure  past\n")
    assert "when   11:45:00 to 11:48:20 UTC, lasted 3 min 20 s\n" in said
    assert "what was seen\n" in said
    said = page(LATER, shown=earlier())
    assert said.startswith("● critical  efa_degraded  later\n")
    assert "when   12:00:30 UTC, 30 s later\n" in said
    assert "what was seen later\n" in said
    unnoticed = dataclasses.replace(LATER, opened_at=NOON - 3)
    shown = dataclasses.replace(earlier(), later=(unnoticed,))
    assert "11:59:57 UTC, not noticed yet at the time shown\n" in page(unnoticed, shown=shown)


def test_of_a_rule_of_ones_own_there_is_no_runbook() -> None:
    said = page(make_incident("hot_host"))
    assert "runbook" not in said
    assert "look " not in said


def test_evidence_and_runbook_side_by_side_where_there_is_room() -> None:
    first, *_ = page(EFA_INCIDENT, 160).split("\n")
    assert first.startswith("● critical  efa_degraded")
    assert first.endswith("runbook  one EFA device is degraded")
    assert "runbook" not in page(EFA_INCIDENT, 140).split("\n")[0]
    assert page(make_incident("hot_host"), 160).startswith("▲ warning  hot_host\n")


def test_none() -> None:
    assert page(None) == "no incident to show"


def test_lines_are_of_the_width_and_running_text_is_not_too_wide() -> None:
    for width in (20, 60, 90, 200):
        assert {strip.cell_length for strip in detail(SCENE, EFA_INCIDENT, width, PEN)} == {width}
    seen = Evidence(30 * "in words alone, ", VICTIM)
    wordy = dataclasses.replace(EFA_INCIDENT, evidence=(seen,), job=None)
    assert max(len(line) for line in page(wordy, 140).split("\n")) <= 92


def test_the_sentence_tells_the_time_as_the_screen_does(in_kolkata: None) -> None:
    incident = make_incident(summary="resends packets since 12:00:00 UTC", opened_at=NOON)
    assert told(incident.summary, incident, utc=True) == "resends packets since 12:00:00 UTC"
    assert told(incident.summary, incident, utc=False) == "resends packets since 17:30:00"
    late = "last heard 23:59:50 UTC, silent at 00:00:10 UTC"
    midnight = make_incident(opened_at=NOON + 12 * 3600 + 5)
    assert told(late, midnight, utc=False) == "last heard 05:29:50, silent at 05:30:10"
    assert told("at 25:00:00 UTC", incident, utc=False) == "at 25:00:00 UTC"
    shown = dataclasses.replace(SCENE, utc=False)
    assert "when   since 17:29:16, for 44 s" in page(EFA_INCIDENT, shown=shown)
    assert "UTC" not in page(EFA_INCIDENT, shown=shown)


def test_foreign_text_cannot_drive_the_terminal() -> None:
    hostile = dataclasses.replace(
        COMM_INCIDENT, summary="[/red]\x1b[2J\x07", node="trn\x9b31m", component="[@click=x]"
    )
    for context in (PEN, PLAIN):
        said = text(detail(SCENE, hostile, 80, context)) + row(hostile, 200)
        assert not any(char in said for char in "\x1b\x07\x9b\0")
        assert "[/red]" in said


def test_wrapped_lines_keep_a_number_and_its_unit_together() -> None:
    assert wrap("the siblings 0.0 % of it", 16) == ["the siblings", "0.0 % of it"]
    assert wrap("waits 0.9 s a step", 10) == ["waits", "0.9 s a", "step"]
    assert wrap("a 節節節 b", 6) == ["a", "節節節", "b"]
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrap("a /long/path", 5) == ["a", "/long", "/path"]
    assert wrap("", 9) == [""]


def test_place() -> None:
    assert place(EFA_INCIDENT) == "trn-007 efa:rdmap96s27"
    assert place(make_incident(node=None, job="j")) == "j"
    assert place(make_incident(node=None)) == "cluster"
