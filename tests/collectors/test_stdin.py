import asyncio
import contextlib
import json
import os
import pty
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collectors.recording_sink import RecordingSink, running
from tests.reports import encode, report, runtime
from trntop.collectors.stdin import StandardInput, period_of
from trntop.core.errors import UsageError
from trntop.core.model import State

ONE = encode(report(runtime(period=1.0))) + b"\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    try:
        yield reader, writer
    finally:
        for end in (reader, writer):
            with contextlib.suppress(OSError):
                os.close(end)


async def test_a_live_pipe(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    sink = RecordingSink()
    async with running(StandardInput("n", reader), sink) as task:
        await sink.until(lambda: sink.statuses)
        assert sink.statuses[0].state is State.STARTING
        assert sink.statuses[0].reason == "waiting for a report on standard input"
        os.write(writer, ONE[:50])
        await asyncio.sleep(0.01)
        os.write(writer, ONE[50:])
        await sink.until(lambda: sink.readings)
        assert sink.readings[0].data == ONE.strip()
        assert (sink.readings[0].node, sink.readings[0].source) == ("n", "neuron-monitor")
        assert os.get_blocking(reader)
        assert not task.done()
    os.fstat(reader)  # still open


async def test_a_stream_that_stops_is_down(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    sink = RecordingSink()
    async with running(StandardInput("n", reader), sink) as task:
        os.write(writer, ONE)
        await sink.until(lambda: sink.readings)
        os.write(writer, ONE)
        await asyncio.sleep(1.05)
        os.close(writer)
        await asyncio.wait_for(task, 2)
    assert sink.statuses[-1].state is State.DOWN
    assert sink.statuses[-1].reason == "standard input closed after 2 reports"


async def test_what_came_at_once_was_a_file(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, ONE * 20 + b"garbage\n" + ONE.strip())
    os.close(writer)
    sink = RecordingSink()
    await asyncio.wait_for(StandardInput("n", reader).run(sink), 5)
    assert sink.statuses[-1].state is State.ENDED
    assert sink.statuses[-1].reason == "standard input ended"
    assert sink.readings[-1].data == ONE.strip()
    assert sink.counts["reports"] == 21
    assert sink.counts["dropped"] == 21 - len(sink.readings)
    assert sink.counts["skipped"] == 1


async def test_no_report_at_all() -> None:
    sink = RecordingSink()
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        await asyncio.wait_for(StandardInput("n", nothing).run(sink), 5)
    finally:
        os.close(nothing)
    assert sink.statuses[-1].state is State.DOWN
    assert sink.statuses[-1].reason == "standard input ended without a report"


async def test_a_socket() -> None:
    ours, theirs = socket.socketpair()
    sink = RecordingSink()
    with ours, theirs:
        async with running(StandardInput("n", ours.fileno()), sink):
            theirs.sendall(ONE)
            await sink.until(lambda: sink.readings)


async def test_a_read_error_is_explained(tmp_path: Path) -> None:
    sink = RecordingSink()
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        await asyncio.wait_for(StandardInput("n", folder).run(sink), 5)
    finally:
        os.close(folder)
    assert sink.statuses[-1].reason == "standard input cannot be read: Is a directory"


def test_a_terminal_is_refused() -> None:
    ours, theirs = pty.openpty()
    try:
        with pytest.raises(UsageError, match=r"neuron-monitor \| trntop export -"):
            StandardInput("n", theirs)
    finally:
        os.close(ours)
        os.close(theirs)


def test_closed_input_is_refused(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    with pytest.raises(UsageError, match="standard input is closed"):
        StandardInput("n", pipe[0])


@pytest.mark.parametrize(
    ("periods", "longest"), [([], 1.0), ([0.00047258], 1.0), ([5.0003, 2, 0.1], 5.0003)]
)
def test_period_of(periods: list[float], longest: float) -> None:
    groups = {str(index): {"period": period} for index, period in enumerate(periods)}
    assert period_of(json.dumps(groups).encode()) == longest
