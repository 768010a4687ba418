import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trntop.catalog import CATALOG, HOST, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import Compilation
from trntop.sources.host import decode

REPORT: dict[str, Any] = {
    "period": 10,
    "cpu": {"count": 192, "busy": 0.21, "load1": 1.2},
    "memory": {"total": 2048, "available": 1024},
    "network": {"ens5": {"rx_bytes": 1, "tx_bytes": 2}, "ens6": {"rx_bytes": 30, "tx_bytes": 40}},
    "disk": {"read_bytes": 5, "written_bytes": 6},
    "lustre": {"a": {"read_bytes": 7, "written_bytes": 8}, "b": {"read_bytes": 70}},
    "nfs": {"/efs": {"read_bytes": 9, "written_bytes": 10}},
    "processes": {"count": 812, "partial": False},
    "compilers": [
        {"pid": 2, "since": 1763650010.0, "command": "neuronx-cc compile"},
        {"pid": 1, "since": 1763650000.0, "command": "neuronx-cc compile"},
    ],
    "compile_cache": {"path": "/var/tmp/neuron-compile-cache", "modules": 12, "partial": False},
    "errors": [],
}


def encode(**changes: Any) -> bytes:
    return json.dumps(REPORT | changes).encode()


def values(data: bytes) -> dict[str, float]:
    return {name: float(column[0]) for name, column in decode(data).columns.items()}


def test_every_value() -> None:
    assert values(encode()) == {
        "node_cpu_busy_ratio": 0.21,
        "node_load1": 1.2,
        "node_memory_available_bytes": 1024,
        "node_processes": 812,
        "node_compilers": 2,
        "node_compile_cache_modules": 12,
        "node_network_rx_bytes_total": 31,
        "node_network_tx_bytes_total": 42,
        "node_disk_read_bytes_total": 5,
        "node_disk_written_bytes_total": 6,
        "node_lustre_read_bytes_total": 77,
        "node_lustre_written_bytes_total": 8,
        "node_nfs_read_bytes_total": 9,
        "node_nfs_written_bytes_total": 10,
    }
    sample = decode(encode())
    assert sample.facts["compilation"] == Compilation(since=1763650000.0, processes=2)
    assert (sample.period, sample.problems, sample.absent) == (10, (), {})


def test_every_column_of_the_source_is_filled() -> None:
    named = {name for name, quantity in CATALOG.items() if quantity.source == HOST}
    assert set(decode(encode()).columns) == named
    assert all(CATALOG[name].entity is Entity.NODE for name in named)


def test_modules_of_a_cache_in_s3_are_not_counted() -> None:
    sample = decode(encode(compile_cache={"path": "s3://bucket/cache"}))
    assert sample.facts["facts"]["compile_cache"] == "s3://bucket/cache"
    assert sample.absent == {
        "node_compile_cache_modules": "modules at s3://bucket/cache are not counted"
    }


def test_unreported_values_are_absent() -> None:
    sample = decode(b"{}")
    assert (sample.columns, sample.facts, sample.period) == ({}, {"facts": {}}, 10)
    assert values(b'{"network":{},"lustre":{"a":{}},"cpu":{"load1":0}}') == {"node_load1": 0}


@pytest.mark.parametrize(
    ("vendor", "facts"),
    [
        ("Amazon EC2", {"instance_type": "trn2.48xlarge", "instance_id": "i-0123"}),
        ("QEMU", {}),
    ],
)
def test_the_instance_by_its_firmware(vendor: str, facts: dict[str, str]) -> None:
    identity = {"product_name": "trn2.48xlarge", "board_asset_tag": "i-0123"}
    assert decode(encode(dmi={"sys_vendor": vendor, **identity})).facts["facts"] == facts


def test_no_compiler_runs() -> None:
    sample = decode(encode(compilers=[]))
    assert sample.facts["compilation"] is None
    assert sample.columns["node_compilers"].tolist() == [0]


def test_a_count_of_a_part_is_no_count() -> None:
    sample = decode(
        encode(
            processes={"count": 9000, "partial": True},
            compile_cache={"modules": 3, "partial": True},
        )
    )
    assert not {"node_compilers", "node_compile_cache_modules"} & sample.columns.keys()
    assert sample.absent == {
        "node_compilers": "not all processes could be read",
        "node_compile_cache_modules": "not all modules could be read",
    }
    assert sample.columns["node_processes"].tolist() == [9000]
    assert sample.facts["compilation"].processes == 2  # these run for certain


def test_nonsense_is_absent_and_named() -> None:
    sample = decode(
        encode(
            cpu={"busy": 1.5, "load1": -1},
            memory={"available": "much"},
            network={"a": {"rx_bytes": -4, "tx_bytes": 1e30}, "b": {"rx_bytes": 8}},
            errors=["disk: \x1b broken", *["more"] * 100],
        )
    )
    missing = ("cpu_busy_ratio", "load1", "memory_available_bytes", "network_tx_bytes_total")
    assert not {f"node_{name}" for name in missing} & sample.columns.keys()
    assert sample.columns["node_network_rx_bytes_total"].tolist() == [8]
    assert len(sample.problems) == 17
    assert "disk: \ufffd broken" in sample.problems


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"\xff"])
def test_garbage(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["rx_bytes", "read_bytes", "count", "partial", "since", "modules"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(REPORT)), JSON))
def test_any_part_may_be_anything(changes: dict[str, Any]) -> None:
    try:
        sample = decode(encode(**changes))
    except DecodeError:
        return
    for name, column in sample.columns.items():
        assert CATALOG[name].source == HOST
        assert column.shape == (1,)
        assert np.isfinite(column[0])
        assert column[0] >= 0
    assert sample.period is not None
    assert 0 < sample.period < np.inf
    compilation = sample.facts.get("compilation")
    assert compilation is None or (compilation.since > 0 and compilation.processes > 0)
