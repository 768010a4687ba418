"""Waits for the dashboard by what it still has to do, not by how busy the machine is."""

import asyncio
from typing import Any

from textual.pilot import Pilot

TIMEOUT = 60.0
"""Seconds after which a screen that never settles fails its test."""
ROUNDS = 2
"""Checks in a row that find nothing left to do: a message may cause another."""


async def settled(pilot: Pilot[Any], delay: float | None = None) -> None:
    """Waits until all messages are processed and the screen is laid out and painted.

    `Pilot.pause` waits until the process uses little CPU time, as it also does next to busy
    processes when its work is not done.
    """
    if delay is not None:
        await asyncio.sleep(delay)
    app, calm = pilot.app, 0
    async with asyncio.timeout(TIMEOUT):
        while calm < ROUNDS and app.is_running and await pilot._wait_for_screen():
            if app.screen_stack:
                app.screen._on_timer_update()
            calm = 0 if _busy(pilot) else calm + 1
            await asyncio.sleep(0.001 * (not calm))


def _busy(pilot: Pilot[Any]) -> bool:
    """Whether messages, a change of screens, a layout or a painting are still to come."""
    app = pilot.app
    if not app.screen_stack:
        return False
    if app._resize_event is not None or app._resize_timer is not None:
        return True
    screen = app.screen
    if app._batch_count or screen._layout_required or screen._repaint_required:
        return True
    if screen._scroll_required or screen._dirty_widgets or screen._callbacks or not screen.size:
        return True
    return any(
        node._message_queue.qsize() or node._next_callbacks
        for node in (app, *screen.walk_children(with_self=True))
    )
