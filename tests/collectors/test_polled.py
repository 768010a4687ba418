import threading

from tests.collectors.recording_sink import RecordingSink, running
from trntop.collectors.polled import AbsentError, Polled
from trntop.core.model import State


async def test_each_poll_gives_a_reading() -> None:
    numbers = iter(range(1000))
    sink = RecordingSink()
    async with running(Polled("n", "efa", lambda: b"%d" % next(numbers), 0.002), sink):
        await sink.until(lambda: len(sink.readings) >= 3)
    assert [reading.data for reading in sink.readings[:3]] == [b"0", b"1", b"2"]
    assert (sink.readings[0].node, sink.readings[0].source) == ("n", "efa")
    assert {status.state for status in sink.statuses} == {State.FRESH}


async def test_an_absent_source_is_searched_again() -> None:
    found = False

    def read() -> bytes:
        if not found:
            raise AbsentError("no EFA device in /sys/class/infiniband")
        return b"{}"

    sink = RecordingSink()
    async with running(Polled("n", "efa", read, 60.0, retry_interval=0.002), sink):
        await sink.until(lambda: len(sink.statuses) >= 2)
        assert sink.reasons(State.DOWN)[0] == "no EFA device in /sys/class/infiniband"
        assert not sink.readings
        found = True
        await sink.until(lambda: sink.readings)
    assert sink.statuses[-1].state is State.FRESH


async def test_an_error_is_named_and_tried_again() -> None:
    errors = [PermissionError(13, "Permission denied")]

    def read() -> bytes:
        if errors:
            raise errors.pop()
        return b"{}"

    sink = RecordingSink()
    async with running(Polled("n", "host", read, 60.0, retry_interval=0.002), sink):
        await sink.until(lambda: sink.readings)
    assert sink.reasons(State.DOWN) == ["Permission denied"]


async def test_fault_18_a_stuck_read_is_reported_and_recovers_by_itself() -> None:
    release = threading.Event()

    def read() -> bytes:
        release.wait()
        return b"{}"

    sink = RecordingSink()
    async with running(Polled("n", "efa", read, 0.002, deadline=0.002), sink):
        await sink.until(lambda: len(sink.reasons(State.DOWN)) >= 3)
        assert all(
            reason.startswith("efa: no response for ") and reason.endswith("in the kernel)")
            for reason in sink.reasons(State.DOWN)
        )
        assert sink.counts["stuck"] == 1
        threads = [t for t in threading.enumerate() if t.name == "trntop efa"]
        assert len(threads) == 1
        release.set()
        await sink.until(lambda: sink.readings)
    assert sink.statuses[-1].state is State.FRESH


async def test_missed_polls_are_skipped() -> None:
    started = threading.Event()
    calls: list[int] = []

    def read() -> bytes:
        calls.append(1)
        if len(calls) == 1:
            started.wait(0.05)  # fifty polls
        return b"{}"

    sink = RecordingSink()
    async with running(Polled("n", "efa", read, 0.001), sink):
        await sink.until(lambda: len(sink.readings) >= 2)
    assert sink.counts["skipped"] >= 40
    assert len(calls) < 40
