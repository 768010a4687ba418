"""Pictures of the screens, compared with the ones in `snapshots/`.

`TRNTOP_UPDATE_SNAPSHOTS=1 pytest tests/tui/test_snapshots.py` draws them again; look at them.
"""

import os
from pathlib import Path

import pytest

from tests.tui import full_run
from tests.tui.sample_run import FakeSession, app_of
from tests.tui.test_app import press
from tools.picture import screenshot

SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = SMALL, MIDDLE, WIDE = (80, 24), (120, 36), (200, 60)
SCREENS = {
    "cluster": ("1",), "node": ("1", "2"), "comm": ("3",), "efa": ("4",), "incidents": ("5",),
    "run": ("6",),
}  # fmt: skip
PANELS = {
    "explain": ("1", "e"), "help": ("escape", "question_mark"),
    "filter": ("escape", "slash", *"util<97"), "faulty-filter": ("<",),
}  # fmt: skip
"""Panels over the fleet; the first key of each closes the previous one."""


async def draw(
    session: FakeSession, size: tuple[int, int], screens: dict[str, tuple[str, ...]]
) -> dict[str, str]:
    """The picture after the keys of each screen."""
    app = app_of(session)
    drawn = {}
    async with app.run_test(size=size) as pilot:
        for screen, keys in screens.items():
            await press(pilot, *keys)
            await pilot.pause()
            drawn[screen] = screenshot(app)
    return drawn


def compare(drawn: dict[str, str], condition: str, size: tuple[int, int]) -> None:
    """Names the pictures that are not as they were, or makes them so."""
    columns, rows = size
    files = {
        SNAPSHOTS / f"{screen}-{condition}-{columns}x{rows}.svg": picture
        for screen, picture in drawn.items()
    }
    if os.environ.get("TRNTOP_UPDATE_SNAPSHOTS"):
        for path, picture in files.items():
            path.write_text(picture, encoding="utf-8", newline="\n")
    different = [
        path.name
        for path, picture in files.items()
        if not path.exists() or path.read_text(encoding="utf-8") != picture
    ]
    assert not different


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_screens(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trntop.tui.app.process_time", lambda: 0.0)  # help shows its growth
    screens = SCREENS | PANELS
    compare(await draw(full_run.session("incident"), size, screens), "incident", size)


@pytest.mark.parametrize(("condition", "size"), [("healthy", WIDE), ("silent", SMALL)])
async def test_other_times(condition: str, size: tuple[int, int]) -> None:
    compare(await draw(full_run.session(condition), size, SCREENS), condition, size)


async def test_a_machine_with_nothing_to_watch() -> None:
    compare(await draw(full_run.session("empty"), MIDDLE, SCREENS), "empty", MIDDLE)


async def test_before_the_first_reading() -> None:
    size = SMALL
    compare(await draw(full_run.waiting(), size, {"cluster": ()}), "waiting", size)
