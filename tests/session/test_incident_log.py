"""The incidents of a day: what is kept in memory, and what survives in the journal."""

import fcntl
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tools.crash import until
from trntop.core.model import Cluster, Evidence, Incident, Severity, View
from trntop.session import incident_log
from trntop.session.incident_log import KEPT_SECONDS, IncidentLog, Journal, JournalError

NOON = 1.76e9


def incident(name: str, opened: float = NOON, closed: float | None = None) -> Incident:
    evidence = (Evidence("2.0 % retransmits", "trn-001", "efa_retransmit_ratio", 0.02, 0.002),)
    return Incident(
        name, "efa_degraded", Severity.CRITICAL, f"{name}: slow", opened, closed, "job", "trn-001",
        "efa:rdmap16s27", evidence, opened + 9, 1, ((("trn-001", ("rdmap16s27", 3)), "trn-001"),),
    )  # fmt: skip


def view(time: float, *incidents: Incident, lag: float = 0.0) -> View:
    return View(1, time, Cluster(time), incidents, lag=lag)


class LogSetup:
    """A directory in which logs are opened one after the other, like runs of a program."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state" / "incidents.jsonl"
        self.warnings: list[str] = []
        self._journals: list[Journal] = []

    def open(self) -> IncidentLog:
        self._journals.append(Journal(self.path, self.warnings.append))
        return IncidentLog(1.0, self._journals[-1])

    def again(self) -> tuple[list[Incident], float]:
        """What the next run finds."""
        self.close()
        return self.open().earlier

    def close(self) -> None:
        for journal in self._journals:
            journal.close()
        self._journals.clear()


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[LogSetup]:
    setup = LogSetup(tmp_path)
    yield setup
    setup.close()


def test_a_day_has_open_incidents_first_and_the_newest_closed_ones_before_the_others() -> None:
    log = IncidentLog(1.0)
    first, second, third = (incident(name, NOON) for name in "abc")
    log(view(NOON, first, second, third))
    log(view(NOON + 10, third, replace(second, closed_at=NOON + 9)))
    # The analyzer forgets closed ones; the first became part of another.
    log(view(NOON + 20, replace(third, closed_at=NOON + 15)))
    assert [(incident.id, incident.open) for incident in log.incidents] == [
        ("c", False),
        ("b", False),
    ]
    log(view(NOON + 30, incident("d", NOON + 25)))
    assert [incident.id for incident in log.incidents] == ["d", "c", "b"]
    log(view(NOON + 9 + KEPT_SECONDS + 1, incident("d", NOON + 25)))
    assert [incident.id for incident in log.incidents] == ["d", "c"]
    assert log.since == NOON


def test_the_next_run_finds_the_newest_state(setup: LogSetup) -> None:
    log = setup.open()
    assert log.earlier == ([], 0.0)
    log(view(NOON, incident("a"), incident("b"), incident("c")))
    worse = replace(incident("a"), summary="worse", evidence=())
    over = replace(incident("b"), closed_at=NOON + 60)
    log(view(NOON + 60, worse, over))
    assert setup.again() == ([worse, over], NOON + 60)
    assert setup.warnings == []


def test_fault_54_a_journal_is_readable_by_its_owner_only(setup: LogSetup) -> None:
    mask = os.umask(0)
    try:
        for _ in range(2):  # made, then rewritten
            setup.open()(view(NOON, incident("a")))
            setup.close()
            assert stat.S_IMODE(setup.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(setup.path.parent.stat().st_mode) == 0o700
    finally:
        os.umask(mask)


def test_a_journal_survives_runs_that_see_nothing(setup: LogSetup) -> None:
    setup.open()(view(NOON, incident("a")))
    for _ in range(3):
        found, _ = setup.again()
        assert [incident.id for incident in found] == ["a"]


def test_earlier_incidents_stay_in_the_day(setup: LogSetup) -> None:
    setup.open()(view(NOON, incident("a", closed=NOON - 5), incident("b")))
    setup.close()
    log = setup.open()
    assert [incident.id for incident in log.incidents] == ["b", "a"]
    # Before the end of the run before, the rules have not recovered what was open.
    log(view(NOON - 60))
    assert {incident.id for incident in log.incidents} == {"a", "b"}
    log(view(NOON + 5, replace(incident("b"), closed_at=NOON + 4)))
    assert [(incident.id, incident.closed_at) for incident in log.incidents] == [
        ("b", NOON + 4), ("a", NOON - 5),
    ]  # fmt: skip


def test_damaged_lines_are_reported_and_skipped(setup: LogSetup) -> None:
    setup.open()(view(NOON, incident("a"), incident("b")))
    setup.close()
    lines = setup.path.read_bytes().splitlines(keepends=True)
    torn = lines[1][:-40]
    setup.path.write_bytes(b"\x00\xff\n[1]\n{}\n" + lines[0] + torn)
    found, _ = setup.again()
    assert [incident.id for incident in found] == ["a"]
    assert setup.warnings == [f"{setup.path}: 4 damaged lines were skipped"]
    # They are gone from the next journal.
    assert [incident.id for incident in setup.again()[0]] == ["a"]
    assert len(setup.warnings) == 1


def test_text_of_a_journal_is_cleaned(setup: LogSetup) -> None:
    setup.open()(view(NOON, replace(incident("a"), summary="\x1b[31mred")))
    ((found,), _) = setup.again()
    assert "\x1b" not in found.summary


def test_two_programs_do_not_share_a_journal(setup: LogSetup) -> None:
    setup.open()(view(NOON, incident("a")))
    with pytest.raises(JournalError, match=r"in use by another trntop export; .*--state DIRECTORY"):
        setup.open()


def test_a_journal_that_is_rewritten_while_it_is_opened_stays_with_its_program(
    setup: LogSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def after_a_rewrite(descriptor: int, how: int) -> None:
        monkeypatch.undo()
        flock(owner, how)
        fresh.replace(setup.path)
        flock(descriptor, how)

    setup.path.parent.mkdir()
    fresh = setup.path.with_suffix(".new")
    monkeypatch.setattr(fcntl, "flock", after_a_rewrite)
    with fresh.open("w") as owner, pytest.raises(JournalError, match="in use"):
        setup.open()


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="file"):
        Journal(tmp_path / "file" / "incidents.jsonl", print)


def test_a_journal_does_not_grow_without_end(
    setup: LogSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incident_log, "GROWTH", 4000)
    monkeypatch.setattr(incident_log, "MAX_BYTES", 4000)
    monkeypatch.setattr(incident_log, "MAX_CLOSED", 50)
    log = setup.open()
    for second in range(500):
        over = incident(f"n{second}", NOON + second, NOON + second + 1)
        log(view(NOON + second + 1, incident("open"), over))
    assert len(log.incidents) == 51
    found, _ = setup.again()
    assert {"open", "n499"} <= {incident.id for incident in found}
    setup.close()
    assert setup.path.stat().st_size <= 4000


def test_fault_51_an_unwritable_journal_is_reported_once_and_written_when_it_can_be(
    setup: LogSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, full = incident_log._write, True

    def fail(descriptor: int, data: bytes) -> None:
        if full:
            raise OSError(28, "No space left on device")
        write(descriptor, data)

    monkeypatch.setattr(incident_log, "_write", fail)
    monkeypatch.setattr(incident_log, "RETRY_SECONDS", 0.01)
    log = setup.open()
    log(view(NOON, incident("a")))
    until(lambda: setup.warnings)
    full = False
    until(lambda: len(setup.warnings) > 1)
    ((found,), _) = setup.again()
    assert found.id == "a"
    assert setup.warnings == [
        f"{setup.path}: No space left on device; incidents are not kept for a restart",
        f"{setup.path}: incidents are kept again",
    ]


def test_late_ticks_are_remembered_for_a_while() -> None:
    log = IncidentLog(1.0)
    behind = []
    for second, lag in enumerate([0.0, 0.9, 3.0, *[0.0] * 40]):
        log(view(NOON + second, lag=lag))
        behind.append(log.behind)
    assert behind[:4] == [0.0, 0.0, 3.0, 3.0]
    assert behind[31] == 3.0
    assert behind[32] == 0.0
