from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests import captures
from tests.captures import needs_captures
from tests.reports import core_memory, encode, report, runtime
from trntop.catalog import CATALOG, Entity
from trntop.core.errors import DecodeError
from trntop.core.model import Sample
from trntop.sources.neuron_monitor import decode


def value(sample: Sample, name: str) -> list[float | None]:
    return [None if v != v else v for v in sample.columns[name].tolist()]


def test_every_column_is_in_the_catalog_and_as_long_as_its_keys() -> None:
    sample = decode(encode(report(runtime(), runtime(101))))
    for name, column in sample.columns.items():
        entity = CATALOG[name].entity
        expected = 1 if entity is Entity.NODE else len(sample.keys[entity])
        assert len(column) == expected, name


@needs_captures
def test_public_capture() -> None:
    sample = decode(captures.NEURON_MONITOR.read_bytes())
    assert value(sample, "neuroncore_utilization_ratio") == [0.2504577690127115, 0.0]
    assert value(sample, "neuroncore_flops_per_second")[0] == 346336403642
    assert value(sample, "runtime_executions_completed_per_second") == [34408 / 5]
    assert sample.period == 5.0
    # What this report lacks stays absent.
    assert "runtime_errors_generic_per_second" not in sample.columns
    assert "runtime_total_latency_p25_seconds" not in sample.columns
    assert "node_memory_used_bytes" not in sample.columns
    assert sample.problems == ()


def test_runtimes_are_merged_per_core() -> None:
    """Each runtime reports every core, with 0 for those it does not own."""
    sample = decode(
        encode(
            report(
                runtime(1, {0: 80.0, 1: 0.0}, {0: 100, 1: 0}),
                runtime(2, {0: 0.0, 1: 40.0}, {0: 7, 1: 200}),
            )
        )
    )
    assert value(sample, "neuroncore_utilization_ratio") == [0.8, 0.4]
    assert value(sample, "neuroncore_flops_per_second") == [80e9, 40e9]
    assert value(sample, "neuroncore_memory_used_bytes") == [107, 200]
    assert sample.keys[Entity.RUNTIME] == (1, 2)


def test_fault_13_two_runtimes_on_one_core_are_not_counted_twice() -> None:
    """Its time is shared, its memory adds up."""
    sample = decode(encode(report(runtime(1, {0: 80.0}, {0: 100}), runtime(2, {0: 40.0}, {0: 7}))))
    assert value(sample, "neuroncore_utilization_ratio")[0] == 0.8
    assert value(sample, "neuroncore_memory_used_bytes")[0] == 107


def test_fault_16_idle_cores_are_zero_and_unreadable_ones_absent() -> None:
    idle = decode(encode(report(devices=2)))
    assert value(idle, "neuroncore_utilization_ratio") == [0.0] * 4
    assert value(idle, "neuroncore_memory_used_bytes") == [0.0] * 4
    partly = decode(encode(report(runtime(1, {0: 80.0}), devices=2)))
    assert value(partly, "neuroncore_utilization_ratio") == [0.8, 0.0, 0.0, 0.0]
    broken = runtime(2) | {"error": "lost the runtime\x1b[2J"}
    sample = decode(encode(report(runtime(1, {0: 80.0}), broken, devices=2)))
    assert value(sample, "neuroncore_utilization_ratio") == [0.8, None, None, None]
    assert value(sample, "neuroncore_memory_used_bytes") == [1 << 30, None, None, None]
    assert sample.problems == ("runtime 2: lost the runtime\ufffd[2J",)


def test_memory_of_cores_is_unknown_where_a_runtime_s_could_not_be_read() -> None:
    unread = runtime(2, {0: 0.0, 1: 40.0})
    unread["report"]["memory_used"]["error"] = "timeout"
    sample = decode(encode(report(runtime(1, {0: 80.0, 1: 0.0}, {0: 100, 1: 0}), unread)))
    assert value(sample, "neuroncore_memory_used_bytes") == [100, None]
    assert value(sample, "neuroncore_memory_tensors_bytes")[1] is None


def test_a_lost_device_has_no_values_whatever_its_runtime_reports() -> None:
    payload = report(
        runtime(1, dict.fromkeys(range(4), 80.0), dict.fromkeys(range(4), 100)),
        devices=2,
    )
    del payload["system_data"]["neuron_hw_counters"]["neuron_devices"][1]
    assert value(decode(encode(payload)), "neuroncore_memory_used_bytes") == [100, 100, None, None]


def test_without_a_runtime_list_cores_are_unknown() -> None:
    sample = decode(encode(report() | {"neuron_runtime_data": None}))
    assert "neuroncore_utilization_ratio" not in sample.columns
    assert "node_runtimes" not in sample.columns


def test_fault_12_a_group_error_voids_its_numbers() -> None:
    bad = runtime()
    bad["report"]["neuron_runtime_vcpu_usage"]["error"] = "open /proc/1/stat: no such file"
    bad["report"]["neuroncore_counters"]["error"] = "timeout"
    sample = decode(encode(report(bad)))
    assert "runtime_vcpu_user_ratio" not in sample.columns
    assert "neuroncore_utilization_ratio" not in sample.columns
    assert sample.absent["neuroncore_utilization_ratio"] == "timeout"
    assert "neuroncore_memory_used_bytes" in sample.columns
    assert len(sample.problems) == 2


def test_the_first_report_has_no_rates() -> None:
    sample = decode(encode(report(runtime(period=0.00047))))
    assert "neuroncore_utilization_ratio" not in sample.columns
    assert "runtime_executions_completed_per_second" not in sample.columns
    assert sample.deltas == {}
    assert value(sample, "neuroncore_memory_used_bytes") == [1 << 30, 1 << 30]
    why = sample.absent["neuroncore_utilization_ratio"]
    assert why == "the report covers only 470 µs"


def test_one_runtime_s_trouble_takes_nothing_from_another() -> None:
    starting = runtime(2, {0: 0.0, 1: 0.0}, period=0.0005)
    sample = decode(encode(report(runtime(1, {0: 80.0, 1: 40.0}), starting)))
    assert value(sample, "neuroncore_utilization_ratio") == [0.8, 0.4]
    assert "neuroncore_utilization_ratio" not in sample.absent


def test_absurd_counts_do_not_break() -> None:
    payload = report(runtime())
    payload["neuron_hardware_info"] |= {
        "neuron_device_count": 0,
        "neuroncore_per_device_count": 10**18,
    }
    assert decode(encode(payload)).keys[Entity.CORE] == (0, 1)


def test_fault_12_spellings_of_old_and_new_sdks() -> None:
    old = runtime()
    core = old["report"]["neuroncore_counters"]["neuroncores_in_use"]["0"]
    core["effective_flops"] = core.pop("flops")
    used = old["report"]["memory_used"]["neuron_runtime_used_bytes"]
    used["device"] = used.pop("neuron_device")
    payload = report(old)
    payload["neuron_hardware_info"]["logical_neuroncore_size"] = 2
    sample = decode(encode(payload))
    assert value(sample, "neuroncore_flops_per_second") == [50e9, 100e9]
    assert value(sample, "runtime_device_memory_used_bytes") == [2 << 30]
    assert sample.facts["lnc"] == 2


OBJECTS = [
    (), ("instance_info",), ("neuron_hardware_info",), ("system_data",),
    *(("neuron_runtime_data", 0, *path) for path in (
        (), ("report",), ("report", "execution_stats"),
        ("report", "execution_stats", "error_summary"),
        ("report", "execution_stats", "execution_summary"),
        ("report", "execution_stats", "latency_stats", "total_latency"),
        ("report", "memory_used", "neuron_runtime_used_bytes"),
        ("report", "neuroncore_counters", "neuroncores_in_use"),
        ("report", "neuroncore_counters", "neuroncores_in_use", "0"),
        ("report", "neuron_runtime_vcpu_usage", "vcpu_usage"),
    )),
]  # fmt: skip


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: ".".join(map(str, path)) or "report")
@pytest.mark.parametrize("member", [{"deep": [None, 1e300]}, "x", True], ids=str)
def test_fault_12_an_unknown_member_takes_no_number_away(
    path: tuple[str | int, ...], member: object
) -> None:
    """A later neuron-monitor has more, of any type, and in any object."""
    payload: Any = report(runtime())
    sample = decode(encode(payload))
    where = payload
    for step in path:
        where = where[step]
    where["new"] = member
    later = decode(encode(payload))
    for name, column in sample.columns.items():
        np.testing.assert_array_equal(later.columns[name], column, err_msg=name)


@pytest.mark.parametrize("damaged", ["x", 3, [], {"neuroncore_utilization": {}}], ids=str)
def test_fault_10_a_damaged_core_does_not_pass_for_an_idle_one(damaged: object) -> None:
    payload: Any = report(runtime())
    groups = payload["neuron_runtime_data"][0]["report"]
    groups["neuroncore_counters"]["neuroncores_in_use"]["0"] = damaged
    breakdown = groups["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"]
    breakdown["neuroncore_memory_usage"]["0"] = damaged
    sample = decode(encode(payload))
    for name in ("neuroncore_utilization_ratio", "neuroncore_memory_used_bytes"):
        column = sample.columns.get(name, np.array([np.nan]))
        assert not (column == 0).any(), name
    assert any("neuroncores_in_use" in problem for problem in sample.problems)


def test_flops_wins_over_effective_flops() -> None:
    both = runtime(utilization={0: 50.0})
    both["report"]["neuroncore_counters"]["neuroncores_in_use"]["0"]["effective_flops"] = 1
    assert value(decode(encode(report(both))), "neuroncore_flops_per_second")[0] == 50e9


def test_fault_13_a_core_beyond_the_hardware_is_named_and_left_out() -> None:
    sample = decode(encode(report(runtime(utilization={0: 1.0, 1: 2.0, 9: 3.0}))))
    assert len(sample.columns["neuroncore_utilization_ratio"]) == 2
    assert "core 9 is not one of this node's 2" in sample.problems


def test_old_reports_without_hardware_counts() -> None:
    payload = report(runtime(utilization={3: 5.0}))
    payload["neuron_hardware_info"] = {"error": ""}
    payload["instance_info"] = {}
    sample = decode(encode(payload))
    assert sample.keys[Entity.CORE] == (0, 1, 2, 3)
    payload["instance_info"] = {"instance_type": "trn1.32xlarge"}
    assert len(decode(encode(payload)).keys[Entity.CORE]) == 32


def test_no_driver_is_a_problem_not_a_crash() -> None:
    payload = report() | {
        "neuron_hardware_info": {"neuron_device_count": 0, "error": "no driver"},
        "instance_info": {"instance_type": "trn1.2xlarge"},
    }
    sample = decode(encode(payload))
    assert sample.unusable == "no Neuron devices: no driver"
    assert sample.unusable in sample.problems
    assert "node_devices" not in sample.columns


@pytest.mark.parametrize("bad", [2**63 - 14, 14e15, 0xFFFFFFFF, -1])
def test_fault_17_sentinels_are_absent(bad: float) -> None:
    damaged = runtime(utilization={0: 1.0})
    usage = damaged["report"]["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"]
    usage["neuroncore_memory_usage"]["0"] = core_memory(5) | {"constants": bad}
    sample = decode(encode(report(damaged)))
    assert value(sample, "neuroncore_memory_used_bytes") == [5, 0]
    assert value(sample, "neuroncore_memory_constants_bytes") == [None, 0]


@pytest.mark.parametrize(("percent", "ratio"), [(104.0, 1.0), (130.0, None), (-3.0, None)])
def test_impossible_utilization_is_absent(percent: float, ratio: float | None) -> None:
    sample = decode(encode(report(runtime(utilization={0: percent, 1: 50.0}))))
    assert value(sample, "neuroncore_utilization_ratio") == [ratio, 0.5]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b'"neuroncore_utilization": 50.0', b'"neuroncore_utilization": "50.0"', None),
        (b'"neuroncore_utilization": 50.0', b'"neuroncore_utilization": NaN', None),
        (b'"neuroncore_utilization": 50.0', b'"neuroncore_utilization": 1e999', None),
        (b'"neuroncore_utilization": 50.0', b'"neuroncore_utilization": []', "Expected `float"),
        (b'"host": 1000', b'"host": {}', "Expected `float"),
        (b'"i-0"', b'"i-\xff\x00"', "invalid UTF-8"),
        (b'"i-0"', b'"i-\\ud800"', None),
        (b'"pid": 100', b'"pid": "\\ud800"', "Expected `int"),
        (b'"pid": 100', b'"pid": "many"', "Expected `int"),
    ],
)  # fmt: skip
def test_fault_11_one_bad_field_spares_the_rest(
    old: bytes, new: bytes, problem: str | None
) -> None:
    data = encode(report(runtime()))
    assert old in data
    sample = decode(data.replace(old, new))
    assert value(sample, "neuroncore_memory_used_bytes") == [1 << 30, 1 << 30]
    assert sample.keys[Entity.CORE] == (0, 1)
    if problem:
        assert any(problem in text for text in sample.problems), sample.problems
    for fact in sample.facts["facts"].values():
        assert fact.isprintable()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"msg":1}',
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\x00",
        b"12",
    ],
)
def test_fault_10_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


def test_fault_10_duplicate_keys_and_huge_integers_do_not_break() -> None:
    data = encode(report(runtime())).replace(b'"host": 1000', b'"host": 5, "host": 1' + b"0" * 400)
    sample = decode(data)
    assert "runtime_host_memory_used_bytes" not in sample.columns


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["neuron_runtime_data", "report", "neuroncore_counters", "neuroncores_in_use", "0",
             "system_data", "neuron_hw_counters", "neuron_devices", "period", "error", "pid",
             "neuron_hardware_info", "neuron_device_count", "neuroncore_per_device_count",
             "neuroncore_utilization", "memory_used", "execution_stats"]
        ),
        inner, max_size=4,
    ),
    max_leaves=25,
)  # fmt: skip


@settings(deadline=None)
@given(JSON)
def test_any_json_is_decoded_or_refused(payload: object) -> None:
    try:
        sample = decode(encode(payload))
    except DecodeError:
        return
    for name, column in sample.columns.items():
        assert not np.isinf(column).any(), name


@pytest.mark.parametrize(
    ("name", "uuid", "shown"),
    [
        ("2.2.0.73+0af5a171c-/neuronxcc-y_d15g2g", "302e6ea0", "302e6ea0"),
        ("2.2.0.73+0af5a171c-/neuronxcc-y_d15g2g", "", "neuronxcc-y_d15g2g"),
        ("/cache/neuronxcc-2.neff", "302e6ea0", "neuronxcc-2.neff"),
        ("rn50_v1/model", "302e6ea0", "model"),
    ],
)
def test_a_program_whose_name_is_cut_has_its_uuid(name: str, uuid: str, shown: str) -> None:
    payload = runtime()
    payload["report"]["memory_used"]["loaded_models"] = [{"name": name, "uuid": uuid}]
    (process,) = decode(encode(report(payload))).facts["runtimes"]
    assert process.neffs[0].name == shown


def test_a_report_of_the_simulator_is_marked() -> None:
    assert decode(encode(report(runtime(), simulated=True))).simulated
    assert not decode(encode(report(runtime()))).simulated
