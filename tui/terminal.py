"""The driver of the terminal: writes in a thread, and measures how much has arrived.

Textual's own driver blocks the app once thirty writes wait, spins if the terminal is gone, and
waits on exit for a terminal that does not read. This one writes in a thread, and queries the
position of the cursor after each picture: the reply arrives after the terminal has received the
output before it. For a terminal that does not reply, the output taken by the system counts.
"""

import contextlib
import os
import select
import termios
import threading
import time
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable
from typing import Any

from textual import events
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from ._textual import XTermParser

SLICE = 4096
"""Bytes written at once."""
WINDOW = 8192
"""Bytes in transit above which nothing is painted."""
REPLY_TIMEOUT = 5.0
"""Seconds after which a query is lost, if the system has taken all output."""
CLOSING_SECONDS = 0.4
"""Maximum wait on exit for a reply, from the query on, and for the output."""
SLOW_CLOSING_SECONDS = 1.0
"""The same if replies take longer, or none has arrived."""

_QUERY = "\x1b[6n"
_CANCEL = "\x18\x1b[?2026l\x1b[0m"
"""Ends a partial sequence, a synchronized update and a color."""
_RESET = (
    "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[?2048l\x1b[?7h"
    "\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""Ends the modes of Textual: mouse, paste, wrapping, keys, screen, cursor, focus."""


class Writer:
    """Writes to a descriptor in a thread, so that `write` never blocks.

    Args:
        fileno: of the terminal.
        emptied: called in the thread when the system has taken everything.
        lost: called in the thread when the terminal is gone.
    """

    def __init__(self, fileno: int, emptied: Callable[[], None], lost: Callable[[], None]) -> None:
        self._fileno = fileno
        self._emptied = emptied
        self._lost = lost
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._writing = self._closed = False
        self._thread = threading.Thread(target=self._run, name="terminal", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        with self._changed:
            self._waiting.append(data)
            self._changed.notify()

    @property
    def idle(self) -> bool:
        """Whether the system has taken everything."""
        with self._changed:
            return not self._waiting and not self._writing

    def drop(self) -> None:
        """Drops the output that is queued here and in the system."""
        with self._changed:
            self._waiting.clear()
        with contextlib.suppress(termios.error):
            termios.tcflush(self._fileno, termios.TCOFLUSH)

    def close(self, seconds: float) -> None:
        """Writes the queue, for at most `seconds`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while (data := self._next()) is not None:
            try:
                written = os.write(self._fileno, data)
            except BlockingIOError:
                # Another process made the terminal non-blocking.
                select.select((), (self._fileno,), (), 1.0)
                written = 0
            except OSError:
                self._lost()
                return
            with self._changed:
                self._writing = False
                if rest := data[written:]:
                    self._waiting.appendleft(rest)
                empty = not self._waiting
            if empty:
                self._emptied()

    def _next(self) -> bytes | None:
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            data = self._waiting.popleft()
            if len(data) > SLICE:
                self._waiting.appendleft(data[SLICE:])
            self._writing = True
            return data[:SLICE]


class Terminal(LinuxDriver):
    """Textual's driver with a writer that does not block.

    All attributes belong to the event loop; the threads only post to it.
    """

    _writer: Writer | None = None
    settled: Callable[[], None] | None = None
    """Called when output has arrived."""
    gone: Callable[[], None] | None = None
    """Called when the terminal is gone."""
    _written = 0
    _arrived = 0
    """Bytes."""
    _query_end: int | None = None
    """Bytes up to the end of the open query. There is at most one: replies have no id."""
    _query_time = 0.0
    _round_trip = SLOW_CLOSING_SECONDS
    """Seconds between the last query and its reply; assumed to be long until one has arrived."""
    _replies = False
    """Whether the terminal replied to the last query in time."""
    _left = True
    """Whether the terminal belongs to the shell."""
    _attributes: list[Any] | None = None
    """The modes of the terminal while it belongs to the app."""

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._replied = threading.Event()
        """Set while no reply is expected."""
        self._replied.set()

    @property
    def in_transit(self) -> int:
        """Bytes that have not arrived."""
        return self._written - self._arrived

    @property
    def busy(self) -> bool:
        return self.in_transit > 0

    def write(self, data: str) -> None:
        if self._writer is None:
            return
        encoded = data.encode("utf-8", "replace")
        if not self.busy:
            # After the rest of the picture.
            self._loop.call_soon(self._query)
        self._written += len(encoded)
        self._writer.write(encoded)

    def _query(self) -> None:
        """Queries the cursor position, unless a reply is expected or the shell would get it."""
        if self.busy and self._query_end is None and not self._left:
            self._replied.clear()
            self.write(_QUERY)
            self._query_end, self._query_time = self._written, time.monotonic()
            self._loop.call_later(REPLY_TIMEOUT, self._expire, self._query_end)

    def start_application_mode(self) -> None:
        self._left = False
        if self._writer is None:  # else `bg` interrupted an earlier attempt
            # Standard error may be a file.
            screen = next((fileno for fileno in (1, 2) if os.isatty(fileno)), 2)
            self._writer = Writer(
                screen, lambda: self._post(self._emptied), lambda: self._post(self._lost)
            )
        super().start_application_mode()  # type: ignore[no-untyped-call]
        with contextlib.suppress(termios.error):
            self._attributes = termios.tcgetattr(self.fileno)

    def disable_input(self) -> None:
        """Reads until the terminal has replied, then drops the remaining input.

        The first query follows Textual's own, so its reply follows theirs. Later input belongs to
        the shell.
        """
        if self._left:
            return
        self._left = True
        limit = min(max(3 * self._round_trip, CLOSING_SECONDS), SLOW_CLOSING_SECONDS)
        replied = self._replied.wait(max(0.0, self._query_time + limit - time.monotonic()))
        if self._writer is not None and not (replied and self._writer.idle):
            self._writer.drop()
            self.write(_CANCEL)
        super().disable_input()

    def stop_application_mode(self) -> None:
        self.disable_input()  # first: it may drop output
        super().stop_application_mode()

    # Overrides private API: Textual would set up the terminal twice after a SIGSTOP.
    def _sigcont_application(self, *arguments: object) -> None:
        """Resumes. After a SIGSTOP only the modes and the content of the terminal have changed."""
        if self._left:
            super()._sigcont_application(*arguments)
            return
        with contextlib.suppress(termios.error):
            if self._attributes is not None:
                termios.tcsetattr(self.fileno, termios.TCSANOW, self._attributes)
        self.send_message(self.SignalResume())

    def restore(self) -> None:
        """Restores the terminal from any thread, without waiting: the app hangs."""
        self._left = True
        with contextlib.suppress(termios.error, OSError):
            termios.tcflush(self.fileno, termios.TCIFLUSH)
            if self.attrs_before is not None:
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        if self._writer is not None:
            self._writer.drop()
            self._writer.write(f"{_CANCEL}{_RESET}".encode())
            self._writer.close(CLOSING_SECONDS / 4)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close(CLOSING_SECONDS)
            self._writer = None
        self._arrived, self._query_end = self._written, None
        self._replied.set()
        super().close()

    def process_message(self, message: Message) -> None:
        """Takes the replies out of the input."""
        if isinstance(message, events.CursorPosition):
            self._replied.set()
            self._post(self._reply)
        else:
            super().process_message(message)

    def run_input_thread(self) -> None:
        """Reads input until the exit, or until the terminal is gone."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        poller = select.poll()
        poller.register(self.fileno, select.POLLIN)
        while not self.exit_event.is_set():
            for _ in poller.poll(100):
                try:
                    data = os.read(self.fileno, SLICE)
                except OSError:
                    data = b""
                if not data:
                    self._post(self._lost)
                    return
                for message in parser.feed(decode(data)):
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)

    def _post(self, call: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call, *arguments)

    def _lost(self) -> None:
        self._replied.set()
        if self.gone is not None:
            self.gone()

    def _emptied(self) -> None:
        if not self._replies and self._writer is not None and self._writer.idle:
            self._arrive(self._written)

    def _reply(self) -> None:
        self._replies = True
        if self._query_end is not None:
            self._round_trip = time.monotonic() - self._query_time
            end, self._query_end = self._query_end, None
            self._arrive(end)
            self._query()

    def _expire(self, query_end: int) -> None:
        """A query is lost, unless the system has not even taken it."""
        if query_end != self._query_end or self._writer is None:
            return
        if self._writer.idle:
            self._replies = False
            self._replied.set()
            self._arrive(self._written)
        else:
            self._loop.call_later(REPLY_TIMEOUT, self._expire, query_end)

    def _arrive(self, count: int) -> None:
        self._arrived = max(self._arrived, count)
        if self.settled is not None:
            self.settled()
