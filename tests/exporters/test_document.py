import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from tests import captures
from tests.builders import NOON, make_incident, make_node, make_view, view_of
from tests.captures import needs_captures
from trntop.analysis.rulebook import NEXT_STEPS
from trntop.catalog import CATALOG, NEURON_MONITOR, PROFILES, Entity
from trntop.cli import main
from trntop.core.model import (
    Allocation,
    ClusterTotals,
    Compilation,
    Evidence,
    NodeView,
    Runtime,
    Stage,
    State,
    View,
)
from trntop.exporters import document


def strict(data: bytes) -> Any:
    """Parsed JSON; NaN and infinities, which Python would take, fail."""

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} in the document")

    return json.loads(data, parse_constant=refuse)


def written(view: View) -> Any:
    return strict(document.encode(document.snapshot(view)))


def test_outline() -> None:
    found = written(make_view(2, incidents=[make_incident()], simulated=True))
    assert list(found) == [
        "schema", "time", "simulated", "ended", "cluster", "nodes", "incidents",
        "judged_from", "rules", "problems",
    ]  # fmt: skip
    assert found["cluster"] is None, "each node reports for itself"
    assert (found["schema"], found["time"], found["simulated"]) == (1, NOON, True)
    assert [node["node"] for node in found["nodes"]] == ["trn-000", "trn-001"]
    node = found["nodes"][0]
    assert (node["state"], node["age_seconds"]) == ("fresh", 0.5)
    assert node["instance_type"] == node["facts"]["instance_type"] == "trn2.48xlarge"
    assert node["sources"][0] == {
        "source": NEURON_MONITOR,
        "state": "fresh",
        "reason": None,
        "age_seconds": 0.5,
        "period_seconds": 1,
        "counts": {"readings": 60, "restarts": 0},
    }


def test_every_column_is_there_under_its_name_and_key() -> None:
    view = make_view(1, devices=2, cores_per_device=2)
    node = written(view)["nodes"][0]
    frame = view.cluster.nodes["trn-000"].frame
    places = {
        Entity.NODE: [node["values"]],
        Entity.DEVICE: node["devices"],
        Entity.CORE: node["cores"],
        Entity.PHYSICAL_CORE: node["physical_cores"],
        Entity.EFA: node["efa"],
        Entity.RUNTIME: node["runtimes"],
        Entity.JOB: node["jobs"],
    }
    for name, column in frame.columns.items():
        rows = places[CATALOG[name].entity]
        assert [row[name] for row in rows] == column.tolist(), name
        assert node["provenance"][name] == CATALOG[name].provenance
    assert set(node["provenance"]) == set(frame.columns)
    assert [(core["device"], core["core"]) for core in node["cores"]] == [
        (0, 0),
        (0, 1),
        (1, 2),
        (1, 3),
    ]
    physical = [
        (core["device"], core["core"], core["physical_core"]) for core in node["physical_cores"]
    ]
    assert physical == [(index // 4, index % 4, index) for index in range(8)]
    assert [efa_device["device"] for efa_device in node["efa"]] == ["rdmap16s27", "rdmap32s27"]
    assert node["efa"][0]["link"]["driver"] == "2.17.3g"
    assert [job["job"] for job in node["jobs"]] == ["pretrain-13b"]
    assert node["runtimes"][0]["pid"] == 4711
    assert node["runtimes"][0]["models"] == ["train_step.neff"]
    assert node["runtimes"][0]["cores"] == [0, 1, 2, 3]


def test_what_is_known_besides_numbers() -> None:
    node = written(make_view(1))["nodes"][0]
    assert node["phase"] == {
        "phase": "training",
        "since": NOON - 11_520,
        "why": "step 1,204",
        "provenance": "derived",
    }
    assert node["compilation"] is None
    assert node["devices"][1]["link"]["pci"] == "01:1e.0"
    assert node["devices"][1]["link"]["connected_to"] == "0, 0"
    assert node["processes"] == [
        {
            "pid": 4711,
            "command": "python3 train.py",
            "devices": [0, 1],
            "runtime_version": "2.30.51",
        }
    ]
    assert node["profiles"] == ["train_step.neff"]
    assert node["absent"] == {}


def test_a_node_that_compiles() -> None:
    view = make_view(1, jobs=(), compilation=Compilation(NOON - 90, 2))
    node = written(view)["nodes"][0]
    assert node["compilation"] == {"since": NOON - 90, "processes": 2}
    assert node["phase"]["phase"] == "compiling"


def test_a_job_that_announced_its_stage() -> None:
    node = make_node()
    inventory = dataclasses.replace(
        node.inventory, stages={"pretrain-13b": (Stage.CHECKPOINTING, NOON - 5)}
    )
    found = written(view_of(dataclasses.replace(node, inventory=inventory)))["nodes"][0]
    assert found["jobs"][0]["stage"] == {"phase": "checkpointing", "since": NOON - 5}


def test_hbm_bandwidth_without_a_profile_has_a_reason() -> None:
    node = written(make_view(1, states={PROFILES: State.DOWN}))["nodes"][0]
    why = "no profile of train_step.neff: trntop profile add FILE"
    assert node["absent"]["node_hbm_bandwidth_ratio"] == why
    assert "node_hbm_bandwidth_ratio" not in node["values"]
    assert node["profiles"] == []


def test_a_physical_core_that_is_switched_off_moves_no_other() -> None:
    node = make_node()
    keys = {**node.inventory.keys, Entity.PHYSICAL_CORE: (0, 1, 2, 3, 5, 6, 7)}
    inventory = dataclasses.replace(
        node.inventory, keys=keys, physical_device=np.array([0, 0, 0, 0, 1, 1, 1])
    )
    columns = {
        name: values
        for name, values in node.frame.columns.items()
        if CATALOG[name].entity is not Entity.PHYSICAL_CORE
    }
    frame = dataclasses.replace(node.frame, columns=columns)
    found = written(view_of(NodeView(inventory, frame)))["nodes"][0]["physical_cores"]
    assert [core["core"] for core in found] == [0, 1, 2, 3, 1, 2, 3]


def test_unknown_is_null_among_peers_and_missing_alone() -> None:
    node = written(
        make_view(
            1,
            columns={
                "neuroncore_utilization_ratio": [0.25, math.nan, math.inf, 0.0],
                "efa_tx_bytes_total": [math.nan, math.nan],
                "node_vcpus": [math.nan],
            },
        )
    )["nodes"][0]
    values = [core["neuroncore_utilization_ratio"] for core in node["cores"]]
    assert values == [0.25, None, None, 0]
    assert all("efa_tx_bytes_total" not in efa_device for efa_device in node["efa"])
    assert "node_vcpus" not in node["values"]
    assert not {"efa_tx_bytes_total", "node_vcpus"} & set(node["provenance"])


def test_whole_numbers_are_integers() -> None:
    text = document.encode(document.snapshot(make_view(1)))
    assert b'"device_memory_total_bytes":103079215104,' in text
    assert b'"job_step_seconds":4.25,' in text
    assert b".0," not in text


def test_stale_source_takes_its_values() -> None:
    view = make_view(1, states={NEURON_MONITOR: State.STALE}, reason="silent for 14 s")
    node = written(view)["nodes"][0]
    assert node["state"] == "fresh"
    assert node["sources"][0]["reason"] == "silent for 14 s"
    assert set(node["cores"][0]) == {"device", "core", "neuroncore_tensor_engine_busy_ratio"}
    assert "efa_tx_bytes_total" in node["efa"][0]


def test_reasons_for_absence_are_shown() -> None:
    node = make_node()
    frame = dataclasses.replace(node.frame, reasons={"node_vcpus": "not permitted"})
    found = written(view_of(dataclasses.replace(node, frame=frame)))["nodes"][0]
    assert found["absent"] == {"node_vcpus": "not permitted"}


def test_a_simulated_node_is_marked_at_every_value() -> None:
    found = written(view_of(make_node(0), make_node(1, simulated=True)))
    real, simulated = found["nodes"]
    assert found["simulated"]
    assert (real["simulated"], simulated["simulated"]) == (False, True)
    assert set(simulated["provenance"].values()) == {"simulated"}
    assert real["provenance"]["job_step_seconds"] == "reported"


def test_empty_and_bare() -> None:
    assert written(make_view(0))["nodes"] == []
    node = written(make_view(1, state=State.STARTING, devices=0, efa=0, jobs=()))["nodes"][0]
    assert node["age_seconds"] is None
    assert node["values"] == node["provenance"] == {}
    parts = ("devices", "cores", "physical_cores", "efa", "jobs", "processes", "profiles")
    assert all(node[part] == [] for part in parts)
    assert node["phase"] is node["compilation"] is None


def test_what_a_backend_reports_of_all_nodes() -> None:
    whole = ClusterTotals(
        nodes=31250,
        chosen=True,
        down=3,
        newest=NOON - 7.0,
        values={"node_efa_tx_bytes_per_second": 1e12, "node_devices": math.nan},
        jobs={"run7": {"nodes": 31250, "job_step_seconds": 4.25}},
        notes=("no recorded values",),
    )
    view = make_view(1)
    view = dataclasses.replace(view, cluster=dataclasses.replace(view.cluster, whole=whole))
    assert written(view)["cluster"] == {
        "nodes": 31250,
        "worst_only": True,
        "down": 3,
        "age_seconds": 7,
        "old": False,
        "judged": True,
        "values": {"node_efa_tx_bytes_per_second": 10**12},
        "jobs": [{"job": "run7", "nodes": 31250, "job_step_seconds": 4.25}],
        "notes": ["no recorded values"],
        "problem": None,
    }


def test_parts_that_the_inventory_half_knows() -> None:
    node = make_node()
    inventory = dataclasses.replace(
        node.inventory,
        core_device=np.array([0]),
        physical_device=np.array([0]),
        runtimes=(Runtime(99, "lost", error="permission denied"),),
    )
    found = written(view_of(dataclasses.replace(node, inventory=inventory)))["nodes"][0]
    assert [core["device"] for core in found["cores"]] == [0, None, None, None]
    assert [(core["device"], core["core"]) for core in found["physical_cores"][:2]] == [
        (0, 0),
        (None, None),
    ]
    assert [(runtime["pid"], runtime["error"]) for runtime in found["runtimes"]] == [
        (4711, None),
        (99, "permission denied"),
    ]


def test_allocations_by_holder() -> None:
    node = make_node()
    assert written(view_of(node))["nodes"][0]["allocations"] is None, "no scheduler reports"
    allocated = (
        Allocation("4711", whole=True),
        Allocation(namespace="ml", pod="train-0", container="main", cores=(1, 2)),
    )
    for shown_, count in (((), 0), (allocated, 2)):
        inventory = dataclasses.replace(node.inventory, allocations=shown_)
        found = written(view_of(dataclasses.replace(node, inventory=inventory)))["nodes"][0]
        assert len(found["allocations"]) == count
    job, pod = found["allocations"]
    assert (job["job"], job["devices"], job["whole_node"], job["pod"]) == (
        "4711",
        [0, 1],
        True,
        None,
    )
    assert (pod["pod"], pod["devices"], pod["cores"]) == ("train-0", [0, 1], [1, 2])


def test_incident() -> None:
    found = document.incident(make_incident(job="pretrain-13b", closed_at=NOON))
    assert found == {
        "id": f"comm_bound:trn-001:efa:rdmap32s27:{NOON - 60:.0f}",
        "kind": "comm_bound",
        "severity": "warning",
        "job": "pretrain-13b",
        "node": "trn-001",
        "component": "efa:rdmap32s27",
        "opened_at": NOON - 60,
        "closed_at": NOON,
        "detected_at": None,
        "returns": 0,
        "summary": "rdmap32s27 on trn-001: 2.1 % retransmits (peers 0.0 %)",
        "next_step": NEXT_STEPS["comm_bound"],
        "runbook": "docs/runbooks/comm_bound.md",
        "evidence": [
            {
                "text": "comm share 31 % of step time",
                "node": "trn-001",
                "quantity": "job_comm_share_ratio",
                "value": 0.31,
                "limit": 0.25,
            },
            {"text": "16 nodes wait 0.9 s a step"},
        ],
    }


def test_a_custom_rule_has_neither_a_next_step_nor_a_runbook() -> None:
    found = document.incident(dataclasses.replace(make_incident(), kind="too_hot"))
    assert (found["next_step"], found["runbook"]) == (None, None)


def test_analysis() -> None:
    found = strict(document.encode(document.analysis(16, 600.5, [make_incident()])))
    assert list(found) == [
        "schema", "simulated", "nodes", "duration_seconds", "incidents", "judged_from",
        "rules", "problems",
    ]  # fmt: skip
    assert (found["schema"], found["nodes"], found["duration_seconds"]) == (1, 16, 600.5)
    assert found["incidents"][0]["closed_at"] is None
    assert strict(document.encode(document.analysis(0, 0.0, [])))["incidents"] == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nothing_but_finite_numbers(value: float) -> None:
    incident = dataclasses.replace(
        make_incident(), opened_at=value, evidence=(Evidence("odd", value=value, limit=value),)
    )
    found = strict(document.encode(document.analysis(1, value, [incident])))
    assert found["duration_seconds"] is None
    assert found["incidents"][0]["opened_at"] is None
    assert found["incidents"][0]["evidence"] == [{"text": "odd"}]
    assert strict(document.encode({"slipped in": value})) == {"slipped in": None}


def test_pretty_is_the_same_document() -> None:
    found = document.snapshot(make_view(1))
    pretty = document.encode(found, pretty=True)
    assert pretty.count(b"\n") > 100
    assert strict(pretty) == strict(document.encode(found))


@needs_captures
def test_the_public_report_is_shown_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    """Every number of a real report, worked out here from its raw JSON."""
    assert main(["snapshot", "--json", str(captures.NEURON_MONITOR)]) == 0
    node = json.loads(capsys.readouterr().out)["nodes"][0]
    raw = json.loads(captures.NEURON_MONITOR.read_bytes())
    runtime = raw["neuron_runtime_data"][0]
    report = runtime["report"]
    stats, memory = report["execution_stats"], report["memory_used"]["neuron_runtime_used_bytes"]
    shown = node["runtimes"][0]
    assert (shown["pid"], shown["tag"]) == (runtime["pid"], runtime["neuron_runtime_tag"])
    expected = {
        "host_memory_used_bytes": memory["host"],
        "device_memory_used_bytes": memory["neuron_device"],
        "loaded_models": 0,
        "execution_period_seconds": stats["period"],
    }
    for name, value in report["neuron_runtime_vcpu_usage"]["vcpu_usage"].items():
        expected[f"vcpu_{name}_ratio"] = value / 100
    for name, value in stats["execution_summary"].items():
        expected[f"executions_{name}_per_second"] = value / stats["period"]
    for name, value in stats["error_summary"].items():
        expected[f"errors_{name}_per_second"] = value / stats["period"]
    for name, percentiles in stats["latency_stats"].items():
        for percentile, value in percentiles.items():
            expected[f"{name}_{percentile}_seconds"] = value
    found = {name.removeprefix("runtime_"): value for name, value in shown.items()}
    assert found == {
        **{name: pytest.approx(value, rel=1e-12) for name, value in expected.items()},
        "pid": 7685, "tag": "7685", "error": None, "models": [], "cores": [0, 1],
    }  # fmt: skip
    counters = report["neuroncore_counters"]["neuroncores_in_use"]
    for core in node["cores"]:
        counter = counters[str(core["core"])]
        assert core["neuroncore_utilization_ratio"] == counter["neuroncore_utilization"] / 100
        assert core["neuroncore_flops_per_second"] == counter["effective_flops"]
        parts = memory["usage_breakdown"]["neuroncore_memory_usage"][str(core["core"])]
        assert {name: core[f"neuroncore_memory_{name}_bytes"] for name in parts} == parts
        assert core["neuroncore_memory_used_bytes"] == sum(parts.values())
    device = node["devices"][0]
    hardware = raw["neuron_hardware_info"]
    ecc = raw["system_data"]["neuron_hw_counters"]["neuron_devices"][0]
    assert device["device_memory_total_bytes"] == hardware["neuron_device_memory_size"]
    assert device["device_memory_used_bytes"] == memory["neuron_device"]
    for name, value in ecc.items():
        if name != "neuron_device_index":
            assert device[f"device_{name}_events"] == value
    facts = {name.removeprefix("instance_"): value for name, value in raw["instance_info"].items()}
    assert node["facts"].items() >= {
        "instance_id": facts["id"], "instance_type": facts["type"], "ami_id": facts["ami_id"],
        "availability_zone": facts["availability_zone"], "region": facts["region"],
        "neuron_device_type": hardware["neuron_device_type"],
        "neuroncore_version": hardware["neuroncore_version"],
    }.items()  # fmt: skip
