import os
from pathlib import Path

import pytest

from trntop.collectors.job_mapping import JobMappingReader, examine
from trntop.collectors.polled import AbsentError
from trntop.core.model import Allocation
from trntop.sources.allocations import decode_jobs


def test_files_of_devices_and_of_the_whole_node(tmp_path: Path) -> None:
    read = JobMappingReader(tmp_path)
    assert decode_jobs(read()).facts == {"allocations": ()}, "the node is not allocated"
    (tmp_path / "0").write_text("4711\n4712\n\n")
    (tmp_path / "all").write_text("99")
    assert decode_jobs(read()).facts["allocations"] == (
        Allocation("4711", devices=(0,)),
        Allocation("4712", devices=(0,)),
        Allocation("99", whole=True),
    )
    (tmp_path / "0").unlink()
    assert [allocation.job for allocation in decode_jobs(read()).facts["allocations"]] == ["99"]


def test_what_else_is_there_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / ".all.tmp").write_text("1")
    (tmp_path / "README").write_text("2")
    (tmp_path / "7").mkdir()
    os.mkfifo(tmp_path / "8")
    sample = decode_jobs(JobMappingReader(tmp_path)())
    assert (sample.facts["allocations"], sample.problems) == ((), ())


def test_a_long_or_foreign_file_is_cut_and_cleaned(tmp_path: Path) -> None:
    (tmp_path / "all").write_bytes(b"a\x1b[31m\xff\n" + b"1\n" * 100_000)
    payload = JobMappingReader(tmp_path)()
    assert len(payload) < 2000
    jobs = {allocation.job for allocation in decode_jobs(payload).facts["allocations"]}
    assert jobs == {"1", "a\ufffd[31m\ufffd"}


def test_a_file_that_cannot_be_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "0").write_text("1")

    def deny(path: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("trntop.collectors.job_mapping.read", deny)
    sample = decode_jobs(JobMappingReader(tmp_path)())
    assert (sample.facts["allocations"], sample.problems) == ((), ("0: Permission denied",))


def test_the_number_of_files_is_bounded(tmp_path: Path) -> None:
    for device in range(300):
        (tmp_path / str(device)).write_text("1")
    sample = decode_jobs(JobMappingReader(tmp_path)())
    assert len(sample.facts["allocations"][0].devices) == 256
    assert sample.problems == ("300 files; only 256 are read",)


def test_no_folder_is_no_scheduler(tmp_path: Path) -> None:
    with pytest.raises(AbsentError, match=r"directory .*/jobs does not exist; .*prolog"):
        JobMappingReader(tmp_path / "jobs")()
    nothing = examine(tmp_path / "jobs")
    assert not nothing.ok
    assert "deploy/slurm" in nothing.remedy


def test_examine(tmp_path: Path) -> None:
    assert (examine(tmp_path).ok, examine(tmp_path).found) == (True, "held by no job")
    (tmp_path / "all").write_text("1\n2\n3\n4\n5")
    assert examine(tmp_path).found == "held by 1, 2, 3, 4, …"
