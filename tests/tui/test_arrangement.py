"""What is kept of the table from one start to the next."""

import os
from pathlib import Path

import msgspec
import pytest

from trntop.core.settings import Screen
from trntop.tui.preferences import Arrangement, TablePreferences, default_path

LEFT = Arrangement(sort="util", reverse=True, columns=("util", "cpu"), faults=True)


def kept(path: Path, arrangement: Arrangement) -> Arrangement:
    keeper = TablePreferences(path)
    keeper.save(arrangement)
    keeper.wait(10)
    return TablePreferences(path).load()


def test_it_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "state" / "trntop" / "screen.json"
    assert kept(path, LEFT) == LEFT
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert kept(path, Arrangement()) == Arrangement()
    assert os.listdir(path.parent) == ["screen.json"]  # noqa: PTH208


def test_the_last_of_many_stays(tmp_path: Path) -> None:
    keeper = TablePreferences(tmp_path / "screen.json")
    for index in range(50):
        keeper.save(Arrangement(sort=f"column{index}"))
    keeper.wait(10)
    assert keeper.load().sort == "column49"


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"v":2,"sort":"util"}', b'{"v":1,"sort":3}', b"\xff", b"[" * 60000],
)
def test_what_is_wrong_is_ignored(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "screen.json"
    path.write_bytes(data)
    assert TablePreferences(path).load() == Arrangement()
    assert kept(path, LEFT) == LEFT


def test_what_is_no_file_is_ignored(tmp_path: Path) -> None:
    assert TablePreferences(tmp_path).load() == Arrangement()
    assert TablePreferences(tmp_path / "none").load() == Arrangement()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert TablePreferences(fifo).load() == Arrangement()
    file = tmp_path / "file"
    file.write_text("")
    assert kept(file / "screen.json", LEFT) == Arrangement()


def test_settings_come_first(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    assert kept(path, LEFT) == LEFT
    found = TablePreferences(path, Screen(sort="te")).load()
    assert (found.sort, found.reverse, found.columns) == ("te", False, ("util", "cpu"))
    assert TablePreferences(path, Screen(columns=("te",))).load().columns == ("te",)
    assert TablePreferences(path, Screen()).load() == LEFT
    assert TablePreferences(wanted=Screen(sort="te")).load() == Arrangement(sort="te")


def test_nothing_is_written_without_a_place() -> None:
    keeper = TablePreferences()
    keeper.save(LEFT)
    keeper.wait(0)
    assert keeper.load() == Arrangement()


def test_it_lies_beside_the_history_of_nodes() -> None:
    assert default_path({"XDG_STATE_HOME": "/s"}) == Path("/s/trntop/screen.json")
    assert default_path({"HOME": "/h"}) == Path("/h/.local/state/trntop/screen.json")
    assert default_path({}) is None


def test_the_file_is_plain() -> None:
    assert msgspec.json.encode(Arrangement()) == (
        b'{"v":1,"sort":"","reverse":false,"columns":[],"faults":false}'
    )
