"""An app that minds its terminal: a slow one, one that goes away, and its own defects."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

from rich.console import RenderableType
from textual import constants
from textual.actions import ActionParseResult
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver

from . import _textual
from .journal import Journal
from .render.line import printable
from .terminal import WINDOW, Terminal

log = logging.getLogger(__name__)

EXIT_TIMEOUT = 1.8
"""After which the program ends by force, if it hangs while it ends."""
HANGUP = 128 + signal.SIGHUP


class TerminalApp(App[int]):
    """Paints when the terminal has taken what was painted before, and always gives it back.

    Args:
        journal: the file for what goes wrong; None for none.
    """

    _terminal: Terminal | None = None
    """The terminal, where it is one and not a browser or nothing."""
    ascii = False
    """Whether the terminal has no other characters."""

    def __init__(self, journal: Path | None) -> None:
        self._painting_paused: ExitStack | None = None
        """While it is open nothing is painted."""
        self._paint_missed = False
        """Whether something would have been painted meanwhile that Textual has forgotten."""
        self._transition: ExitStack | None = None
        """While it is open another screen comes, and nothing is painted."""
        self._exiting = False
        self._journal = Journal(journal, self._warn_threadsafe)
        super().__init__()

    def get_driver_class(self) -> type[Driver]:
        """Our own, unless the environment asks for another, as the web server does."""
        return super().get_driver_class() if constants.DRIVER else Terminal

    def on_mount(self) -> None:
        """Takes the terminal's news, and the signals of the system."""
        driver = _textual.driver_of(self)
        if isinstance(driver, Terminal):
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                # Ends as a shell reports a signal, but with the terminal put back.
                loop.add_signal_handler(number, self.exit, 128 + number, 128 + number)
            self._terminal = driver
            self._terminal.ascii = self.ascii
            self._terminal.settled = self._settled_soon
            self._terminal.gone = lambda: self.exit(HANGUP, HANGUP)
        self.app_resume_signal.subscribe(self, self._repaint)
        if not self.is_headless:
            logging.getLogger("trntop").addHandler(self._journal)

    def on_unmount(self) -> None:
        """Nobody is there to be told any more."""
        logging.getLogger("trntop").removeHandler(self._journal)
        self._journal.close()

    @property
    def terminal_busy(self) -> bool:
        """Whether the terminal is better left alone until it has taken the last picture."""
        return self._terminal is not None and self._terminal.busy

    @property
    def written(self) -> int | None:
        """Bytes to the terminal so far; None where there is none."""
        return None if self._terminal is None else self._terminal.written

    def terminal_ready(self) -> None:
        """The terminal has taken everything, after it was busy."""

    def before_exit(self) -> None:
        """The program ends."""

    def delay_update(self, delay: float = 0.05) -> None:
        """Hides a change of screens until the new one has drawn itself, at most for `delay`.

        Textual would wait for all of it, and so would whoever pressed the key.
        """
        if self._transition is None:
            self._transition = ExitStack()
            self._transition.enter_context(self.batch_update())
            # Stopped with it: it must not end the wait for the next screen.
            self._transition.callback(self.set_timer(delay, self.end_transition).stop)

    def end_transition(self) -> None:
        """Paints the screen that came, at once and not at the next of 60 times a second."""
        if self._transition is not None:
            self._transition.close()
            self._transition = None
            self.screen.refresh()
            _textual.paint(self.screen)

    def post_display_hook(self) -> None:
        """After each painting: paints no more while much has not arrived."""
        if self._terminal is None:
            return
        if self._painting_paused is not None:
            self._paint_missed = True
            return
        if self._terminal.on_their_way > WINDOW:
            # Later, since Textual may be about to paint the rest of the same picture.
            self.call_later(self._pause_painting)

    def _pause_painting(self) -> None:
        if (
            self._painting_paused is None
            and self._terminal is not None
            and self._terminal.on_their_way > WINDOW
        ):
            self._painting_paused = ExitStack()
            self._painting_paused.enter_context(self.batch_update())

    def _repaint(self, _: object) -> None:
        """Paints all of the screen: while the program was suspended others wrote on it."""
        self._resume_painting()
        self.screen.refresh()

    def _settled_soon(self) -> None:
        self.call_later(self._settled)

    def _settled(self) -> None:
        assert self._terminal is not None
        if self._terminal.on_their_way <= WINDOW:
            self._resume_painting()
        if not self._terminal.busy:
            self.terminal_ready()

    def _resume_painting(self) -> None:
        """Paints again, if painting was held."""
        if self._painting_paused is None:
            return
        self._painting_paused.close()
        self._painting_paused = None
        if self._paint_missed:
            self._paint_missed = False
            self.screen.refresh()
        # What it put off it paints when it is idle next, which may be long: nothing may come.
        self.screen.check_idle()

    def exit(
        self,
        result: int | None = None,
        return_code: int = 0,
        message: RenderableType | None = None,
    ) -> None:
        """Ends, by force where something hangs: a program nobody sees must not live on."""
        if not self._exiting:
            self._exiting = True
            self.before_exit()
            if self._terminal is not None:
                timer = Timer(EXIT_TIMEOUT, self._end_by_force, (self._terminal, return_code))
                timer.daemon = True
                timer.start()
        super().exit(result, return_code, message)

    @staticmethod
    def _end_by_force(line: Terminal, return_code: int) -> None:
        line.restore()
        os._exit(return_code)

    async def run_action(
        self,
        action: "str | ActionParseResult",
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Does what a key asks for; a defect there ends the key's work, not the program."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception:
            if self.is_headless:
                raise
            log.exception("%s failed", action)
            return True

    def export_screenshot(self, *, title: str | None = None, simplify: bool = False) -> str:
        """The screen as SVG; our own is a sixth of the size and asks no other machine for fonts."""
        from .picture import svg

        ground = self.theme_variables["background"]
        return svg(_textual.strips(self), self.size.width, ground, title or self.title)

    def call_safely(self, call: Callable[[], None]) -> None:
        """Calls; a defect there is told and kept, and the program goes on."""
        try:
            call()
        except Exception:
            if self.is_headless:
                raise
            log.exception("a tick cannot be shown")

    # Overrides private API: Textual has no other hook before it prints all variables.
    def _handle_exception(self, error: Exception) -> None:
        """Ends with one line instead of a page with the values of all variables."""
        if self.is_headless:
            # Tests and pictures want to know all of it.
            super()._handle_exception(error)
            return
        log.critical("trntop stops: internal error", exc_info=error)
        where = f"; details in {self._journal.path}" if self._journal.path else ""
        text = f"trntop: internal error: {type(error).__name__}: {error}{where}"
        self.exit(return_code=70, message=printable(text))

    def _warn_threadsafe(self, text: str) -> None:
        self.call_later(self._warn, text)

    def _warn(self, text: str) -> None:
        self.notify(text, severity="warning", timeout=10, markup=False)
