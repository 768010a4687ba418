"""A dump read by the readers of this machine."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.collectors.efa import EfaReader
from trntop.collectors.neuron_sysfs import NeuronSysfsReader
from trntop.collectors.polled import AbsentError
from trntop.collectors.ssh.dump import Dump
from trntop.collectors.sysfs import Entry, line_of

DEVICE = b"""\
>sys/module/efa/
version:2.17.3g
>sys/class/infiniband/
rdmap16s27/
rdmap16s27/device/vendor:0x1d0f
rdmap16s27/device/device:0xefa2
rdmap16s27/device/numa_node:1
rdmap16s27/device/uevent:DRIVER=efa
rdmap16s27/device/uevent:PCI_SLOT_NAME=0000:10:1b.0
rdmap16s27/ports/1/rate:200 Gb/sec (4X HDR)
rdmap16s27/ports/1/hw_counters/tx_bytes:17
grep: rdmap16s27/ports/1/hw_counters/rx_bytes: Input/output error
grep: rdmap16s27/hw_counters/*: No such file or directory
"""


@pytest.fixture
def dump() -> Dump:
    return Dump()


def test_files_and_folders(dump: Dump) -> None:
    dump.load(b">a/\nb/\nb/c:1\nb/c:2\nb/e/d:\n>\nx:y:z\n")
    assert dump.read("a/b/c") == b"1\n2"
    assert dump.read("a/b/e/d") == b""
    assert dump.read("x") == b"y:z"
    shape = dump.inode("a")
    assert sorted(dump.entries("a/b")) == [
        Entry("c", shape, False, False),
        Entry("e", shape, True, False),
    ]
    assert line_of(dump, "a/b/c") == "1"
    with dump.within("a/b") as read:
        assert read("c") == b"1\n2"


def test_what_is_not_there(dump: Dump) -> None:
    dump.load(b"a/b:1\n")
    for call in (dump.read, dump.entries, dump.inode):
        with pytest.raises(FileNotFoundError):
            call("a/c")
    with pytest.raises(FileNotFoundError), dump.within("b"):
        pass


def test_complaints(dump: Dump) -> None:
    dump.load(
        b">s/\n"
        b"grep: a: Permission denied\n"
        b"grep: b: No such device\n"
        b"grep: c: Something odd\n"
        b"find: 'd': Permission denied\n"
        b"find: e: Permission denied\n"
        b"grep: f: No such file or directory\n"
    )
    with pytest.raises(PermissionError):
        dump.read("s/a")
    with pytest.raises(OSError, match="No such device"):
        dump.read("s/b")
    with pytest.raises(OSError, match="Something odd"):
        dump.read("s/c")
    for folder in ("s/d", "s/e"):
        with pytest.raises(PermissionError):
            dump.entries(folder)
    assert "f" not in {entry.name for entry in dump.entries("s")}


def test_other_files_are_another_folder(dump: Dump) -> None:
    dump.load(b"a/b:1\n")
    first = dump.inode("a")
    dump.load(b"a/b:2\n")
    assert dump.inode("a") == first
    dump.load(b"a/b:2\na/c:1\n")
    assert dump.inode("a") != first


def test_equal_dumps_have_one_index(dump: Dump) -> None:
    other = Dump()
    dump.load(b"a/b:1\n")
    other.load(b"a/b:2\n")
    assert dump.entries("a") == other.entries("a")
    assert dump.index is other.index


def test_what_was_read_is_forgotten(dump: Dump) -> None:
    dump.load(b"a/b:1\n")
    dump.clear()
    with pytest.raises(FileNotFoundError):
        dump.read("a/b")


def test_answers_of_a_node_that_lies(dump: Dump) -> None:
    dump.load(b"/" * 10**6 + b":1\n" + b"x/" * 10**5 + b"\n" + b"a:1\n")
    assert [entry.name for entry in dump.entries("")] == ["a"]
    with pytest.raises(OSError, match="more than 100,000 lines"):
        dump.load(b"a:1\n" * 200_000)
    with pytest.raises(FileNotFoundError):
        dump.read("a")


@given(st.binary(max_size=400))
def test_any_bytes(payload: bytes) -> None:
    dump = Dump()
    dump.load(b">sys/class/infiniband/\n" + payload)
    for reader in (EfaReader(dump), NeuronSysfsReader(dump)):
        with contextlib.suppress(AbsentError):
            json.loads(reader())


def test_an_efa_device(dump: Dump) -> None:
    reader = EfaReader(dump)
    dump.load(DEVICE)
    assert json.loads(reader()) == {
        "driver": "2.17.3g",
        "devices": {
            "rdmap16s27": {
                "pci": "0000:10:1b.0",
                "numa_node": 1,
                "rate_gbps": 200.0,
                "port": {"tx_bytes": 17},
                "device": {},
                "errors": ["ports/1/hw_counters/rx_bytes: Input/output error"],
            }
        },
    }
    dump.load(DEVICE.replace(b"tx_bytes:17", b"tx_bytes:18"))
    assert json.loads(reader())["devices"]["rdmap16s27"]["port"] == {"tx_bytes": 18}
    dump.load(b">sys/module/efa/\nversion:2.17.3g\n>sys/class/infiniband/\n")
    assert json.loads(reader())["devices"] == {}, "it was there, and is gone"


def test_a_machine_without_efa_devices(dump: Dump) -> None:
    dump.load(b"")
    with pytest.raises(AbsentError, match="no EFA device"):
        EfaReader(dump)()


def test_a_device_that_fails_is_reported_as_locally(dump: Dump) -> None:
    tree = b">sys/devices/virtual/neuron_device/\nneuron0/\nneuron0/neuron_core0/\n"
    reader = NeuronSysfsReader(dump)
    dump.load(b">sys/module/neuron/\nversion:2.30.2.0\n" + tree + b"neuron0/serial_number:1\n")
    assert json.loads(reader())["devices"]["0"]["info"] == {"serial_number": "1"}
    dump.load(
        b">sys/module/neuron/\nversion:2.30.2.0\n"
        + tree
        + b"grep: neuron0/serial_number: No such device\n"
    )
    assert json.loads(reader())["devices"]["0"] == {"cores": {"0": {}}, "lost": "No such device"}
