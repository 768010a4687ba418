"""The collector against a real process: the fake neuron-monitor and its misbehaviours."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.collectors.recording_sink import COMMAND, RecordingSink, alive, pids, running, wait_until
from trntop.catalog import NEURON_MONITOR, Entity
from trntop.collectors.backoff import Backoff
from trntop.collectors.neuron_monitor import NeuronMonitor
from trntop.core.model import State
from trntop.sources.neuron_monitor import decode

PERIOD = 0.05


class Fake:
    """The fake's switches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self._notes = folder / "pids"
        monkeypatch.setenv("FAKE_NEURON_MONITOR_PIDS", str(self._notes))

    def does(self, fault: str) -> None:
        self._monkeypatch.setenv("FAKE_NEURON_MONITOR", fault)

    @property
    def pids(self) -> list[int]:
        return pids(self._notes)

    @property
    def leftovers(self) -> list[Path]:
        """Temporary files that are left."""
        return list(self._notes.parent.glob("trntop-*"))

    def gone(self) -> bool:
        return bool(self.pids) and not any(map(alive, self.pids))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return Fake(monkeypatch, tmp_path)


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


def collector(
    silence: float = 5.0, timeout: float = 0.1, first: float = 0.02, period: float = PERIOD
) -> NeuronMonitor:
    return NeuronMonitor(
        "n", COMMAND, period, silence=silence, timeout=timeout, backoff=Backoff(first)
    )


async def test_reports_arrive(fake: Fake, sink: RecordingSink) -> None:
    async with running(collector(), sink):
        await sink.until(lambda: len(sink.readings) >= 4)
    assert [status.state for status in sink.statuses[:2]] == [State.STARTING, State.FRESH]
    assert sink.counts == {
        "starts": 1, "restarts": 0, "reports": 4, "dropped": 0, "skipped": 0, "oversize": 0,
        "stderr_lines": 0,
    }  # fmt: skip
    times = [reading.time for reading in sink.readings]
    assert times == sorted(times)
    reading = sink.readings[-1]
    assert (reading.node, reading.source, reading.simulated) == ("n", NEURON_MONITOR, False)
    sample = decode(reading.data)
    assert sample.keys[Entity.DEVICE] == (0, 1)
    assert sample.keys[Entity.CORE] == (0, 1, 2, 3)
    assert sample.problems == ()
    # What was started is ended, what was written is removed.
    assert fake.gone()
    assert fake.leftovers == []


@pytest.mark.parametrize("fault", ["crlf", "bom", "big", "partial"])
async def test_fault_08_odd_output_is_read(fake: Fake, sink: RecordingSink, fault: str) -> None:
    fake.does(fault)
    async with running(collector(), sink):
        await sink.until(lambda: len(sink.readings) >= 2)
    assert all(len(decode(reading.data).keys[Entity.CORE]) == 4 for reading in sink.readings)
    assert sink.counts["starts"] == 1
    assert (sink.counts["skipped"] > 0) == (fault == "partial")


async def test_fault_07_of_a_burst_the_newest_is_passed_on(fake: Fake, sink: RecordingSink) -> None:
    fake.does("burst:100")
    async with running(collector(period=1.0), sink):
        await sink.until(lambda: sink.statuses and sink.counts["reports"] == 100)
    assert len(sink.readings) <= 2
    assert sink.counts["dropped"] == 100 - len(sink.readings)


async def test_fault_02_exit_is_explained_and_followed_by_a_restart(
    fake: Fake, sink: RecordingSink
) -> None:
    fake.does("exit-after:2:3")
    async with running(collector(), sink):
        await sink.until(lambda: sink.statuses and sink.counts["starts"] >= 3)
    reason = "neuron-monitor exited with code 3: simulated failure"
    assert all(text.startswith(f"{reason}; next start in ") for text in sink.reasons(State.DOWN))
    assert sink.reasons(State.STARTING)[1] == f"restarted: {reason}"
    assert sink.counts["restarts"] == sink.counts["starts"] - 1
    assert sink.counts["stderr_lines"] >= 2
    assert fake.gone()


async def test_exit_without_error_is_an_end_too(fake: Fake, sink: RecordingSink) -> None:
    fake.does("exit:0")
    async with running(collector(first=30), sink):
        await sink.until(lambda: sink.reasons(State.DOWN))
    assert sink.reasons(State.DOWN)[0].startswith("neuron-monitor exited with code 0: simulated")
    assert sink.readings == []


async def test_fault_02_restarts_back_off(fake: Fake, sink: RecordingSink) -> None:
    fake.does("exit:1")
    waits: list[float] = []

    class Reporter(Backoff):
        def wait(self, lasted: float) -> float:
            waits.append(super().wait(lasted))
            return 0.0

    async with running(NeuronMonitor("n", COMMAND, PERIOD, backoff=Reporter()), sink):
        await sink.until(lambda: len(waits) >= 4)
    assert all(0.25 * 2**n <= wait <= 0.5 * 2**n for n, wait in enumerate(waits[:4]))


async def test_fault_02_a_killed_process_is_named_by_its_signal(
    fake: Fake, sink: RecordingSink
) -> None:
    async with running(collector(), sink):
        await sink.until(lambda: sink.readings)
        os.kill(fake.pids[0], signal.SIGKILL)
        await sink.until(lambda: sink.counts["starts"] == 2 and sink.readings)
    assert sink.reasons(State.DOWN)[0].startswith("neuron-monitor was ended by SIGKILL; next")


@pytest.mark.parametrize(
    ("fault", "silence"), [("hang", 0.4), ("hang-after:2", 0.4), ("garbage", 1.0), ("slow", 0.4)]
)
async def test_fault_03_silence_is_detected(
    fake: Fake, sink: RecordingSink, fault: str, silence: float
) -> None:
    fake.does(fault)
    async with running(collector(silence), sink):
        await sink.until(lambda: sink.reasons(State.DOWN))
        first = fake.pids[0]
        await sink.until(lambda: sink.counts["starts"] == 2)
        assert not alive(first)
    assert sink.reasons(State.DOWN)[0] == f"neuron-monitor sent no report for {silence:g} s"
    assert (sink.counts["skipped"] > 0) == (fault == "garbage")
    assert fake.gone()


async def test_fault_03_the_watchdog_waits_three_periods_and_fifteen_seconds() -> None:
    assert NeuronMonitor("n", period=1.0)._silence == 15.0
    assert NeuronMonitor("n", period=10.0)._silence == 30.0


async def test_fault_04_ignored_term_is_followed_by_kill(fake: Fake, sink: RecordingSink) -> None:
    fake.does("ignore-term-with-child")
    async with running(collector(), sink) as task:
        await sink.until(lambda: len(sink.readings) >= 2)
        leader, child = fake.pids
        assert alive(leader)
        assert alive(child)
        started = time.monotonic()
        task.cancel()
        await asyncio.wait([task])
        assert time.monotonic() - started < 0.5
        assert not alive(leader)
    # The grandchild is not ours to wait for.
    wait_until(fake.gone)


async def test_quitting_while_the_watchdog_is_patient(fake: Fake, sink: RecordingSink) -> None:
    fake.does("ignore-term")
    async with running(collector(silence=1.0, timeout=60), sink) as task:
        await sink.until(lambda: sink.readings)
        os.kill(fake.pids[-1], signal.SIGSTOP)
        await sink.until(lambda: sink.reasons(State.DOWN))
        started = time.monotonic()
        task.cancel()
        await asyncio.wait([task])
        assert time.monotonic() - started < 0.5
    assert fake.gone()


async def test_fault_05_standard_error_is_drained(fake: Fake, sink: RecordingSink) -> None:
    fake.does("flood-stderr")
    async with running(collector(), sink):
        await sink.until(lambda: len(sink.readings) >= 4)
        os.kill(fake.pids[0], signal.SIGKILL)
        await sink.until(lambda: sink.reasons(State.DOWN))
    assert "simulated complaint" in sink.reasons(State.DOWN)[0]
    assert sink.counts["stderr_lines"] > 500
    assert len(sink.reasons(State.DOWN)[0]) < 256


async def test_fault_01_unexecutable_program_is_explained(
    sink: RecordingSink, tmp_path: Path
) -> None:
    broken = tmp_path / "neuron-monitor"
    broken.write_bytes(b"\x7fELF broken")
    broken.chmod(0o755)
    async with running(NeuronMonitor("n", str(broken)), sink):
        await sink.until(lambda: sink.reasons(State.DOWN))
    assert sink.reasons(State.DOWN) == ["cannot start neuron-monitor: Exec format error"]


def test_works_on_another_thread(fake: Fake, sink: RecordingSink) -> None:
    async def collect() -> None:
        async with running(collector(), sink):
            await sink.until(lambda: len(sink.readings) >= 2)

    thread = threading.Thread(target=asyncio.run, args=(collect(),), daemon=True)
    thread.start()
    thread.join(10)
    assert len(sink.readings) >= 2
    assert fake.gone()


MONITOR = """
import asyncio, sys
from tests.collectors.recording_sink import COMMAND, RecordingSink
from trntop.collectors.neuron_monitor import NeuronMonitor
asyncio.run(NeuronMonitor("n", COMMAND, 0.05).run(RecordingSink()))
"""


def test_fault_06_the_child_does_not_outlive_a_killed_parent(fake: Fake) -> None:
    fake.does("ignore-term")
    root = Path(__file__).parents[2]
    parent = subprocess.Popen([sys.executable, "-c", MONITOR], cwd=root)
    try:
        wait_until(lambda: fake.pids, 10)
        time.sleep(3 * PERIOD)
        assert alive(fake.pids[0])
    finally:
        parent.kill()
        parent.wait()
    wait_until(fake.gone)
