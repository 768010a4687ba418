"""The whole program in a real terminal (tmux), fed by the fake neuron-monitor process."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAKE = ROOT / "tests" / "fakes" / "neuron_monitor.py"

pytestmark = [
    pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed"),
    pytest.mark.xdist_group("machine"),
]


class Pane:
    """A tmux server of its own with one program in it."""

    def __init__(self, socket: Path, columns: int, rows: int) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        self._size = ["-x", str(columns), "-y", str(rows)]
        self._state = socket.parent / "state"

    def start(self, *arguments: str, shell: str = "", **environment: str) -> None:
        """Runs trntop; `shell` goes on after it ended."""
        words = [sys.executable, "-m", "trntop", *arguments]
        command = (
            f"cd {shlex.quote(str(ROOT))}; {'' if shell else 'exec '}{shlex.join(words)}{shell}"
        )
        # The colours of a test's own terminal must not matter, nor what its user chose.
        settings = {
            "XDG_CONFIG_HOME": "/nonexistent",
            "XDG_STATE_HOME": str(self._state),
            "TERM": "screen-256color",
            **environment,
        }
        words = [*self._tmux, "new-session", "-d", *self._size]
        for name, value in settings.items():
            words += ["-e", f"{name}={value}"]
        subprocess.run([*words, command], check=True, timeout=10, env=os.environ)

    @property
    def pid(self) -> int:
        """Of the program in it: trntop, or its shell."""
        show = [*self._tmux, "display-message", "-p", "#{pane_pid}"]
        return int(subprocess.run(show, capture_output=True, text=True, check=True).stdout)

    def child(self) -> int:
        """Pid of the program that the pane's shell runs."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0])

    def text(self) -> str:
        run = subprocess.run(
            [*self._tmux, "capture-pane", "-p"], capture_output=True, text=True, timeout=10
        )
        return run.stdout

    def press(self, *keys: str) -> None:
        subprocess.run([*self._tmux, "send-keys", *keys], check=True, timeout=10)

    def press_until(self, key: str, *texts: str, seconds: float = 20.0) -> None:
        """Presses `key` now and then until the screen shows all `texts`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.press(key)
            pause = time.monotonic() + 1.0
            while time.monotonic() < pause:
                if all(text in self.text() for text in texts):
                    return
                time.sleep(0.05)
        pytest.fail(f"{texts} never shown; the screen:\n{self.text()}")

    def until(self, *texts: str, seconds: float = 20.0) -> str:
        """The screen, once it shows all `texts`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            shown = self.text()
            if all(text in shown for text in texts):
                return shown
            time.sleep(0.05)
        pytest.fail(f"{texts} never shown; the screen:\n{self.text()}")

    def gone(self, seconds: float = 5.0) -> float:
        """Seconds until the program has ended."""
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            if subprocess.run([*self._tmux, "has-session"], capture_output=True).returncode:
                return time.monotonic() - start
            time.sleep(0.02)
        pytest.fail(f"still running:\n{self.text()}")

    def kill(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, timeout=10)


@pytest.fixture
def pane(tmp_path: Path) -> Iterator[Pane]:
    terminal = Pane(tmp_path / "tmux", 100, 30)
    yield terminal
    terminal.kill()


def live(pane: Pane, mode: str, *arguments: str) -> None:
    pane.start(
        "--set", f"collect.neuron_monitor={FAKE}", "--set", "collect.period=0.2", *arguments,
        FAKE_NEURON_MONITOR=mode,
    )  # fmt: skip


def test_a_newcomer_finds_the_degraded_efa_device_in_the_demo(pane: Pane) -> None:
    pane.start("demo")
    shown = pane.until("SIMULATED", "retransmits (limit", seconds=30)
    alert, *_ = (line for line in shown.splitlines() if "retransmits (limit" in line)
    device = re.search(r"rdmap\w+", alert)[0]  # type: ignore[index]
    pane.press("Enter")
    pane.until("EFA devices", device, "devices and cores")
    pane.press("Escape")
    pane.until("worst first")
    pane.press("q")
    assert pane.gone() < 2


def test_a_live_source_is_shown(pane: Pane) -> None:
    live(pane, "ok")
    pane.until("executing", "worst first")
    pane.press("q")
    pane.gone()


@pytest.mark.parametrize(
    ("mode", "texts"),
    [
        ("garbage", ["writes lines that"]),
        ("hang-after:3", ["stale"]),
        ("big", ["fresh"]),
    ],
)
def test_the_state_of_a_source_is_on_the_node_screen(
    pane: Pane, mode: str, texts: list[str]
) -> None:
    live(pane, mode)
    pane.press_until("2", "sources", "neuron-monitor", *texts)
    pane.press("q")
    assert pane.gone() < 2


def test_a_program_that_dies_is_explained(pane: Pane) -> None:
    live(pane, "exit:3")
    pane.until("exited with code 3", "next start in")
    pane.press("q")
    pane.gone()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_fault_48_a_signal_puts_the_terminal_back(pane: Pane, number: signal.Signals) -> None:
    pane.start("demo", shell='; echo "exit $?"; stty -a; sleep 30')
    pane.until("SIMULATED", "worst first")
    if number is signal.SIGINT:
        pane.press("C-c")
    else:
        os.kill(pane.child(), number)
    shown = pane.until("exit ", " icanon", " echo ")
    assert "worst first" not in shown
    assert f"exit {0 if number is signal.SIGINT else 128 + number}" in shown


def test_no_driver_is_explained(pane: Pane) -> None:
    live(pane, "no-driver")
    pane.until("no Neuron devices")
    pane.press("q")
    pane.gone()


def test_fault_01_a_missing_binary_is_explained(pane: Pane) -> None:
    pane.start("--set", "collect.neuron_monitor=no-such-neuron-monitor")
    pane.until("no-such-neuron-monitor")
    pane.press("q")
    pane.gone()
