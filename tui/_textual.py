"""Private API of Textual (8.2), each use with its reason."""

from typing import Any

from textual._xterm_parser import XTermParser as XTermParser  # the only parser of terminal input
from textual.app import App
from textual.driver import Driver
from textual.screen import Screen


def paint(screen: Screen[object]) -> None:
    """Paints a screen now: `Screen.refresh` waits for the next frame."""
    screen._on_timer_update()


def driver_of(app: App[Any]) -> Driver | None:
    """The driver: Textual passes it to no hook."""
    return app._driver
