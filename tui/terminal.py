"""The terminal at the other end: written to without waiting, and asked how far it has come.

Textual's own driver blocks the program once thirty writes wait, spins where the terminal is gone,
and waits for a terminal that reads no more when it ends. Here a thread writes, and after each
picture the terminal is asked where its cursor is: the answer comes when everything before it was
taken, through whatever buffers lie between. A terminal that does not answer counts by what the
system took from us.
"""

import contextlib
import os
import select
import termios
import threading
import time
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from rich.cells import cell_len
from textual import events
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from ._textual import XTermParser

SLICE = 4096
"""Bytes that are handed to the system at once."""
WINDOW = 8192
"""Bytes on their way above which nothing more is painted until some have arrived."""
PATIENCE = 5.0
"""Seconds after which a question counts as lost, if the system took everything."""
CLOSING_SECONDS = 0.4
"""How long leaving waits for a reply, counted from the query, and for output to be written."""
SLOW_CLOSING_SECONDS = 1.0
"""How long it waits at most where replies take longer, or where none has come yet."""

_QUESTION = "\x1b[6n"
_CANCEL = "\x18\x1b[?2026l\x1b[0m"
"""Ends what may have been cut in the middle: a sequence, a synchronised picture, a colour."""
_BACK = (
    "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[?2048l\x1b[?7h"
    "\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""What Textual takes back at its end: mouse, paste, wrapping, keys, screen, cursor, focus."""

_PLAIN = {
    **dict.fromkeys("─━╌╴╶╸╺═", "-"),
    **dict.fromkeys("│┃║╎", "|"),
    **dict.fromkeys("╭╮╰╯┌┐└┘├┤┬┴┼╔╗╚╝┏┓┗┛", "+"),
    **dict.fromkeys("–—−", "-"),
    "×": "x", "…": ".", "·": ".", "•": "*", "µ": "u", "≥": ">", "≤": "<", "±": "~",
    "→": ">", "←": "<", "↑": "^", "↓": "v", "⏎": "<", "▲": "!", "●": "X", "▸": ">",
    "“": '"', "”": '"', "‘": "'", "’": "'", "█": "#", "▇": "#", "▆": "#", "▅": "=", "▄": "=",
    "▃": "-", "▂": "-", "▁": "_", "▔": "-", "▎": "|", "▊": "|", "▌": "|", "▐": "|",
}  # fmt: skip


def speaks_utf8(environ: Mapping[str, str]) -> bool:
    """Whether the terminal's locale is UTF-8; where none is named, as in containers, it may be."""
    named = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "UTF-8"
    return named.lower().replace("-", "").partition("@")[0].endswith("utf8")


def plain(text: str) -> str:
    """`text` in ASCII, each character in as many cells as before."""
    if text.isascii():
        return text
    return "".join(
        char if char.isascii() else _PLAIN.get(char) or "?" * cell_len(char) for char in text
    )


class Outlet:
    """Writes to a descriptor on a thread of its own; whoever writes never waits.

    Args:
        fileno: of the terminal.
        emptied: is called, on that thread, when all was handed to the system.
        lost: is called, on that thread, when the terminal is gone.
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
        """Queues `data`."""
        with self._changed:
            self._waiting.append(data)
            self._changed.notify()

    @property
    def idle(self) -> bool:
        """Whether the system has taken everything."""
        with self._changed:
            return not self._waiting and not self._writing

    def drop(self) -> None:
        """Forgets what waits, here and in the system: the terminal has not seen it yet."""
        with self._changed:
            self._waiting.clear()
        with contextlib.suppress(termios.error):
            termios.tcflush(self._fileno, termios.TCOFLUSH)

    def close(self, seconds: float) -> None:
        """Writes what waits and ends; what takes longer is left to itself."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while (data := self._next()) is not None:
            try:
                written = os.write(self._fileno, data)
            except BlockingIOError:
                # Somebody else has put the terminal so; it is not ours alone to change.
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
        """What is to be written now; None at the end."""
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
    """Textual's driver with an outlet that does not block, and a measure of the line.

    All figures belong to the event loop; the threads only post to it.
    """

    _outlet: Outlet | None = None
    ascii = False
    """Whether the terminal has no other characters."""
    settled: Callable[[], None] | None = None
    """Is called when something has arrived, and when the terminal has rested."""
    gone: Callable[[], None] | None = None
    """Is called when there is no terminal any more."""
    written = 0
    """Bytes so far."""
    _taken = 0
    """Bytes of them that arrived, as far as known."""
    _asked_at: int | None = None
    """Bytes up to and including the query that has no reply yet. There is at most one: without its
    reply nobody could tell which of two a later reply belongs to."""
    _asked_time = 0.0
    _round_trip = SLOW_CLOSING_SECONDS
    """Seconds between the last query and its reply; assumed to be long until one has come."""
    _answers = False
    """Whether the terminal replied to the last query in time."""
    _left = True
    """Whether the terminal is, or is about to be, the shell's."""
    _attributes: list[Any] | None = None
    """The terminal's modes while it is ours."""
    _busy_since: float | None = None
    _rests_until = 0.0

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
    def on_their_way(self) -> int:
        """Bytes that have not arrived yet."""
        return self.written - self._taken

    @property
    def busy(self) -> bool:
        """Whether the terminal has not taken everything yet, or rests from it."""
        return self._busy_since is not None or time.monotonic() < self._rests_until

    def write(self, data: str) -> None:
        """Queues `data`."""
        if self._outlet is None:
            return
        encoded = (plain(data) if self.ascii else data).encode("utf-8", "replace")
        self.written += len(encoded)
        if self._busy_since is None:
            self._busy_since = time.monotonic()
            # After what else is written now: a picture, or a word between two of them.
            self._loop.call_soon(self.ask)
        self._outlet.write(encoded)

    def ask(self) -> None:
        """Queries the cursor position, unless a reply is outstanding or the shell would get it."""
        if self.on_their_way and self._asked_at is None and not self._left:
            self._replied.clear()
            self.write(_QUESTION)
            self._asked_at, self._asked_time = self.written, time.monotonic()
            self._loop.call_later(PATIENCE, self._doubt, self._asked_at)

    def start_application_mode(self) -> None:
        """Takes the terminal over."""
        self._left = False
        if self._outlet is None:  # else `bg` stopped an earlier attempt halfway
            # Standard error may lead to a file: what draws on it would end there.
            screen = next((fileno for fileno in (1, 2) if os.isatty(fileno)), 2)
            self._outlet = Outlet(
                screen, lambda: self._post(self._emptied), lambda: self._post(self._lost)
            )
        super().start_application_mode()  # type: ignore[no-untyped-call]
        with contextlib.suppress(termios.error):
            self._attributes = termios.tcgetattr(self.fileno)

    def disable_input(self) -> None:
        """Reads until the terminal has replied, then drops the input that is left.

        The first query follows Textual's own (modes), so its reply follows theirs. Mouse, focus and
        in some terminals keys arrive as escape sequences too, hence the drop. Input that arrives
        later is the shell's.
        """
        if self._left:
            return
        self._left = True
        limit = min(max(3 * self._round_trip, CLOSING_SECONDS), SLOW_CLOSING_SECONDS)
        replied = self._replied.wait(max(0.0, self._asked_time + limit - time.monotonic()))
        if self._outlet is not None and not (replied and self._outlet.idle):
            # What a slow terminal has not shown yet it need not show.
            self._outlet.drop()
            self.write(_CANCEL)
        super().disable_input()

    def stop_application_mode(self) -> None:
        """Puts the terminal back, at once."""
        self.disable_input()  # first: it may drop output
        super().stop_application_mode()

    # Overrides private API: Textual would set up the terminal twice after a SIGSTOP.
    def _sigcont_application(self, *arguments: object) -> None:
        """Takes the terminal over again. After a SIGSTOP, which gave no chance to leave it, only
        its modes and its content are the shell's.
        """
        if self._left:
            super()._sigcont_application(*arguments)
            return
        with contextlib.suppress(termios.error):
            if self._attributes is not None:
                termios.tcsetattr(self.fileno, termios.TCSANOW, self._attributes)
        self.send_message(self.SignalResume())

    def restore(self) -> None:
        """Puts the terminal back from any thread, waiting for nobody: the program is stuck."""
        self._left = True
        with contextlib.suppress(termios.error, OSError):
            termios.tcflush(self.fileno, termios.TCIFLUSH)
            if self.attrs_before is not None:
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        if self._outlet is not None:
            self._outlet.drop()
            self._outlet.write(f"{_CANCEL}{_BACK}".encode())
            self._outlet.close(CLOSING_SECONDS / 4)

    def close(self) -> None:
        """Ends the outlet, and the one of Textual that stood idle."""
        if self._outlet is not None:
            self._outlet.close(CLOSING_SECONDS)
            self._outlet = None
        self._taken, self._asked_at, self._busy_since = self.written, None, None
        self._replied.set()
        super().close()

    def process_message(self, message: Message) -> None:
        """Takes the answers out of what the user types."""
        if isinstance(message, events.CursorPosition):
            self._replied.set()
            self._post(self._answered)
        else:
            super().process_message(message)

    def run_input_thread(self) -> None:
        """Reads keys until the end, or until the terminal is gone."""
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
        if not self._answers and self._outlet is not None and self._outlet.idle:
            self._arrived(self.written)

    def _answered(self) -> None:
        self._answers = True
        if self._asked_at is not None:
            self._round_trip = time.monotonic() - self._asked_time
            asked_at, self._asked_at = self._asked_at, None
            self._arrived(asked_at)
            self.ask()

    def _doubt(self, asked_at: int) -> None:
        """No reply for long: counts by the system from now on, unless that has not even taken the
        query.
        """
        if asked_at != self._asked_at or self._outlet is None:
            return
        if self._outlet.idle:
            self._answers = False
            self._replied.set()
            self._busy_since = time.monotonic()  # a lost answer is no slow line: no rest
            self._arrived(self.written)
        else:
            self._loop.call_later(PATIENCE, self._doubt, asked_at)

    def _arrived(self, count: int) -> None:
        self._taken = max(self._taken, count)
        if self._busy_since is not None and not self.on_their_way:
            # At most half of the line's time is the picture's: keys are answered in the other.
            now = time.monotonic()
            took, self._busy_since = now - self._busy_since, None
            self._rests_until = now + took
            self._loop.call_later(took, self._settled)
        self._settled()

    def _settled(self) -> None:
        if self.settled is not None:
            self.settled()
