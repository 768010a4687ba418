"""A program in a pseudo-terminal, as a user would start it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyte

TICKS = os.sysconf("SC_CLK_TCK")
QUESTION, ANSWER = b"\x1b[6n", b"\x1b[1;1R"
_UNKNOWN = re.compile(rb"\x1b\[[<>=][0-9;]*u|\x1b\[\?[0-9;]*\$p|\x1b\[>[0-9;]*[mq]")
"""What pyte prints instead of ignoring it."""
TRNTOP = (sys.executable, "-m", "trntop")


class Terminal:
    """Starts `command` in a terminal of `columns` × `rows`; end it with `close`."""

    def __init__(self, *command: str, columns: int = 120, rows: int = 36) -> None:
        self.started = time.perf_counter()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.output = 0
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)

    def read(self, seconds: float) -> bytes:
        """What comes within `seconds`, at the first chunk."""
        if not select.select([self._master], [], [], seconds)[0]:
            return b""
        try:
            chunk = os.read(self._master, 1 << 16)
        except OSError:  # the other end is closed
            return b""
        self.output += len(chunk)
        # As terminals do: the dashboard queries its progress.
        os.write(self._master, ANSWER * chunk.count(QUESTION))
        return chunk

    def until(self, text: bytes, seconds: float = 20.0) -> float:
        """Seconds from the start until `text` has been written."""
        output = b""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            output = output[-200_000:] + self.read(0.05)
            if text in output:
                return time.perf_counter() - self.started
            if self.process.poll() is not None:
                break
        raise RuntimeError(f"{text!r} was never written; the end: {output[-500:]!r}")

    def until_shown(self, *texts: str, seconds: float = 20.0) -> float:
        """Seconds from the start until all `texts` are in one line of the screen."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline and self.process.poll() is None:
            if chunk := self.read(0.05):
                self._stream.feed(_UNKNOWN.sub(b"", chunk))
                if any(all(text in line for text in texts) for line in self._screen.display):
                    return time.perf_counter() - self.started
        raise RuntimeError(f"{texts} never shown; the end: {self._screen.display}")

    def answer(self, keys: bytes, text: bytes, seconds: float = 20.0) -> float:
        """Seconds from pressing `keys` until `text` has been written."""
        os.write(self._master, keys)
        pressed = time.perf_counter()
        output = b""
        while time.perf_counter() < pressed + seconds:
            output = output[-len(text) :] + self.read(0.05)
            if text in output:
                return time.perf_counter() - pressed
        raise RuntimeError(f"{keys!r} never led to {text!r}; the end: {output[-500:]!r}")

    def drain(self, seconds: float) -> None:
        """Lets the program run for a while, reading all it writes."""
        deadline = time.perf_counter() + seconds
        while (left := deadline - time.perf_counter()) > 0:
            self.read(min(left, 0.2))

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._master)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
