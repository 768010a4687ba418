"""The collector against a socket that keeps records apart, as `/dev/kmsg` does."""

import errno
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.recording_sink import RecordingSink, alive, pids, running
from trntop.catalog import KERNEL_LOG
from trntop.collectors import kernel_log as module
from trntop.collectors.kernel_log import REMEDY, KernelLog, examine, open_kmsg, read_record
from trntop.core.model import State
from trntop.sources.kernel_log import decode

HBM = "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=3"
STUCK = "efa 0000:a0:1a.0 rdmap160s26: Wait for completion (polling) timeout"
NO_JOURNAL = ["/no/such/journalctl"]


class Kernel:
    """SIMULATED `/dev/kmsg`, and the kernel behind it."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self.number = 100
        self.paths: list[Path] = []
        self.descriptor = -1

    def write(self, text: str, *about: str, number: int | None = None) -> None:
        self.number = self.number + 1 if number is None else number
        more = "".join(f" {line}\n" for line in about)
        self._writer.send(f"3,{self.number},5140900,-;{text}\n{more}".encode())

    def forgets(self, records: int) -> None:
        """Overwrites the next ones before they are read."""
        self._writer.send(b"overwritten")
        self.number += records

    def dies(self) -> None:
        self._writer.send(b"no device")

    def opener(self, path: Path) -> int:
        self.paths.append(path)
        self.descriptor = os.dup(self._reader.fileno())
        return self.descriptor

    @property
    def closed(self) -> bool:
        return not Path(f"/proc/self/fd/{self.descriptor}").exists()

    @staticmethod
    def read(descriptor: int) -> bytes:
        data = read_record(descriptor)
        if data == b"overwritten":
            raise BrokenPipeError
        if data == b"no device":
            raise OSError(errno.ENODEV, "No such device")
        return data

    def tear_down(self) -> None:
        self._reader.close()
        self._writer.close()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    monkeypatch.setattr(module, "read_record", Kernel.read)
    kernel = Kernel()
    yield kernel
    kernel.tear_down()


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


def collector(kernel: Kernel, heartbeat: float = 0.05) -> KernelLog:
    return KernelLog(
        "n", heartbeat=heartbeat, gather=0.02, journal=NO_JOURNAL, opener=kernel.opener
    )


def records(sink: RecordingSink) -> list[dict[str, Any]]:
    return [json.loads(reading.data) for reading in sink.readings]


def lines(sink: RecordingSink) -> list[str]:
    return [line["text"] for payload in records(sink) for line in payload["lines"]]


async def test_relevant_lines_are_reported(kernel: Kernel, sink: RecordingSink) -> None:
    async with running(collector(kernel, heartbeat=60.0), sink):
        await sink.until(lambda: sink.readings)
        kernel.write("usb 1-1: new device", "SUBSYSTEM=usb", "DEVICE=+usb:1-1")
        kernel.write(HBM, "SUBSYSTEM=pci")
        kernel.write(STUCK)
        await sink.until(lambda: len(sink.readings) == 2)  # long before the heartbeat
    assert [status.state for status in sink.statuses[:2]] == [State.STARTING, State.FRESH]
    assert (sink.readings[0].node, sink.readings[0].source) == ("n", KERNEL_LOG)
    assert lines(sink) == [HBM, STUCK]
    assert records(sink)[1]["counts"] == {"neuron": 1, "efa": 1}
    assert records(sink)[1]["via"] == "/dev/kmsg"
    assert kernel.paths == [Path("/dev/kmsg")]
    assert kernel.closed


async def test_heartbeats_continue_without_log_lines(kernel: Kernel, sink: RecordingSink) -> None:
    async with running(collector(kernel), sink):
        await sink.until(lambda: len(sink.readings) >= 3)
    assert lines(sink) == []
    assert all(set(decode(reading.data).deltas.values()) == {0.0} for reading in sink.readings)


async def test_a_burst_is_bounded_but_counted(kernel: Kernel, sink: RecordingSink) -> None:
    burst = 200  # less than the socket holds
    async with running(collector(kernel), sink):
        for number in range(burst):
            kernel.write(f"{HBM} {number}")
        await sink.until(
            lambda: sum(record["counts"]["neuron"] for record in records(sink)) == burst
        )
    assert all(len(payload["lines"]) <= 64 for payload in records(sink))
    deltas = [
        decode(reading.data).deltas["node_kernel_neuron_errors_total"] for reading in sink.readings
    ]
    assert sum(deltas) == burst
    assert lines(sink)[-1] == f"{HBM} {burst - 1}"


async def test_overwritten_records_are_counted(kernel: Kernel, sink: RecordingSink) -> None:
    async with running(collector(kernel), sink):
        kernel.write("first")
        kernel.forgets(41)
        kernel.write(HBM)
        await sink.until(lambda: any(record["counts"]["neuron"] for record in records(sink)))
        # Numbers that go back are no loss.
        kernel.write(HBM, number=3)
        await sink.until(lambda: sum(record["counts"]["neuron"] for record in records(sink)) == 2)
    assert sum(record["lost"] for record in records(sink)) == 41


async def test_odd_records(kernel: Kernel, sink: RecordingSink) -> None:
    async with running(collector(kernel), sink):
        for data in (b"", b";", b"no record", b"3,x,1,-;" + HBM.encode(), b"\xff,1;\xff"):
            if data:
                kernel._writer.send(data)
        kernel.write(f"{STUCK} \x1b" + "x" * 5000)
        await sink.until(lambda: any(record["counts"]["efa"] for record in records(sink)))
    assert lines(sink)[0] == HBM
    assert len(lines(sink)[1]) == 1024


async def test_the_end_of_the_kernel_log_is_reported(kernel: Kernel, sink: RecordingSink) -> None:
    async with running(collector(kernel, heartbeat=60.0), sink):
        await sink.until(lambda: sink.readings)
        kernel.write(HBM)
        kernel.dies()
        await sink.until(lambda: sink.reasons(State.DOWN))
    assert lines(sink) == [HBM]
    reason = sink.reasons(State.DOWN)[0]
    assert reason == f"/dev/kmsg: No such device; journalctl: No such file or directory; {REMEDY}"


def journalctl(code: str) -> list[str]:
    """SIMULATED journalctl."""
    program = f"import json, os, sys, time\n{code}"
    return [sys.executable, "-S", "-E", "-c", program]


def entry(message: object) -> str:
    return f"print(json.dumps({{'MESSAGE': {message!r}, '_TRANSPORT': 'kernel'}}), flush=True)\n"


async def test_the_journal_where_the_device_may_not_be_read(
    sink: RecordingSink, tmp_path: Path
) -> None:
    notes = tmp_path / "pids"
    command = journalctl(
        f"open({str(notes)!r}, 'w').write(str(os.getpid()))\n"
        + entry(f"{HBM} of yesterday")
        + entry(HBM)
        + entry(list(b"\xff " + STUCK.encode()))
        + entry(None)
        + entry([999])
        + "print('no entry', flush=True)\n"
        + entry("NEURON_HW_ERR=DMA_ERROR")
        + "time.sleep(600)"
    )
    followed = KernelLog("n", tmp_path, journal=command, heartbeat=0.05, gather=0.02)
    async with running(followed, sink):
        await sink.until(lambda: len(lines(sink)) == 3)
    assert lines(sink) == [HBM, f"\ufffd {STUCK}", "NEURON_HW_ERR=DMA_ERROR"]
    assert records(sink)[-1]["via"] == "journalctl"
    assert not any(map(alive, pids(notes)))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("time.sleep(600)", "journalctl shows no kernel messages"),
        ("", "journalctl shows no kernel messages"),
        ("sys.exit('No journal files were opened')",
         "journalctl shows no kernel messages: No journal files were opened"),
        (entry("old") + "sys.exit(3)", "journalctl exited with code 3"),
    ],
)  # fmt: skip
async def test_neither(sink: RecordingSink, tmp_path: Path, code: str, reason: str) -> None:
    followed = KernelLog(
        "n", tmp_path, journal=journalctl(code), heartbeat=0.05, gather=0.02, first_message=0.5
    )
    async with running(followed, sink):
        await sink.until(lambda: sink.reasons(State.DOWN))
    device = f"{tmp_path}/dev/kmsg: No such file or directory"
    assert sink.reasons(State.DOWN)[0] == f"{device}; {reason}; {REMEDY}"


async def test_a_way_that_opens_later_is_found(kernel: Kernel, sink: RecordingSink) -> None:
    refusals = [PermissionError(errno.EPERM, "Operation not permitted")]

    def opener(path: Path) -> int:
        if refusals:
            raise refusals.pop()
        return kernel.opener(path)

    followed = KernelLog("n", journal=NO_JOURNAL, gather=0.02, retry_interval=0.05, opener=opener)
    async with running(followed, sink):
        await sink.until(lambda: sink.readings)
    assert sink.reasons(State.DOWN)[0].startswith("/dev/kmsg: Operation not permitted; ")
    assert sink.statuses[-1].state is State.FRESH


def test_the_device_is_opened_behind_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(b"6,1,0,-;old\n")
    descriptor = open_kmsg(path)
    assert read_record(descriptor) == b""
    os.close(descriptor)


def test_examine(tmp_path: Path) -> None:
    finding = examine(tmp_path, journalctl(entry("old") + "time.sleep(600)"))
    assert finding.ok
    assert finding.found.endswith("No such file or directory; journalctl shows the kernel messages")
    finding = examine(tmp_path, NO_JOURNAL)
    assert (finding.ok, finding.remedy) == (False, REMEDY)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").touch()
    assert examine(tmp_path, NO_JOURNAL).found == f"{tmp_path}/dev/kmsg can be read"
