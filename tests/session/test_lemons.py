"""The history of nodes: what counts, what is kept, and what a bad file costs (nothing)."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builders import make_incident, make_node, view_of
from trntop.cli import main, opening
from trntop.core.model import Incident, View
from trntop.core.settings import Settings
from trntop.core.source_spec import parse_all
from trntop.session.lemons import (
    DAY,
    MAX_AGE,
    MAX_BLAMES,
    MAX_NODES,
    MAX_PENDING,
    Lemons,
    Watch,
    default_path,
)

NOW = 1_763_650_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "trntop" / "lemons.json"


def lemons(path: Path, told: list[str] | None = None, now: float = NOW) -> Lemons:
    def warn(text: str) -> None:
        assert told is not None, text
        told.append(text)

    return Lemons(path, warn, lambda: now)


def incident(
    since: float = NOW - 600,
    until: float | None = NOW - 500,
    node: str | None = "trn-007",
    kind: str = "efa_degraded",
    component: str | None = "efa:rdmap96s27",
) -> Incident:
    return make_incident(kind, opened_at=since, closed_at=until, node=node, component=component)


def test_what_was_noted_is_there_after_a_restart(path: Path) -> None:
    one = lemons(path)
    one.note(incident(), NOW)
    one.note(incident(NOW - 60_000, NOW - 59_000), NOW)
    one.note(incident(kind="straggler", component=None), NOW)
    one.note(incident(node=None), NOW)
    assert one.save()
    record = lemons(path).of("trn-007")
    assert record.kinds == {"efa_degraded": 2, "straggler": 1}
    assert record.components == {"efa:rdmap96s27": 2}
    assert record.last == NOW - 500
    assert [one.node for one in lemons(path).all()] == ["trn-007"]
    assert lemons(path).of("trn-001").last is None
    assert lemons(path).phrase("trn-007", NOW) == "blamed 3 times in 30 days"
    assert lemons(path).phrase("trn-007", NOW + 31 * DAY) == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, f"{path.name}.lock"]


def test_an_incident_counts_once(path: Path) -> None:
    one, other = lemons(path), lemons(path)
    one.note(incident(NOW - 600, None), NOW - 500)
    assert one.save()
    # Another process saw it open a little later; it closed; it came back soon.
    other.note(incident(NOW - 598, None), NOW - 400)
    assert other.save()
    one.note(incident(NOW - 600, NOW - 300), NOW)
    one.note(incident(NOW - 100, None), NOW)
    assert one.save()
    (blame,) = lemons(path).of("trn-007").blames
    assert (blame.since, blame.until) == (NOW - 600, NOW)
    # Another card, or the same one long after, is another incident.
    one.note(incident(component="efa:rdmap16s27"), NOW)
    one.note(incident(NOW + 1000, None), NOW + 1100)
    assert one.save()
    assert len(lemons(path).of("trn-007").blames) == 3


def test_several_processes_lose_no_counts(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from trntop.session.lemons import Lemons;"
        "from trntop.core.model import Incident, Severity\n"
        "path, kind = Path(sys.argv[1]), sys.argv[2]\n"
        "for number in range(20):\n"
        "    lemons = Lemons(path, sys.exit, lambda: 1e6)\n"
        "    at = 10_000.0 * number\n"
        "    lemons.note(Incident('x', kind, Severity.INFO, '', at, at + 1, node='n'), 0.0)\n"
        "    assert lemons.save()\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(path), kind]) for kind in ("a", "b", "c")
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert lemons(path, now=1e6).of("n").kinds == {"a": 20, "b": 20, "c": 20}


def test_what_is_kept_is_capped(path: Path) -> None:
    one = lemons(path)
    one.note(incident(NOW - MAX_AGE - 20, NOW - MAX_AGE - 10, "old"), NOW)
    for number in range(MAX_BLAMES + 5):
        one.note(incident(NOW - 1000 * number, NOW - 1000 * number + 1, "often"), NOW)
    assert one.save()
    assert [one.node for one in lemons(path).all()] == ["often"]
    assert len(lemons(path).of("often").blames) == MAX_BLAMES
    assert lemons(path).of("often").last == NOW + 1
    for number in range(MAX_NODES + 5):
        one.note(incident(NOW - 2, NOW - 1, f"n{number}"), NOW)
        if number % MAX_PENDING == 0:
            assert one.save()
    assert one.save()
    assert len(lemons(path).all()) == MAX_NODES


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"v":1}',
        b'{"v":1,"nodes":{"n":[["a",null,1,"x"]]}}',
        b'{"v":1,"nodes":{"n":[["a",null,1,NaN]]}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_named_and_set_aside(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    told: list[str] = []
    one = lemons(path, told)
    assert one.all() == []
    (warning,) = told
    assert str(path) in warning
    assert "damaged" in warning
    assert path.with_name("lemons.json.damaged").read_bytes() == data
    one.note(incident(), NOW)
    assert one.save()
    assert len(lemons(path).all()) == 1


def test_what_is_no_file_of_ours_is_left_alone(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    newer = b'{"v":2,"nodes":{}}'

    def refused(says: str) -> None:
        told: list[str] = []
        one = lemons(path, told)
        one.note(incident(), NOW)
        assert not one.save()
        assert not one.save()
        (warning,) = told
        assert says in warning
        assert len(one.of("trn-007").blames) == 1

    path.symlink_to(secret)
    refused("left alone: Too many levels of symbolic links")
    assert secret.read_text() == "secret"
    path.unlink()
    path.write_bytes(newer)
    refused("version 2")
    assert path.read_bytes() == newer
    path.unlink()
    os.mkfifo(path)
    refused("not a regular file")
    path.unlink()
    path.mkdir()
    refused("left alone")


def test_a_folder_that_cannot_be_made_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[str] = []
    one = lemons(tmp_path / "file" / "lemons.json", told)
    one.note(incident(), NOW)
    assert not one.save()
    assert "cannot be written" in told[-1]
    assert len(one.of("trn-007").blames) == 1


def test_the_draft_of_a_process_that_was_ended_is_in_nobodys_way(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.with_name(".lemons.json.draft").write_text("half")
    one = lemons(path)
    one.note(incident(), NOW)
    assert one.save()
    assert not path.with_name(".lemons.json.draft").exists()


def test_names_from_the_file_are_clean(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"v": 1, "nodes": {"n\x1b[2J": [["k\x07", "c\n", 1.0, 2.0]]}}))
    (record,) = lemons(path, now=3.0).all()
    assert record.node == "n\ufffd[2J"
    assert set(record.kinds) == {"k\ufffd"}


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/trntop/lemons.json"),
        ({"XDG_STATE_HOME": "s", "HOME": "/h"}, "/h/.local/state/trntop/lemons.json"),
        ({"HOME": "/h"}, "/h/.local/state/trntop/lemons.json"),
        ({}, None),
    ],
)
def test_where_it_stands(environ: dict[str, str], found: str | None) -> None:
    path = default_path(environ)
    assert (None if path is None else str(path)) == found


class Saved(Lemons):
    """Counts what would be written in a thread."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, lambda text: None, lambda: NOW)
        self.saves = 0

    def save_soon(self) -> None:
        self.saves += 1
        assert self.save()


def seen(time: float, *incidents: Incident, simulated: bool = False) -> View:
    return view_of(make_node(simulated=simulated), incidents=incidents, time=time)


def test_a_live_session_notes_what_lasted_or_closed(path: Path) -> None:
    history = Saved(path)
    watch = Watch(history)
    watch(seen(NOW - 570, incident(NOW - 600, None)))
    assert history.saves == 0
    for after in range(-540, -400, 5):
        watch(seen(NOW + after, incident(NOW - 600, None)))
    assert history.saves == 3
    closed = incident(NOW - 600, NOW - 405)
    short = incident(NOW - 420, NOW - 410, "trn-001")
    for after in range(-400, -300, 5):
        watch(seen(NOW + after, closed, short))
    assert history.saves == 4
    assert [one.until for one in lemons(path).of("trn-007").blames] == [NOW - 405]
    assert len(lemons(path).of("trn-001").blames) == 1


def test_the_users_own_limits_blame_nobody(path: Path) -> None:
    history = Saved(path)
    Watch(history)(seen(NOW, incident(kind="hot_host")))
    assert history.saves == 0


def test_what_is_simulated_is_nobodys_fault(path: Path) -> None:
    history = Saved(path)
    Watch(history)(seen(NOW, incident(), simulated=True))
    assert history.saves == 0
    assert not path.exists()


def test_recordings_and_simulations_are_not_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    watched: list[str] = []
    monkeypatch.setattr(
        "trntop.session.runner.Session.subscribe",
        lambda session, one: watched.append(type(one).__name__),
    )
    fixture = Path(__file__).parents[2] / "fixtures" / "efa-degraded-2-nodes.jsonl.zst"
    for source in ("sim:efa-degraded?minutes=1", str(fixture)):
        opening.session(parse_all([source]), Settings())
    assert watched == []
    opening.session(parse_all(["local"]), Settings())
    assert watched == ["Watch"]
    assert list(tmp_path.iterdir()) == []


def test_the_command_lists_the_worst_first_and_forgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["lemons"]) == 0
    assert "no incidents recorded for any node" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "trntop" / "lemons.json"
    now = time.time()  # what is forgotten by age goes by the real clock
    one = lemons(path, now=now)
    one.note(incident(now - 100, now - 50, "trn-003", "straggler", None), now)
    for hours in range(3):
        one.note(incident(now - 3600 * hours - 60, now - 3600 * hours), now)
    assert one.save()
    assert main(["lemons"]) == 0
    out = capsys.readouterr().out.splitlines()
    day, clock = time.strftime("%Y-%m-%d %H:%M", time.gmtime(now)).split()
    assert out[1].split() == [
        "trn-007", "3", day, clock, "efa_degraded", "3", "efa:rdmap96s27", "3",
    ]  # fmt: skip
    assert out[2].split()[:2] == ["trn-003", "1"]
    assert main(["lemons", "--json"]) == 0
    first, _ = json.loads(capsys.readouterr().out)["nodes"]
    assert first == {
        "node": "trn-007", "count": 3, "kinds": {"efa_degraded": 3},
        "components": {"efa:rdmap96s27": 3}, "first": now - 7260, "last": now,
    }  # fmt: skip
    assert main(["lemons", "--forget", "trn-007"]) == 0
    assert [one.node for one in lemons(path).all()] == ["trn-003"]
    assert main(["lemons", "--forget", "trn-007"]) == 2
    assert "has no history" in capsys.readouterr().err
