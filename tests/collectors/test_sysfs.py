from pathlib import Path

import pytest

from tests.fakes.sysfs_tree import descriptors
from trntop.collectors import sysfs
from trntop.collectors.sysfs import OpenFile, files_of, first_line, line_of


def test_first_line(tmp_path: Path) -> None:
    path = tmp_path / "version"
    path.write_bytes(b"2.17.3g\x1b\xff\nmore\n")
    assert first_line(path) == "2.17.3g��"
    assert first_line(tmp_path / "none") == ""


def test_an_open_file_is_read_again_through_one_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "tx_bytes"
    path.write_text("1\n")
    before = descriptors()
    file = OpenFile(str(path))
    assert descriptors() == before
    assert file.read() == b"1\n"
    path.write_text("23\n")
    assert file.read() == b"23\n"
    assert descriptors() == before + 1
    del file
    assert descriptors() == before


def test_after_an_error_a_held_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "tx_bytes"
    path.mkdir()
    file = OpenFile(str(path))
    before = descriptors()
    with pytest.raises(IsADirectoryError):
        file.read()
    assert descriptors() == before
    path.rmdir()
    with pytest.raises(FileNotFoundError):
        file.read()
    path.write_text("5\n")
    assert file.read() == b"5\n"


@pytest.mark.parametrize("data", [b"", b"\n", b"x", b"-1", b"1e3", b"9" * 400, b"%d" % (1 << 64)])
def test_what_is_no_counter(data: bytes) -> None:
    with pytest.raises(ValueError):
        sysfs.number(data)


def test_numbers_and_texts() -> None:
    assert sysfs.number(b"12\n") == 12
    assert sysfs.number(b"%d\n" % ((1 << 64) - 1)) == (1 << 64) - 1
    assert sysfs.text(b" NEURON\xff \n") == "NEURON�"


def test_a_folder_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "sys/class/net").mkdir(parents=True)
    (tmp_path / "sys/class/net/link").symlink_to("../../class")
    (tmp_path / "sys/mtu").write_text("9001\n1500\n")
    folder = files_of(tmp_path)
    found = {entry.name: (entry.folder, entry.link) for entry in folder.entries("sys/class/net")}
    assert found == {"link": (False, True)}
    assert {entry.name: entry.folder for entry in folder.entries("sys")} == {
        "class": True,
        "mtu": False,
    }
    assert folder.read("sys/mtu") == folder.keep_open("sys/mtu").read() == b"9001\n1500\n"
    assert line_of(folder, "sys/mtu") == "9001"
    assert line_of(folder, "sys/none") == ""
    assert folder.inode("sys/class/net/link") == folder.inode("sys/class")
    with folder.within("sys") as inside:
        assert inside("mtu") == b"9001\n1500\n"
    with pytest.raises(OSError, match="No such file"), folder.within("proc"):
        pass
