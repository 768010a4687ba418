"""Processes of tools: deadlines, their output, and that nothing is left behind."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.collectors.recording_sink import alive, wait_until
from trntop.collectors.probes.process import KEPT_BYTES, Process, run


def script(code: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", code]


def offspring() -> list[int]:
    return [
        child.pid
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE
    ]


async def test_its_output_and_how_it_ended() -> None:
    ended = await run(script("import sys; print('out'); sys.stderr.write('err'); sys.exit(3)"), 10)
    assert (ended.code, ended.out, ended.errors) == (3, "out\n", "err")
    assert 0 < ended.seconds < 10


async def test_output_is_kept_up_to_a_limit() -> None:
    code = "import sys; print('a' * 99999, 'end'); print('b' * 99999, 'end', file=sys.stderr)"
    ended = await run(script(code), 10)
    assert ended.out == "a" * KEPT_BYTES
    assert len(ended.errors) == KEPT_BYTES
    assert ended.errors.endswith("b end\n")


async def test_a_program_that_is_not_there() -> None:
    ended = await run(["nosuch-program"], 5)
    assert ended.code == 127


async def test_the_deadline_ends_the_whole_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    # A shell that shrugs off SIGTERM, and a child of it.
    code = f"trap '' TERM; sleep 60 & echo $! $$ > {pids}; wait; sleep 60"
    started = time.monotonic()
    ended = await run(["sh", "-c", code], 1.0)
    assert ended.code is None
    assert 1 <= time.monotonic() - started < 3
    assert not any(alive(int(pid)) for pid in pids.read_text().split())
    assert offspring() == []


async def test_cancelled_it_ends_too() -> None:
    for turns in range(12):  # at each stage of its start, too
        task = asyncio.create_task(run(["sleep", "60"], 60))
        for _ in range(turns):
            await asyncio.sleep(0)
        if turns == 11:
            await asyncio.sleep(0.2)
            assert offspring()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert offspring() == []


async def test_a_phrase_is_awaited() -> None:
    code = "import sys, time\nsys.stderr.write('re'); sys.stderr.flush(); time.sleep(0.2)\n"
    process = await Process.start(script(code + "sys.stderr.write('ady'); time.sleep(60)"), 10)
    assert not await process.prints("ready", 0.01)
    sys_ready = script(code + "sys.stderr.write('ady'); sys.stderr.flush(); time.sleep(60)")
    await process.end()
    process = await Process.start(sys_ready, 10)
    assert await process.prints("ready", 5)
    await process.end()
    assert (await process.wait()).code is None
    over = await Process.start(script("print('gone')"), 10)
    assert not await over.prints("ready", 5)
    assert (await over.wait()).code == 0


def test_when_the_program_is_killed_its_tool_dies_too(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"""
import asyncio
from trntop.collectors.probes.process import run
asyncio.run(run(["sh", "-c", "echo $$ > {pids}; exec sleep 60"], 60))
"""
    root = Path(__file__).parents[3]
    parent = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(root)}
    )
    try:
        wait_until(lambda: pids.exists() and pids.read_text().strip())
        tool = int(pids.read_text())
        assert alive(tool)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not alive(tool))
