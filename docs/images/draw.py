"""Draws the README's picture from the demo: `python docs/images/draw.py`, in a checkout."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from trntop.collectors.simulator import parse, simulate
from trntop.monitor import Monitor, play
from trntop.runner import Playback, Session
from trntop.settings import Settings
from trntop.tui.app import TrntopApp

START = 1763650000.0
MOMENT = 150.0
"""Seconds into the demo: a card has been degraded for a while."""
SIZE = (120, 36)


class Still(Session):
    """A session that shows one view and stands."""

    def start(self) -> None:
        """Shows it."""
        for subscriber in self._subscribers:
            subscriber(self._view)

    def stop(self) -> None:
        """Nothing runs."""


async def draw(keys: Sequence[str]) -> str:
    """Presses `keys`; what is shown then, as SVG."""
    settings = Settings()
    monitor = Monitor(settings)
    views = play(simulate(parse("sim:demo"), START), monitor)
    view = next(one for one in views if one.time >= START + MOMENT)
    session = Still(monitor, stream=list, playback=Playback(), description="sim:demo")
    session._view = view
    app = TrntopApp(session, settings=settings, utc=True)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*keys)
        await pilot.pause(0.3)
        # The fonts it would download are not ours to name; any monospace one will do.
        return re.sub(r"@font-face \{[^}]*\}\s*", "", app.export_screenshot())


if __name__ == "__main__":
    for name, keys in {"cluster": (), "node": ("enter",)}.items():
        picture = Path(__file__).parent / f"{name}.svg"
        picture.write_text(asyncio.run(draw(keys)), encoding="utf-8", newline="\n")
