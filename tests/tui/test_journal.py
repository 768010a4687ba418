import logging
from pathlib import Path

from trntop.tui.journal import Journal, default_path


def test_where_it_is() -> None:
    assert default_path({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/trntop/trntop.log")
    assert default_path({"XDG_STATE_HOME": "s", "HOME": "/h"}) == Path(
        "/h/.local/state/trntop/trntop.log"
    )
    assert default_path({}) is None


def record(*, failed: bool = True) -> logging.LogRecord:
    error = KeyError("x")
    info = (KeyError, error, None) if failed else None
    return logging.LogRecord("trntop.x", logging.ERROR, "", 0, "%s broke", ("it",), info)


def test_a_defect_is_told_once_and_kept_each_time(tmp_path: Path) -> None:
    path = tmp_path / "new" / "trntop.log"
    told: list[str] = []
    journal = Journal(path, told.append)
    assert not path.parent.exists()
    journal.emit(record())
    journal.emit(record())
    journal.emit(record(failed=False))
    assert told == [f"it broke: KeyError; details in {path}"]
    journal.close()
    assert path.read_text().count("it broke") == 3


def test_without_a_place_it_is_told_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told: list[str] = []
    for path in (None, tmp_path / "file" / "trntop.log"):
        Journal(path, told.append).emit(record())
    assert [text.partition(";")[0] for text in told] == ["it broke: KeyError"] * 2
