"""`trntop incidents`: the table and the changes that it follows."""

import dataclasses
import re

import pytest

from trntop.cli import incidents as command
from trntop.cli import main
from trntop.collectors.fleet.incident_report import IncidentReport
from trntop.core.model import Incident, Severity

NOON = 1_767_268_800.0
OPEN = Incident("a", "efa_degraded", Severity.CRITICAL, "trn-005 rdmap128s27: 2.0 % retransmits",
                NOON - 90, node="trn-005")  # fmt: skip
OVER = Incident("b", "hang", Severity.CRITICAL, "job stalled", NOON - 600, NOON - 570)


def serve(monkeypatch: pytest.MonkeyPatch, *reports: IncidentReport) -> None:
    """Lets the command fetch these reports, one after the other; then it is interrupted."""
    waiting = iter(reports)

    def fetch(*_: object) -> tuple[str, IncidentReport]:
        report = next(waiting, None)
        if report is None:
            raise KeyboardInterrupt
        return "head", report

    monkeypatch.setattr(command, "_fetch_report", fetch)
    monkeypatch.setattr(command, "FOLLOW_SECONDS", 0.0)


def test_the_table_names_kinds_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(
        monkeypatch, IncidentReport("aggregator", 16, (OPEN, OVER), NOON, NOON - 3600, NOON - 3500)
    )
    assert main(["incidents", "http://head"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "head · aggregator of 16 nodes · watching for 1 h · judging since 01-01 11:01:40 UTC",
        "OPENED (UTC)    LASTED           SEVERITY  KIND          INCIDENT",
        "01-01 11:58:30  open 1 min 30 s  critical  EFA degraded  "
        "trn-005 rdmap128s27: 2.0 % retransmits",
        "01-01 11:50:00  30 s             critical  Hang          job stalled",
    ]


def test_it_follows_what_opens_changes_and_closes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    milder = dataclasses.replace(OPEN, severity=Severity.WARNING)
    closed = dataclasses.replace(OPEN, closed_at=NOON)
    days = ((OVER,), (milder, OVER), (OPEN, OVER), (closed, OVER))
    serve(monkeypatch, *(IncidentReport("agent", 1, day, NOON) for day in days))
    main(["incidents", "--follow", "http://head"])
    shown = [re.split(r"  +", line)[1:4] for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        ["open", "warning", "EFA degraded"],
        ["changed", "critical", "EFA degraded"],
        ["closed", "critical", "EFA degraded"],
    ]
