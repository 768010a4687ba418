"""Private API of Textual (8.2): every use of it is here, each with its reason."""

from collections.abc import Iterable
from typing import Any

from textual._compositor import LayoutUpdate
from textual._xterm_parser import XTermParser as XTermParser  # the only parser of terminal input
from textual.app import App
from textual.driver import Driver
from textual.screen import Screen
from textual.strip import Strip


def paint(screen: Screen[object]) -> None:
    """Paints a screen now: `Screen.refresh` waits for the next of 60 times a second."""
    screen._on_timer_update()


def strips(app: App[Any]) -> Iterable[Iterable[Strip]]:
    """The screen as painted: `App.export_screenshot` gives SVG only."""
    update = app.screen._compositor.render_update(
        full=True, screen_stack=app._background_screens, simplify=True
    )
    assert isinstance(update, LayoutUpdate)
    return update.strips


def driver_of(app: App[Any]) -> Driver | None:
    """The driver: Textual passes it to no hook, and the app slows down with its terminal."""
    return app._driver
