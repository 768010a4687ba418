"""Announcements of the kernel: `/proc/PID/mounts` wakes pollers as a file of sysfs does.

No file of a plain directory can announce anything, and only a driver calls `sysfs_notify`; a mount
in a namespace of its own is a change that a test can make.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collectors.recording_sink import RecordingSink, running
from tests.fakes.sysfs_tree import descriptors
from trntop.collectors.file_events import FileEvents
from trntop.collectors.polled import Polled

SCRIPT = "echo ready; while read line; do mount -t tmpfs none /mnt && echo mounted; done"


class Mounts:
    """The mounts of a process with a namespace of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", SCRIPT],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.works = self._process.stdout.readline() == "ready\n"
        self.path = f"/proc/{self._process.pid}/mounts"

    def change(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "mounted\n"

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def mounts() -> Iterator[Mounts]:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    found = Mounts()
    if not found.works:
        pytest.skip("this machine gives no mount namespace")
    yield found
    found.close()


async def test_a_change_wakes_once(mounts: Mounts) -> None:
    events = FileEvents(lambda: [mounts.path], rest=0.0)
    assert not await events.wait(0.01)
    mounts.change()
    assert await events.wait(60.0)
    assert not await events.wait(0.01)
    mounts.change()
    assert await events.wait(60.0)
    events.close()


async def test_a_change_is_read_at_once(mounts: Mounts) -> None:
    """The source is read once in ten minutes; the second reading comes from the announcement."""
    sink = RecordingSink()
    events = FileEvents(lambda: [mounts.path])
    async with running(Polled("n", "s", lambda: b"{}", 600.0, events=events), sink):
        await sink.until(lambda: sink.readings)
        await asyncio.sleep(0)
        mounts.change()
        await sink.until(lambda: len(sink.readings) == 2)


async def test_files_that_come_and_go(tmp_path: Path, mounts: Mounts) -> None:
    paths = [str(tmp_path / "absent")]
    events = FileEvents(lambda: paths, rest=0.0)
    assert not await events.wait(0.01)
    paths.append(mounts.path)
    assert not await events.wait(0.01)
    mounts.change()
    assert await events.wait(60.0)
    paths.clear()
    mounts.change()
    assert not await events.wait(0.01)
    events.close()


async def test_a_plain_file_announces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plain"
    path.write_text("0")
    events = FileEvents(lambda: [str(path)])
    path.write_text("1")
    assert not await events.wait(0.01)
    events.close()


async def test_it_closes_what_it_opened(mounts: Mounts) -> None:
    before = descriptors()
    events = FileEvents(lambda: [mounts.path])
    await events.wait(0.0)
    events.close()
    assert descriptors() == before
