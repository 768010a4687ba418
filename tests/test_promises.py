"""What earlier versions wrote is read by this one, and its JSON has their members.

A failure means that users of that version would lose something: keep reading it. Only a version
that is not released may change: delete its folder, and run `python -m tests.make_promises`.
"""

import json
import math
import shutil
import tomllib
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.builders import NOON, make_incident, make_node
from tests.make_promises import COMMANDS, FOLDER, members, printed
from trntop import __version__
from trntop.core.settings import load
from trntop.pipeline import profiles
from trntop.recording.reader import open_recording
from trntop.remote.wire import FrameDecoder, FrameReader
from trntop.session.incident_log import Journal

pytestmark = pytest.mark.parametrize(
    "promise", sorted(FOLDER.iterdir()), ids=lambda folder: folder.name
)


def test_this_version_has_one(promise: Path) -> None:
    assert (FOLDER / __version__).is_dir(), "run python -m tests.make_promises"
    assert promise.is_dir()


def test_its_recording_is_read_whole(promise: Path) -> None:
    recording = open_recording(promise / "recording.jsonl.zst")
    readings = list(recording)
    assert not recording.damage.note()
    assert len(readings) > 100
    assert {reading.node for reading in readings} == {"trn-000", "trn-001"}
    assert recording.header is not None
    assert recording.header.note == "simulated: a promise"


def test_its_recording_gives_the_same_incidents(promise: Path) -> None:
    found = printed("analyze", "--json", str(promise / "recording.jsonl.zst"))
    kinds = {(incident["kind"], incident["node"]) for incident in found["incidents"]}
    assert ("efa_degraded", "trn-001") in kinds


@pytest.mark.parametrize("name", COMMANDS)
def test_json_has_all_its_members(promise: Path, name: str) -> None:
    before = set((promise / f"{name}-members.txt").read_text().splitlines())
    now = members(printed(*COMMANDS[name], str(promise / "recording.jsonl.zst")))
    paths = {line.rpartition(" ")[0] for line in now}
    assert {line for line in before if line.rpartition(" ")[0] not in paths} == set()
    kinds = {line for line in before - now if not line.endswith(" null")}
    assert kinds == set(), "members of another type"


def test_its_stream_is_decoded(promise: Path) -> None:
    decoder, reader = FrameDecoder("trn-000"), FrameReader()
    views = [
        decoder.decode(message) for message in reader.feed((promise / "stream.bin").read_bytes())
    ]
    newest = [view for view in views if view is not None][-1]
    expected = make_node(1)
    for name in ("neuroncore_utilization_ratio", "device_memory_used_bytes", "job_step"):
        np.testing.assert_allclose(
            newest.frame.columns[name], expected.frame.columns[name], rtol=1e-6
        )


def test_its_settings_are_in_force(promise: Path) -> None:
    path = promise / "settings.toml"
    settings = msgspec.to_builtins(load(path, {}))
    document = tomllib.loads(path.read_text())
    (rule,) = document.pop("rules")
    assert settings.pop("rules")[0].items() >= rule.items()
    for section, values in document.items():
        for key, value in values.items():
            found = settings[section][key]
            assert list(found) == value if isinstance(value, list) else found == value, key


def test_its_profiles_are_known(promise: Path) -> None:
    (profile,) = profiles.load(promise / "profiles.json")
    assert (profile.name, profile.uuid, profile.hbm_read_bytes) == ("model.neff", "u1", 4e9)


def test_its_journal_is_recovered(promise: Path, tmp_path: Path) -> None:
    path = tmp_path / "incidents.jsonl"
    shutil.copy(promise / "incidents.jsonl", path)
    messages: list[str] = []
    journal = Journal(path, messages.append)
    incidents, end = journal.read()
    journal.close()
    assert messages == []
    assert math.isclose(end, NOON + 60)
    lines = (promise / "incidents.jsonl").read_text().splitlines()
    assert [incident.id for incident in incidents] == [
        json.loads(line)["incident"]["id"] for line in lines
    ]
    assert [incident.kind for incident in incidents] == [make_incident().kind, "hang"]
