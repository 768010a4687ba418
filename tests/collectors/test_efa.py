import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.recording_sink import RecordingSink, running
from tests.fakes.sysfs_tree import (
    bump,
    descriptors,
    efa_counter,
    efa_device,
    efa_tree,
    fail,
    remove_efa_device,
    reset_efa_device,
    write,
)
from trntop.catalog import EFA_DEVICE_COUNTERS, EFA_PORT_COUNTERS, Entity
from trntop.collectors.efa import EfaReader, examine
from trntop.collectors.polled import AbsentError, Polled
from trntop.core.model import State
from trntop.sources.efa import decode


def read(reader: EfaReader) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(reader())
    return payload


def test_efa_devices_of_a_trn2_next_to_another_vendors(tmp_path: Path) -> None:
    efa_tree(tmp_path)
    payload = read(EfaReader(tmp_path))
    assert payload["driver"] == "2.17.3g"
    assert len(payload["devices"]) == 16
    assert list(payload["devices"]) == sorted(payload["devices"])
    device = payload["devices"]["rdmap16s27"]
    assert device["pci"] == "0000:10:1b.0"
    assert device["numa_node"] == 0
    assert payload["devices"]["rdmap128s28"]["numa_node"] == 1
    assert (device["rate_gbps"], device["state"], device["p2p"]) == (200, "4: ACTIVE", "NEURON")
    assert device["port"] == dict.fromkeys(EFA_PORT_COUNTERS, 1000)
    assert device["device"].keys() == EFA_DEVICE_COUNTERS.keys()
    assert "errors" not in device
    assert "error" not in device


def test_what_the_decoder_makes_of_it(tmp_path: Path) -> None:
    names = efa_tree(tmp_path, count=2)
    sample = decode(EfaReader(tmp_path)())
    assert sample.keys[Entity.EFA] == tuple(names)
    assert sample.columns["efa_tx_bytes_total"].tolist() == [1000, 2000]
    assert sample.columns["efa_keep_alive_rcvd_total"].tolist() == [100, 100]
    assert sample.columns["efa_stated_link_bytes_per_second"].tolist() == [25e9, 25e9]
    assert sample.problems == ()


def test_counters_move(tmp_path: Path) -> None:
    (device,) = efa_tree(tmp_path, count=1)
    reader = EfaReader(tmp_path)
    assert read(reader)["devices"][device]["port"]["tx_bytes"] == 1000
    bump(efa_counter(tmp_path, device, "tx_bytes"), 10**18)
    assert read(reader)["devices"][device]["port"]["tx_bytes"] == 10**18 + 1000
    reset_efa_device(tmp_path, device)
    assert read(reader)["devices"][device]["port"]["tx_bytes"] == 0


def test_an_efa_device_without_optional_files(tmp_path: Path) -> None:
    (device,) = efa_tree(tmp_path, count=1)
    folder = tmp_path / "sys/class/infiniband" / device
    for path in ("device/p2p", "device/uevent", "device/numa_node", "ports/1/rate"):
        (folder / path).unlink()
    payload = read(EfaReader(tmp_path))["devices"][device]
    assert payload.keys().isdisjoint({"p2p", "numa_node", "rate_gbps"})
    assert payload["pci"] is None


def test_an_efa_device_vanishes_and_returns(tmp_path: Path) -> None:
    names = efa_tree(tmp_path, count=3)
    reader = EfaReader(tmp_path)
    reader()
    open_before = descriptors()
    remove_efa_device(tmp_path, names[1])
    assert list(read(reader)["devices"]) == [names[0], names[2]]
    assert descriptors() < open_before
    efa_device(tmp_path, 1, "2.17.3g")
    assert list(read(reader)["devices"]) == names


def test_the_last_efa_device_vanishes(tmp_path: Path) -> None:
    (device,) = efa_tree(tmp_path, count=1)
    reader = EfaReader(tmp_path)
    reader()
    remove_efa_device(tmp_path, device)
    assert read(reader)["devices"] == {}  # lost, not "none here"


def test_an_unreadable_counter_is_absent_and_named(tmp_path: Path) -> None:
    names = efa_tree(tmp_path, count=2)
    fail(efa_counter(tmp_path, names[0], "rx_bytes"))
    payload = read(EfaReader(tmp_path))["devices"]
    assert "rx_bytes" not in payload[names[0]]["port"]
    assert payload[names[0]]["errors"] == [
        "ports/1/hw_counters/rx_bytes: No such device or address"
    ]
    assert "errors" not in payload[names[1]]


def test_a_counter_that_becomes_unreadable(tmp_path: Path) -> None:
    (device,) = efa_tree(tmp_path, count=1)
    reader = EfaReader(tmp_path)
    reader()
    fail(efa_counter(tmp_path, device, "rx_bytes"))
    payload = read(reader)["devices"][device]
    assert "rx_bytes" not in payload["port"]
    assert payload["errors"]


def test_an_efa_device_that_cannot_be_read_at_all(tmp_path: Path) -> None:
    names = efa_tree(tmp_path, count=2)
    for name in EFA_PORT_COUNTERS | EFA_DEVICE_COUNTERS:
        fail(efa_counter(tmp_path, names[0], name))
    payload = read(EfaReader(tmp_path))["devices"]
    assert payload[names[0]]["error"].endswith(": No such device or address")
    assert payload[names[0]]["port"] == payload[names[0]]["device"] == {}
    assert payload[names[1]]["port"]["tx_bytes"] == 2000
    sample = decode(EfaReader(tmp_path)())
    assert sample.keys[Entity.EFA] == tuple(names)
    assert len(sample.problems) == 1


def test_errors_are_few(tmp_path: Path) -> None:
    (device,) = efa_tree(tmp_path, count=1)
    for name in EFA_PORT_COUNTERS:
        fail(efa_counter(tmp_path, device, name))
    errors = read(EfaReader(tmp_path))["devices"][device]["errors"]
    assert len(errors) == 5
    assert errors[-1] == "and 18 more counters"


def test_an_efa_device_still_being_set_up_is_read_again(tmp_path: Path) -> None:
    (device,) = efa_tree(tmp_path, count=1)
    folder = (tmp_path / "sys/class/infiniband" / device).resolve()
    for name in ("ports", "hw_counters"):
        (folder / name).rename(tmp_path / name)
    reader = EfaReader(tmp_path)
    assert read(reader)["devices"][device]["error"] == "it has no counters"
    for name in ("ports", "hw_counters"):
        (tmp_path / name).rename(folder / name)
    assert read(reader)["devices"][device]["port"]["tx_bytes"] == 1000


async def test_a_read_that_blocks_in_the_kernel(tmp_path: Path) -> None:
    names = efa_tree(tmp_path, count=2)
    counter = efa_counter(tmp_path, names[0], "rx_bytes")
    counter.unlink()
    os.mkfifo(counter)  # opening it blocks until there is a writer
    sink = RecordingSink()
    collector = Polled("n", "efa", EfaReader(tmp_path), 0.01, deadline=0.05)
    async with running(collector, sink):
        await sink.until(lambda: sink.reasons(State.DOWN))
        assert not sink.readings
        os.close(os.open(counter, os.O_WRONLY | os.O_NONBLOCK))
        counter.unlink()
        write(counter, 5)
        await sink.until(lambda: sink.readings)
    assert decode(sink.readings[-1].data).columns["efa_rx_bytes_total"].tolist()[1] == 2000


def test_no_efa_device(tmp_path: Path) -> None:
    with pytest.raises(AbsentError, match="no EFA device in /sys/class/infiniband"):
        EfaReader(tmp_path)()
    efa_tree(tmp_path, count=0)
    with pytest.raises(AbsentError, match="no EFA device"):
        EfaReader(tmp_path)()


def test_doctor_counts_efa_devices(tmp_path: Path) -> None:
    efa_tree(tmp_path)
    finding = examine(tmp_path)
    assert (finding.source, finding.ok, finding.remedy) == ("efa", True, "")
    assert finding.found.startswith("16 EFA devices (rdmap112s27, rdmap112s28, ")
    assert finding.found.endswith(", …), driver 2.17.3g")


@pytest.mark.parametrize(
    ("driver", "lacks"),
    [
        ("2.13.0", ["SRD counters (2.17.0)"]),
        ("2.12.1g", ["SRD counters (2.17.0)", "line rate that can be trusted (2.13.0)"]),
    ],
)
def test_doctor_names_what_an_old_driver_lacks(
    tmp_path: Path, driver: str, lacks: list[str]
) -> None:
    efa_tree(tmp_path, count=1, driver=driver, rate=100)
    finding = examine(tmp_path)
    assert finding.ok
    assert f"1 EFA device (rdmap16s27), driver {driver};" in finding.found
    assert all(text in finding.found for text in lacks)
    assert finding.remedy == "update the EFA driver"


def test_doctor_names_an_unreadable_efa_device(tmp_path: Path) -> None:
    names = efa_tree(tmp_path, count=2)
    for device in names:
        fail(efa_counter(tmp_path, device, "tx_bytes"))
    finding = examine(tmp_path)
    assert not finding.ok
    assert "tx_bytes: No such device or address, and 1 more" in finding.found
    assert finding.remedy


def test_doctor_without_efa_devices(tmp_path: Path) -> None:
    finding = examine(tmp_path)
    assert not finding.ok
    assert finding.found == "no EFA device in /sys/class/infiniband"
    assert "modprobe efa" in finding.remedy
