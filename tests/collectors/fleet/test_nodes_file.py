import os
import time
from pathlib import Path

import pytest

from trntop.collectors.fleet.nodes_file import NodesFile
from trntop.collectors.fleet.target import FindError
from trntop.core.settings import Fleet

FLEET = Fleet(refresh=5)


def nodes_of(path: Path, text: str) -> NodesFile:
    path.write_text(text)
    return NodesFile(path, FLEET)


async def test_lines_hold_lists_addresses_and_comments(tmp_path: Path) -> None:
    nodes = nodes_of(
        tmp_path / "nodes",
        "# my nodes\n\ntrn-[001-002], trn-007:9000  # a comment\r\n"
        "http://trn-[010-011]:8000/metrics\nssh://ada@login-1\n",
    )
    found = await nodes.find()
    assert {target.name: target.address for target in found} == {
        "trn-001": "http://trn-001:10042",
        "trn-002": "http://trn-002:10042",
        "trn-007": "http://trn-007:9000",
        "trn-010": "http://trn-010:8000/metrics",
        "trn-011": "http://trn-011:8000/metrics",
        "login-1": "ssh://ada@login-1",
    }
    assert nodes.period == 5


async def test_it_is_read_again_when_it_changes_only(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    nodes = nodes_of(path, "trn-1\n")
    first = await nodes.find()
    assert await nodes.find() is first
    path.write_text("trn-1\ntrn-2\n")
    assert [target.name for target in await nodes.find()] == ["trn-1", "trn-2"]
    path.unlink()
    with pytest.raises(FindError, match="No such file"):
        await nodes.find()
    path.write_text("trn-3\n")
    assert [target.name for target in await nodes.find()] == ["trn-3"]


async def test_an_error_is_reported_with_its_line_each_time(tmp_path: Path) -> None:
    nodes = nodes_of(tmp_path / "nodes", "trn-1\n\nhttp://a:hunter2@trn-2\n")
    for _ in range(2):
        with pytest.raises(
            FindError, match=r"nodes, line 3: http://…@trn-2: an address cannot"
        ) as e:
            await nodes.find()
        assert "hunter2" not in str(e.value)


async def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    path.write_bytes(b"trn-1\ntrn-\xff\n")
    with pytest.raises(FindError, match="not UTF-8"):
        await NodesFile(path, FLEET).find()


async def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero"), Path("a\0b")):
        with pytest.raises(FindError):
            await NodesFile(path, FLEET).find()


async def test_fault_30_a_hundred_thousand_nodes_with_doubles(tmp_path: Path) -> None:
    names = "\n".join(f"trn-{number}" for number in range(50_000))
    nodes = nodes_of(tmp_path / "nodes", f"{names}\n{names}\n")
    began = time.monotonic()
    assert len(await nodes.find()) == 50_000
    assert time.monotonic() - began < 25


async def test_too_many_nodes_and_too_long_a_file(tmp_path: Path) -> None:
    with pytest.raises(FindError, match="100,000"):
        await nodes_of(tmp_path / "many", "trn-[1-90000]\nnode-[1-90000]\n").find()
    with pytest.raises(FindError, match="16 MiB"):
        await nodes_of(tmp_path / "long", "#" * (17 << 20)).find()
