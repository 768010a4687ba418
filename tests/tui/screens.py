"""The whole program on a real pseudo-terminal that answers as a terminal does, fast or slow."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyte

ROOT = Path(__file__).parents[2]
ANSWER = b"\x1b[1;1R"
_QUESTION = b"\x1b[6n"
# What pyte prints instead of ignoring it: keyboard protocols, questions about modes.
_UNKNOWN = re.compile(rb"\x1b\[[<>=][0-9;]*u|\x1b\[\?[0-9]+\$p")
_TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
_GO = "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


class Screen:
    """A terminal with the dashboard in it.

    Args:
        arguments: of trntop, or with `script` of that program.
        columns: of the terminal.
        rows: of the terminal.
        rate: bytes a second that it takes; 0 for all.
        answers: whether it answers questions.
        script: Python to run instead of trntop's command line.
        controls: whether it is the controlling terminal, whose end is a signal.
        environment: changes to the environment.
    """

    def __init__(
        self,
        *arguments: str,
        columns: int = 100,
        rows: int = 30,
        rate: float = 0,
        answers: bool = True,
        script: str = "",
        controls: bool = True,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.master, slave = os.openpty()
        self._slave = slave
        self.output = bytearray()
        self._rate = rate
        self._answers = answers
        self._asked = 0
        self._pyte = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._pyte)
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        program = ["-c", script] if script else ["-m", "trntop"]
        start = ["-c", _TAKE_TERMINAL * controls + "import os, sys; " * (not controls) + _GO]
        known = {name: value for name, value in os.environ.items() if "COLOR" not in name}
        self.process = subprocess.Popen(
            [sys.executable, *start, *program, *arguments],
            stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True,
            env={
                **known, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT),
                "XDG_CONFIG_HOME": "/nonexistent", "XDG_STATE_HOME": "/nonexistent",
                **(environment or {}),
            },
        )  # fmt: skip
        self._began = time.monotonic()
        self._taken = 0

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: Any) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(5)
        for descriptor in (self.master, self._slave):
            if descriptor >= 0:
                os.close(descriptor)

    @property
    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join(self._pyte.display)

    def resize(self, columns: int, rows: int) -> None:
        """Changes the size, as a window does."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._pyte.resize(max(1, rows), max(1, columns))

    def press(self, keys: str) -> None:
        """Types."""
        os.write(self.master, keys.encode())

    def read(self, seconds: float = 0.05) -> None:
        """Takes what comes for a while, as fast as it may."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            room = 65536
            if self._rate:
                room = int((time.monotonic() - self._began) * self._rate) - self._taken
            if room < 1:
                select.select((), (), (), min(left, 0.02))
                continue
            if not select.select((self.master,), (), (), left)[0]:
                return
            try:
                data = os.read(self.master, min(room, 65536))
            except OSError:
                return
            if not data:
                return
            self._take(data)

    def _take(self, data: bytes) -> None:
        self._taken += len(data)
        self.output += data
        self._stream.feed(_UNKNOWN.sub(b"", data))
        asked = self.output.count(_QUESTION)
        if self._answers:
            os.write(self.master, ANSWER * (asked - self._asked))
        self._asked = asked

    def until(self, done: Callable[[], bool] | str, seconds: float = 15.0) -> None:
        """Reads until the screen shows a text, or something is so."""
        met = done if callable(done) else lambda: str(done) in self.text
        deadline = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < deadline, f"not {done!r} but\n{self.text}"
            assert self.process.poll() is None or callable(done), self.text
            self.read()

    def ended(self, seconds: float = 2.0) -> int:
        """Reads until the program has ended; its exit code."""
        self.until(lambda: self.process.poll() is not None, seconds)
        self.read(0.2)
        return int(self.process.returncode)

    def assert_restored(self) -> None:
        """The terminal is as it was: its modes, its screen, its cursor, its mouse."""
        assert termios.tcgetattr(self._slave) == self.before
        for on, off in (
            (b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?25l", b"\x1b[?25h"),
            (b"\x1b[?1000h", b"\x1b[?1000l"), (b"\x1b[?2004h", b"\x1b[?2004l"),
            (b"\x1b[?1004h", b"\x1b[?1004l"),
        ):  # fmt: skip
            assert self.output.rfind(off) > self.output.rfind(on), off

    def hang_up(self) -> None:
        """The window is closed."""
        os.close(self.master)
        os.close(self._slave)
        self.master = self._slave = -1

    def send(self, number: signal.Signals) -> None:
        """Sends the program a signal."""
        self.process.send_signal(number)
