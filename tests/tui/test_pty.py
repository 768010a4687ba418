"""On a real pseudo-terminal: foreign text, sizes, signals, slow lines, hung sources, defects."""

import json
import re
import signal
import stat
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.reports import report, runtime
from tests.tui.screens import PROMPT, ROOT, Screen

pytestmark = pytest.mark.xdist_group("terminal")

SMALL = "nodes=2&type=trn1.2xlarge"
QUIET = ("demo", f"healthy?{SMALL}")
NODE = "trn-001"

HOSTILE = (
    "\x1b[31;5;77mX",
    "\x1b]0;PWNED\x07",
    "\x1bPPWNED\x1b\\",
    "\x9b66;1H",
    "\x00\x07\x08\x7f",
    "[/red][@click=app.quit]X[/",
    "[",
    "‮abc\u2066",
    "節点😀e\u0301\u0302\u0303\u0304\u0305",
    "\ud800",
)
CONTROLS = (b"\x1b[31;5;77m", b"PWNED\x07", b"\x1bPPWNED", b"\xc2\x9b", b"\x00", b"\x07",
            b"\x08", b"\x7f", "‮".encode(), "\u2066".encode())  # fmt: skip


def hostile_recording(path: Path) -> Path:
    """Two seconds of nodes, jobs, processes and errors whose names drive a terminal."""
    lines = []
    for second in (0, 1, 2):
        for number, name in enumerate(HOSTILE):
            payload = report(runtime(pid=100 + number, failed=3))
            entry = payload["neuron_runtime_data"][0]
            entry["neuron_runtime_tag"] = entry["error"] = name
            step = {
                "job": name, "rank": 0, "step": second, "step_seconds": 1.0,
                "compute_seconds": 0.5, "comm_seconds": 0.5, "exposed_comm_seconds": 0.5,
            }  # fmt: skip
            time_of = {"v": 1, "t": 1.76e9 + second, "node": f"{number}{name}"}
            lines.append({**time_of, "source": "neuron-monitor", "data": payload})
            lines.append({**time_of, "source": "steps", "data": step})
            lines.append({**time_of, "source": "kernel-log", "text": name})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_fault_46_foreign_text_never_drives_the_terminal(tmp_path: Path) -> None:
    recording = hostile_recording(tmp_path / "hostile\x1b[31;5;77m[red].jsonl")
    with Screen("replay", str(recording), "--loop", "--speed", "4", columns=160, rows=50) as screen:
        screen.until("[/red][@cli")
        for key in "2n3456":
            screen.press(key)
            screen.read(0.3)
        screen.press("?")
        screen.until("Reading the screen")
        screen.press("?")
        screen.until(lambda: "Reading the screen" not in screen.text)
        screen.press("1")
        screen.until("節点")
        screen.press("q")
        assert screen.ended() == 0
        # Textual's own: the shape of the mouse's pointer.
        output = re.sub(rb"\x1b\]22;[a-z]+\x07", b"", screen.output)
        assert [bad for bad in CONTROLS if bad in output] == []
        screen.assert_restored()


def test_fault_47_any_size_and_a_storm_of_sizes() -> None:
    with Screen(*QUIET) as screen:
        screen.until(NODE)
        for size in ((1, 1), (0, 0), (500, 300), (2, 60), (300, 2)):
            screen.resize(*size)
            screen.read(0.2)
        for step in range(200):
            screen.resize(20 + 7 * step % 180, 5 + 3 * step % 60)
            screen.read(0.005)
        screen.send(signal.SIGPIPE)
        screen.resize(100, 30)
        screen.until(NODE)
        screen.press("q")
        assert screen.ended() == 0
        screen.assert_restored()


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_fault_47_a_terminal_that_cannot_be_drawn_on_gets_text(term: str) -> None:
    with Screen("sim:healthy?minutes=0.1&" + SMALL, environment={"TERM": term}) as screen:
        assert screen.ended() == 0
        assert NODE.encode() in screen.output
        assert b"\x1b" not in screen.output


def test_a_terminal_of_sixteen_colors_keeps_its_mouse() -> None:
    with Screen(*QUIET, "--no-mouse", environment={"TERM": "xterm"}) as screen:
        screen.until(NODE)
        screen.press("5")
        screen.until("no incidents")
        assert b"8;2;" not in screen.output
        assert b"8;5;" not in screen.output
        assert b"\x1b[?1000h" not in screen.output


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        ("\x03", 0),
        ([signal.SIGTERM], 143),
        ([signal.SIGHUP], 129),
        ([signal.SIGINT, signal.SIGINT], 130),
    ],
    ids=["Ctrl-C", "TERM", "HUP", "INT-INT"],
)
def test_the_shell_gets_the_terminal_as_it_was_and_no_late_reply(
    leave: str | list[signal.Signals], code: int
) -> None:
    with Screen(*QUIET, shell=True, delay=0.3) as screen:
        screen.press(screen.command + "\n")
        screen.until(NODE)
        if isinstance(leave, str):
            screen.press(leave)
        else:
            for number in leave:
                screen.send(number)
        typed = "echo status $?"
        assert screen.at_prompt(typed) == f"{typed}\r\nstatus {code}\r\n{PROMPT}"
        screen.assert_restored()


def test_leaving_at_once_leaves_no_reply_to_the_shell() -> None:
    with Screen(*QUIET, shell=True, delay=0.3) as screen:
        screen.press(screen.command + "\n")
        screen.until(lambda: b"\x1b[?2004h" in screen.output)
        screen.press("q")
        assert screen.at_prompt("echo ok") == f"echo ok\r\nok\r\n{PROMPT}"
        screen.assert_restored()


@pytest.mark.parametrize("controls", [True, False], ids=["HUP", "EIO"])
def test_fault_48_a_terminal_that_is_gone_ends_it(controls: bool) -> None:
    with Screen(*QUIET, controls=controls) as screen:
        screen.until(NODE)
        screen.hang_up()
        assert screen.process.wait(60) == 129


def test_resumed_all_of_the_screen_is_painted() -> None:
    with Screen(*QUIET, shell=True, delay=0.3) as screen:

        def painted() -> bool:
            """Also what never changes: the fleet map, the footer."""
            return all(text in screen.text for text in (NODE, "fleet", "Quit"))

        def resume() -> None:
            screen.erase()
            screen.press("fg\n")
            screen.until(painted)

        screen.press(screen.command + "\n")
        screen.until(painted)
        for columns in (100, 120):
            screen.press("\x1a")
            assert screen.at_prompt("echo ok") == f"echo ok\r\nok\r\n{PROMPT}"
            screen.assert_restored()
            screen.resize(columns, 30)
            resume()
        # The program has no chance to leave the terminal; the shell gets the replies to it.
        screen.prompted(lambda: screen.send(signal.SIGSTOP))
        screen.prompted(lambda: screen.press("\n"))
        resume()
        screen.press("q")
        typed = "echo status $?"
        assert screen.at_prompt(typed) == f"{typed}\r\nstatus 0\r\n{PROMPT}"
        screen.assert_restored()


BROKEN = """
import os, sys
from trntop.cli import main
from trntop.tui.app import TrntopApp
from trntop.tui.widgets.overview import FleetMap
def broken(*_): raise KeyError("\\x1b[31;5;77mfoul")
FleetMap.draw = TrntopApp.action_pause = broken
if "FATAL" in os.environ: TrntopApp.on_app_blur = broken
raise SystemExit(main(sys.argv[1:]))
"""


def test_fault_49_a_defect_in_a_panel_is_one_line(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    with Screen(*QUIET, script=BROKEN, environment=environment) as screen:
        screen.until("this panel failed: KeyError")
        screen.until(NODE)
        screen.press(" ")
        screen.until("pause failed")
        screen.press("5")
        screen.until("no incidents")
        screen.press("q")
        assert screen.ended() == 0
        screen.assert_restored()
        assert b"\x1b[31;5;77m" not in screen.output
    state = tmp_path / "trntop"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    journal = (state / "trntop.log").read_text()
    assert "FleetMap cannot be drawn" in journal
    assert journal.count("Traceback") == journal.count("KeyError: ")


def test_fault_49_a_fatal_defect_is_one_line_too(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path), "FATAL": "1"}
    with Screen(*QUIET, script=BROKEN, environment=environment) as screen:
        screen.until(NODE)
        screen.press("\x1b[O")
        assert screen.ended() == 70
        screen.assert_restored()
        last = screen.output.rpartition(b"\x1b[?1049l")[2].decode()
        assert "trntop: internal error: KeyError" in last
        assert "Traceback" not in last
        assert b"\x1b[31;5;77m" not in screen.output


def test_fault_50_a_slow_line_drops_pictures_and_not_readings() -> None:
    with Screen(
        "demo", f"healthy?{SMALL}&minutes=5", "--speed", "4", columns=100, rows=12, rate=2000
    ) as screen:
        shown: list[int] = []

        def skips() -> bool:
            """Whether the clock jumps by more than the ticks of one second, and still follows."""
            if found := re.search(r"×4 \d\d:(\d\d):(\d\d)", screen.text):
                minutes, seconds = map(int, found.groups())
                shown.append(60 * minutes + seconds)
            return any(later - earlier > 4 for earlier, later in pairwise(shown))

        screen.until(skips)
        screen.press("q")
        assert screen.ended() == 0
        screen.assert_restored()


def test_a_hung_source_does_not_hold_the_end_up() -> None:
    def seconds(mode: str) -> float:
        fake = ROOT / "tests" / "fakes" / "neuron_monitor.py"
        with Screen(
            "--set", f"collect.neuron_monitor={fake}", "--set", "collect.period=0.2",
            environment={"FAKE_NEURON_MONITOR": mode},
        ) as screen:  # fmt: skip
            screen.until("trntop")
            screen.read(1.5)
            began = time.monotonic()
            screen.press("q")
            assert screen.ended() == 0
            screen.assert_restored()
            return time.monotonic() - began

    assert seconds("ignore-term") < seconds("ok") + 1.5
