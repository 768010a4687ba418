import asyncio
import functools
import threading
import time
from collections.abc import AsyncIterator

import pytest

from trntop.collectors.worker import StuckError, Worker


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    worker = Worker("test worker")
    yield worker
    worker.close()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "test worker"]


async def test_values_and_errors_come_back(worker: Worker) -> None:
    assert not threads()
    assert await worker.call(lambda: 7, 5) == 7
    with pytest.raises(ZeroDivisionError):
        await worker.call(lambda: 1 // 0, 5)
    assert await worker.call(threading.get_ident, 5) != threading.get_ident()
    assert len(threads()) == 1


async def test_a_time_out_of_the_read_itself_is_not_stuck(worker: Worker) -> None:
    def read() -> None:
        raise TimeoutError("ETIMEDOUT")

    with pytest.raises(TimeoutError, match="ETIMEDOUT"):
        await worker.call(read, 5)


async def test_fault_18_a_thousand_calls_while_one_hangs_take_one_thread(worker: Worker) -> None:
    release = threading.Event()
    calls: list[int] = []
    with pytest.raises(StuckError):
        await worker.call(release.wait, 0.001)
    before = threading.active_count()
    for number in range(1000):
        with pytest.raises(StuckError):
            await worker.call(functools.partial(calls.append, number), 0)
        assert threading.active_count() == before
    assert not calls
    release.set()
    assert await worker.call(lambda: "again", 5) == "again"
    assert not calls  # what was given up is not made up for
    assert len(threads()) == 1


async def test_the_loop_goes_on_while_a_read_hangs(worker: Worker) -> None:
    release = threading.Event()
    hanging = asyncio.create_task(worker.call(release.wait, 60))
    other = Worker("another")
    assert await other.call(lambda: 1, 5) == 1
    other.close()
    release.set()
    assert await hanging


async def test_one_read_at_a_time(worker: Worker) -> None:
    running: list[int] = []

    def read() -> int:
        running.append(1)
        together = len(running)
        time.sleep(0.001)
        running.pop()
        return together

    assert await asyncio.gather(*(worker.call(read, 5) for _ in range(5))) == [1] * 5


async def test_a_cancelled_call_leaves_the_worker_usable(worker: Worker) -> None:
    release = threading.Event()
    task = asyncio.create_task(worker.call(release.wait, 60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert await worker.call(lambda: 2, 5) == 2


async def test_closing_ends_the_thread(worker: Worker) -> None:
    await worker.call(lambda: None, 5)
    (thread,) = threads()
    worker.close()
    worker.close()
    thread.join(5)
    assert not threads()
    assert await worker.call(lambda: 3, 5) == 3


def test_a_hanging_read_does_not_hold_back_quitting() -> None:
    release = threading.Event()

    async def main() -> None:
        worker = Worker("test worker")
        with pytest.raises(StuckError):
            await worker.call(release.wait, 0.001)
        worker.close()

    asyncio.run(main())  # returns, though the read hangs
    hanging = threads()
    assert len(hanging) == 1
    assert hanging[0].daemon
    release.set()  # its answer comes to a loop that is closed
    hanging[0].join(5)
    assert not threads()
