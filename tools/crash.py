"""Ends each program with `kill -9` at random moments and compares what it got with what it kept.

    python -m tools.crash --kills 200

| program | what must hold after each kill |
|---|---|
| recorder | a prefix of what was written is read back, short of what one flush holds |
| trntop record | the same on a live source; its neuron-monitor ends |
| agent, aggregator | the incidents that it had served are those of the next run; its port is free |
| dashboard | its neuron-monitor ends; no file is left; the next one starts |
| emitter | all records of steps that were sent have arrived; the listener goes on |
"""

import argparse
import json
import mmap
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import httpx

from tests.collectors.recording_sink import alive, pids
from tests.test_end_to_end import FAKE, ROOT
from tests.tui.screens import Screen
from trntop.core.model import Reading
from trntop.recording.reader import open_recording
from trntop.recording.writer import FLUSH_READINGS, FLUSH_SECONDS, Recorder

TRNTOP = (sys.executable, "-m", "trntop")
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
COUNT = struct.Struct("<Q")
SECONDS = 60.0
"""Limit for anything that a program must do."""
PERIOD = 0.2
LATE = 2.0
"""Seconds by which a reading of a live source may be late on a busy machine."""
SIMULATION = "sim:efa-degraded?nodes=2&type=trn1.32xlarge"
EMITTER = """
import mmap, os, struct, sys
from trntop import steps
count = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 8)
number = 0
while True:
    with steps.step(tokens=1):
        pass
    number += 1
    count[:] = struct.pack("<Q", number - steps.lost())
"""


Found = TypeVar("Found")


class Result(NamedTuple):
    """Of one kill."""

    handed: int
    """Readings, incidents or records that the program had."""
    lost: int
    faults: tuple[str, ...] = ()


class Crash:
    """The programs, and what is checked of each.

    Args:
        folder: an empty one for their files.
        chance: when they are killed.
    """

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._number = 0
        self._environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": "/nonexistent",
            "XDG_STATE_HOME": str(folder / "state"), "TMPDIR": str(folder / "tmp"),
        }  # fmt: skip
        (folder / "tmp").mkdir()

    def _new(self, suffix: str = "") -> Path:
        self._number += 1
        return self._folder / f"{self._number}{suffix}"

    def _start(self, *command: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command, cwd=ROOT, env=self._environment | environment, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    def _pause(self, least: float, most: float) -> None:
        time.sleep(self._chance.uniform(least, most))

    def recorder(self) -> Result:
        """Readings of 0 to 40 ms of recorded time each, as fast as they are written."""
        path = self._new(self._chance.choice(SUFFIXES))
        count = self._counter()
        step = self._chance.choice((0.0, 0.001, 0.04))
        process = self._start(
            sys.executable, "-m", "tools.crash", "--record", str(path), str(count), str(step)
        )
        until(path.exists)
        self._pause(0.0, 0.6)
        end(process)
        handed = COUNT.unpack(count.read_bytes())[0]
        found = list(open_recording(path))
        faults = []
        if found != [numbered(number, step) for number in range(len(found))]:
            faults.append("what is read back was not written")
        # One more may have been flushed that was not counted yet.
        if not 0 <= handed - len(found) + 1 <= FLUSH_READINGS:
            faults.append(f"{len(found)} of {handed} are read back")
        path.unlink()
        return Result(handed, max(0, handed - len(found)), tuple(faults))

    def record(self) -> Result:
        """`trntop record` on the fake neuron-monitor; what was handed over follows from time."""
        path, noted = self._new(".jsonl.zst"), self._new()
        process = self._start(
            *TRNTOP, "record", "-o", str(path), "--set", f"collect.neuron_monitor={FAKE}",
            "--set", f"collect.period={PERIOD}",
            FAKE_NEURON_MONITOR="ok", FAKE_NEURON_MONITOR_PIDS=str(noted),
        )  # fmt: skip
        until(lambda: path.exists() and pids(noted))
        began = time.time()
        self._pause(0.5, 5.0)
        ended = time.time()
        end(process)
        found = [reading for reading in open_recording(path) if reading.source == "neuron-monitor"]
        faults = gone(noted)
        newest = found[-1].time if found else began
        if ended - newest > FLUSH_SECONDS + PERIOD + LATE:
            faults.append(f"the newest reading is {ended - newest:.1f} s old")
        due = int((ended - began) / PERIOD)
        return Result(due, max(0, due - len(found)), tuple(faults))

    def agent(self) -> Result:
        return self._exporter(SIMULATION)

    def aggregator(self) -> Result:
        """Of an agent that stays."""
        process = self._start(*TRNTOP, "export", SIMULATION, "--listen", "127.0.0.1:0")
        try:
            return self._exporter(f"http://{served(process)}")
        finally:
            end(process)

    def _exporter(self, source: str) -> Result:
        state = self._folder / f"state-{source.partition(':')[0]}"
        command = (*TRNTOP, "export", source, "--state", str(state), "--listen")
        first = self._start(*command, "127.0.0.1:0")
        address = served(first)
        until(lambda: incidents(address))
        self._pause(0.0, 1.0)
        kept = incidents(address)
        end(first)
        second = self._start(*command, address)
        faults = []
        try:
            if served(second) != address:
                faults.append("another port")
            lost = kept - until(lambda: incidents(address))
        finally:
            end(second)
        if lost:
            faults.append(f"lost: {lost}")
        if left := [path.name for path in state.iterdir() if path.suffix == ".new"]:
            faults.append(f"left: {left}")
        return Result(len(kept), len(lost), tuple(faults))

    def dashboard(self) -> Result:
        """In a pseudo-terminal, on the fake neuron-monitor."""
        noted = self._new()
        environment = {
            "FAKE_NEURON_MONITOR": "ok", "FAKE_NEURON_MONITOR_PIDS": str(noted),
            "XDG_STATE_HOME": str(self._folder / "state"), "TMPDIR": str(self._folder / "tmp"),
        }  # fmt: skip
        options = ("--set", f"collect.neuron_monitor={FAKE}", "--set", f"collect.period={PERIOD}")
        with Screen(*options, environment=environment) as screen:
            screen.until("LIVE", seconds=SECONDS)
            until(lambda: pids(noted))
            screen.read(self._chance.uniform(0.0, 1.0))
            screen.process.send_signal(signal.SIGKILL)
            screen.process.wait()
        faults = gone(noted)
        if left := [str(path) for path in (self._folder / "tmp").iterdir()]:
            faults.append(f"left: {left}")
        return Result(0, 0, tuple(faults))

    def emitter(self) -> Result:
        """A training loop without work, which sends thousands of records a second."""
        path, count = self._new(".sock"), self._counter()
        received = 0
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen()
            process = self._start(
                sys.executable, "-c", EMITTER, str(count), TRNTOP_STEPS=f"unix:{path}"
            )
            connection, _ = listener.accept()
            killer = threading.Timer(self._chance.uniform(0.0, 0.5), process.kill)
            killer.start()
            with connection:
                while record := connection.recv(4096):
                    json.loads(record)
                    received += 1
            end(process)
        sent = COUNT.unpack(count.read_bytes())[0]
        faults = [f"{received} of {sent}"] if received < sent else []
        return Result(sent, max(0, sent - received), tuple(faults))

    def _counter(self) -> Path:
        path = self._new(".count")
        path.write_bytes(bytes(COUNT.size))
        return path


def numbered(number: int, step: float) -> Reading:
    data = b'{"number":%d,"pad":"%b"}' % (number, b"x" * (number * 7919 % 200))
    return Reading("trn-000", "neuron-monitor", 1e9 + number * step, data)


def record(path: Path, counter: Path, step: float) -> None:
    """Writes readings until it is killed, and counts those that were handed over."""
    with counter.open("r+b") as file, mmap.mmap(file.fileno(), COUNT.size) as count:
        recorder = Recorder(path, created=1.0)
        number = 0
        while not recorder.failed:
            recorder.write(numbered(number, step))
            number += 1
            count[:] = COUNT.pack(number)


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()
    assert process.stderr is not None
    process.stderr.close()


def gone(noted: Path) -> list[str]:
    """A fault where a noted process does not end."""
    try:
        until(lambda: not any(map(alive, pids(noted))))
    except TimeoutError:
        return [f"still running: {pids(noted)}"]
    return []


def until(condition: Callable[[], Found]) -> Found:
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)
    return found


def served(process: "subprocess.Popen[str]") -> str:
    """Host and port of an exporter."""
    assert process.stderr is not None
    for line in process.stderr:
        if match := re.search(r"http://(\S+)/metrics", line):
            return match[1]
    raise RuntimeError("it does not serve")


def incidents(address: str) -> set[tuple[str, float]]:
    """Id and start: another run of the simulation gives the same id, but a later start."""
    day = httpx.get(f"http://{address}/v1/incidents", trust_env=False, timeout=SECONDS).json()
    return {(incident["id"], incident["opened_at"]) for incident in day["incidents"]}


SHARES = {"recorder": 60, "record": 30, "agent": 30, "aggregator": 20, "dashboard": 30,
          "emitter": 30}  # fmt: skip


def crash(kills: dict[str, int], seed: int) -> dict[str, list[Result]]:
    """The results by program."""
    with tempfile.TemporaryDirectory(prefix="crash-", ignore_cleanup_errors=True) as folder:
        programs = Crash(Path(folder), random.Random(seed))
        return {
            name: [getattr(programs, name)() for _ in range(times)]
            for name, times in kills.items()
        }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=sum(SHARES.values()))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.record:
        path, counter, step = args.record
        record(Path(path), Path(counter), float(step))
    total = sum(SHARES.values())
    kills = {name: max(1, round(args.kills * part / total)) for name, part in SHARES.items()}
    print("| program | kills | handed over | lost | most at once | faults |")
    print("|---|---|---|---|---|---|")
    failed = False
    for name, results in crash(kills, args.seed).items():
        handed, lost = (
            sum(result.handed for result in results),
            sum(result.lost for result in results),
        )
        most = max(result.lost for result in results)
        faults = [fault for result in results for fault in result.faults]
        failed |= bool(faults)
        print(f"| {name} | {len(results)} | {handed:,} | {lost:,} | {most} | {len(faults)} |")
        for fault in faults:
            print(f"  {name}: {fault}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
