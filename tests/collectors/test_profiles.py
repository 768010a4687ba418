from pathlib import Path

import pytest

from trntop.collectors.polled import AbsentError
from trntop.collectors.profiles import ProfilesReader, examine
from trntop.core.model import NeffProfile
from trntop.pipeline.profiles import add, remove
from trntop.sources.profiles import decode

PROFILE = NeffProfile("a.neff", "u1", 1.0, 2.0, 0.5, 0.1)


def test_what_it_reads_is_what_was_added(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    read = ProfilesReader(path)
    with pytest.raises(AbsentError, match="trntop profile add"):
        read()
    add(path, PROFILE)
    sample = decode(read())
    assert sample.facts == {"profiles": (PROFILE,)}
    assert sample.period == ProfilesReader.PERIOD
    remove(path, "a.neff")
    assert decode(read()).facts == {"profiles": ()}, "that they are gone must be reported"
    with pytest.raises(AbsentError, match="no NEFF profiles here"):
        read()
    with pytest.raises(AbsentError, match="no NEFF profiles here"):
        ProfilesReader(path)()
    assert not examine(path).ok, "and doctor agrees"
    add(path, PROFILE)
    assert decode(read()).facts == {"profiles": (PROFILE,)}
    path.unlink()
    assert decode(read()).facts == {"profiles": ()}, "so does a file that went"


def test_a_broken_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    path.write_text("{")
    with pytest.raises(AbsentError, match=r"profiles\.json: not JSON"):
        ProfilesReader(path)()
    assert not examine(path).ok


def test_examine(tmp_path: Path) -> None:
    path = tmp_path / "profiles.json"
    nothing = examine(path)
    assert not nothing.ok
    assert "summary-json" in nothing.remedy
    add(path, PROFILE)
    assert (examine(path).ok, examine(path).found) == (True, f"1 NEFF profile in {path}")
