"""Pictures of the screens, compared with the ones in `snapshots/`.

`TRNTOP_UPDATE_SNAPSHOTS=1 pytest tests/tui/test_snapshots.py` draws them anew; look at them.
"""

import os
import re
from pathlib import Path

import pytest

from tests.tui.scenes import make_app

SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = {"small": (80, 24), "laptop": (120, 36), "wall": (200, 60)}
KEYS = {"cluster": "1", "node": "2", "incidents": "3"}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("trouble", [False, True], ids=["calm", "trouble"])
async def test_screens(trouble: bool, size: str) -> None:
    drawn = {}
    app = make_app(trouble=trouble)
    async with app.run_test(size=SIZES[size]) as pilot:
        for screen, key in KEYS.items():
            await pilot.press(key)
            await pilot.pause()
            name = f"{screen}-{'trouble' if trouble else 'calm'}-{size}.svg"
            drawn[name] = normalised(app.export_screenshot(simplify=True))
    if os.environ.get("TRNTOP_UPDATE_SNAPSHOTS"):
        for name, picture in drawn.items():
            (SNAPSHOTS / name).write_text(picture, encoding="utf-8", newline="\n")
    different = [
        name
        for name, picture in drawn.items()
        if picture != (SNAPSHOTS / name).read_text(encoding="utf-8")
    ]
    assert not different


def normalised(svg: str) -> str:
    """Without the fonts to download and the number that differs from run to run."""
    svg = re.sub(r"@font-face \{[^}]*\}\s*", "", svg)
    svg = re.sub(r"terminal-\d+-", "terminal-", svg)
    return re.sub(r"[ \t]+\n", "\n", svg)
