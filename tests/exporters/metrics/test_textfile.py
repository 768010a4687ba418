import asyncio
import contextlib
import errno
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.builders import make_view
from trntop.catalog import Page
from trntop.core.errors import UsageError
from trntop.exporters.metrics.compat import COMPAT, compat_of
from trntop.exporters.metrics.exposition import Format
from trntop.exporters.metrics.pages import Exposition
from trntop.exporters.metrics.textfile import Textfile, TextfileError, keep_writing

ROOT = Path(__file__).parents[3]
OLD, NEW = b"trn_node_devices 1\n", b"trn_node_devices 2\n"

KILLED = """
import os, signal, sys
from pathlib import Path
from trntop.exporters.metrics.textfile import Textfile

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

file = Textfile(Path(sys.argv[1]))
Path.replace = killed
file.write(b"trn_node_devices 2\\n")
"""
"""Dies between writing and moving into place."""


def page() -> bytes:
    exposition = Exposition(usage=dict, compat=compat_of(COMPAT))
    return exposition.render(make_view(nodes=2)).body(Page.METRICS, Format.TEXT)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_whole_and_readable_by_all(tmp_path: Path) -> None:
    path = tmp_path / "trntop.prom"
    file = Textfile(path)
    before = os.umask(0o077)
    try:
        file.write(OLD)
        file.write(NEW)
    finally:
        os.umask(before)
    assert path.read_bytes() == NEW
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert names(tmp_path) == ["trntop.prom"]


def test_a_reader_never_meets_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "trntop.prom"
    file = Textfile(path)
    file.write(OLD)
    with path.open("rb") as reader:
        file.write(NEW)
        assert reader.read() == OLD
    assert path.read_bytes() == NEW


def test_lines_carry_no_time() -> None:
    for family in text_string_to_metric_families(page().decode()):
        assert all(sample.timestamp is None for sample in family.samples)


@pytest.mark.parametrize("name", ["trntop.txt", "trntop", ".prom", ".trntop.prom"])
def test_a_name_that_node_exporter_would_not_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"only files such as trntop"):
        Textfile(tmp_path / name)


def test_fault_45_killed_before_the_move_the_old_file_stays_and_the_rest_is_removed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trntop.prom"
    Textfile(path).write(OLD)
    (tmp_path / "other.prom").write_bytes(OLD)
    (tmp_path / ".other.prom.1.tmp").write_bytes(OLD)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], cwd=ROOT, timeout=60, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == OLD
    left = set(names(tmp_path)) - {"trntop.prom", "other.prom", ".other.prom.1.tmp"}
    assert len(left) == 1
    assert not left.pop().endswith(".prom")

    Textfile(path)
    assert names(tmp_path) == [".other.prom.1.tmp", "other.prom", "trntop.prom"]


@contextlib.contextmanager
def tiny(folder: Path) -> Iterator[None]:
    """A file system of 16 KiB on `folder`, where this process may mount one."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None or os.geteuid() != 0:
        pytest.skip("no right to mount")
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no right to mount")
    try:
        yield
    finally:
        subprocess.run([umount, folder], check=True)


def test_fault_45_on_a_full_disk_the_old_file_stays(tmp_path: Path) -> None:
    with tiny(tmp_path):
        path = tmp_path / "trntop.prom"
        file = Textfile(path)
        file.write(OLD)
        with pytest.raises(TextfileError, match=r"trntop\.prom: no space left on device"):
            file.write(b"x" * (64 << 10))
        assert path.read_bytes() == OLD
        assert names(tmp_path) == ["trntop.prom"]
        file.write(NEW)
        assert path.read_bytes() == NEW


def _raises(code: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize(
    ("code", "call", "words"),
    [
        (errno.ENOSPC, "fsync", "no space left on device; the previous content is kept"),
        (errno.EIO, "fsync", "cannot be written: Input/output error"),
        (errno.EROFS, "open", "cannot be written: Read-only file system"),
        (errno.EACCES, "open", "cannot be written: Permission denied"),
    ],
)
def test_an_obstacle_is_reported_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str, words: str
) -> None:
    path = tmp_path / "trntop.prom"
    file = Textfile(path)
    file.write(OLD)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, _raises(code))
        with pytest.raises(TextfileError) as caught:
            file.write(NEW)
    assert str(caught.value) == f"{path}: {words}"
    assert path.read_bytes() == OLD
    assert names(tmp_path) == ["trntop.prom"]


def test_a_missing_folder_and_a_folder_in_the_way_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        TextfileError, match=r"gone/trntop\.prom: directory \S+/gone does not exist"
    ):
        Textfile(tmp_path / "gone" / "trntop.prom").write(NEW)
    (tmp_path / "taken.prom").mkdir()
    with pytest.raises(TextfileError, match=r"taken\.prom: is a directory"):
        Textfile(tmp_path / "taken.prom").write(NEW)
    assert names(tmp_path) == ["taken.prom"]


def test_a_link_left_in_the_way_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "trntop.prom"
    file = Textfile(path)
    (tmp_path / f".trntop.prom.{os.getpid()}.tmp").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_bytes(OLD)
    with pytest.raises(TextfileError):
        file.write(NEW)
    assert (tmp_path / "secret").read_bytes() == OLD


def test_it_retries_reports_each_change_once_and_removes_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    path = folder / "trntop.prom"
    messages: list[str] = []
    exists: list[bool] = []

    async def run() -> None:
        stop = asyncio.Event()

        def render() -> bytes:
            exists.append(path.exists())
            if len(exists) == 3:
                folder.mkdir()
            if len(exists) == 5:
                stop.set()
            return NEW

        await keep_writing(Textfile(path), render, messages.append, stop, interval=0.001)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert exists == [False, False, False, True, True]
    assert messages == [f"{path}: directory {path.parent} does not exist", f"{path}: written again"]
    assert names(folder) == []


def test_a_defect_leaves_no_file_behind(tmp_path: Path) -> None:
    def render() -> bytes:
        if names(tmp_path):
            raise RuntimeError("a defect")
        return NEW

    path = tmp_path / "trntop.prom"
    with pytest.raises(RuntimeError, match="a defect"):
        asyncio.run(keep_writing(Textfile(path), render, print, asyncio.Event(), interval=0.001))
    assert names(tmp_path) == []


@contextlib.contextmanager
def node_exporter(folder: Path) -> Iterator[str]:
    """A real node_exporter that reads `folder`; the address of its page."""
    program = shutil.which("prometheus-node-exporter")
    if program is None:
        pytest.skip("prometheus-node-exporter is not installed")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{sock.getsockname()[1]}"
    process = subprocess.Popen(
        [
            program,
            "--collector.disable-defaults",
            "--collector.textfile",
            f"--collector.textfile.directory={folder}",
            f"--web.listen-address={address}",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                httpx.get(f"http://{address}/", trust_env=False)
                break
            except httpx.TransportError:
                assert process.poll() is None, "node_exporter ended"
                assert time.monotonic() < deadline, "node_exporter does not answer"
                time.sleep(0.02)
        yield f"http://{address}/metrics"
    finally:
        process.kill()
        process.wait(10)


def series(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        # node_exporter gives all series of a family the same labels, empty where there was none.
        (sample.name, frozenset(pair for pair in sample.labels.items() if pair[1])): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_real_node_exporter_serves_every_series_with_its_own(tmp_path: Path) -> None:
    ours = page()
    file = Textfile(tmp_path / "trntop.prom")
    file.write(ours)
    (tmp_path / ".trntop.prom.1.tmp").write_bytes(b"trn_node_devices{ is half a file")
    with node_exporter(tmp_path) as url:
        answer = httpx.get(url, trust_env=False)
        assert answer.status_code == 200
        served = series(answer.text)
        assert series(ours.decode()).items() <= served.items()
        assert served[("node_textfile_scrape_error", frozenset())] == 0
        # Its own cost stays its own: two families of one name would spoil the page.
        assert ("process_resident_memory_bytes", frozenset()) in served

        file.remove()
        assert "trn_" not in httpx.get(url, trust_env=False).text
