import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.sysfs_tree import pe_cntrs
from trntop.catalog import CATALOG, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import Column, Sample
from trntop.sources.tensor_engine import decode

MATMUL, WEIGHTS, IDLE = (
    f"physical_core_tensor_engine_{name}_cycles_total" for name in ("matmul", "weight_load", "idle")
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def sample(devices: dict[str, Any], errors: tuple[str, ...] = ()) -> Sample:
    return decode(json.dumps({"devices": devices, "errors": errors}).encode())


def cycles(text: str | None) -> list[float]:
    """Matmul, weight-load and idle cycles of one core next to a sound one."""
    columns = sample({"0": {"0": pe_cntrs(1, 2, 3), "1": text}}).columns
    absent: Column = np.full(2, np.nan)
    return [float(columns.get(name, absent)[1]) for name in (MATMUL, WEIGHTS, IDLE)]


def test_cycles_are_summed_over_row_groups() -> None:
    decoded = sample({"0": {"0": pe_cntrs(1, 2, 3), "1": pe_cntrs(10, 20, 30)}})
    assert decoded.columns[MATMUL].tolist() == [4, 40]
    assert decoded.columns[WEIGHTS].tolist() == [8, 80]
    assert decoded.columns[IDLE].tolist() == [12, 120]
    assert decoded.problems == ()
    assert set(decoded.columns) <= set(CATALOG)


def test_cores_are_numbered_over_devices() -> None:
    text = pe_cntrs(1, 1, 1)
    decoded = sample({"10": {"1": text, "0": text}, "2": {"0": None}})
    assert decoded.keys[Entity.PHYSICAL_CORE] == (4, 20, 21)
    assert decoded.facts["physical_device"].tolist() == [2, 10, 10]
    assert np.isnan(decoded.columns[IDLE]).tolist() == [True, False, False]


def test_a_core_that_is_switched_off_moves_no_other() -> None:
    text = pe_cntrs(1, 1, 1)
    decoded = sample({"0": {"0": text, "2": text}, "1": {"1": text}})
    assert decoded.keys[Entity.PHYSICAL_CORE] == (0, 2, 4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("idle,wl_active,mm_active\n3,2,1\n30,20,10\n", [11, 22, 33]),
        ("xrow_grp, MM_Active ,wl_active,idle,new\n0,1,2,3,9\n", [1, 2, 3]),
        ("0,1,2,3\n1,10,20,30\n", [11, 22, 33]),
        ("0,1,2,3", [1, 2, 3]),
        ("xrow_grp,mm_active,wl_active,idle\n0,1,2,3", [1, 2, 3]),
        ("xrow_grp,mm_active,wl_active,idle\r\n0,1,2,3\r\n1,1,1,1\r\n", [2, 3, 4]),
    ],
)
def test_columns_go_by_the_header(text: str, expected: list[float]) -> None:
    assert cycles(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "\n",
        "xrow_grp,mm_active,wl_active,idle",
        "xrow_grp,mm_active,wl_active,idle\n0,1,2",
        "xrow_grp,mm_active,wl_active,idle\n0,1,2,x",
        "xrow_grp,mm_active,wl_active,idle\n0,1,2,3]",
        "xrow_grp,mm_active,wl_active,idle\n0,-1,-1,-1",
        "xrow_grp,mm_active,wl_active,idle\n0,4294967295,4294967295,4294967295",
        "xrow_grp,mm_active,wl_active,idle\n0,1e30,1e30,1e30",
        "something,else\n1,2",
    ],
)
def test_a_damaged_core_is_absent_and_named_and_spares_the_others(text: str | None) -> None:
    decoded = sample({"0": {"0": pe_cntrs(1, 2, 3), "1": text}})
    assert decoded.problems == ("neuron0/neuron_core1: no counters",)
    for name in (MATMUL, WEIGHTS, IDLE):
        assert np.isnan(decoded.columns[name]).tolist() == [False, True]


def test_a_sum_that_lacks_a_row_group_is_absent() -> None:
    matmul, weights, idle = cycles("xrow_grp,mm_active,wl_active,idle\n0,-1,2,3\n1,1,2,3")
    assert np.isnan(matmul)
    assert (weights, idle) == (4, 6)


def test_a_row_too_few_and_one_too_many_move_no_other_core() -> None:
    header = "xrow_grp,mm_active,wl_active,idle\n"
    short, usual = "0,1,2,3", "0,10,20,30\n1,10,20,30"
    columns = sample({"0": {"0": header + short, "1": f"{header}{usual}\n2,10,20,30"}}).columns
    matmul = columns["physical_core_tensor_engine_matmul_cycles_total"]
    assert matmul.tolist() == [1, 30]


def test_damage_in_many_cores_is_reported_briefly() -> None:
    decoded = sample({"0": {str(core): None for core in range(64)}})
    assert decoded.columns == {}
    assert len(decoded.problems) == 9
    assert decoded.problems[-1] == "and 56 more cores without counters"


def test_the_collector_s_complaints_are_cleaned() -> None:
    decoded = sample({}, errors=("neuron0/neuron_core1: \x1b[31mNo such device",))
    assert decoded.problems == ("neuron0/neuron_core1: �[31mNo such device",)
    assert decoded.keys[Entity.PHYSICAL_CORE] == ()


def test_absurd_indices_are_left_out() -> None:
    decoded = sample({"0": {"64": pe_cntrs(1, 1, 1), "x": None}, "-1": {"0": None}, "00": {}})
    assert decoded.keys[Entity.PHYSICAL_CORE] == ()


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        decode(data)


@given(JSON | st.fixed_dictionaries({"devices": JSON, "errors": JSON}))
def test_any_json(value: Any) -> None:
    with contextlib.suppress(DecodeError):
        decode(json.dumps(value).encode())


@given(
    st.dictionaries(
        st.integers(0, 70).map(str),
        st.dictionaries(
            st.integers(0, 70).map(str),
            st.none() | st.text("0123456789,\n.-e[]x", max_size=40) | st.text(max_size=20),
            max_size=4,
        ),
        max_size=4,
    )
)
def test_any_texts(devices: dict[str, dict[str, str | None]]) -> None:
    decoded = sample(devices)
    cores = decoded.keys[Entity.PHYSICAL_CORE]
    assert len(set(cores)) == len(cores) == len(decoded.facts["physical_device"])
    for values in decoded.columns.values():
        assert len(values) == len(cores)
        assert (np.isnan(values) | (values >= 0)).all()
