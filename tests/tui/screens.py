"""The whole program on a real pseudo-terminal that answers as a terminal does, fast or slow."""

import fcntl
import os
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyte

ROOT = Path(__file__).parents[2]
PROMPT = "shell> "
_QUERY = re.compile(rb"\x1b\[6n|\x1b\[\?[0-9]+\$p")
"""Of the cursor's position or a mode."""
_ENTERED = b"\x1b[?1049h"
_LEFT = b"\x1b[?1004l"
"""What the program writes first and last."""
# What pyte prints instead of ignoring it: keyboard protocols, questions about modes.
_UNKNOWN = re.compile(rb"\x1b\[[<>=][0-9;]*u|\x1b\[\?[0-9]+\$p")
_TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
_GO = "os.execvp(sys.argv[1], sys.argv[1:])"


class Screen:
    """A terminal with the dashboard in it.

    Args:
        arguments: of trntop, or with `script` of that program.
        columns: of the terminal.
        rows: of the terminal.
        rate: bytes a second that it takes; 0 for all.
        delay: seconds after which it replies to a query; None if it does not.
        script: Python to run instead of trntop's command line.
        shell: whether a shell starts the program, and gets the terminal back.
        controls: whether it is the controlling terminal, whose end is a signal.
        environment: changes to the environment.
    """

    def __init__(
        self,
        *arguments: str,
        columns: int = 100,
        rows: int = 30,
        rate: float = 0,
        delay: float | None = 0,
        script: str = "",
        shell: bool = False,
        controls: bool = True,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.master, slave = os.openpty()
        self._slave = slave
        self.output = bytearray()
        self._rate = rate
        self._delay = delay
        self._shell = shell
        self._replies: deque[tuple[float, bytes]] = deque()
        self._queries = 0
        """Bytes of output that have been searched for queries."""
        self._pyte = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._pyte)
        self._unparsed = bytearray()
        """Output that pyte has not parsed: parsing is slow, and replies must not wait for it."""
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        program = [sys.executable, *(["-c", script] if script else ["-m", "trntop"]), *arguments]
        self.command = shlex.join(program)
        if shell:
            # Job control, and no line editor, which would change the terminal's modes itself.
            program = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
        start = _TAKE_TERMINAL if controls else "import os, sys; "
        variables = {name: value for name, value in os.environ.items() if "COLOR" not in name}
        self.process = subprocess.Popen(
            [sys.executable, "-c", start + _GO, *program],
            stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True,
            env={
                **variables, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT),
                "XDG_CONFIG_HOME": "/nonexistent", "XDG_STATE_HOME": "/nonexistent",
                "PS1": PROMPT, "HISTFILE": "",
                **(environment or {}),
            },
        )  # fmt: skip
        self._began = time.monotonic()
        self._consumed = 0

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: Any) -> None:
        if self.process.poll() is None:
            for child in psutil.Process(self.process.pid).children():
                child.kill()
            self.process.kill()
        self.process.wait(5)
        for descriptor in (self.master, self._slave):
            if descriptor >= 0:
                os.close(descriptor)

    @property
    def text(self) -> str:
        """The text on the screen."""
        self._parse()
        return "\n".join(self._pyte.display)

    def _parse(self) -> None:
        data, self._unparsed = bytes(self._unparsed), bytearray()
        self._stream.feed(_UNKNOWN.sub(b"", data))

    def resize(self, columns: int, rows: int) -> None:
        """Changes the size, as a window does."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._parse()
        self._pyte.resize(max(1, rows), max(1, columns))

    def erase(self) -> None:
        """Erases the screen, as what other programs print does."""
        self._parse()
        self._pyte.erase_in_display(2)

    def press(self, keys: str) -> None:
        """Types."""
        os.write(self.master, keys.encode())

    def read(self, seconds: float = 0.05) -> None:
        """Takes what comes for a while, as fast as it may."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._reply()
            room = 65536
            if self._rate:
                room = int((time.monotonic() - self._began) * self._rate) - self._consumed
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
            self._read(data)

    def _read(self, data: bytes) -> None:
        self._consumed += len(data)
        self.output += data
        for query in _QUERY.finditer(self.output, self._queries):
            self._queries = query.end()
            reply = b"\x1b[1;1R" if query[0].endswith(b"n") else query[0][:-2] + b";2$y"
            if self._delay is not None:
                self._replies.append((time.monotonic() + self._delay, reply))
        self._reply()
        self._unparsed += data

    def _reply(self) -> None:
        while self._replies and self._replies[0][0] <= time.monotonic():
            os.write(self.master, self._replies.popleft()[1])

    def until(self, done: Callable[[], bool] | str, seconds: float = 60.0) -> None:
        """Reads until the screen shows a text, or something is so."""
        met = done if callable(done) else lambda: str(done) in self.text
        deadline = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < deadline, f"not {done!r} but\n{self.text}"
            assert self.process.poll() is None or callable(done), self.text
            self.read()

    def ended(self, seconds: float = 60.0) -> int:
        """Reads until the program has ended; its exit code."""
        self.until(lambda: self.process.poll() is not None, seconds)
        self._rate = None  # what the line still holds
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
        self.program.send_signal(number)

    @property
    def program(self) -> psutil.Process:
        """The program, or the one that the shell runs."""
        process = psutil.Process(self.process.pid)
        return process.children()[0] if self._shell else process

    def prompted(self, act: Callable[[], None]) -> None:
        """Does something after which the shell prints a prompt, until every reply was sent."""
        already = len(self.output)
        act()
        self.until(lambda: PROMPT.encode() in self.output[already:] and not self._replies)

    def at_prompt(self, typed: str) -> str:
        """Types in the shell once the program has left the terminal and every late reply was sent.

        Returns:
            What the terminal shows from the shell's prompt on.
        """

        def shown() -> str | None:
            left = self.output.rpartition(_ENTERED)[2].partition(_LEFT)[2]
            _, prompt, text = left.decode().partition(PROMPT)
            return text if prompt else None

        self.until(lambda: shown() is not None)
        self.until(lambda: not self._replies)
        self.press(typed + "\n")
        self.until(lambda: (shown() or "").endswith(PROMPT))
        return shown() or ""
