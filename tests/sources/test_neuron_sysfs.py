import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.catalog import (
    CATALOG,
    CORE_STATUS_ALIASES,
    CORE_STATUSES,
    NEURON_SYSFS,
    SYSFS_ECC,
    Entity,
)
from trntop.core.errors import DecodeError
from trntop.core.model import Sample
from trntop.sources.neuron_sysfs import decode

POWER = tuple(f"device_power_{name}_ratio" for name in ("min", "max", "mean"))
UNHEALTHY = "device_unhealthy_components"
NUMBERS = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def core(**groups: dict[str, Any]) -> dict[str, Any]:
    return {"device_mem": {}, "status": {}} | groups


def sample(*devices: dict[str, Any], **rest: Any) -> Sample:
    payload = {"devices": {str(index): device for index, device in enumerate(devices)}, **rest}
    return decode(json.dumps(payload).encode())


def test_every_quantity_of_the_source_is_filled() -> None:
    full = core(
        device_mem={"total": 5},
        status=dict.fromkeys(CORE_STATUSES, 7),
    )
    decoded = sample(
        {
            "cores": {"0": full},
            "hardware": dict.fromkeys(SYSFS_ECC, 8),
            "power": "POWER_STATUS_VALID,1763650000,0.86,25.00,18.86",
            "unhealthy_components": "hbm, sram",
        },
    )
    of_source = {name for name, quantity in CATALOG.items() if quantity.source == NEURON_SYSFS}
    assert decoded.columns.keys() == of_source
    values = {name: column.tolist() for name, column in decoded.columns.items()}
    assert values["physical_core_memory_used_bytes"] == [5]
    assert values["physical_core_success_total"] == [7]
    assert values["device_mem_ecc_repairable_uncorrected_total"] == [8]
    assert [values[name][0] for name in POWER] == pytest.approx([0.0086, 0.25, 0.1886])
    assert values[UNHEALTHY] == [2]
    assert decoded.absent == {}
    assert decoded.problems == ()


def test_devices_cores_and_facts() -> None:
    decoded = sample(
        {"cores": {"0": core(), "1": core()}},
        {
            "cores": {"1": core()},
            "info": {
                "serial_number": "00c0ffee",
                "device_name": "Trainium2",
                "arch_type": "NDv3",
                "connected_devices": "12, 3, 4, 1",
            },
            "power": "POWER_STATUS_NO_DATA,0,0,0,0",
            "unhealthy_components": "link_efa",
        },
        driver="2.30.2.0",
        period=10,
        **{"class": {"ultraserver_mode": "4,1", "node_id_4": "busy"}},
    )
    assert decoded.keys[Entity.DEVICE] == (0, 1)
    assert decoded.keys[Entity.PHYSICAL_CORE] == (0, 1, 3)
    assert decoded.facts["physical_device"].tolist() == [0, 0, 1]
    assert decoded.facts["facts"] == {"neuron_driver": "2.30.2.0", "ultraserver_mode": "4,1"}
    assert decoded.facts["device_links"] == {
        0: {},
        1: {
            "serial_number": "00c0ffee",
            "name": "Trainium2",
            "arch": "NDv3",
            "connected_to": "12, 3, 4, 1",
            "unhealthy": "link_efa",
            "power_status": "POWER_STATUS_NO_DATA",
        },
    }
    assert decoded.period == 10


def test_devices_come_in_order() -> None:
    devices = {str(index): {"cores": {"0": core()}} for index in (10, 2, 1)}
    decoded = decode(json.dumps({"devices": devices}).encode())
    assert decoded.keys[Entity.DEVICE] == (1, 2, 10)
    assert decoded.keys[Entity.PHYSICAL_CORE] == (1, 2, 10)


def test_names_of_the_guide_s_tree() -> None:
    for older, name in CORE_STATUS_ALIASES.items():
        decoded = sample({"cores": {"0": core(status={older: 3, "success": 1})}})
        assert decoded.columns[f"physical_core_{name}_total"].tolist() == [3]
        assert decoded.columns["physical_core_success_total"].tolist() == [1]


def test_what_is_not_there_is_absent() -> None:
    decoded = sample({"cores": {"0": core(device_mem={"total": 5})}}, {"cores": {"0": core()}})
    used = decoded.columns["physical_core_memory_used_bytes"]
    assert used[0] == 5
    assert np.isnan(used[1])
    assert decoded.columns.keys() == {"physical_core_memory_used_bytes"}


@pytest.mark.parametrize("size", [2**63 - 14, 1.4e16, 0xFFFFFFFF, -1, 1e300])
def test_sentinels_are_missing(size: float) -> None:
    decoded = sample(
        {
            "cores": {"0": core(device_mem={"total": size}, status={"success": size})},
            "hardware": {"mem_ecc_uncorrected": size},
        }
    )
    assert decoded.columns == {}


@pytest.mark.parametrize(
    ("power", "why"),
    [
        ("POWER_STATUS_NO_DATA,1763650000,0.00,0.00,0.00", "no power samples"),
        ("POWER_STATUS_INVALID,0,0.00,0.00,0.00", "sampling failed"),
        (None, "does not report"),
        ("POWER_STATUS_VALID,1763650000", "does not report"),
        ("POWER_STATUS_VALID,1763650000,a,b,c", "does not report"),
        ("POWER_STATUS_VALID,1763650000,1e9,nan,-1", "does not report"),
        ("", "does not report"),
    ],
)
def test_power_that_is_not_valid_is_absent_with_its_reason(power: str | None, why: str) -> None:
    decoded = sample({"power": power})
    assert decoded.columns.keys().isdisjoint(POWER)
    assert all(why in decoded.absent[name] for name in POWER)


def test_one_device_without_power_does_not_void_the_others() -> None:
    decoded = sample(
        {"power": "POWER_STATUS_NO_DATA,0,0,0,0"},
        {"power": "POWER_STATUS_VALID,1763650000,0.00,2.06,0.56"},
    )
    mean = decoded.columns["device_power_mean_ratio"]
    assert np.isnan(mean[0])
    assert mean[1] == pytest.approx(0.0056)
    assert decoded.absent.keys().isdisjoint(POWER)


@pytest.mark.parametrize(
    ("text", "count", "shown"),
    [
        ("", 0, None),
        ("none", 0, None),
        ("hbm", 1, "hbm"),
        ("hbm,  axi_fabric, ", 2, "hbm, axi_fabric"),
        ("\x1b[2J", 1, "�[2J"),
    ],
)
def test_unhealthy_components(text: str, count: int, shown: str | None) -> None:
    decoded = sample({"unhealthy_components": text})
    assert decoded.columns[UNHEALTHY].tolist() == [count]
    assert decoded.facts["device_links"][0].get("unhealthy") == shown
    assert UNHEALTHY not in decoded.absent


def test_no_word_on_health_is_no_health() -> None:
    decoded = sample({}, driver="2.25.4.0")
    assert UNHEALTHY not in decoded.columns
    assert decoded.absent[UNHEALTHY] == "the Neuron driver (2.25.4.0) reports it since 2.30.2"


def test_errors_of_the_health_status_count_where_the_driver_has_no_others() -> None:
    status = {"hbm_ecc_err_count": 2, "sram_ecc_err_count": 3}
    columns = sample({"health_status": status, "hardware": {"mem_ecc_uncorrected": 1}}).columns
    assert columns["device_mem_ecc_uncorrected_total"] == [1]
    assert columns["device_sram_ecc_uncorrected_total"] == [3]
    assert "device_mem_ecc_repairable_uncorrected_total" not in columns


def test_a_driver_that_is_new_enough_is_not_called_old() -> None:
    decoded = sample({}, driver="2.31.0.0")
    assert decoded.absent[UNHEALTHY] == (
        "the Neuron driver (2.31.0.0) does not report it for this device"
    )


def test_lost_devices_are_the_reason_rather_than_the_driver() -> None:
    decoded = sample({"lost": "No such device"}, driver="2.31.0.0")
    assert set(decoded.absent.values()) == {"no device can be read: all are lost"}
    assert UNHEALTHY in decoded.absent


def test_a_lost_device_stays_listed_and_is_named() -> None:
    decoded = sample(
        {"cores": {"0": core(device_mem={"total": 5})}},
        {"cores": {"0": core()}, "lost": "No such device"},
    )
    assert decoded.keys[Entity.DEVICE] == (0, 1)
    assert np.isnan(decoded.columns["physical_core_memory_used_bytes"]).tolist() == [False, True]
    assert decoded.problems == ("neuron1: lost: No such device",)
    assert decoded.facts["device_links"][1] == {"lost": "No such device"}


def test_complaints_are_problems() -> None:
    decoded = sample(
        {"errors": ["stats/status/success/total: Input/output error\x00"]},
        errors=["no permission to read core_count; root has it"],
    )
    assert decoded.problems == (
        "no permission to read core_count; root has it",
        "neuron0: stats/status/success/total: Input/output error�",
    )


@pytest.mark.parametrize("period", [0, -1, 1e9, None])
def test_absurd_periods(period: float | None) -> None:
    assert sample(period=period).period is None


def test_absurd_indices_are_left_out() -> None:
    payload = {"devices": {"64": {}, "x": {}, "-1": {}, "0": {"cores": {"1000000": core()}}}}
    decoded = decode(json.dumps(payload).encode())
    assert decoded.keys[Entity.DEVICE] == (0,)
    assert decoded.keys[Entity.PHYSICAL_CORE] == ()


def test_no_object() -> None:
    with pytest.raises(DecodeError):
        decode(b"[]")


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        decode(data)


@given(JSON | st.fixed_dictionaries({"devices": JSON, "class": JSON, "period": JSON}))
def test_any_json(value: Any) -> None:
    with contextlib.suppress(DecodeError):
        decode(json.dumps(value).encode())


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "power": st.none() | st.text("POWER_STATUSVALID,0123456789.-e", max_size=40),
                "unhealthy_components": st.none() | st.text(max_size=20),
                "hardware": st.dictionaries(st.sampled_from(list(SYSFS_ECC)), NUMBERS),
                "cores": st.dictionaries(
                    st.integers(0, 70).map(str),
                    st.fixed_dictionaries(
                        {"status": st.dictionaries(st.sampled_from(CORE_STATUSES), NUMBERS)}
                    ),
                    max_size=4,
                ),
            }
        ),
        max_size=3,
    )
)
def test_any_numbers(devices: list[dict[str, Any]]) -> None:
    decoded = sample(*devices)
    cores = decoded.keys[Entity.PHYSICAL_CORE]
    assert len(set(cores)) == len(cores)
    for name, values in decoded.columns.items():
        assert len(values) == len(decoded.keys[CATALOG[name].entity])
        assert (np.isnan(values) | (values >= 0)).all()
        assert not np.isinf(values).any()
