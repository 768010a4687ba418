"""An app that adapts to a slow terminal, and restores it in any case."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Timer

from rich.console import RenderableType
from textual import constants
from textual.actions import ActionParseResult
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver

from . import _textual
from .render.line import printable
from .terminal import WINDOW, Terminal

log = logging.getLogger(__name__)

EXIT_TIMEOUT = 1.8
"""Seconds after which an exit that hangs is forced."""
HANGUP = 128 + signal.SIGHUP
LOG_BYTES = 1 << 20
"""Size at which the log file is rotated; one older file is kept."""


class TerminalApp(App[int]):
    """Paints when the terminal has received the previous output.

    Args:
        state: directory of the log file, `trntop.log`; None for none.
    """

    _terminal: Terminal | None = None
    """None in a browser or a test."""

    def __init__(self, state: Path | None) -> None:
        self._painting_paused: ExitStack | None = None
        """Open while nothing is painted."""
        self._paint_missed = False
        """Whether a paint was requested meanwhile, which Textual drops."""
        self._transition: ExitStack | None = None
        """Open while the screen changes."""
        self._exiting = False
        self._log_path = state / "trntop.log" if state is not None else None
        self._log_file: logging.Handler | None = None
        super().__init__()

    def get_driver_class(self) -> type[Driver]:
        """Our own, unless the environment selects another, as the web server does."""
        return super().get_driver_class() if constants.DRIVER else Terminal

    def on_mount(self) -> None:
        driver = _textual.driver_of(self)
        if isinstance(driver, Terminal):
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                # The exit code of a signal, but with the terminal restored.
                loop.add_signal_handler(number, self.exit, 128 + number, 128 + number)
            self._terminal = driver
            driver.settled = self._settled_later
            driver.gone = lambda: self.exit(HANGUP, HANGUP)
        self.app_resume_signal.subscribe(self, self._repaint)
        if not self.is_headless and self._log_path is not None:
            self._open_log(self._log_path)

    def _open_log(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            return
        self._log_file = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1, delay=True)
        self._log_file.setLevel(logging.WARNING)
        self._log_file.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
        logging.getLogger("trntop").addHandler(self._log_file)

    def on_unmount(self) -> None:
        if self._log_file is not None:
            logging.getLogger("trntop").removeHandler(self._log_file)
            self._log_file.close()

    @property
    def terminal_busy(self) -> bool:
        """Whether the terminal has not received the last picture yet."""
        return self._terminal is not None and self._terminal.busy

    def terminal_ready(self) -> None:
        """Called when the terminal is no longer busy."""

    def before_exit(self) -> None:
        """Called once when the app exits."""

    def delay_update(self, delay: float = 0.05) -> None:
        """Shows a new screen when it is drawn, at the latest after `delay`."""
        if self._transition is None:
            self._transition = ExitStack()
            self._transition.enter_context(self.batch_update())
            # The timer must not end the next transition.
            self._transition.callback(self.set_timer(delay, self.end_transition).stop)

    def end_transition(self) -> None:
        """Paints the new screen at once."""
        if self._transition is not None:
            self._transition.close()
            self._transition = None
            self.screen.refresh()
            _textual.paint(self.screen)

    def post_display_hook(self) -> None:
        """After each paint: pauses while much output is in transit."""
        if self._terminal is None:
            return
        if self._painting_paused is not None:
            self._paint_missed = True
        elif self._terminal.in_transit > WINDOW:
            # Later, because Textual may paint the rest of the same picture now.
            self.call_later(self._pause_painting)

    def _pause_painting(self) -> None:
        terminal = self._terminal
        if self._painting_paused is None and terminal and terminal.in_transit > WINDOW:
            self._painting_paused = ExitStack()
            self._painting_paused.enter_context(self.batch_update())

    def _repaint(self, _: object) -> None:
        """Paints the whole screen: others wrote on it while the app was suspended."""
        self._resume_painting()
        self.screen.refresh()

    def _settled_later(self) -> None:
        self.call_later(self._settled)

    def _settled(self) -> None:
        assert self._terminal is not None
        if self._terminal.in_transit <= WINDOW:
            self._resume_painting()
        if not self._terminal.busy:
            self.terminal_ready()

    def _resume_painting(self) -> None:
        if self._painting_paused is None:
            return
        self._painting_paused.close()
        self._painting_paused = None
        if self._paint_missed:
            self._paint_missed = False
            self.screen.refresh()
        self.screen.check_idle()

    def exit(
        self,
        result: int | None = None,
        return_code: int = 0,
        message: RenderableType | None = None,
    ) -> None:
        """Exits; by force if that takes too long."""
        if not self._exiting:
            self._exiting = True
            self.before_exit()
            if self._terminal is not None:
                timer = Timer(EXIT_TIMEOUT, self._force_exit, (self._terminal, return_code))
                timer.daemon = True
                timer.start()
        super().exit(result, return_code, message)

    @staticmethod
    def _force_exit(terminal: Terminal, return_code: int) -> None:
        terminal.restore()
        os._exit(return_code)

    async def run_action(
        self,
        action: "str | ActionParseResult",
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Runs the action of a key; a defect in it does not end the app."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:
            self._report_defect(f"{action} failed", error)
            return True

    def call_safely(self, call: Callable[[], None]) -> None:
        """Calls; a defect does not end the app."""
        try:
            call()
        except Exception as error:
            self._report_defect("a tick cannot be shown", error)

    def _report_defect(self, what: str, error: Exception) -> None:
        if self.is_headless:
            raise error
        log.exception(what)
        self._warn(f"{what}: {type(error).__name__}{self._details}")

    @property
    def _details(self) -> str:
        return "" if self._log_path is None else f"; details in {self._log_path}"

    # Overrides private API: Textual has no other hook before it prints all variables.
    def _handle_exception(self, error: Exception) -> None:
        """Exits with one line instead of a page with the values of all variables."""
        if self.is_headless:
            super()._handle_exception(error)
            return
        log.critical("trntop stops: internal error", exc_info=error)
        text = f"trntop: internal error: {type(error).__name__}: {error}{self._details}"
        self.exit(return_code=70, message=printable(text))

    def _warn(self, text: str) -> None:
        self.notify(text, severity="warning", timeout=10, markup=False)
