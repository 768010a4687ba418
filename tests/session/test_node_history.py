"""The incident log: what is logged, how it is counted, and that a bad file costs nothing."""

import logging
import os
import stat
from collections import Counter
from pathlib import Path

import pytest

from tests.builders import make_incident, make_node, view_of
from trntop.cli import opening
from trntop.core.model import Incident, View
from trntop.core.settings import Settings
from trntop.core.source_spec import parse_all
from trntop.session import node_history
from trntop.session.node_history import MAX_AGE, SAME, Entry, IncidentLog, counts

NOW = 1_763_650_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "trntop" / "incidents.jsonl"


@pytest.fixture(autouse=True)
def in_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    class Now:
        def __init__(self, target, args, daemon):  # type: ignore[no-untyped-def]
            self.start = lambda: target(*args)

    monkeypatch.setattr(node_history.threading, "Thread", Now)


def incident(
    opened_at: float = NOW - 600,
    closed_at: float | None = NOW - 500,
    node: str | None = "trn-007",
    kind: str = "efa_degraded",
) -> Incident:
    return make_incident(
        kind, opened_at=opened_at, closed_at=closed_at, node=node, component="efa:rdmap96s27"
    )


def seen(time: float, *incidents: Incident, simulated: bool = False) -> View:
    return view_of(make_node(simulated=simulated), incidents=incidents, time=time)


def entry(opened_at: float, kind: str = "efa_degraded") -> Entry:
    return Entry("trn-007", kind, "efa:rdmap96s27", opened_at)


def test_incidents_are_logged_once_settled_and_counted_after_a_restart(path: Path) -> None:
    watch = IncidentLog(path)
    watch(seen(NOW - 550, incident(closed_at=None)))
    assert not path.exists()
    watch(seen(NOW - 530, incident(closed_at=None)))
    watch(seen(NOW, incident(), incident(NOW - 20, NOW - 10, "trn-001"), incident(node=None)))
    assert path.read_bytes().count(b"\n") == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    IncidentLog(path)(seen(NOW, incident(NOW - 500)))
    assert counts(path, NOW) == {
        "trn-007": Counter(efa_degraded=1), "trn-001": Counter(efa_degraded=1),
    }  # fmt: skip


def test_only_earlier_incidents_of_90_days_count(path: Path) -> None:
    times = (NOW - MAX_AGE - 1, NOW - 2 * SAME, NOW - 1.5 * SAME, NOW - SAME, NOW)
    IncidentLog(path).append([entry(time) for time in times])
    IncidentLog(path).append([entry(NOW - 5, "straggler")])
    assert counts(path, NOW) == {"trn-007": Counter(efa_degraded=2, straggler=1)}


def test_custom_rules_and_simulations_are_not_logged(path: Path) -> None:
    IncidentLog(path)(seen(NOW, incident(kind="hot_host")))
    IncidentLog(path)(seen(NOW, incident(), simulated=True))
    assert not path.exists()


def test_a_full_file_is_rotated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_history, "MAX_BYTES", 250)
    for hours in range(4):
        IncidentLog(path).append([entry(NOW - 2 * SAME * (hours + 1))])
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, f"{path.name}.1"]
    assert counts(path, NOW)["trn-007"].total() == 4


@pytest.mark.parametrize("damage", [b"{\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b'{"node":1}\n'])
def test_damaged_lines_are_skipped_and_names_cleaned(path: Path, damage: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    IncidentLog(path).append([Entry("n\x1b[2J", "k", None, NOW - 1)])
    assert counts(path, NOW) == {"n\ufffd[2J": Counter(k=1)}


def test_a_file_that_cannot_be_written_is_reported_once(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    secret = tmp_path / "secret"
    secret.touch()
    path.parent.mkdir(parents=True)
    path.symlink_to(secret)
    watch = IncidentLog(path)
    watch.append([entry(NOW)])
    watch.append([entry(NOW)])
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot write {path}: Too many levels of symbolic links"
    ]
    assert secret.read_bytes() == b""
    path.unlink()
    os.mkfifo(path)
    watch.append([entry(NOW)])
    assert counts(path, NOW) == {}


def test_only_live_sources_are_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    subscribers: list[str] = []
    monkeypatch.setattr(
        "trntop.session.runner.Session.subscribe",
        lambda session, subscriber: subscribers.append(type(subscriber).__name__),
    )
    fixture = Path(__file__).parents[2] / "fixtures" / "efa-degraded-2-nodes.jsonl.zst"
    for source in ("sim:efa-degraded?minutes=1", str(fixture)):
        opening.session(parse_all([source]), Settings())
    assert subscribers == []
    opening.session(parse_all(["local"]), Settings())
    assert subscribers == ["IncidentLog"]
    assert list(tmp_path.iterdir()) == []
