import asyncio
import sys

import pytest

from tests.collectors.recording_sink import alive, wait_until
from trntop.collectors.child import Child, LastLine, exit_reason


def script(code: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", code]


async def finished(child: Child) -> int:
    await asyncio.wait([child.ended], timeout=5)
    await child.end(0)
    return child.ended.result()


async def test_output_and_last_words() -> None:
    chunks: list[bytes] = []
    child = await Child.start(
        script("import sys; print('out'); sys.exit('first\\n\\x1b[31mlast\\n\\n')"), chunks.append
    )
    assert await finished(child) == 1
    assert b"".join(chunks) == b"out\n"
    assert child.errors.text() == "\ufffd[31mlast"
    assert child.errors.lines == 4


async def test_output_of_any_size_is_read_to_the_end() -> None:
    size = 0

    def receive(chunk: bytes) -> None:
        nonlocal size
        size += len(chunk)

    child = await Child.start(
        script("import os\nfor _ in range(30): os.write(1, b'x' * 50000)"), receive
    )
    assert await finished(child) == 0
    assert size == 1_500_000


async def test_a_grandchild_that_holds_the_pipes_does_not_hold_us() -> None:
    chunks: list[bytes] = []
    code = (
        "import subprocess, sys;"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid)"
    )
    child = await Child.start(script(code), chunks.append)
    assert await finished(child) == 0
    wait_until(lambda: not alive(int(b"".join(chunks))))


async def test_end_can_be_cancelled_and_called_again() -> None:
    ready = asyncio.Event()
    child = await Child.start(
        script("import signal, time; signal.signal(15, 1); print(flush=True); time.sleep(600)"),
        lambda _: ready.set(),
    )
    await ready.wait()
    ending = asyncio.create_task(child.end(60))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    await child.end(60)
    assert child.ended.result() == -9


async def test_what_cannot_be_executed_is_an_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        await Child.start(["/no/such/program"], lambda _: None)


def test_last_line_is_bounded() -> None:
    errors = LastLine()
    for _ in range(100):
        errors.feed(b"warning: " + b"x" * 10_000 + b"\n")
    errors.feed(b"fatal: \xff end")
    assert errors.lines == 100
    assert errors.text() == "fatal: \ufffd end"
    assert len(errors.text(6)) == 6
    assert LastLine().text() == ""


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exited with code 0"), (127, "exited with code 127"), (-9, "was ended by SIGKILL"),
     (-40, "was ended by signal 40")],
)  # fmt: skip
def test_exit_reason(code: int, words: str) -> None:
    assert exit_reason(code) == words
