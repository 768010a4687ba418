"""A user who has read nothing about trntop finds the degraded EFA device and its onset.

In a real terminal, with the keys that the screen offers then and no others.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trntop.cli.opening import WARM_UP
from trntop.collectors.simulator import Truth, parse, truth

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

SCENARIO = "efa-degraded?nodes=4&seed=11"
TIMEOUT = 25.0
SLACK = 15.0
"""Seconds by which the moment on screen may miss the true one: the process takes its time to
start, and the picture before the change is a good one of its beginning."""
DAY = 86_400.0


class Terminal:
    """trntop in a terminal, a pair of eyes and a finger."""

    def __init__(self, folder: Path, columns: int, rows: int, *command: str) -> None:
        self._socket = str(folder / "tmux")
        self.keys: list[str] = []
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
            sys.executable, "-m", "trntop", *command,
        )  # fmt: skip

    def _tmux(self, *words: str) -> str:
        command = ("tmux", "-S", self._socket, *words)
        env = dict(os.environ)  # without the size that readline sets behind it
        return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout

    def capture(self) -> str:
        """The text on the screen."""
        return self._tmux("capture-pane", "-p")

    def until(self, pattern: str) -> re.Match[str]:
        """Captures the screen until it shows a text."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if found := re.search(pattern, self.capture()):
                return found
            time.sleep(0.1)  # another process draws: there is nothing to wait on
        pytest.fail(f"{pattern} was never to be seen:\n{self.capture()}")

    def press(self, key: str, offer: str) -> None:
        """Presses a key, if the screen offers it in these words."""
        self.until(offer)
        self.keys.append(key)
        self._tmux("send-keys", key)

    def close(self) -> None:
        """Ends everything."""
        self._tmux("kill-server")


@contextmanager
def demo(folder: Path, columns: int, rows: int) -> Iterator[tuple[Terminal, Truth]]:
    """The demo in a terminal, and what is wrong in it."""
    (faulty,) = truth(parse(f"sim:{SCENARIO}"), time.time() - WARM_UP)
    terminal = Terminal(folder, columns, rows, "demo", SCENARIO, "--speed", "8")
    try:
        yield terminal, faulty
    finally:
        terminal.close()


def device_of(faulty: Truth) -> str:
    assert faulty.component is not None
    return faulty.component.removeprefix("efa:")


def seconds_of(clock: str) -> float:
    """Seconds since midnight."""
    hours, minutes, seconds = map(int, clock.split(":"))
    return 3600.0 * hours + 60.0 * minutes + seconds


def missed(clock: str, faulty: Truth) -> float:
    """Seconds from the true onset to a time of day on the screen."""
    true = seconds_of(time.strftime("%H:%M:%S", time.localtime(faulty.onset)))
    return (seconds_of(clock) - true + DAY / 2) % DAY - DAY / 2


def test_from_the_demo_to_the_degraded_efa_device_and_its_onset(tmp_path: Path) -> None:
    with demo(tmp_path, 120, 36) as (terminal, faulty):
        # The alert comes by itself; the list of incidents has its location.
        terminal.until(rf"● CRITICAL .*{faulty.node}")
        terminal.press("5", r"5 Incidents")
        terminal.until(rf"{faulty.node}\s+efa:{device_of(faulty)}")

        # And a line above it names the key to go to that time.
        terminal.press("o", r"\bo start")
        shown = terminal.until(r"HISTORY (\d\d:\d\d:\d\d)")[1]
        assert abs(missed(shown, faulty)) < SLACK
        assert len(terminal.keys) <= 5


def test_on_the_smallest_screen_the_alert_alone_shows_both(tmp_path: Path) -> None:
    with demo(tmp_path, 80, 24) as (terminal, faulty):
        alert = rf"(\d\d:\d\d:\d\d)  {faulty.node} {device_of(faulty)}: "
        assert abs(missed(terminal.until(alert)[1], faulty)) < SLACK
