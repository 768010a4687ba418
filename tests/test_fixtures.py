"""What is in `fixtures/` is made up, marked so, and is what `tests.make_fixtures` makes."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests import make_fixtures
from tests.make_fixtures import FOLDER, RECORDINGS, TEXTS
from trntop.catalog import KUBERNETES_NODE, POD_RESOURCES
from trntop.core.model import Reading
from trntop.core.settings import Settings
from trntop.recording.envelope import is_report
from trntop.recording.reader import open_recording
from trntop.session.monitor import Monitor, play
from trntop.sources import LOCAL_SOURCES

FILES = sorted(path for path in FOLDER.iterdir() if path.name != "README.md")


def readings(path: Path) -> list[Reading]:
    return list(open_recording(path))


def test_the_readme_names_every_file() -> None:
    readme = (FOLDER / "README.md").read_text()
    for path in FILES:
        assert f"`{path.name}`" in readme
    assert "python -m tests.make_fixtures" in readme


@pytest.mark.parametrize("path", [p for p in FILES if ".jsonl" in p.name], ids=lambda p: p.name)
def test_every_reading_is_marked_simulated(path: Path) -> None:
    found = readings(path)
    assert found
    for reading in found:
        assert reading.simulated or b'"simulated":true' in reading.data


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_as_they_are_made(name: str) -> None:
    made = make_fixtures.text(name)
    assert (FOLDER / name).read_bytes() == made, "run python -m tests.make_fixtures"


@pytest.mark.parametrize(("name", "most"), [*zip(RECORDINGS, (300_000, 400_000), strict=True)])
def test_recordings_are_small(name: str, most: int) -> None:
    assert (FOLDER / name).stat().st_size < most


def test_one_recording_holds_every_source() -> None:
    counts = Counter(
        reading.source for reading in readings(FOLDER / "every-source-1-node.jsonl.zst")
    )
    assert set(counts) == set(LOCAL_SOURCES) - {KUBERNETES_NODE, POD_RESOURCES}
    assert counts["tensor-engine"] == counts["neuron-monitor"] == 40


def test_the_recorded_efa_device_is_found_and_recovers() -> None:
    found = readings(FOLDER / "efa-degraded-2-nodes.jsonl.zst")
    *_, view = play(iter(found), Monitor(Settings()))
    (incident,) = view.incidents
    assert (incident.kind, incident.component) == ("efa_degraded", "efa:rdmap64s28")
    assert incident.opened_at - found[0].time < 30.0
    assert incident.closed_at is not None


def test_the_profile_is_the_golden_one() -> None:
    """(3.995 + 2.702) GiB in 54.82 ms, on one of the two cores of a chip with 820e9 bytes/s."""
    (summary,) = json.loads((FOLDER / "neuron-explorer-summary.json").read_text()).values()
    rate = (summary["hbm_read_bytes"] + summary["hbm_write_bytes"]) / summary["total_time"]
    assert 100 * rate / 410e9 == pytest.approx(summary["mbu_estimated_percent"], abs=0.01)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_a_json_file_is_one(path: Path) -> None:
    if path.suffix == ".json":
        json.loads(path.read_bytes())


def test_plain_files_are_reports() -> None:
    lines = (FOLDER / "neuron-monitor-trn1.2xlarge.jsonl").read_bytes().splitlines()
    assert all(is_report(line) for line in lines)
