"""NFS statistics; the sample has the form of nfs-utils' and Prometheus procfs' test inputs."""

from pathlib import Path

from trntop.collectors.nfs import client_bytes

HEAD = """\
device rootfs mounted on / with fstype rootfs
device /dev/nvme0n1p1 mounted on / with fstype xfs
"""


def mount(device: str, folder: str, read: int, written: int, fstype: str = "nfs4") -> str:
    return f"""\
device {device} mounted on {folder} with fstype {fstype} statvers=1.1
\topts:\trw,vers=4.1,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,port=20449
\tage:\t13968
\tcaps:\tcaps=0xfff7,wtmult=512,dtsize=32768,bsize=0,namlen=255
\tevents:\t52 226 0 0 1 13 398 0 0 331 0 47 0 0 77 0 0 77 0 0 0 0 0 0 0 0 0
\tbytes:\t1207640230 0 0 0 {read} {written} 295483 0
\tRPC iostats version: 1.0  p/v: 100003/4 (nfs)
\txprt:\ttcp 832 0 1 0 11 6428 6428 0 12154 0 24 26 5726
\tper-op statistics
\t        READ: 1298 1298 0 207680 1210292152 6 79386 79407
"""


def write(root: Path, text: str, process: str = "1") -> None:
    path = root / "proc" / process / "mountstats"
    path.parent.mkdir(parents=True)
    path.write_text(HEAD + text)


def test_bytes_from_and_to_each_server(tmp_path: Path) -> None:
    efs = mount("127.0.0.1:/", "/efs", 5, 7) + mount("fs:/old", "/old", 1, 2, fstype="nfs")
    write(tmp_path, efs)
    assert client_bytes(tmp_path) == (
        {
            "/efs": {"read_bytes": 5, "written_bytes": 7},
            "/old": {"read_bytes": 1, "written_bytes": 2},
        },
        [],
    )


def test_a_file_system_that_is_mounted_twice_counts_once(tmp_path: Path) -> None:
    write(tmp_path, mount("fs:/a", "/a", 5, 7) + mount("fs:/a", "/pods/1/a", 5, 7))
    assert client_bytes(tmp_path)[0] == {"/a": {"read_bytes": 5, "written_bytes": 7}}


def test_other_file_systems_have_no_statistics(tmp_path: Path) -> None:
    write(
        tmp_path, "device nfsd mounted on /proc/fs/nfsd with fstype nfsd\n\tbytes:\t1 2 3 4 5 6\n"
    )
    assert client_bytes(tmp_path) == ({}, [])


def test_without_the_file_there_is_no_nfs(tmp_path: Path) -> None:
    assert client_bytes(tmp_path) == ({}, [])


def test_a_file_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "x" * (4 << 20))
    assert client_bytes(tmp_path) == ({}, ["NFS: proc/1/mountstats is larger than 4 MiB"])
