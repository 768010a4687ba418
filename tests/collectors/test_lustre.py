from pathlib import Path

import pytest

from trntop.collectors.lustre import client_bytes

STATS = """\
snapshot_time             1525270267.000000000 secs.nsecs
read_bytes                9 samples [bytes] 1 1048576 9437184
write_bytes               5 samples [bytes] 8 4096 20480 83886080
read                      9 samples [usec] 1 90 200 4000
open                      12 samples [regs]
"""


def mount(root: Path, name: str, stats: str, folder: str = "proc/fs/lustre/llite") -> None:
    path = root / folder / name
    path.mkdir(parents=True)
    (path / "stats").write_text(stats)


@pytest.mark.parametrize("folder", ["proc/fs/lustre/llite", "sys/kernel/debug/lustre/llite"])
def test_sums_with_and_without_their_squares(tmp_path: Path, folder: str) -> None:
    mount(tmp_path, "fsx-ffff8800", STATS, folder)
    volumes, errors = client_bytes(tmp_path)
    assert volumes == {"fsx-ffff8800": {"read_bytes": 9437184, "written_bytes": 20480}}
    assert errors == []


def test_no_lustre(tmp_path: Path) -> None:
    assert client_bytes(tmp_path) == ({}, [])


def test_what_was_never_done_has_no_line(tmp_path: Path) -> None:
    mount(tmp_path, "a", "snapshot_time 1.0 secs.usecs\nopen 3 samples [regs]\nread_bytes\n")
    assert client_bytes(tmp_path)[0] == {"a": {"read_bytes": 0, "written_bytes": 0}}


def test_a_sum_without_one_of_them_is_none(tmp_path: Path) -> None:
    mount(tmp_path, "a", STATS)
    mount(tmp_path, "b", STATS.replace("9437184", "lots"))
    volumes, errors = client_bytes(tmp_path)
    assert volumes == {}
    assert errors == ["Lustre b: not a number"]


def test_the_same_file_system_is_not_counted_twice(tmp_path: Path) -> None:
    mount(tmp_path, "a", STATS)
    mount(tmp_path, "a", STATS, "sys/kernel/debug/lustre/llite")
    assert len(client_bytes(tmp_path)[0]) == 1


def test_mounts_are_bounded(tmp_path: Path) -> None:
    for number in range(65):
        mount(tmp_path, str(number), STATS)
    volumes, errors = client_bytes(tmp_path)
    assert len(volumes) == 64
    assert errors == ["65 Lustre mounts; only 64 are read"]


def test_statistics_that_only_root_may_read(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/lustre/llite/a").mkdir(parents=True)
    volumes, errors = client_bytes(tmp_path)
    assert volumes == {}
    assert errors == ["Lustre is mounted, but only root can read its statistics"]
